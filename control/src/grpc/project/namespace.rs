//! Namespaces, for the selectors of policies.

use k8s_openapi::api::core::v1;
use skep_proto::dataplane::v1::Namespace;

use super::labels;

pub(super) fn project(namespace: &v1::Namespace) -> Namespace {
    Namespace { name: namespace.metadata.name.clone().unwrap_or_default(), labels: labels(&namespace.metadata) }
}
