//! ConfigMaps and Secrets that a pod refers to. Pure.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{Container, EnvFromSource, EnvVar, Pod, Volume};

/// Kinds of objects that a node is sent, in the order in which it must know them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(in super::super) enum ObjectKind {
    ConfigMap,
    Secret,
    Pod,
}

impl ObjectKind {
    /// As the API spells it.
    pub(in super::super) fn as_str(self) -> &'static str {
        match self {
            Self::ConfigMap => "ConfigMap",
            Self::Secret => "Secret",
            Self::Pod => "Pod",
        }
    }
}

/// An object by its name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(in super::super) struct ObjectName {
    pub(in super::super) kind: ObjectKind,
    pub(in super::super) namespace: String,
    pub(in super::super) name: String,
}

/// What collects the names.
struct References<'a> {
    namespace: &'a str,
    found: BTreeSet<ObjectName>,
}

/// Every ConfigMap and Secret that a pod's volumes, environment and image pulls name, optional ones too.
pub(super) fn references(pod: &Pod) -> BTreeSet<ObjectName> {
    let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
    let mut references = References { namespace, found: BTreeSet::new() };
    let Some(spec) = &pod.spec else { return references.found };
    for volume in spec.volumes.iter().flatten() {
        references.volume(volume);
    }
    for container in spec.init_containers.iter().flatten().chain(&spec.containers) {
        references.container(container);
    }
    for container in spec.ephemeral_containers.iter().flatten() {
        references.environment(container.env.as_deref(), container.env_from.as_deref());
    }
    for secret in spec.image_pull_secrets.iter().flatten() {
        references.add(ObjectKind::Secret, &secret.name);
    }
    references.found
}

impl References<'_> {
    fn add(&mut self, kind: ObjectKind, name: &str) {
        if !name.is_empty() {
            self.found.insert(ObjectName { kind, namespace: self.namespace.to_owned(), name: name.to_owned() });
        }
    }

    fn volume(&mut self, volume: &Volume) {
        if let Some(source) = &volume.config_map {
            self.add(ObjectKind::ConfigMap, &source.name);
        }
        if let Some(name) = volume.secret.as_ref().and_then(|source| source.secret_name.as_deref()) {
            self.add(ObjectKind::Secret, name);
        }
        for source in volume.projected.iter().flat_map(|projected| projected.sources.iter().flatten()) {
            if let Some(source) = &source.config_map {
                self.add(ObjectKind::ConfigMap, &source.name);
            }
            if let Some(source) = &source.secret {
                self.add(ObjectKind::Secret, &source.name);
            }
        }
    }

    fn container(&mut self, container: &Container) {
        self.environment(container.env.as_deref(), container.env_from.as_deref());
    }

    fn environment(&mut self, variables: Option<&[EnvVar]>, sources: Option<&[EnvFromSource]>) {
        for from in variables.into_iter().flatten().filter_map(|variable| variable.value_from.as_ref()) {
            if let Some(key) = &from.config_map_key_ref {
                self.add(ObjectKind::ConfigMap, &key.name);
            }
            if let Some(key) = &from.secret_key_ref {
                self.add(ObjectKind::Secret, &key.name);
            }
        }
        for source in sources.into_iter().flatten() {
            if let Some(source) = &source.config_map_ref {
                self.add(ObjectKind::ConfigMap, &source.name);
            }
            if let Some(source) = &source.secret_ref {
                self.add(ObjectKind::Secret, &source.name);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_place_that_names_an_object_is_found() {
        let pod = json!({
            "metadata": {"namespace": "shop"},
            "spec": {
                "imagePullSecrets": [{"name": "pull"}],
                "volumes": [
                    {"name": "a", "configMap": {"name": "cm-volume"}},
                    {"name": "b", "secret": {"secretName": "secret-volume"}},
                    {"name": "c", "projected": {"sources": [
                        {"configMap": {"name": "cm-projected"}}, {"secret": {"name": "secret-projected"}},
                    ]}},
                    {"name": "d", "emptyDir": {}},
                ],
                "initContainers": [{"name": "i", "envFrom": [
                    {"configMapRef": {"name": "cm-from"}}, {"secretRef": {"name": "secret-from"}},
                ]}],
                "containers": [{"name": "c", "env": [
                    {"name": "A", "value": "1"},
                    {"name": "B", "valueFrom": {"configMapKeyRef": {"name": "cm-key", "key": "k"}}},
                    {"name": "C", "valueFrom": {"secretKeyRef": {"name": "secret-key", "key": "k"}}},
                    {"name": "D", "valueFrom": {"secretKeyRef": {"name": "secret-key", "key": "other"}}},
                ]}],
            },
        });
        let found = references(&serde_json::from_value(pod).unwrap());
        let names: Vec<_> = found.iter().map(|object| (object.kind.as_str(), object.name.as_str())).collect();
        let expected = [
            ("ConfigMap", "cm-from"),
            ("ConfigMap", "cm-key"),
            ("ConfigMap", "cm-projected"),
            ("ConfigMap", "cm-volume"),
            ("Secret", "pull"),
            ("Secret", "secret-from"),
            ("Secret", "secret-key"),
            ("Secret", "secret-projected"),
            ("Secret", "secret-volume"),
        ];
        assert_eq!(names, expected);
        assert!(found.iter().all(|object| object.namespace == "shop"));
    }
}
