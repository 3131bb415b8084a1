use serde_json::json;

use super::*;
use crate::api::registry;

#[test]
fn every_line_of_the_tables_is_understood() {
    let (schema, malformed) = parse::parse(parse::TABLES);
    assert_eq!(malformed, []);
    assert!(schema.types().all(|t| !t.fields.is_empty()));
}

#[test]
fn every_served_kind_has_a_type_with_metadata() {
    for resource in registry().iter() {
        let id = schema().of_kind(resource.group, resource.kind).expect(resource.kind);
        assert!(schema().get(id).field("metadata").is_some(), "{}", resource.kind);
    }
}

#[test]
fn merge_keys_are_fields_of_the_elements() {
    for kind in schema().types() {
        for field in &kind.fields {
            let Some(key) = field.merge.key else { continue };
            let Shape::List(inner) = &field.shape else { panic!("{}.{} is no list", kind.name, field.name) };
            let Shape::Object(id) = **inner else { panic!("{}.{} has scalar elements", kind.name, field.name) };
            assert!(schema().get(id).field(key).is_some(), "{}.{}", kind.name, field.name);
        }
    }
}

fn fault(mut value: serde_json::Value) -> String {
    let pod = schema().of_kind("", "Pod").unwrap();
    Check::run(schema(), pod, &mut value).unwrap_err().to_string()
}

#[test]
fn wrong_types_are_told_as_clients_know_them() {
    assert_eq!(
        fault(json!({"spec": {"containers": [{"ports": [{"containerPort": "http"}]}]}})),
        "json: cannot unmarshal string into Go struct field ContainerPort.spec.containers.ports.containerPort of type int32"
    );
    assert_eq!(
        fault(json!({"metadata": {"labels": {"a": 1}}})),
        "json: cannot unmarshal number into Go struct field ObjectMeta.metadata.labels of type string"
    );
    assert_eq!(
        fault(json!({"spec": []})),
        "json: cannot unmarshal array into Go struct field Pod.spec of type v1.PodSpec"
    );
    assert_eq!(
        fault(json!({"spec": {"priority": 5_000_000_000_i64}})),
        "json: cannot unmarshal number 5000000000 into Go struct field PodSpec.spec.priority of type int32"
    );
    assert!(
        fault(json!({"spec": {"containers": [{"resources": {"limits": {"cpu": "1x"}}}]}})).starts_with("quantities")
    );
    assert_eq!(fault(json!([])), "json: cannot unmarshal array into Go value of type v1.Pod");
}

#[test]
fn unknown_fields_are_dropped_and_named_and_nulls_vanish() {
    let pod = schema().of_kind("", "Pod").unwrap();
    let mut value = json!({"spec": {"foo": 1, "nodeName": null, "containers": [{"name": "a", "imagee": "x"}]}});
    let check = Check::run(schema(), pod, &mut value).unwrap();
    assert_eq!(check.unknown, ["spec.containers[0].imagee", "spec.foo"]);
    assert_eq!(value, json!({"spec": {"containers": [{"name": "a"}]}}));
}

#[test]
fn numbers_given_as_quantities_become_text() {
    let pod = schema().of_kind("", "Pod").unwrap();
    let mut value = json!({"spec": {"containers": [{"resources": {"limits": {"cpu": 2, "memory": 1.5}}}]}});
    Check::run(schema(), pod, &mut value).unwrap();
    assert_eq!(value["spec"]["containers"][0]["resources"]["limits"], json!({"cpu": "2", "memory": "1500m"}));
}

#[test]
fn base64_is_checked() {
    let secret = schema().of_kind("", "Secret").unwrap();
    for (text, good) in
        [("", true), ("YQ==", true), ("YWI=", true), ("YWJj", true), ("YQ=", false), ("Y", false), ("a b=", false)]
    {
        let mut value = json!({"data": {"k": text}});
        assert_eq!(Check::run(schema(), secret, &mut value).is_ok(), good, "{text:?}");
    }
}
