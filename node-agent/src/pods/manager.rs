//! Which pods there are: the upstream's stream, turned into workers and their inputs.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use k8s_openapi::api::core::v1::{ConfigMap, Pod, PodStatus, Secret};
use skep_agent_core::pods::{Input, Objects, References};
use skep_proto::node::v1::ObjectRef;
use tokio::sync::mpsc;

use super::context::Context;
use super::desired::Desired;
use super::orphans;
use super::worker::{LastStatus, Message, Worker};

/// Namespace and name.
type Key = (String, String);

/// The pods, shared by the handle and the tasks.
pub(super) struct Shared {
    pub(super) context: Arc<Context>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// By uid: pods that are desired, and those that are still being removed.
    pods: HashMap<String, Entry>,
    config_maps: HashMap<Key, Arc<ConfigMap>>,
    secrets: HashMap<Key, Arc<Secret>>,
    /// What a snapshot under way has named.
    snapshot: Option<Named>,
}

/// One pod.
struct Entry {
    pod: Arc<Pod>,
    references: References,
    inbox: mpsc::UnboundedSender<Message>,
    status: LastStatus,
    /// The upstream does not know it any more.
    gone: bool,
}

/// What a snapshot has named.
#[derive(Default)]
struct Named {
    pods: HashSet<String>,
    config_maps: HashSet<Key>,
    secrets: HashSet<Key>,
}

impl Shared {
    pub(super) fn new(context: Arc<Context>) -> Self {
        Self { context, state: Mutex::default() }
    }

    pub(super) fn handle(self: &Arc<Self>, desired: Desired) {
        match desired {
            Desired::SnapshotBegin => self.state().snapshot = Some(Named::default()),
            Desired::Synced => self.synced(),
            Desired::Pod(pod) => self.pod_changed(Arc::new(*pod)),
            Desired::ConfigMap(map) => self.state().config_map_changed(Arc::new(*map)),
            Desired::Secret(secret) => self.state().secret_changed(Arc::new(*secret)),
            Desired::Deleted(object) => self.state().deleted(&object),
        }
    }

    pub(super) fn gone(&self, uid: &str) {
        self.state().gone(uid);
    }

    pub(super) fn pod(&self, namespace: &str, name: &str) -> Option<Arc<Pod>> {
        let state = self.state();
        let of_name = |entry: &&Entry| {
            let metadata = &entry.pod.metadata;
            metadata.namespace.as_deref() == Some(namespace) && metadata.name.as_deref() == Some(name)
        };
        // An older pod of the name may still be on its way out.
        let found = state
            .pods
            .values()
            .filter(of_name)
            .max_by_key(|entry| (!entry.gone, entry.pod.metadata.creation_timestamp.clone()));
        found.map(|entry| Arc::clone(&entry.pod))
    }

    pub(super) fn pods(&self) -> Vec<Arc<Pod>> {
        self.state().pods.values().filter(|entry| !entry.gone).map(|entry| Arc::clone(&entry.pod)).collect()
    }

    /// The status that was reported last of the pod with this uid.
    pub(super) fn status(&self, uid: &str) -> Option<Arc<PodStatus>> {
        let state = self.state();
        let status = state.pods.get(uid)?.status.read().unwrap_or_else(PoisonError::into_inner);
        status.clone()
    }

    /// Where each pod's worker listens, by uid.
    pub(super) fn inboxes(&self) -> Vec<(String, mpsc::UnboundedSender<Message>)> {
        self.state().pods.iter().map(|(uid, entry)| (uid.clone(), entry.inbox.clone())).collect()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn pod_changed(self: &Arc<Self>, pod: Arc<Pod>) {
        let uid = pod.metadata.uid.clone().unwrap_or_default();
        if !is_path_component(&uid)
            || [&pod.metadata.namespace, &pod.metadata.name]
                .into_iter()
                .any(|part| part.as_deref().is_none_or(|part| !is_path_component(part)))
        {
            tracing::error!(uid, name = ?pod.metadata.name, "a pod without usable name, namespace and uid is not run");
            return;
        }
        let references = pod.spec.as_ref().map(References::of).unwrap_or_default();
        let mut state = self.state();
        if let Some(snapshot) = state.snapshot.as_mut() {
            snapshot.pods.insert(uid.clone());
        }
        let known = state.pods.get(&uid).is_some_and(|entry| !entry.inbox.is_closed());
        if known {
            state.update(&uid, pod, references);
            return;
        }
        let objects = state.objects(pod.metadata.namespace.as_deref().unwrap_or_default(), &references);
        let (inbox, messages) = mpsc::unbounded_channel();
        let status = LastStatus::default();
        let (context, last_status) = (Arc::clone(&self.context), Arc::clone(&status));
        let worker = Worker::new(context, uid.clone(), Arc::clone(&pod), objects, messages, last_status);
        state.pods.insert(uid.clone(), Entry { pod, references, inbox, status, gone: false });
        drop(state);
        let shared = Arc::downgrade(self);
        tokio::spawn(async move {
            worker.run().await;
            if let Some(shared) = shared.upgrade() {
                shared.state().pods.remove(&uid);
            }
        });
    }

    fn synced(self: &Arc<Self>) {
        let mut state = self.state();
        if let Some(named) = state.snapshot.take() {
            let unnamed: Vec<String> = state.pods.keys().filter(|uid| !named.pods.contains(*uid)).cloned().collect();
            for uid in unnamed {
                state.gone(&uid);
            }
            state.keep_named(&named);
        }
        let known: HashSet<String> = state.pods.keys().cloned().collect();
        drop(state);
        tokio::spawn(orphans::remove(Arc::clone(&self.context), known));
    }
}

impl State {
    fn update(&mut self, uid: &str, pod: Arc<Pod>, references: References) {
        let namespace = pod.metadata.namespace.clone().unwrap_or_default();
        let objects = self.objects(&namespace, &references);
        let Some(entry) = self.pods.get_mut(uid) else { return };
        if entry.references != references {
            for (name, map) in objects.config_maps {
                entry.tell(Input::ConfigMap(name, Some(map)));
            }
            for (name, secret) in objects.secrets {
                entry.tell(Input::Secret(name, Some(secret)));
            }
        }
        entry.pod = Arc::clone(&pod);
        entry.references = references;
        entry.tell(Input::Pod(pod));
    }

