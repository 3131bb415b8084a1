//! Syntax of names, labels and annotations. Each check gives the text of what is wrong, or nothing.

use serde_json::Value;

use crate::address::special;

use super::access::{text, texts};
use super::field::{Faults, FieldError, Path};
use super::resource::NameRule;

const LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and \
     end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is \
     '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and \
     must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
     '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const RFC1035: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic \
     character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is \
     '[a-z]([-a-z0-9]*[a-z0-9])?')";
const QUALIFIED: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an \
     alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
     '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const LABEL_VALUE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and \
     must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for \
     validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";
const ENV_NAME: &str =
    "a valid environment variable name must consist only of printable ASCII characters other than '='";
const CONFIG_KEY: &str = "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or \
     'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')";

/// Bytes of all annotations of one object together.
const MAX_ANNOTATIONS: usize = 256 * 1024;

type Complaint = Option<String>;

fn max_len(max: usize) -> String {
    format!("must be no more than {max} bytes")
}

/// Whether every character passes and both ends are alphanumeric.
fn framed(name: &str, alphanumeric: fn(u8) -> bool, inner: &[u8]) -> bool {
    let bytes = name.as_bytes();
    let ends = bytes.first().is_some_and(|b| alphanumeric(*b)) && bytes.last().is_some_and(|b| alphanumeric(*b));
    ends && bytes.iter().all(|b| alphanumeric(*b) || inner.contains(b))
}

fn lower(byte: u8) -> bool {
    byte.is_ascii_lowercase() || byte.is_ascii_digit()
}

fn any_case(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
}

/// DNS-1123 label.
pub(crate) fn label(name: &str) -> Complaint {
    if name.len() > 63 {
        return Some(max_len(63));
    }
    (!framed(name, lower, b"-")).then(|| LABEL.to_owned())
}

/// DNS-1123 subdomain.
pub(crate) fn subdomain(name: &str) -> Complaint {
    if name.len() > 253 {
        return Some(max_len(253));
    }
    let good = name.split('.').all(|part| framed(part, lower, b"-"));
    (!good).then(|| SUBDOMAIN.to_owned())
}

/// DNS-1035 label.
pub(crate) fn rfc1035_label(name: &str) -> Complaint {
    if name.len() > 63 {
        return Some(max_len(63));
    }
    let good = framed(name, lower, b"-") && name.starts_with(|c: char| c.is_ascii_lowercase());
    (!good).then(|| RFC1035.to_owned())
}

/// What can be one segment of a path.
fn path_segment(name: &str) -> Complaint {
    match name {
        "." | ".." => Some(format!("may not be '{name}'")),
        _ => name.chars().find(|c| matches!(c, '/' | '%')).map(|c| format!("may not contain '{c}'")),
    }
}

/// `prefix/name` or `name`, as keys of labels and annotations are.
pub(crate) fn qualified(name: &str) -> Complaint {
    let part = match name.split_once('/') {
        None => name,
        Some((_, rest)) if rest.contains('/') => {
            return Some(format!(
                "a qualified name {} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')",
                QUALIFIED.trim_start_matches("name part ")
            ));
        }
        Some(("", _)) => return Some("prefix part must be non-empty".into()),
        Some((prefix, rest)) => {
            if let Some(complaint) = subdomain(prefix) {
                return Some(format!("prefix part {complaint}"));
            }
            rest
        }
    };
    if part.is_empty() {
        return Some(format!("name part must be non-empty; {QUALIFIED}"));
    }
    if part.len() > 63 {
        return Some(format!("name part {}", max_len(63)));
    }
    (!framed(part, any_case, b"-_.")).then(|| QUALIFIED.to_owned())
}

/// Value of a label.
pub(crate) fn label_value(value: &str) -> Complaint {
    if value.len() > 63 {
        return Some(max_len(63));
    }
    (!value.is_empty() && !framed(value, any_case, b"-_.")).then(|| LABEL_VALUE.to_owned())
}

/// Name of a container's or Service's port: at most 15 of `a-z0-9-`, at least one letter.
pub(crate) fn port_name(name: &str) -> Complaint {
    if name.len() > 15 {
        return Some("must be no more than 15 characters".into());
    }
    if !name.bytes().all(|b| lower(b) || b == b'-') {
        return Some("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)".into());
    }
    if !name.bytes().any(|b| b.is_ascii_lowercase()) {
        return Some("must contain at least one letter (a-z)".into());
    }
    if name.contains("--") {
        return Some("must not contain consecutive hyphens".into());
    }
    (name.starts_with('-') || name.ends_with('-')).then(|| "must not begin or end with a hyphen".to_owned())
}

/// Name of an environment variable.
pub(crate) fn env_name(name: &str) -> Complaint {
    (!name.bytes().all(|b| (0x20..0x7f).contains(&b) && b != b'=')).then(|| ENV_NAME.to_owned())
}

/// Key of a ConfigMap or Secret.
pub(crate) fn config_key(key: &str) -> Complaint {
    if key.len() > 253 {
        return Some(max_len(253));
    }
    match key {
        "." => return Some("must not be '.'".into()),
        ".." => return Some("must not be '..'".into()),
        _ if key.starts_with("..") => return Some("must not start with '..'".into()),
        _ => {}
    }
    let good = !key.is_empty() && key.bytes().all(|b| any_case(b) || b"-_.".contains(&b));
    (!good).then(|| CONFIG_KEY.to_owned())
}

