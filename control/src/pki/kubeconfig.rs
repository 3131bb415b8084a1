//! The administrator's kubeconfig.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::Identity;

/// A kubeconfig with everything inside; `endpoint` is HOST:PORT.
pub(super) fn text(endpoint: &str, ca: &str, admin: &Identity) -> String {
    let ca = STANDARD.encode(ca);
    let certificate = STANDARD.encode(&admin.certificate);
    let key = STANDARD.encode(&admin.key);
    format!(
        "apiVersion: v1
kind: Config
clusters:
- name: skep
  cluster:
    server: https://{endpoint}
    certificate-authority-data: {ca}
users:
- name: kubernetes-admin
  user:
    client-certificate-data: {certificate}
    client-key-data: {key}
contexts:
- name: kubernetes-admin@skep
  context:
    cluster: skep
    user: kubernetes-admin
current-context: kubernetes-admin@skep
"
    )
}
