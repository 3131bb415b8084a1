//! Creating and changing objects.

use bytes::Bytes;
use jiff::Timestamp;
use serde_json::Value;
use skep_control_core::api::status::Cause;
use skep_control_core::api::{
    Fresh, Resource, Status, Subresource, Update, meta, prepare_create, prepare_update, subresource,
};
use skep_store::{Compare, Op, Store, Txn, TxnOutcome};

use super::addresses::Claim;
use super::key::{self, ResourceRef};
use super::object::{self, Object};
use super::{Api, Caller, FieldValidation, failure, read};

/// How a write is done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WriteOptions {
    /// Everything but the writing.
    pub dry_run: bool,
    /// What is done about unknown fields in the result of a patch.
    pub field_validation: FieldValidation,
}

/// What becomes of an object.
pub(super) enum Step {
    /// Nothing.
    Keep,
    /// It is replaced.
    Put(Value),
    /// It goes; this is its last form.
    Remove(Value),
}

/// An object after a step.
pub(super) struct Changed {
    pub(super) object: Object,
    pub(super) removed: bool,
}

impl From<Update> for Step {
    fn from(update: Update) -> Self {
        match update {
            Update::Unchanged => Self::Keep,
            Update::Changed(value) => Self::Put(value),
            Update::Remove(value) => Self::Remove(value),
        }
    }
}

/// So many conflicts in a row are given up on; each means that another writer succeeded.
const ATTEMPTS: usize = 1000;
/// So many generated names are tried.
const GENERATED_NAMES: usize = 8;

impl Api {
    /// Creates an object in its served form.
    ///
    /// Errors: 409 when the name is taken, 404 when the namespace is not there, 403 when it is being deleted, 422.
    pub async fn create(
        &self,
        _caller: &Caller,
        resource: impl ResourceRef,
        ns: &str,
        mut object: Value,
        options: &WriteOptions,
    ) -> Result<Object, Status> {
        let resource = resource.resolve()?;
        let generated = meta::name(&object).is_empty() && object["metadata"]["generateName"].is_string();
        let mut attempt = 1;
        loop {
            let random = uuid::Uuid::new_v4();
            let fresh = Fresh {
                now: Timestamp::now(),
                uid: &uuid::Uuid::new_v4().to_string(),
                suffix: &suffix(random.as_bytes()),
                namespace: resource.namespaced.then_some(ns),
            };
            let given = if generated { object.clone() } else { std::mem::take(&mut object) };
            let prepared = prepare_create(resource, given, &fresh)?;
            match self.insert(resource, ns, prepared, options.dry_run).await {
                Err(status) if generated && status.is_already_exists() && attempt < GENERATED_NAMES => attempt += 1,
                other => return other,
            }
        }
    }

    async fn insert(&self, resource: &'static Resource, ns: &str, object: Value, dry: bool) -> Result<Object, Status> {
        let name = meta::name(&object).to_owned();
        let key = key::object_key(resource, ns, &name);
        let lease = if dry { 0 } else { self.lease_for(resource).await? };
        for _ in 0..ATTEMPTS {
            let mut txn = Txn { compares: vec![Compare::Absent(key.clone())], ops: Vec::new() };
            if resource.namespaced {
                txn.compares.push(self.living_namespace(resource, ns, &name).await?);
            }
            let mut object = object.clone();
            let claim = self.claim(resource, &mut object, None, &key)?;
            let turn = self.pool_turn(resource, &object, None).await?;
            let value = object::encode(resource, (resource.strategy.to_storage)(object))?;
            if dry {
                if self.stored(resource, ns, &name).await?.1.is_some() {
                    return Err(Status::already_exists(resource, &name));
                }
                return made(resource, key, value, 0);
            }
            txn.ops.push(Op::Put { key: key.clone(), value: value.clone(), lease });
            if let Some(claim) = &claim {
                claim.add_to(&mut txn);
            }
            if let Some(turn) = turn {
                turn.add_to(&mut txn);
            }
            match self.commit(txn, claim).await? {
                Ok(revision) => return made(resource, key, value, revision),
                Err(conflict) if conflict == key => return Err(Status::already_exists(resource, &name)),
                Err(_) => {}
            }
        }
        Err(contended(resource, &name))
    }

