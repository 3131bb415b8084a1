//! A node makes itself known.

use serde_json::{Map, Value, json};
use skep_control_core::api::{Document, FieldValidation, Status as ApiStatus, decode, meta, parse_json, registry};
use skep_proto::node::v1::{RegisterRequest, RegisterResponse};
use tonic::Status;

use super::super::failure;
use super::{NodeDoor, conditions, node_status};
use crate::api::{Resource, Subresource, WriteOptions};
use crate::cidr::DNS_ADDRESS;

impl NodeDoor {
    /// Creates the node's object or brings it up to date. Errors: `INVALID_ARGUMENT` for an object that is no Node,
    /// `RESOURCE_EXHAUSTED` when there is no range of pod addresses left.
    pub(super) async fn register_node(&self, request: RegisterRequest) -> Result<RegisterResponse, Status> {
        let RegisterRequest { name, node } = request;
        let given = given(&name, &node).map_err(|error| failure::status(&error))?;
        let pod_cidrs = self.pod_cidrs.claim(&self.api, &name).await?;
        let registered = self.write_node(&name, given, &pod_cidrs).await.map_err(|error| failure::status(&error))?;
        let mut service_cidrs: Vec<_> = self.config.service_cidrs.iter().collect();
        service_cidrs.sort_by_key(|range| !range.is_ipv4());
        Ok(RegisterResponse {
            uid: meta::uid(&registered).to_owned(),
            // What the object says: it may have got its ranges by other means.
            pod_cidrs: texts(&registered["spec"]["podCIDRs"]),
            service_cidrs: service_cidrs.iter().map(ToString::to_string).collect(),
            lease_duration_seconds: self.config.lease_duration_seconds,
            cluster_dns: service_cidrs
                .iter()
                .filter_map(|range| range.nth(DNS_ADDRESS))
                .map(|ip| ip.to_string())
                .collect(),
            cluster_domain: self.config.cluster_domain.clone(),
        })
    }

    async fn write_node(&self, name: &str, given: Value, pod_cidrs: &[String]) -> Result<Value, ApiStatus> {
        let nodes = nodes()?;
        let caller = Self::caller(name);
        loop {
            match self.api.get(nodes, "", name).await {
                Ok(_) => {}
                Err(error) if error.is_not_found() => {
                    let mut fresh = given.clone();
                    fresh["spec"] = json!({"podCIDR": pod_cidrs.first(), "podCIDRs": pod_cidrs});
                    match self.api.create(&caller, nodes, "", fresh, &WriteOptions::default()).await {
                        // Somebody else created it in between: it is brought up to date.
                        Err(error) if error.is_already_exists() => {}
                        other => return other?.value(),
                    }
                }
                Err(error) => return Err(error),
            }
            let labels = given["metadata"]["labels"].as_object().cloned().unwrap_or_default();
            let updated = self.api.modify(&caller, nodes, None, "", name, |node| {
                let before = node.clone();
                add_labels(node, &labels);
                if node["spec"]["podCIDRs"].as_array().is_none_or(Vec::is_empty) {
                    node["spec"]["podCIDR"] = pod_cidrs.first().map(String::as_str).into();
                    node["spec"]["podCIDRs"] = pod_cidrs.into();
                }
                Ok(*node != before)
            });
            let status = given["status"].as_object().cloned().unwrap_or_default();
            let updated = match updated.await {
                Ok(_) => {
                    let merged = self.api.modify(&caller, nodes, Some(Subresource::Status), "", name, |node| {
                        node["status"] = conditions::merge(&node["status"], status.clone(), &node_status::KEPT);
                        Ok(true)
                    });
                    merged.await
                }
                Err(error) => Err(error),
            };
            match updated {
                // Somebody deleted it in between: it is made anew.
                Err(error) if error.is_not_found() => {}
                other => return other?.value(),
            }
        }
    }
}

fn nodes() -> Result<&'static Resource, ApiStatus> {
    registry().find("", "v1", "nodes").ok_or_else(ApiStatus::unknown_path)
}

/// What is taken from the agent's Node: name, labels and status. Pure.
fn given(name: &str, node: &[u8]) -> Result<Value, ApiStatus> {
    let mut value = parse_json(node)?.value;
    if !value.is_object() {
        return Err(ApiStatus::bad_request("node: it is not a JSON object"));
    }
    value["apiVersion"] = "v1".into();
    value["kind"] = "Node".into();
    let decoded = decode(nodes()?, Document::new(value)?, FieldValidation::Ignore)?.object;
    let own = meta::name(&decoded);
    if !own.is_empty() && own != name {
        return Err(ApiStatus::bad_request(format!("node.metadata.name: it is {own:?}, the request is of {name:?}")));
    }
    let mut metadata = Map::from_iter([("name".to_owned(), name.into())]);
    for field in ["labels", "annotations"] {
        if decoded["metadata"][field].is_object() {
            metadata.insert(field.to_owned(), decoded["metadata"][field].clone());
        }
    }
    let status = if decoded["status"].is_object() { decoded["status"].clone() } else { json!({}) };
    Ok(json!({"apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": status}))
}

/// Sets labels; those that somebody else set stay.
fn add_labels(node: &mut Value, labels: &Map<String, Value>) {
    if !labels.is_empty() && !node["metadata"]["labels"].is_object() {
        node["metadata"]["labels"] = json!({});
    }
    for (key, value) in labels {
        node["metadata"]["labels"][key] = value.clone();
    }
}

fn texts(value: &Value) -> Vec<String> {
    let items = value.as_array().map(Vec::as_slice).unwrap_or_default();
    items.iter().filter_map(Value::as_str).map(str::to_owned).collect()
}
