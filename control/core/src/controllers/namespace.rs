//! Namespaces: what every namespace holds, and the emptying of one that is being deleted.

use k8s_openapi::api::core::v1::{ConfigMap, Namespace, ServiceAccount};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::Settings;
use super::action::{Outcome, Write};
use super::engine::{Controller, Turn};
use super::index::{Index, Touched};
use super::kind::{Key, Kind};
use super::object::{Object, Typed};

/// Name of the service account that pods run under unless they say otherwise.
const DEFAULT_ACCOUNT: &str = "default";
/// Name of the ConfigMap that holds the cluster's CA certificate.
const ROOT_CA: &str = "kube-root-ca.crt";
/// Entry of `spec.finalizers` that keeps a namespace until it is empty.
const FINALIZER: &str = "kubernetes";

/// The namespace controller.
#[derive(Debug)]
pub(super) struct Namespaces {
    root_ca: String,
}

impl Namespaces {
    pub(super) fn new(settings: &Settings) -> Self {
        Self { root_ca: settings.root_ca.clone() }
    }

    fn furnish(&self, name: &str, index: &Index, outcome: &mut Outcome) {
        let metadata = |object: &str| ObjectMeta {
            name: Some(object.to_owned()),
            namespace: Some(name.to_owned()),
            ..ObjectMeta::default()
        };
        if index.object(&Key::new(Kind::ServiceAccount, name, DEFAULT_ACCOUNT)).is_none() {
            let account = ServiceAccount { metadata: metadata(DEFAULT_ACCOUNT), ..ServiceAccount::default() };
            outcome.act(Write::Create(account.into_object()));
        }
        if index.object(&Key::new(Kind::ConfigMap, name, ROOT_CA)).is_none() {
            let data = [("ca.crt".to_owned(), self.root_ca.clone())].into();
            let certificates = ConfigMap { metadata: metadata(ROOT_CA), data: Some(data), ..ConfigMap::default() };
            outcome.act(Write::Create(certificates.into_object()));
        }
    }
}

impl Controller for Namespaces {
    fn name(&self) -> &'static str {
        "namespace-controller"
    }

    fn affected(&self, touched: &Touched, index: &Index) -> Vec<Key> {
        if touched.key.kind == Kind::Namespace {
            return vec![touched.key.clone()];
        }
        let furniture = match touched.key.kind {
            Kind::ServiceAccount => touched.key.name == DEFAULT_ACCOUNT,
            Kind::ConfigMap => touched.key.name == ROOT_CA,
            _ => false,
        };
        let namespace = index.get::<Namespace>("", &touched.key.namespace);
        let leaving = namespace.is_some_and(|namespace| namespace.metadata.deletion_timestamp.is_some());
        if furniture || leaving {
            return vec![Key::cluster(Kind::Namespace, touched.key.namespace.clone())];
        }
        Vec::new()
    }

    fn reconcile(&self, key: &Key, index: &Index, _turn: Turn) -> Outcome {
        let mut outcome = Outcome::idle();
        let Some(namespace) = index.get::<Namespace>("", &key.name) else { return outcome };
        if namespace.metadata.deletion_timestamp.is_none() {
            self.furnish(&key.name, index, &mut outcome);
        } else {
            empty(namespace, &key.name, index, &mut outcome);
        }
        outcome
    }
}

/// Deletes what is left in a namespace, and lets it go once nothing is. Nothing new can come: creation in a namespace that is
/// being deleted is refused, and the index shows everything that was written before the deletion.
fn empty(namespace: &Namespace, name: &str, index: &Index, outcome: &mut Outcome) {
    let mut left = false;
    for kind in Kind::ALL.into_iter().filter(|kind| kind.namespaced()) {
        for (key, object) in index.namespaced(kind, name) {
            left = true;
            if object.metadata().deletion_timestamp.is_none() {
                outcome.act(Write::delete(key.clone(), object.uid()));
            }
        }
    }
    let finalizers = namespace.spec.as_ref().and_then(|spec| spec.finalizers.as_ref());
    if !left && finalizers.is_some_and(|finalizers| finalizers.iter().any(|finalizer| finalizer == FINALIZER)) {
        let mut draft = namespace.clone();
        if let Some(finalizers) = draft.spec.as_mut().and_then(|spec| spec.finalizers.as_mut()) {
            finalizers.retain(|finalizer| finalizer != FINALIZER);
        }
        outcome.act(Write::Finalize(Object::Namespace(draft.into())));
    }
}
