//! The downward API: what a pod may learn about itself.

use std::fmt::Write as _;

use k8s_openapi::api::core::v1::{Container, ObjectFieldSelector, Pod, ResourceFieldSelector};

use super::invalid::ConfigError;
use super::node::NodeFacts;
use super::quantity;

/// Where field values come from.
#[derive(Clone, Copy, Debug)]
pub struct Fields<'a> {
    /// The pod.
    pub pod: &'a Pod,
    /// The node it runs on.
    pub node: &'a NodeFacts,
    /// The pod's addresses, the primary one first; empty before it has a sandbox.
    pub pod_ips: &'a [String],
}

impl Fields<'_> {
    /// The value of a `fieldRef`.
    ///
    /// # Errors
    /// The path is not one of the downward API.
    pub fn field(&self, selector: &ObjectFieldSelector) -> Result<String, ConfigError> {
        let metadata = &self.pod.metadata;
        let spec = self.pod.spec.as_ref();
        let path = selector.field_path.as_str();
        let value = match path {
            "metadata.name" => metadata.name.clone(),
            "metadata.namespace" => metadata.namespace.clone(),
            "metadata.uid" => metadata.uid.clone(),
            "metadata.labels" => Some(lines(metadata.labels.iter().flatten())),
            "metadata.annotations" => Some(lines(metadata.annotations.iter().flatten())),
            "spec.nodeName" => Some(self.node.name.clone()),
            "spec.serviceAccountName" => spec.and_then(|spec| spec.service_account_name.clone()),
            "status.hostIP" => self.node.addresses.first().cloned(),
            "status.hostIPs" => Some(self.node.addresses.join(",")),
            "status.podIP" => self.pod_ips.first().cloned(),
            "status.podIPs" => Some(self.pod_ips.join(",")),
            _ => match subscript(path) {
                Some(("metadata.labels", key)) => metadata.labels.as_ref().and_then(|labels| labels.get(key)).cloned(),
                Some(("metadata.annotations", key)) => {
                    metadata.annotations.as_ref().and_then(|annotations| annotations.get(key)).cloned()
                }
                _ => return Err(ConfigError::UnsupportedField(path.to_owned())),
            },
        };
        Ok(value.unwrap_or_default())
    }

    /// The value of a `resourceFieldRef`, in units of its divisor and rounded up; what is not limited is limited by the
    /// node.
    ///
    /// # Errors
    /// The container or the resource is not there, or a quantity cannot be read.
    pub fn resource(&self, selector: &ResourceFieldSelector, own: Option<&Container>) -> Result<String, ConfigError> {
        let unsupported = || ConfigError::UnsupportedResource(selector.resource.clone());
        let spec = self.pod.spec.as_ref();
        let named = selector.container_name.as_deref().filter(|name| !name.is_empty());
        let container = match named {
            None => own.ok_or_else(unsupported)?,
            Some(name) => spec
                .into_iter()
                .flat_map(|spec| spec.containers.iter().chain(spec.init_containers.iter().flatten()))
                .find(|container| container.name == name)
                .ok_or_else(|| ConfigError::UnknownContainer(name.to_owned()))?,
        };
        let (side, resource) = selector.resource.split_once('.').ok_or_else(unsupported)?;
        let resources = container.resources.as_ref();
        let quantities = match side {
            "limits" => resources.and_then(|resources| resources.limits.as_ref()),
            "requests" => resources.and_then(|resources| resources.requests.as_ref()),
            _ => return Err(unsupported()),
        };
        let quantity = quantities.and_then(|quantities| quantities.get(resource));
        let (amount, divisor) = match resource {
            "cpu" => {
                let default = if side == "limits" { self.node.cpu_milli } else { 0 };
                let divisor =
                    selector.divisor.as_ref().map_or(Ok(1000), |divisor| divisor_or(quantity::milli(divisor), 1000))?;
                (quantity.map_or(Ok(default), quantity::milli)?, divisor)
            }
            "memory" | "ephemeral-storage" => {
                let limited_by_node = side == "limits" && resource == "memory";
                let default = if limited_by_node { self.node.memory_bytes } else { 0 };
                let divisor =
                    selector.divisor.as_ref().map_or(Ok(1), |divisor| divisor_or(quantity::units(divisor), 1))?;
                (quantity.map_or(Ok(default), quantity::units)?, divisor)
            }
            _ => return Err(unsupported()),
        };
        let rounded_up = amount / divisor + i64::from(amount % divisor != 0);
        Ok(rounded_up.to_string())
    }
}

/// A divisor of 0, which the API writes for an absent one, is the default.
fn divisor_or(divisor: Result<i64, quantity::InvalidQuantity>, default: i64) -> Result<i64, ConfigError> {
    divisor.map(|divisor| if divisor > 0 { divisor } else { default }).map_err(ConfigError::from)
}

/// `metadata.labels['key']` as its path and key.
fn subscript(path: &str) -> Option<(&str, &str)> {
    let (head, rest) = path.split_once("['")?;
    Some((head, rest.strip_suffix("']")?))
}

/// One `key="value"` a line, the value quoted with escapes.
fn lines<'a>(entries: impl Iterator<Item = (&'a String, &'a String)>) -> String {
    let mut text = String::new();
    for (key, value) in entries {
        let separator = if text.is_empty() { "" } else { "\n" };
        // Writing to a String cannot fail.
        let _ = write!(text, "{separator}{key}={}", quoted(value));
    }
    text
}

fn quoted(value: &str) -> String {
    let mut text = String::with_capacity(value.len() + 2);
    text.push('"');
    for character in value.chars() {
        match character {
            '"' => text.push_str("\\\""),
            '\\' => text.push_str("\\\\"),
            '\n' => text.push_str("\\n"),
            '\r' => text.push_str("\\r"),
            '\t' => text.push_str("\\t"),
            other => text.push(other),
        }
    }
    text.push('"');
    text
}