    fn objects(&self, namespace: &str, references: &References) -> Objects {
        let key = |name: &String| (namespace.to_owned(), name.clone());
        let config_maps = references.config_maps.iter();
        let secrets = references.secrets.iter();
        Objects {
            config_maps: config_maps
                .filter_map(|name| Some((name.clone(), Arc::clone(self.config_maps.get(&key(name))?))))
                .collect(),
            secrets: secrets
                .filter_map(|name| Some((name.clone(), Arc::clone(self.secrets.get(&key(name))?))))
                .collect(),
        }
    }

    fn config_map_changed(&mut self, map: Arc<ConfigMap>) {
        let key = key(map.metadata.namespace.as_ref(), map.metadata.name.as_ref());
        if let Some(snapshot) = self.snapshot.as_mut() {
            snapshot.config_maps.insert(key.clone());
        }
        self.tell_config_map(&key, Some(&map));
        self.config_maps.insert(key, map);
    }

    fn secret_changed(&mut self, secret: Arc<Secret>) {
        let key = key(secret.metadata.namespace.as_ref(), secret.metadata.name.as_ref());
        if let Some(snapshot) = self.snapshot.as_mut() {
            snapshot.secrets.insert(key.clone());
        }
        self.tell_secret(&key, Some(&secret));
        self.secrets.insert(key, secret);
    }

    fn tell_config_map(&self, key: &Key, map: Option<&Arc<ConfigMap>>) {
        for entry in self.of_namespace(&key.0).filter(|entry| entry.references.config_maps.contains(&key.1)) {
            entry.tell(Input::ConfigMap(key.1.clone(), map.cloned()));
        }
    }

    fn tell_secret(&self, key: &Key, secret: Option<&Arc<Secret>>) {
        for entry in self.of_namespace(&key.0).filter(|entry| entry.references.secrets.contains(&key.1)) {
            entry.tell(Input::Secret(key.1.clone(), secret.cloned()));
        }
    }

    fn of_namespace(&self, namespace: &str) -> impl Iterator<Item = &Entry> {
        self.pods.values().filter(move |entry| entry.pod.metadata.namespace.as_deref() == Some(namespace))
    }

    fn deleted(&mut self, object: &ObjectRef) {
        let key = (object.namespace.clone(), object.name.clone());
        match object.kind.as_str() {
            "Pod" if !object.uid.is_empty() => self.gone(&object.uid),
            "Pod" => {
                let of_name = |(_, entry): &(&String, &Entry)| {
                    self::key(entry.pod.metadata.namespace.as_ref(), entry.pod.metadata.name.as_ref()) == key
                };
                let uids: Vec<String> = self.pods.iter().filter(of_name).map(|(uid, _)| uid.clone()).collect();
                for uid in uids {
                    self.gone(&uid);
                }
            }
            "ConfigMap" => {
                self.config_maps.remove(&key);
                self.tell_config_map(&key, None);
            }
            "Secret" => {
                self.secrets.remove(&key);
                self.tell_secret(&key, None);
            }
            kind => tracing::warn!(kind, "the upstream deleted an object of an unknown kind"),
        }
    }

    fn gone(&mut self, uid: &str) {
        if let Some(entry) = self.pods.get_mut(uid) {
            entry.gone = true;
            entry.tell(Input::Gone);
        }
    }

    fn keep_named(&mut self, named: &Named) {
        let maps: Vec<Key> = self.config_maps.keys().filter(|key| !named.config_maps.contains(*key)).cloned().collect();
        for key in maps {
            self.config_maps.remove(&key);
            self.tell_config_map(&key, None);
        }
        let secrets: Vec<Key> = self.secrets.keys().filter(|key| !named.secrets.contains(*key)).cloned().collect();
        for key in secrets {
            self.secrets.remove(&key);
            self.tell_secret(&key, None);
        }
    }
}

impl Entry {
    fn tell(&self, input: Input) {
        if self.inbox.send(Message::Input(input)).is_err() {
            tracing::debug!(name = ?self.pod.metadata.name, "a pod that is finished hears nothing any more");
        }
    }
}

fn key(namespace: Option<&String>, name: Option<&String>) -> Key {
    (namespace.cloned().unwrap_or_default(), name.cloned().unwrap_or_default())
}

/// Names become directories.
fn is_path_component(text: &str) -> bool {
    !text.is_empty()
        && !text.starts_with('.')
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte))
}