    /// Commits; or gives the key whose condition did not hold.
    async fn commit(&self, txn: Txn, claim: Option<Claim<'_>>) -> Result<Result<u64, Bytes>, Status> {
        let keys: Vec<Bytes> = txn
            .compares
            .iter()
            .map(|compare| match compare {
                Compare::Absent(key) | Compare::ModRevision(key, _) => key.clone(),
            })
            .collect();
        match self.inner.store.txn(txn).await.map_err(failure::status)? {
            TxnOutcome::Committed(revision) => {
                if let Some(claim) = claim {
                    claim.commit();
                }
                Ok(Ok(revision))
            }
            TxnOutcome::Conflict { index, .. } => {
                drop(claim);
                let key = keys.into_iter().nth(index).unwrap_or_default();
                self.inner.addresses.learn(&key);
                Ok(Err(key))
            }
        }
    }

    fn claim(
        &self,
        resource: &Resource,
        object: &mut Value,
        old: Option<&Value>,
        key: &[u8],
    ) -> Result<Option<Claim<'_>>, Status> {
        if resource.storage != "services" {
            return Ok(None);
        }
        self.inner.addresses.claim(object, old, &String::from_utf8_lossy(key)).map(Some)
    }

    /// The condition that the namespace stays as it is, which is there and is not being deleted.
    async fn living_namespace(&self, resource: &Resource, ns: &str, name: &str) -> Result<Compare, Status> {
        let namespaces = "namespaces".resolve()?;
        let (_, namespace) = self.stored(namespaces, "", ns).await?;
        let namespace = namespace.ok_or_else(|| Status::not_found(namespaces, ns))?;
        // The marker is looked for before anything is parsed: a namespace that is being deleted is the rare case.
        let json = namespace.json();
        if contains(&json, b"\"deletionTimestamp\"") && meta::is_deleting(&namespace.value()?) {
            let text = format!("unable to create new content in namespace {ns} because it is being terminated");
            let mut status = Status::forbidden(resource, name, &text);
            if let Some(details) = &mut status.details {
                details.causes.push(Cause {
                    reason: "NamespaceTerminating".into(),
                    message: format!("namespace {ns} is being terminated"),
                    field: "metadata.namespace".into(),
                });
            }
            return Err(status);
        }
        Ok(Compare::ModRevision(namespace.key().clone(), namespace.revision))
    }

    /// Replaces an object, or one subresource of it, by one in its served form.
    ///
    /// Errors: 404, 409 when `object` carries another resourceVersion than is stored, 422.
    #[allow(clippy::too_many_arguments, reason = "each is one part of the request's path, or its body")]
    pub async fn update(
        &self,
        caller: &Caller,
        resource: impl ResourceRef,
        subresource: Option<Subresource>,
        ns: &str,
        name: &str,
        object: Value,
        options: &WriteOptions,
    ) -> Result<Object, Status> {
        let resource = resource.resolve()?;
        let changed = self
            .transform(resource, ns, name, options.dry_run, |old| replace(resource, subresource, object.clone(), old))
            .await;
        match changed {
            Err(status) if status.is_not_found() && subresource.is_none() && resource.strategy.create_on_update => {
                // An object that carries a resourceVersion was read from here: it is gone, and not to be made again.
                if meta::resource_version(&object).is_empty() {
                    return self.create(caller, resource, ns, object, options).await;
                }
                Err(status)
            }
            other => Ok(other?.object),
        }
    }

    /// Reads an object, lets `change` change it, writes it, and begins again when somebody else was faster. `change`
    /// says whether there is anything to write.
    pub async fn modify(
        &self,
        _caller: &Caller,
        resource: impl ResourceRef,
        subresource: Option<Subresource>,
        ns: &str,
        name: &str,
        mut change: impl FnMut(&mut Value) -> Result<bool, Status> + Send,
    ) -> Result<Object, Status> {
        let resource = resource.resolve()?;
        let changed = self.transform(resource, ns, name, false, |old| {
            let mut new = old.clone();
            if change(&mut new)? { replace(resource, subresource, new, old) } else { Ok(Step::Keep) }
        });
        Ok(changed.await?.object)
    }

    /// Binds a pod to the node that a `v1` `Binding` names. Errors: 404, 409 when it is bound, 422.
    pub async fn bind(&self, _caller: &Caller, ns: &str, pod: &str, binding: &Value) -> Result<Object, Status> {
        let pods = "pods".resolve()?;
        let step = |old: &Value| subresource::bind(old, binding, Timestamp::now()).map(Step::Put);
        let changed = self.transform(pods, ns, pod, false, step).await?;
        Ok(changed.object)
    }

    /// Reads, decides, writes; again when somebody else wrote in between.
    pub(super) async fn transform(
        &self,
        resource: &'static Resource,
        ns: &str,
        name: &str,
        dry_run: bool,
        mut step: impl FnMut(&Value) -> Result<Step, Status> + Send,
    ) -> Result<Changed, Status> {
        let key = key::object_key(resource, ns, name);
        for _ in 0..ATTEMPTS {
            let (_, current) = self.inner.store.get(&key).await.map_err(failure::status)?;
            let stored = current.ok_or_else(|| Status::not_found(resource, name))?;
            let current = read::object(resource, &stored).ok_or_else(|| Status::not_found(resource, name))?;
            let old = current.value()?;
            let (mut new, removed) = match step(&old)? {
                Step::Keep => return Ok(Changed { object: current, removed: false }),
                Step::Put(new) => (new, false),
                Step::Remove(last) => (last, true),
            };
            let claim = if removed {
                (resource.storage == "services").then(|| self.inner.addresses.release(&old))
            } else {
                self.claim(resource, &mut new, Some(&old), &key)?
            };
            let turn = if removed { None } else { self.pool_turn(resource, &new, Some(&old)).await? };
            let value = object::encode(resource, (resource.strategy.to_storage)(new))?;
            if dry_run {
                return Ok(Changed { object: made(resource, key, value, current.revision)?, removed });
            }
            if !removed && value == stored.value {
                return Ok(Changed { object: current, removed });
            }
            let compare = Compare::ModRevision(key.clone(), current.revision);
            let op = if removed {
                Op::Delete { key: key.clone() }
            } else {
                let lease = self.lease_for(resource).await?;
                Op::Put { key: key.clone(), value: value.clone(), lease }
            };
            let mut txn = Txn { compares: vec![compare], ops: vec![op] };
            if let Some(claim) = &claim {
                claim.add_to(&mut txn);
            }
            if let Some(turn) = turn {
                turn.add_to(&mut txn);
            }
            if let Ok(revision) = self.commit(txn, claim).await? {
                return Ok(Changed { object: made(resource, key, value, revision)?, removed });
            }
        }
        Err(contended(resource, name))
    }
}

/// What a replacement of an object or of one of its subresources comes to.
pub(super) fn replace(
    resource: &Resource,
    subresource: Option<Subresource>,
    new: Value,
    old: &Value,
) -> Result<Step, Status> {
    let now = Timestamp::now();
    match subresource {
        Some(Subresource::Scale) => {
            let new = subresource::apply_scale(resource, old, &new)?;
            prepare_update(resource, None, new, old, now).map(Step::from)
        }
        other => prepare_update(resource, other, new, old, now).map(Step::from),
    }
}

fn made(resource: &'static Resource, key: Bytes, value: Bytes, revision: u64) -> Result<Object, Status> {
    let object = Object::from_parts(key, value, revision).map(|object| object.served_as(resource));
    object.ok_or_else(|| Status::internal("an object was stored under a key that is no object's"))
}

fn contended(resource: &Resource, name: &str) -> Status {
    Status::conflict(resource, name, "too many others are writing it; please try again")
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|window| window == part)
}

/// Five characters for a generated name.
fn suffix(random: &[u8; 16]) -> String {
    let alphabet = meta::SUFFIX_ALPHABET;
    random.iter().take(5).map(|byte| char::from(alphabet[usize::from(*byte) % alphabet.len()])).collect()
}
