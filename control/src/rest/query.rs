//! Query parameters.

use axum::extract::Query as Pairs;
use http::Uri;
use skep_control_core::api::field::{FieldError, Path};
use skep_control_core::api::{FieldSelector, FieldValidation, LabelSelector, Resource, Status};

use crate::api::{At, ListOptions, WriteOptions};

/// The parameters of one request.
#[derive(Clone, Debug, Default)]
pub(super) struct Query(Vec<(String, String)>);

impl Query {
    pub(super) fn of(uri: &Uri) -> Result<Self, Status> {
        if uri.query().is_none_or(str::is_empty) {
            return Ok(Self::default());
        }
        let Pairs(pairs) = Pairs::try_from_uri(uri).map_err(|error| Status::bad_request(error.to_string()))?;
        Ok(Self(pairs))
    }

    /// The first value of a parameter.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(n, _)| n == name).map(|(_, value)| value.as_str())
    }

    /// A parameter that is not empty.
    pub(super) fn text(&self, name: &str) -> Option<&str> {
        self.get(name).filter(|value| !value.is_empty())
    }

    /// Whether a flag is set. As in Kubernetes, everything but `false` and `0` sets it.
    pub(super) fn flag(&self, name: &str) -> bool {
        self.get(name).is_some_and(|value| value != "0" && !value.eq_ignore_ascii_case("false"))
    }

    /// A whole number. Errors: 400.
    pub(super) fn number(&self, name: &str) -> Result<Option<i64>, Status> {
        let number = |text: &str| {
            text.parse()
                .map_err(|_| Status::bad_request(format!("{name}: Invalid value: {text:?}: must be an integer")))
        };
        self.text(name).map(number).transpose()
    }

    /// `resourceVersion`; `None` when absent. Errors: 400.
    pub(super) fn revision(&self) -> Result<Option<u64>, Status> {
        let number = |text: &str| {
            let message =
                format!("resourceVersion: Invalid value: {text:?}: must be the resourceVersion of an object or a list");
            text.parse().map_err(|_| Status::bad_request(message))
        };
        self.text("resourceVersion").map(number).transpose()
    }

    /// The selectors, for lists, watches and deletecollection.
    pub(super) fn selection(&self, resource: &Resource) -> Result<ListOptions, Status> {
        Ok(ListOptions {
            labels: LabelSelector::parse(self.get("labelSelector").unwrap_or_default())?,
            fields: FieldSelector::parse(resource, self.get("fieldSelector").unwrap_or_default())?,
            ..ListOptions::default()
        })
    }

    /// Everything that a list goes by.
    pub(super) fn list(&self, resource: &Resource) -> Result<ListOptions, Status> {
        let mut options = self.selection(resource)?;
        options.limit = match self.number("limit")?.unwrap_or(0) {
            negative if negative < 0 => return Err(invalid("limit", negative, "must be greater than or equal to 0")),
            limit => usize::try_from(limit).unwrap_or(usize::MAX),
        };
        options.continue_token = self.text("continue").map(str::to_owned);
        let revision = self.revision()?;
        let rule = self.text("resourceVersionMatch");
        options.at = match (rule, revision) {
            (Some(_), _) if options.continue_token.is_some() => {
                return Err(forbidden(
                    "resourceVersionMatch",
                    "resourceVersionMatch is forbidden when continue is provided",
                ));
            }
            (_, Some(1..)) if options.continue_token.is_some() => {
                let text = "specifying resource version is not allowed when using continue";
                return Err(Status::bad_request(text));
            }
            (Some(_), None) => {
                let text = "resourceVersionMatch is forbidden unless resourceVersion is provided";
                return Err(forbidden("resourceVersionMatch", text));
            }
            (Some("Exact"), Some(0)) => {
                let text = "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"";
                return Err(forbidden("resourceVersionMatch", text));
            }
            (Some("Exact"), Some(revision)) => At::Exactly(revision),
            (None | Some("NotOlderThan"), Some(revision)) => At::NotOlderThan(revision),
            (Some(other), Some(_)) => {
                let path = Path::new("resourceVersionMatch");
                let fault = FieldError::not_supported(path, other, &["Exact", "NotOlderThan", ""]);
                return Err(Status::invalid("meta.k8s.io", "ListOptions", "", &[fault]));
            }
            (None, None) => At::Now,
        };
        Ok(options)
    }

    /// Whether nothing is to be written. Errors: 422.
    pub(super) fn dry_run(&self, kind: &str) -> Result<bool, Status> {
        match self.text("dryRun") {
            None => Ok(false),
            Some("All") => Ok(true),
            Some(other) => {
                let fault = FieldError::not_supported(Path::new("dryRun"), other, &["All"]);
                Err(Status::invalid("meta.k8s.io", kind, "", &[fault]))
            }
        }
    }

    /// How a write is done; `kind` is the options' kind for error texts.
    pub(super) fn write(&self, kind: &str) -> Result<WriteOptions, Status> {
        let field_validation = FieldValidation::parse(self.get("fieldValidation"))?;
        Ok(WriteOptions { dry_run: self.dry_run(kind)?, field_validation })
    }
}

/// 422 for a list option.
pub(super) fn forbidden(field: &str, text: &str) -> Status {
    Status::invalid("meta.k8s.io", "ListOptions", "", &[FieldError::forbidden(Path::new(field), text)])
}

fn invalid(field: &str, value: i64, text: &str) -> Status {
    Status::invalid("meta.k8s.io", "ListOptions", "", &[FieldError::invalid(Path::new(field), value, text)])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn query(text: &str) -> Query {
        Query::of(&format!("/x?{text}").parse().unwrap()).unwrap()
    }

    #[test]
    fn flags_and_numbers() {
        let q = query("watch&a=1&b=true&c=false&d=0&limit=5&timeoutSeconds=x");
        assert!(q.flag("watch") && q.flag("a") && q.flag("b"));
        assert!(!q.flag("c") && !q.flag("d") && !q.flag("nope"));
        assert_eq!(q.number("limit").unwrap(), Some(5));
        assert_eq!(q.number("nope").unwrap(), None);
        assert_eq!(q.number("timeoutSeconds").unwrap_err().code, 400);
    }

    #[test]
    fn selectors_are_decoded() {
        assert_eq!(query("labelSelector=a%3Db%2Cc").text("labelSelector"), Some("a=b,c"));
        assert_eq!(query("dryRun=Some").dry_run("CreateOptions").unwrap_err().code, 422);
        assert!(query("dryRun=All").dry_run("CreateOptions").unwrap());
    }
}
