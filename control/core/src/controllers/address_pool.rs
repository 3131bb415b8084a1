//! `AddressPool`, the one kind here that Kubernetes does not have.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use serde::{Deserialize, Serialize};

/// Addresses that Services of type LoadBalancer are given (`skep.io/v1alpha1`).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AddressPool {
    /// `skep.io/v1alpha1`.
    pub api_version: String,
    /// `AddressPool`.
    pub kind: String,
    /// Name and the like; the pool has no namespace.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// What is wanted.
    #[serde(default)]
    pub spec: AddressPoolSpec,
    /// How much of it is used; absent until that was counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<AddressPoolStatus>,
}

/// Which addresses, and for whom.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AddressPoolSpec {
    /// CIDR ranges, and ranges of the form `FIRST-LAST`.
    #[serde(default)]
    pub addresses: Vec<String>,
    /// Whether Services get addresses without asking for this pool; absent is true.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auto_assign: Option<bool>,
    /// Namespaces whose Services may use the pool; all when empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub namespaces: Vec<String>,
    /// Labels of the Services that may use the pool; all when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_selector: Option<LabelSelector>,
}

/// How much of a pool is used.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AddressPoolStatus {
    /// IPv4 addresses.
    #[serde(default)]
    pub ipv4: AddressPoolCount,
    /// IPv6 addresses.
    #[serde(default)]
    pub ipv6: AddressPoolCount,
}

/// Addresses of one family.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AddressPoolCount {
    /// Those that Services have.
    #[serde(default)]
    pub assigned: i64,
    /// All, or `i64::MAX` when there are more.
    #[serde(default)]
    pub total: i64,
}
