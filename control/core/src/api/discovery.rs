//! Discovery documents, all derived from the registry.

use serde_json::{Value, json};

use super::registry;
use super::resource::{Resource, Subresource, Verb, group_version};

/// `GET /api`; `address` is host:port where this server is reached.
pub fn core_versions(address: &str) -> Value {
    json!({
        "kind": "APIVersions", "versions": ["v1"],
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}],
    })
}

/// `GET /apis`.
pub fn groups() -> Value {
    let groups: Vec<Value> = group_names().into_iter().map(describe_group).collect();
    json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
}

/// `GET /apis/GROUP`; `None` for a group that is not served, and for the core group, which is no such path.
pub fn group(name: &str) -> Option<Value> {
    let name = group_names().into_iter().find(|g| *g == name)?;
    let mut group = describe_group(name);
    group["kind"] = "APIGroup".into();
    group["apiVersion"] = "v1".into();
    Some(group)
}

/// Named groups in registry order.
fn group_names() -> Vec<&'static str> {
    let mut names = Vec::new();
    for (group, _) in registry().group_versions() {
        if !group.is_empty() && !names.contains(&group) {
            names.push(group);
        }
    }
    names
}

fn describe_group(name: &str) -> Value {
    let versions: Vec<Value> = registry()
        .group_versions()
        .into_iter()
        .filter(|(group, _)| *group == name)
        .map(|(group, version)| json!({"groupVersion": group_version(group, version), "version": version}))
        .collect();
    let preferred = versions.first().cloned().unwrap_or_default();
    json!({"name": name, "versions": versions, "preferredVersion": preferred})
}

/// `GET /api/v1` (empty group) and `GET /apis/GROUP/VERSION`; `None` when not served.
pub fn resources(group: &str, version: &str) -> Option<Value> {
    let mut list: Vec<Value> = Vec::new();
    for resource in registry().iter().filter(|r| r.group == group && r.version == version) {
        list.push(describe(resource));
        list.extend(resource.subresources.iter().map(|sub| describe_subresource(resource, *sub)));
    }
    if list.is_empty() {
        return None;
    }
    let mut document =
        json!({"kind": "APIResourceList", "groupVersion": group_version(group, version), "resources": list});
    if !group.is_empty() {
        document["apiVersion"] = "v1".into();
    }
    Some(document)
}

fn describe(resource: &Resource) -> Value {
    let mut entry = json!({
        "name": resource.plural, "singularName": resource.singular, "namespaced": resource.namespaced,
        "kind": resource.kind, "verbs": spell(resource.verbs),
    });
    if !resource.short_names.is_empty() {
        entry["shortNames"] = json!(resource.short_names);
    }
    if !resource.categories.is_empty() {
        entry["categories"] = json!(resource.categories);
    }
    entry
}

fn describe_subresource(resource: &Resource, sub: Subresource) -> Value {
    let (group, version, kind) = response(resource, sub);
    let mut entry = json!({
        "name": format!("{}/{}", resource.plural, sub.as_str()), "singularName": "",
        "namespaced": resource.namespaced, "kind": kind, "verbs": spell(sub.verbs()),
    });
    if (group, version) != (resource.group, resource.version) {
        entry["group"] = group.into();
        entry["version"] = version.into();
    }
    entry
}

/// Group, version and kind that a subresource speaks.
fn response(resource: &Resource, sub: Subresource) -> (&'static str, &'static str, &'static str) {
    match sub {
        Subresource::Scale => ("autoscaling", "v1", "Scale"),
        Subresource::Binding => ("", "v1", "Binding"),
        Subresource::Eviction => ("policy", "v1", "Eviction"),
        Subresource::Status | Subresource::Log | Subresource::Finalize => {
            (resource.group, resource.version, resource.kind)
        }
    }
}

fn spell(verbs: &[Verb]) -> Vec<&'static str> {
    let mut verbs: Vec<&str> = verbs.iter().map(|v| v.as_str()).collect();
    verbs.sort_unstable();
    verbs
}

/// `GET /api` as `application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList`.
pub fn aggregated_core() -> Value {
    aggregate(&[""])
}

