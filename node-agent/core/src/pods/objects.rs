//! The ConfigMaps and Secrets that a pod refers to.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::core::v1::{ConfigMap, PodSpec, Secret};

/// What is known of them, by name; all of the pod's own namespace.
#[derive(Clone, Debug, Default)]
pub struct Objects {
    /// ConfigMaps by name.
    pub config_maps: BTreeMap<String, Arc<ConfigMap>>,
    /// Secrets by name.
    pub secrets: BTreeMap<String, Arc<Secret>>,
}

impl Objects {
    /// The value of a key of a ConfigMap: text or binary.
    #[must_use]
    pub fn config_map_value(map: &ConfigMap, key: &str) -> Option<Vec<u8>> {
        let text = map.data.as_ref().and_then(|data| data.get(key)).map(|value| value.clone().into_bytes());
        text.or_else(|| map.binary_data.as_ref().and_then(|data| data.get(key)).map(|value| value.0.clone()))
    }

    /// All keys of a ConfigMap, text and binary.
    pub fn config_map_keys(map: &ConfigMap) -> impl Iterator<Item = &String> {
        map.data.iter().flat_map(BTreeMap::keys).chain(map.binary_data.iter().flat_map(BTreeMap::keys))
    }
}

/// Names of what a pod's containers and volumes refer to.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct References {
    /// ConfigMaps.
    pub config_maps: BTreeSet<String>,
    /// Secrets, those for pulling images too.
    pub secrets: BTreeSet<String>,
}

impl References {
    /// Those of a pod.
    #[must_use]
    pub fn of(spec: &PodSpec) -> Self {
        let mut references = Self::default();
        for container in spec.containers.iter().chain(spec.init_containers.iter().flatten()) {
            for source in container.env_from.iter().flatten() {
                references.config_maps.extend(source.config_map_ref.iter().map(|reference| reference.name.clone()));
                references.secrets.extend(source.secret_ref.iter().map(|reference| reference.name.clone()));
            }
            for source in container.env.iter().flatten().filter_map(|variable| variable.value_from.as_ref()) {
                references.config_maps.extend(source.config_map_key_ref.iter().map(|key| key.name.clone()));
                references.secrets.extend(source.secret_key_ref.iter().map(|key| key.name.clone()));
            }
        }
        for volume in spec.volumes.iter().flatten() {
            references.config_maps.extend(volume.config_map.iter().map(|source| source.name.clone()));
            references.secrets.extend(volume.secret.iter().filter_map(|source| source.secret_name.clone()));
            let projections = volume.projected.iter().flat_map(|projected| projected.sources.iter().flatten());
            for source in projections {
                references.config_maps.extend(source.config_map.iter().map(|projection| projection.name.clone()));
                references.secrets.extend(source.secret.iter().map(|projection| projection.name.clone()));
            }
        }
        references.secrets.extend(spec.image_pull_secrets.iter().flatten().map(|reference| reference.name.clone()));
        references
    }
}
