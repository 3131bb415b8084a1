//! Texts for `kubectl explain`: what types and fields mean, one line each.

use std::collections::HashMap;
use std::sync::LazyLock;

use crate::api::schema::Type;

/// By `package.Type` and `package.Type.field`, with the short package names of the tables.
static TEXTS: LazyLock<HashMap<&'static str, &'static str>> =
    LazyLock::new(|| include_str!("descriptions.txt").lines().filter_map(|line| line.split_once(": ")).collect());

/// The text about a type.
pub(super) fn of_type(kind: &Type) -> Option<&'static str> {
    TEXTS.get(name(kind).as_str()).copied()
}

/// The text about a field.
pub(super) fn of_field(kind: &Type, field: &str) -> Option<&'static str> {
    TEXTS.get(format!("{}.{field}", name(kind)).as_str()).copied()
}

fn name(kind: &Type) -> String {
    format!("{}.{}", kind.short_package, kind.name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::schema::schema;

    #[test]
    fn every_text_is_about_something() {
        for (key, text) in TEXTS.iter() {
            let mut parts = key.splitn(3, '.');
            let (package, kind, field) = (parts.next().unwrap(), parts.next().unwrap(), parts.next());
            let id = schema().find(&format!("{package}.{kind}")).unwrap_or_else(|| panic!("{key}"));
            let kind = schema().get(id);
            assert!(field.is_none_or(|field| kind.field(field).is_some()), "{key}");
            let found = field.map_or_else(|| of_type(kind), |field| of_field(kind, field));
            assert_eq!(found, Some(*text));
        }
        assert_eq!(TEXTS.len(), include_str!("descriptions.txt").lines().count());
    }
}