/// `GET /apis` as `application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList`.
pub fn aggregated_groups() -> Value {
    aggregate(&group_names())
}

fn aggregate(groups: &[&str]) -> Value {
    let items: Vec<Value> = groups
        .iter()
        .map(|name| {
            let versions: Vec<Value> = registry()
                .group_versions()
                .into_iter()
                .filter(|(group, _)| group == name)
                .map(|(group, version)| {
                    let resources: Vec<Value> = registry()
                        .iter()
                        .filter(|r| r.group == group && r.version == version)
                        .map(aggregate_resource)
                        .collect();
                    json!({"version": version, "freshness": "Current", "resources": resources})
                })
                .collect();
            json!({"metadata": {"name": name, "creationTimestamp": null}, "versions": versions})
        })
        .collect();
    json!({
        "kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": items,
    })
}

fn aggregate_resource(resource: &'static Resource) -> Value {
    let kind = |(group, version, kind): (&str, &str, &str)| json!({"group": group, "version": version, "kind": kind});
    let subresources: Vec<Value> = resource
        .subresources
        .iter()
        .map(|sub| {
            json!({
                "subresource": sub.as_str(), "responseKind": kind(response(resource, *sub)), "verbs": spell(sub.verbs()),
            })
        })
        .collect();
    let mut entry = json!({
        "resource": resource.plural,
        "responseKind": kind((resource.group, resource.version, resource.kind)),
        "scope": if resource.namespaced { "Namespaced" } else { "Cluster" },
        "singularResource": resource.singular,
        "verbs": spell(resource.verbs),
    });
    for (field, list) in [("shortNames", resource.short_names), ("categories", resource.categories)] {
        if !list.is_empty() {
            entry[field] = json!(list);
        }
    }
    if !subresources.is_empty() {
        entry["subresources"] = subresources.into();
    }
    entry
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn core_lists_resources_and_subresources() {
        let list = resources("", "v1").unwrap();
        assert!(list.get("apiVersion").is_none());
        let find = |name: &str| list["resources"].as_array().unwrap().iter().find(|r| r["name"] == name).cloned();
        assert_eq!(
            find("pods").unwrap(),
            json!({"name": "pods", "singularName": "pod", "namespaced": true, "kind": "Pod", "shortNames": ["po"], "categories": ["all"],
                "verbs": ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]})
        );
        assert_eq!(find("pods/binding").unwrap()["kind"], "Binding");
        assert_eq!(find("pods/log").unwrap()["verbs"], json!(["get"]));
        assert!(find("namespaces").unwrap()["verbs"].as_array().unwrap().iter().all(|v| v != "deletecollection"));
    }

    #[test]
    fn a_scale_names_its_own_group() {
        let apps = resources("apps", "v1").unwrap();
        let scale =
            apps["resources"].as_array().unwrap().iter().find(|r| r["name"] == "deployments/scale").cloned().unwrap();
        assert_eq!(
            (&scale["group"], &scale["version"], &scale["kind"]),
            (&json!("autoscaling"), &json!("v1"), &json!("Scale"))
        );
        assert_eq!(resources("apps", "v2"), None);
    }

    #[test]
    fn groups_prefer_their_first_version() {
        let all = groups();
        assert_eq!(all["groups"].as_array().unwrap().len(), 6);
        let apps = group("apps").unwrap();
        assert_eq!(apps["kind"], "APIGroup");
        assert_eq!(apps["preferredVersion"], json!({"groupVersion": "apps/v1", "version": "v1"}));
        assert_eq!(group(""), None);
        assert_eq!(group("batch"), None);
    }

    #[test]
    fn aggregated_documents_hold_everything() {
        let core = aggregated_core();
        assert_eq!(core["items"].as_array().unwrap().len(), 1);
        let named: usize = aggregated_groups()["items"]
            .as_array()
            .unwrap()
            .iter()
            .flat_map(|g| g["versions"].as_array().unwrap())
            .map(|v| v["resources"].as_array().unwrap().len())
            .sum();
        let core = core["items"][0]["versions"][0]["resources"].as_array().unwrap().len();
        assert_eq!(core + named, registry().iter().count());
    }
}
