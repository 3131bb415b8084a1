//! Reading one object.

use skep_control_core::api::{Resource, Status};
use skep_store::{KeyValue, Store};

use super::key::{self, ResourceRef};
use super::{Api, Object, failure};

impl Api {
    /// One object as it is now. Errors: 404.
    pub async fn get(&self, resource: impl ResourceRef, ns: &str, name: &str) -> Result<Object, Status> {
        let resource = resource.resolve()?;
        let (_, current) = self.stored(resource, ns, name).await?;
        current.ok_or_else(|| Status::not_found(resource, name))
    }

    /// One object, if it is there, and the store's revision.
    pub(super) async fn stored(
        &self,
        resource: &'static Resource,
        ns: &str,
        name: &str,
    ) -> Result<(u64, Option<Object>), Status> {
        let key = key::object_key(resource, ns, name);
        let (revision, current) = self.inner.store.get(&key).await.map_err(failure::status)?;
        Ok((revision, current.and_then(|kv| object(resource, &kv))))
    }
}

/// What the store holds, as the asked version shows it.
pub(super) fn object(resource: &'static Resource, kv: &KeyValue) -> Option<Object> {
    Object::from_stored(kv).map(|object| object.served_as(resource))
}
