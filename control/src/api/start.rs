//! What every cluster has from its first moment.

use serde_json::json;
use skep_control_core::api::Status;

use super::{Api, Caller, WriteOptions};

const NAMESPACES: [&str; 4] = ["default", "kube-system", "kube-public", "kube-node-lease"];

impl Api {
    pub(super) async fn make_first_objects(&self) -> Result<(), Status> {
        let caller = Caller::system("apiserver");
        for name in NAMESPACES {
            let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
            match self.create(&caller, "namespaces", "", namespace, &WriteOptions::default()).await {
                Err(status) if !status.is_already_exists() => return Err(status),
                _ => {}
            }
        }
        Ok(())
    }
}
