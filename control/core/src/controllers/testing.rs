//! A small API server in memory for tests: the real preparation of writes, a log of changes, and nothing else.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::{Change, Key, Kind, Object, Write};
use crate::api::delete::Preconditions;
use crate::api::{
    DeleteOptions, Deletion, Fresh, PatchType, Resource, Status, Subresource, Update, meta, patch, prepare_create,
    prepare_delete, prepare_update, registry, subresource,
};

/// Objects, the revision of the last write, and every change.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) now: Timestamp,
    pub(crate) revision: u64,
    pub(crate) log: Vec<Change>,
    objects: BTreeMap<Key, Value>,
    uids: u64,
}

pub(crate) fn resource(kind: Kind) -> &'static Resource {
    registry().find_kind(&kind.api_version(), kind.name()).expect("every kind is served")
}

impl World {
    pub(crate) fn new() -> Self {
        let mut world = Self {
            now: "2026-01-01T00:00:00Z".parse().expect("a time"),
            revision: 1,
            log: Vec::new(),
            objects: BTreeMap::new(),
            uids: 0,
        };
        for name in ["default", "kube-node-lease"] {
            world.must(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}));
        }
        world
    }

    pub(crate) fn pass(&mut self, wait: SignedDuration) {
        self.now = self.now.saturating_add(wait).expect("time goes on");
    }

    /// Creates an object that must be accepted.
    pub(crate) fn must(&mut self, value: Value) -> Key {
        let shown = value.to_string();
        self.create(value).unwrap_or_else(|status| panic!("{}: {shown}", status.message)).0
    }

    pub(crate) fn create(&mut self, value: Value) -> Result<(Key, u64), Status> {
        let kind = Kind::of_reference(
            value["apiVersion"].as_str().unwrap_or_default(),
            value["kind"].as_str().unwrap_or_default(),
        )
        .expect("a known kind");
        let resource = resource(kind);
        let namespace = meta::namespace(&value).to_owned();
        if resource.namespaced {
            let home = self.objects.get(&Key::cluster(Kind::Namespace, namespace.clone()));
            if home.is_none_or(meta::is_deleting) {
                return Err(Status::forbidden(resource, meta::name(&value), "namespace is not there or leaving"));
            }
        }
        self.uids += 1;
        let uid = format!("00000000-0000-4000-8000-{:012}", self.uids);
        let fresh = Fresh {
            now: self.now,
            uid: &uid,
            suffix: "zzzzz",
            namespace: resource.namespaced.then_some(namespace.as_str()),
        };
        let object = prepare_create(resource, value, &fresh)?;
        let key = Key::new(kind, namespace, meta::name(&object));
        if self.objects.contains_key(&key) {
            return Err(Status::already_exists(resource, &key.name));
        }
        let revision = self.put(&key, object);
        Ok((key, revision))
    }

    fn put(&mut self, key: &Key, mut object: Value) -> u64 {
        self.revision += 1;
        meta::set_resource_version(&mut object, self.revision);
        let typed = decode(key.kind, &object);
        self.objects.insert(key.clone(), object);
        self.log.push(Change::Upsert { object: typed, revision: self.revision });
        self.revision
    }

    pub(crate) fn remove(&mut self, key: &Key) -> u64 {
        if self.objects.remove(key).is_some() {
            self.revision += 1;
            self.log.push(Change::Delete { key: key.clone(), revision: self.revision });
        }
        self.revision
    }

    pub(crate) fn value(&self, key: &Key) -> Option<&Value> {
        self.objects.get(key)
    }

    pub(crate) fn values(&self, kind: Kind) -> impl Iterator<Item = (&Key, &Value)> {
        self.objects.iter().filter(move |(key, _)| key.kind == kind)
    }

    pub(crate) fn keys(&self, kind: Kind) -> Vec<Key> {
        self.values(kind).map(|(key, _)| key.clone()).collect()
    }

    /// Everything, as a listing gives it.
    pub(crate) fn listing(&self) -> Change {
        let objects = self.objects.iter().map(|(key, value)| decode(key.kind, value)).collect();
        Change::Replace { objects, revision: self.revision }
    }

    /// Changes an object by merging a patch in.
    pub(crate) fn merge(&mut self, key: &Key, sub: Option<Subresource>, body: &Value) -> Result<u64, Status> {
        let resource = resource(key.kind);
        let old = self.objects.get(key).ok_or_else(|| Status::not_found(resource, &key.name))?.clone();
        let new = patch(resource, PatchType::Merge, &old, body.to_string().as_bytes())?;
        self.replace(key, sub, new, &old)
    }

    fn replace(&mut self, key: &Key, sub: Option<Subresource>, new: Value, old: &Value) -> Result<u64, Status> {
        match prepare_update(resource(key.kind), sub, new, old, self.now)? {
            Update::Unchanged => Ok(self.revision),
            Update::Changed(value) => Ok(self.put(key, value)),
            Update::Remove(_) => Ok(self.remove(key)),
        }
    }

    fn update(&mut self, sub: Option<Subresource>, object: &Object) -> Result<u64, Status> {
        let key = object.key();
        let old = self.objects.get(&key).ok_or_else(|| Status::not_found(resource(key.kind), &key.name))?.clone();
        self.replace(&key, sub, object.to_json().expect("serializes"), &old)
    }

    pub(crate) fn delete(&mut self, key: &Key, options: &DeleteOptions) -> Result<u64, Status> {
        let resource = resource(key.kind);
        let object = self.objects.get(key).ok_or_else(|| Status::not_found(resource, &key.name))?;
        match prepare_delete(resource, object, options, self.now)? {
            Deletion::Unchanged => Ok(self.revision),
            Deletion::Update(value) => Ok(self.put(key, value)),
            Deletion::Remove(_) => Ok(self.remove(key)),
        }
    }

    /// Executes a controller's write.
    pub(crate) fn write(&mut self, write: &Write) -> Result<u64, Status> {
        match write {
            Write::Nothing => Ok(0),
            Write::Create(object) => self.create(object.to_json().expect("serializes")).map(|(_, revision)| revision),
            Write::Update(object) => self.update(None, object),
            Write::UpdateStatus(object) => self.update(Some(Subresource::Status), object),
            Write::Finalize(object) => self.update(Some(Subresource::Finalize), object),
            Write::Patch { target, subresource, patch } => {
                self.merge(target, subresource.map(|_| Subresource::Status), patch)
            }
            Write::Delete { target, uid, grace_seconds, propagation } => {
                let options = DeleteOptions {
                    grace_period_seconds: *grace_seconds,
                    preconditions: Some(Preconditions { uid: Some(uid.clone()), resource_version: None }),
                    propagation_policy: Some(propagation.name().to_owned()),
                    ..DeleteOptions::default()
                };
                match self.delete(target, &options) {
                    Err(status) if status.is_not_found() => Ok(self.revision),
                    other => other,
                }
            }
            Write::Bind { pod, uid, node } => {
                let binding = json!({"metadata": {"uid": uid}, "target": {"kind": "Node", "name": node}});
                let object = self.objects.get(pod).ok_or_else(|| Status::not_found(resource(Kind::Pod), &pod.name))?;
                let bound = subresource::bind(object, &binding, self.now)?;
                Ok(self.put(pod, bound))
            }
        }
    }
}

