use super::*;

#[test]
fn a_kind_has_fields_merge_keys_and_its_name() {
    let document = v2();
    let pod = &document["definitions"]["io.k8s.api.core.v1.Pod"];
    assert_eq!(pod["x-kubernetes-group-version-kind"], json!([{"group": "", "kind": "Pod", "version": "v1"}]));
    assert_eq!(pod["properties"]["spec"]["$ref"], "#/definitions/io.k8s.api.core.v1.PodSpec");
    let spec = &document["definitions"]["io.k8s.api.core.v1.PodSpec"];
    assert_eq!(spec["required"], json!(["containers"]));
    let volumes = &spec["properties"]["volumes"];
    assert_eq!(volumes["x-kubernetes-patch-merge-key"], "name");
    assert_eq!(volumes["x-kubernetes-patch-strategy"], "merge,retainKeys");
    let ports = &document["definitions"]["io.k8s.api.core.v1.Container"]["properties"]["ports"];
    assert_eq!(ports["x-kubernetes-list-map-keys"], json!(["containerPort", "protocol"]));
}

#[test]
fn a_patch_tells_what_clients_look_for_before_they_send_one() {
    let patch = v2()["paths"]["/apis/apps/v1/namespaces/{namespace}/deployments/{name}"]["patch"].clone();
    assert!(patch["parameters"].as_array().unwrap().iter().any(|p| p["name"] == "fieldValidation"));
    assert!(patch["consumes"].as_array().unwrap().iter().any(|c| c == "application/strategic-merge-patch+json"));
    let apps = v3("apps", "v1").unwrap();
    let patch = &apps["paths"]["/apis/apps/v1/namespaces/{namespace}/deployments/{name}"]["patch"];
    assert_eq!(patch["x-kubernetes-group-version-kind"]["kind"], "Deployment");
    assert!(patch["requestBody"]["content"].get("application/strategic-merge-patch+json").is_some());
}

/// Every `$ref` of a document leads somewhere.
fn references<'a>(value: &'a Value, found: &mut Vec<&'a str>) {
    match value {
        Value::Object(map) => {
            found.extend(map.get("$ref").and_then(Value::as_str));
            map.values().for_each(|v| references(v, found));
        }
        Value::Array(list) => list.iter().for_each(|v| references(v, found)),
        _ => {}
    }
}

#[test]
fn references_lead_somewhere() {
    let mut documents = vec![v2()];
    documents.extend(registry().group_versions().into_iter().map(|(group, version)| v3(group, version).unwrap()));
    for document in &documents {
        let mut found = Vec::new();
        references(document, &mut found);
        assert!(!found.is_empty());
        for reference in found {
            assert!(document.pointer(reference.trim_start_matches('#')).is_some(), "{reference}");
        }
    }
}

#[test]
fn the_index_names_every_group_by_content() {
    let index = v3_index();
    let paths = index["paths"].as_object().unwrap();
    assert_eq!(paths.len(), registry().group_versions().len());
    assert!(paths["api/v1"]["serverRelativeURL"].as_str().unwrap().starts_with("/openapi/v3/api/v1?hash="));
    assert_eq!(v3("apps", "v2"), None);
    assert_eq!(index, v3_index());
}

#[test]
fn protobuf_is_well_formed_and_has_all_definitions() {
    let bytes = v2_protobuf();
    let mut counts = std::collections::BTreeMap::new();
    let mut rest = bytes.as_slice();
    let mut definitions = Vec::new();
    while !rest.is_empty() {
        let (field, value) = field(&mut rest);
        *counts.entry(field).or_insert(0) += 1;
        if field == 9 {
            let mut inner = value;
            while !inner.is_empty() {
                let (_, mut entry) = self::field(&mut inner);
                definitions.push(String::from_utf8(self::field(&mut entry).1.to_vec()).unwrap());
            }
        }
    }
    assert_eq!(counts.into_iter().collect::<Vec<_>>(), [(1, 1), (2, 1), (8, 1), (9, 1)]);
    let expected: Vec<String> = v2()["definitions"].as_object().unwrap().keys().cloned().collect();
    assert_eq!(definitions, expected);
}

/// Number and bytes of the next length-delimited field.
fn field<'a>(rest: &mut &'a [u8]) -> (u64, &'a [u8]) {
    let mut varint = || {
        let (mut value, mut shift) = (0_u64, 0);
        loop {
            let byte = rest[0];
            *rest = &rest[1..];
            value |= u64::from(byte & 0x7f) << shift;
            shift += 7;
            if byte < 0x80 {
                return value;
            }
        }
    };
    let tag = varint();
    assert_eq!(tag & 7, 2);
    let length = usize::try_from(varint()).unwrap();
    let (value, after) = rest.split_at(length);
    *rest = after;
    (tag >> 3, value)
}
