//! The same with types, for controllers.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Serialize;
use serde::de::DeserializeOwned;
use skep_control_core::api::{Resource, Status, Subresource, registry};

use super::{Api, Caller, ListOptions, WriteOptions};

/// An object type of `k8s_openapi`.
pub trait ApiObject:
    k8s_openapi::Resource + k8s_openapi::Metadata<Ty = ObjectMeta> + Serialize + DeserializeOwned + Send + Sync
{
}

impl<K> ApiObject for K where
    K: k8s_openapi::Resource + k8s_openapi::Metadata<Ty = ObjectMeta> + Serialize + DeserializeOwned + Send + Sync
{
}

fn resource<K: ApiObject>() -> Result<&'static Resource, Status> {
    registry().of::<K>().ok_or_else(Status::unknown_path)
}

fn place<K: ApiObject>(object: &K) -> (&str, &str) {
    let meta = object.metadata();
    (meta.namespace.as_deref().unwrap_or_default(), meta.name.as_deref().unwrap_or_default())
}

impl Api {
    /// One object. Errors: 404.
    pub async fn read<K: ApiObject>(&self, ns: &str, name: &str) -> Result<K, Status> {
        self.get(resource::<K>()?, ns, name).await?.decode()
    }

    /// All objects of a namespace, or (`""`) of all, and the revision that they are of.
    pub async fn read_all<K: ApiObject>(&self, ns: &str) -> Result<(u64, Vec<K>), Status> {
        let list = self.list(resource::<K>()?, ns, &ListOptions::default()).await?;
        let objects = list.items.iter().map(super::Object::decode).collect::<Result<_, _>>()?;
        Ok((list.revision, objects))
    }

    /// Creates an object in the namespace that its metadata names.
    pub async fn make<K: ApiObject>(&self, caller: &Caller, object: &K) -> Result<K, Status> {
        let value = serde_json::to_value(object).map_err(Status::internal)?;
        let (ns, _) = place(object);
        self.create(caller, resource::<K>()?, ns, value, &WriteOptions::default()).await?.decode()
    }

    /// Replaces an object. Errors: 409 when its resourceVersion is not the stored one's.
    pub async fn replace<K: ApiObject>(&self, caller: &Caller, object: &K) -> Result<K, Status> {
        self.replace_at(caller, None, object).await
    }

    /// Replaces an object's status. Errors: 409 when its resourceVersion is not the stored one's.
    pub async fn replace_status<K: ApiObject>(&self, caller: &Caller, object: &K) -> Result<K, Status> {
        self.replace_at(caller, Some(Subresource::Status), object).await
    }

    async fn replace_at<K: ApiObject>(
        &self,
        caller: &Caller,
        subresource: Option<Subresource>,
        object: &K,
    ) -> Result<K, Status> {
        let value = serde_json::to_value(object).map_err(Status::internal)?;
        let (ns, name) = place(object);
        let options = WriteOptions::default();
        self.update(caller, resource::<K>()?, subresource, ns, name, value, &options).await?.decode()
    }
}