fn decode(kind: Kind, value: &Value) -> Object {
    Object::decode(kind, value.to_string().as_bytes()).unwrap_or_else(|error| panic!("{kind}: {error}: {value}"))
}

/// A Deployment of the demo program.
pub(crate) fn deployment(name: &str, replicas: i32) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": name, "namespace": "default", "labels": {"app": name}},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [{
                    "name": "main", "image": "demo:1", "ports": [{"name": "http", "containerPort": 8080}],
                }]},
            },
        },
    })
}

/// A Service over the pods of [`deployment`].
pub(crate) fn service(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "selector": {"app": name}, "clusterIP": "10.96.0.9", "clusterIPs": ["10.96.0.9"], "ipFamilies": ["IPv4"],
            "ports": [{"name": "http", "port": 80, "targetPort": "http"}],
        },
    })
}

/// A ready node with room for 110 pods.
pub(crate) fn node(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
    })
}

/// Status of a ready node.
pub(crate) fn node_status(now: Timestamp) -> Value {
    let beat = meta::time_text(now);
    json!({"status": {
        "allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"},
        "capacity": {"cpu": "4", "memory": "8Gi", "pods": "110"},
        "conditions": [{
            "type": "Ready", "status": "True", "reason": "KubeletReady", "message": "ok",
            "lastHeartbeatTime": beat, "lastTransitionTime": beat,
        }],
    }})
}
