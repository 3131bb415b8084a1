//! Which form of an answer a client wants.

use http::HeaderMap;
use http::header::ACCEPT;
use skep_control_core::api::Status;

/// What objects are shown as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// As they are.
    Object,
    /// As rows.
    Table,
    /// As their metadata.
    Partial,
}

/// How an answer is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    /// JSON.
    Json,
    /// YAML.
    Yaml,
}

/// The answer that a client wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Wanted {
    pub(super) form: Form,
    pub(super) format: Format,
}

impl Wanted {
    pub(super) const JSON: Self = Self { form: Form::Object, format: Format::Json };
}

const SUPPORTED: &[&str] = &["application/json", "application/yaml"];

/// The first of the client's wishes that can be met; its order counts, its q values do not, as with Kubernetes.
///
/// Errors: 406 when none can.
pub(super) fn negotiate(headers: &HeaderMap) -> Result<Wanted, Status> {
    let mut any = false;
    for header in headers.get_all(ACCEPT) {
        let Ok(header) = header.to_str() else { continue };
        for wish in header.split(',').map(str::trim).filter(|w| !w.is_empty()) {
            any = true;
            if let Some(wanted) = meet(wish) {
                return Ok(wanted);
            }
        }
    }
    if any { Err(Status::not_acceptable(SUPPORTED)) } else { Ok(Wanted::JSON) }
}

fn meet(wish: &str) -> Option<Wanted> {
    let mut parts = wish.split(';').map(str::trim);
    let format = match parts.next()? {
        "application/json" | "application/*" | "*/*" => Format::Json,
        "application/yaml" => Format::Yaml,
        _ => return None,
    };
    let (mut form, mut group, mut version) = (Form::Object, "", "");
    for (name, value) in parts.filter_map(|p| p.split_once('=')) {
        match (name, value) {
            ("as", "Table") => form = Form::Table,
            ("as", "PartialObjectMetadata" | "PartialObjectMetadataList") => form = Form::Partial,
            ("as", _) => return None,
            ("g", value) => group = value,
            ("v", value) => version = value,
            _ => {}
        }
    }
    if form != Form::Object && (group, version) != ("meta.k8s.io", "v1") {
        return None;
    }
    Some(Wanted { form, format })
}

/// Whether a discovery client wants the aggregated form.
pub(super) fn wants_aggregated(headers: &HeaderMap) -> bool {
    let all = headers.get_all(ACCEPT).iter().filter_map(|h| h.to_str().ok());
    for wish in all.flat_map(|h| h.split(',')).map(str::trim) {
        let has = |part: &str| wish.split(';').any(|p| p.trim() == part);
        if has("g=apidiscovery.k8s.io") && has("v=v2") && has("as=APIGroupDiscoveryList") {
            return true;
        }
        if matches!(wish.split(';').next(), Some("application/json")) && !wish.contains("as=") {
            return false;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(accept: &str) -> Result<Wanted, u16> {
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, accept.parse().unwrap());
        negotiate(&headers).map_err(|status| status.code)
    }

    #[test]
    fn what_kubectl_asks_for() {
        let table = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json";
        assert_eq!(of(table), Ok(Wanted { form: Form::Table, format: Format::Json }));
        let old = "application/json;as=Table;v=v1beta1;g=meta.k8s.io, application/json";
        assert_eq!(of(old), Ok(Wanted::JSON));
        assert_eq!(of("application/vnd.kubernetes.protobuf,application/json"), Ok(Wanted::JSON));
        assert_eq!(of("application/json, */*"), Ok(Wanted::JSON));
        assert_eq!(of("application/yaml"), Ok(Wanted { form: Form::Object, format: Format::Yaml }));
        assert_eq!(of("application/vnd.kubernetes.protobuf"), Err(406));
        assert_eq!(of("text/html"), Err(406));
    }

    #[test]
    fn aggregated_discovery() {
        let mut headers = HeaderMap::new();
        assert!(!wants_aggregated(&headers));
        let wish = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json";
        headers.insert(ACCEPT, wish.parse().unwrap());
        assert!(wants_aggregated(&headers));
        headers.insert(ACCEPT, "application/json".parse().unwrap());
        assert!(!wants_aggregated(&headers));
    }
}
