//! Which part of a log is asked for: the query of `containerLogs`, as v1.PodLogOptions has it.

use std::collections::HashMap;

use jiff::{SignedDuration, Timestamp};

use super::error::Error;

/// Part and form of a log.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(super) struct LogOptions {
    /// Goes on as long as the container runs.
    pub(super) follow: bool,
    /// Of the start before the current one.
    pub(super) previous: bool,
    /// Each line begins with the time at which it was written.
    pub(super) timestamps: bool,
    /// Lines from this time on.
    pub(super) since: Option<Timestamp>,
    /// At most so many lines, the last ones.
    pub(super) tail: Option<usize>,
    /// At most so many bytes.
    pub(super) limit: Option<u64>,
}

impl LogOptions {
    /// From the parameters of a request; what is not known is ignored, as Kubernetes does.
    pub(super) fn parse(query: &HashMap<String, String>, now: Timestamp) -> Result<Self, Error> {
        let flag = |field: &'static str| match query.get(field).map(String::as_str) {
            None | Some("" | "false" | "0") => Ok(false),
            Some("true" | "1") => Ok(true),
            Some(value) => {
                Err(Error::InvalidOption { field, value: value.to_owned(), expected: "must be true or false" })
            }
        };
        let number = |field: &'static str, minimum: i64, expected: &'static str| {
            let Some(value) = query.get(field).filter(|value| !value.is_empty()) else { return Ok(None) };
            let number = value.parse::<i64>().ok().filter(|number| *number >= minimum);
            number.map(Some).ok_or_else(|| Error::InvalidOption { field, value: value.clone(), expected })
        };
        let since_seconds = number("sinceSeconds", 1, "must be greater than 0")?;
        let since_time = query.get("sinceTime").filter(|value| !value.is_empty());
        let since = match (since_seconds, since_time) {
            (Some(_), Some(value)) => {
                let expected = "at most one of sinceTime and sinceSeconds may be specified";
                return Err(Error::InvalidOption { field: "sinceTime", value: value.clone(), expected });
            }
            (Some(seconds), None) => {
                Some(now.saturating_sub(SignedDuration::from_secs(seconds)).unwrap_or(Timestamp::MIN))
            }
            (None, Some(value)) => Some(value.parse().map_err(|_| Error::InvalidOption {
                field: "sinceTime",
                value: value.clone(),
                expected: "must be a time as in RFC 3339",
            })?),
            (None, None) => None,
        };
        Ok(Self {
            follow: flag("follow")?,
            previous: flag("previous")?,
            timestamps: flag("timestamps")?,
            since,
            tail: number("tailLines", 0, "must be greater than or equal to 0")?
                .map(|lines| usize::try_from(lines).unwrap_or(usize::MAX)),
            limit: number("limitBytes", 1, "must be greater than 0")?.and_then(|bytes| u64::try_from(bytes).ok()),
        })
    }
}