/// Notes a complaint about a value.
pub(crate) fn complain(faults: &mut Faults, path: Path, value: &str, complaint: Complaint) {
    if let Some(complaint) = complaint {
        faults.push(FieldError::invalid(path, value, &complaint));
    }
}

/// An address that packets can be sent to from everywhere in the cluster.
pub(crate) fn check_address(address: &Value, path: &Path, faults: &mut Faults) {
    match text(address).parse() {
        Err(_) => {
            let detail = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
            faults.push(FieldError::invalid(path.clone(), text(address), detail));
        }
        Ok(ip) => complain(faults, path.clone(), text(address), special(ip)),
    }
}

/// `metadata.name` by the resource's rule.
pub(crate) fn check_name(rule: NameRule, name: &str) -> Complaint {
    match rule {
        NameRule::Subdomain => subdomain(name),
        NameRule::Label => label(name),
        NameRule::Rfc1035Label => rfc1035_label(name),
        NameRule::PathSegment => path_segment(name),
    }
}

/// Keys and values of a label map.
pub(crate) fn validate_labels(labels: &Value, path: &Path, faults: &mut Faults) {
    for (key, value) in texts(labels) {
        complain(faults, path.clone(), key, qualified(key));
        complain(faults, path.clone(), value, label_value(value));
    }
}

/// Keys and total size of annotations.
pub(crate) fn validate_annotations(annotations: &Value, path: &Path, faults: &mut Faults) {
    let mut size = 0;
    for (key, value) in texts(annotations) {
        size += key.len() + value.len();
        complain(faults, path.clone(), key, qualified(&key.to_lowercase()));
    }
    if size > MAX_ANNOTATIONS {
        faults.push(FieldError::too_long(path.clone(), MAX_ANNOTATIONS));
    }
}

/// A `meta/v1` `LabelSelector`.
pub(crate) fn validate_selector(selector: &Value, path: &Path, faults: &mut Faults) {
    validate_labels(&selector["matchLabels"], &path.child("matchLabels"), faults);
    for (index, requirement) in super::access::items(&selector["matchExpressions"]).iter().enumerate() {
        let here = path.child("matchExpressions").index(index);
        let (key, operator) = (text(&requirement["key"]), text(&requirement["operator"]));
        let values = super::access::items(&requirement["values"]);
        match operator {
            "In" | "NotIn" if values.is_empty() => {
                let detail = "must be specified when `operator` is 'In' or 'NotIn'";
                faults.push(FieldError::required(here.child("values"), detail));
            }
            "Exists" | "DoesNotExist" if !values.is_empty() => {
                let detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
                faults.push(FieldError::forbidden(here.child("values"), detail));
            }
            "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
            other => {
                faults.push(FieldError::invalid(here.child("operator"), other, "not a valid selector operator"));
            }
        }
        complain(faults, here.child("key"), key, qualified(key));
        for (index, value) in values.iter().enumerate() {
            complain(faults, here.child("values").index(index), text(value), label_value(text(value)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        let long = "a".repeat(64);
        for (name, good) in [
            ("a", true),
            ("my-name", true),
            ("1a", true),
            ("", false),
            ("-a", false),
            ("a-", false),
            ("A", false),
            ("a.b", false),
            (long.as_str(), false),
            ("é", false),
        ] {
            assert_eq!(label(name).is_none(), good, "{name:?}");
        }
        for (name, good) in
            [("a.b", true), ("a..b", false), (".a", false), ("a.", false), ("a_b", false), ("a.-b", false)]
        {
            assert_eq!(subdomain(name).is_none(), good, "{name:?}");
        }
        assert!(rfc1035_label("1a").is_some());
        assert!(subdomain(&"a".repeat(254)).is_some());
        assert_eq!(label(&long).unwrap(), "must be no more than 63 bytes");
    }

    #[test]
    fn keys_and_values_of_labels() {
        for (key, good) in [
            ("app", true),
            ("app.kubernetes.io/name", true),
            ("a/b/c", false),
            ("/a", false),
            ("a/", false),
            ("A/b", false),
            ("a b", false),
            ("-a", false),
            ("x_y.Z", true),
        ] {
            assert_eq!(qualified(key).is_none(), good, "{key:?}");
        }
        for (value, good) in [("", true), ("v1.2_x", true), ("-a", false), ("a b", false), ("a/b", false)] {
            assert_eq!(label_value(value).is_none(), good, "{value:?}");
        }
    }

    #[test]
    fn other_names() {
        for (name, good) in [
            ("http", true),
            ("a-1", true),
            ("1", false),
            ("a--b", false),
            ("-a", false),
            ("HTTP", false),
            ("abcdefghijklmnop", false),
        ] {
            assert_eq!(port_name(name).is_none(), good, "{name:?}");
        }
        for (key, good) in
            [("a.b", true), ("A_b-c", true), ("", false), ("..", false), ("..a", false), ("a/b", false), (".a", true)]
        {
            assert_eq!(config_key(key).is_none(), good, "{key:?}");
        }
        assert!(env_name("A=B").is_some());
        assert!(env_name("A_B.c-d").is_none());
    }
}
