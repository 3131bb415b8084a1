use jiff::SignedDuration;

use super::*;
use crate::api::registry;

#[test]
fn spans_as_clients_print_them() {
    let days = |d: i64| d * 24 * 3600;
    for (seconds, expected) in [
        (-5, "<invalid>"),
        (0, "0s"),
        (119, "119s"),
        (120, "2m"),
        (150, "2m30s"),
        (599, "9m59s"),
        (600, "10m"),
        (10_799, "179m"),
        (10_800, "3h"),
        (12_600, "3h30m"),
        (28_800, "8h"),
        (172_799, "47h"),
        (172_800, "2d"),
        (176_400, "2d1h"),
        (days(8), "8d"),
        (days(729), "729d"),
        (days(730), "2y"),
        (days(740), "2y10d"),
        (days(365 * 9), "9y"),
    ] {
        assert_eq!(human(SignedDuration::from_secs(seconds)), expected, "{seconds}");
    }
}

#[test]
fn a_table_has_columns_rows_and_the_wanted_form_of_each_object() {
    let resource = registry().find("", "v1", "configmaps").unwrap();
    let object = json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "a", "resourceVersion": "5"}, "data": {"k": "v"}});
    let now = "2026-12-01T12:00:00Z".parse().unwrap();
    let with = |include, columns| {
        table(resource, std::slice::from_ref(&object), json!({"resourceVersion": "9"}), include, columns, now)
    };
    let full = with(IncludeObject::Metadata, true);
    assert_eq!((&full["kind"], &full["apiVersion"]), (&json!("Table"), &json!("meta.k8s.io/v1")));
    assert_eq!(full["metadata"]["resourceVersion"], "9");
    assert_eq!(
        full["columnDefinitions"][0],
        json!({"name": "Name", "type": "string", "format": "name", "description": "", "priority": 0})
    );
    assert_eq!(full["rows"][0]["cells"], json!(["a", "1", "<unknown>"]));
    assert_eq!(
        full["rows"][0]["object"],
        json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": {"name": "a", "resourceVersion": "5"}})
    );
    assert_eq!(with(IncludeObject::Object, false)["rows"][0]["object"], object);
    assert_eq!(with(IncludeObject::Object, false)["columnDefinitions"], json!([]));
    assert!(with(IncludeObject::None, true)["rows"][0].get("object").is_none());
    assert_eq!(IncludeObject::parse(Some("All")).unwrap_err().code, 400);
}
