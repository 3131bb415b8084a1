//! Listing.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use skep_control_core::api::{FieldSelector, LabelSelector, Resource, Status};
use skep_store::{Error, Store};

use super::key::{self, ResourceRef};
use super::{Api, Object, failure, read};

/// Which state a list is of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum At {
    /// The newest.
    #[default]
    Now,
    /// Any that is not older than the revision (this is the newest, here).
    NotOlderThan(u64),
    /// That of the revision.
    Exactly(u64),
}

/// What to list.
#[derive(Clone, Debug, Default)]
pub struct ListOptions {
    /// Only objects with such labels.
    pub labels: LabelSelector,
    /// Only objects with such fields.
    pub fields: FieldSelector,
    /// At most so many; 0 is all.
    pub limit: usize,
    /// Where the list before this one ended.
    pub continue_token: Option<String>,
    /// Which state.
    pub at: At,
}

/// Objects of one revision, ordered by namespace and name.
#[derive(Clone, Debug)]
pub struct List {
    /// The revision.
    pub revision: u64,
    /// The objects.
    pub items: Vec<Object>,
    /// For the list of what the limit left out; `None` at the end.
    pub continue_token: Option<String>,
    /// How many the limit left out, when nothing was selected.
    pub remaining: Option<u64>,
}

#[derive(Serialize, Deserialize)]
struct Token {
    rv: u64,
    /// The last key that was given, without the resource's prefix.
    after: String,
}

/// With selectors, objects are looked at in portions of at least this size.
const PORTION: usize = 500;

impl Api {
    /// Objects of a resource in one namespace, or (`""`) in all.
    ///
    /// Errors: 400 for a bad continue token, 410 when its revision (or the asked one) is compacted away, 504 for a
    /// revision that has not been.
    pub async fn list(&self, resource: impl ResourceRef, ns: &str, options: &ListOptions) -> Result<List, Status> {
        let resource = resource.resolve()?;
        let everything = key::prefix(resource, "");
        let mut revision = match options.at {
            At::Now => None,
            At::NotOlderThan(least) => {
                let current = self.revision();
                if least > current {
                    return Err(Status::future_revision(least, current));
                }
                None
            }
            At::Exactly(revision) => Some(revision),
        };
        let prefix = key::prefix(resource, ns);
        let mut start = None;
        let continued = options.continue_token.is_some();
        if let Some(token) = &options.continue_token {
            let token = read_token(token)?;
            let after = format!("{everything}{}", token.after);
            if !after.starts_with(&prefix) {
                return Err(bad_token("it is of another list"));
            }
            start = Some(key::successor(after.as_bytes()));
            revision = Some(token.rv);
        }
        if !continued && let (Some(name), true) = (options.fields.name(), !resource.namespaced || !ns.is_empty()) {
            return self.list_one(resource, ns, name, revision, options).await;
        }
        let selective = options.is_selective();
        let mut items = Vec::new();
        loop {
            let portion = match options.limit {
                0 => 0,
                limit if selective => (limit - items.len()).max(PORTION),
                limit => limit - items.len(),
            };
            let range = key::prefix_range(&prefix, start.take());
            let result = self.inner.store.range(range, revision, portion).await.map_err(|error| match error {
                Error::Compacted { .. } if continued => Status::expired_continue(),
                other => failure::status(other),
            })?;
            let at = revision.unwrap_or(result.revision);
            revision = Some(at);
            let count = result.kvs.len();
            for (index, kv) in result.kvs.iter().enumerate() {
                let Some(object) = read::object(resource, kv) else { continue };
                if selective && !options.selects(resource, &object)? {
                    continue;
                }
                items.push(object);
                let left = count - index - 1 + result.remaining;
                if options.limit != 0 && items.len() == options.limit && left > 0 {
                    let continue_token = Some(write_token(at, &everything, &kv.key)?);
                    let remaining = (!selective).then_some(left as u64);
                    return Ok(List { revision: at, items, continue_token, remaining });
                }
            }
            match result.kvs.last() {
                Some(last) if result.remaining > 0 => start = Some(key::successor(&last.key)),
                _ => return Ok(List { revision: at, items, continue_token: None, remaining: None }),
            }
        }
    }

    /// A list that can hold one object only is a read.
    async fn list_one(
        &self,
        resource: &'static Resource,
        ns: &str,
        name: &str,
        revision: Option<u64>,
        options: &ListOptions,
    ) -> Result<List, Status> {
        let range = key::single(&key::object_key(resource, ns, name));
        let result = self.inner.store.range(range, revision, 1).await.map_err(failure::status)?;
        let mut items = Vec::new();
        if let Some(object) = result.kvs.first().and_then(|kv| read::object(resource, kv))
            && options.selects(resource, &object)?
        {
            items.push(object);
        }
        let revision = revision.unwrap_or(result.revision);
        Ok(List { revision, items, continue_token: None, remaining: None })
    }
}

impl ListOptions {
    /// Whether any selector is set.
    pub fn is_selective(&self) -> bool {
        !self.labels.is_empty() || !self.fields.is_empty()
    }

    /// Whether the selectors want the object. Errors: 500 when the store holds no object there.
    pub(crate) fn selects(&self, resource: &Resource, object: &Object) -> Result<bool, Status> {
        // Labels are asked first: reading them alone is cheap, and most selectors are of labels.
        if !self.labels.is_empty() && !self.labels.matches_labels(&object.labels()?) {
            return Ok(false);
        }
        if self.fields.is_empty() {
            return Ok(true);
        }
        Ok(self.fields.matches(resource, &object.value()?))
    }
}

fn bad_token(why: &str) -> Status {
    Status::bad_request(format!("continue key is not valid: {why}"))
}

fn read_token(text: &str) -> Result<Token, Status> {
    let bytes = URL_SAFE_NO_PAD.decode(text).map_err(|_| bad_token("it is not base64"))?;
    let token: Token = serde_json::from_slice(&bytes).map_err(|_| bad_token("it was not given by this server"))?;
    if token.rv == 0 {
        return Err(bad_token("it names no revision"));
    }
    Ok(token)
}

fn write_token(revision: u64, everything: &str, last: &Bytes) -> Result<String, Status> {
    let after = String::from_utf8_lossy(last.get(everything.len()..).unwrap_or_default()).into_owned();
    let json = serde_json::to_vec(&Token { rv: revision, after }).map_err(Status::internal)?;
    Ok(URL_SAFE_NO_PAD.encode(json))
}
