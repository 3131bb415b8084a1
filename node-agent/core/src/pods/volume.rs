//! Volumes of a pod: what the node must have ready on disk before its containers start.

use std::collections::BTreeMap;
use std::path::{Component, Path};

use k8s_openapi::api::core::v1::{DownwardAPIVolumeFile, KeyToPath, Pod, PodSpec, Volume, VolumeProjection};

use super::fields::Fields;
use super::invalid::ConfigError;
use super::objects::Objects;
use super::quantity;

/// The volumes of a pod by name.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct VolumePlan {
    /// What each one holds.
    pub volumes: BTreeMap<String, VolumeSource>,
    /// `fsGroup`: the group that owns what the node makes.
    pub group: Option<i64>,
}

/// What a volume holds.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum VolumeSource {
    /// A directory that lives as long as the pod.
    Empty {
        /// In memory instead of on disk.
        memory: bool,
        /// Bytes; only held to for memory.
        size_limit: Option<u64>,
    },
    /// A path of the node.
    Host {
        /// Absolute.
        path: String,
        /// What has to be there.
        kind: HostPathKind,
    },
    /// Files that the agent writes and keeps up to date.
    Files {
        /// They are secret: never on disk.
        memory: bool,
        /// By relative path.
        files: BTreeMap<String, FileContent>,
    },
}

/// One file of a volume.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct FileContent {
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// Permission bits.
    pub mode: u32,
}

/// What a `hostPath` has to be.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum HostPathKind {
    /// Anything; it is not checked.
    Unchecked,
    /// A directory, made when missing.
    DirectoryOrCreate,
    /// A directory.
    Directory,
    /// A file, made when missing.
    FileOrCreate,
    /// A file.
    File,
    /// A Unix socket.
    Socket,
    /// A character device.
    CharDevice,
    /// A block device.
    BlockDevice,
}

/// A volume that cannot be made.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("MountVolume.SetUp failed for volume \"{volume}\" : {reason}")]
pub struct VolumeError {
    /// `volumes[].name`.
    pub volume: String,
    /// Why, as users read it in the event.
    pub reason: String,
    /// A ConfigMap or Secret that is not known here (yet).
    pub missing_object: bool,
}

/// What has to be on disk for the pod.
///
/// # Errors
/// The first volume that refers to something that is not there, or is of a kind that cannot be provided.
pub fn plan(fields: &Fields<'_>, objects: &Objects) -> Result<VolumePlan, VolumeError> {
    let pod: &Pod = fields.pod;
    let empty = PodSpec::default();
    let spec = pod.spec.as_ref().unwrap_or(&empty);
    let mut volumes = BTreeMap::new();
    for volume in spec.volumes.iter().flatten() {
        let source = source(volume, fields, objects).map_err(|error| VolumeError {
            volume: volume.name.clone(),
            missing_object: matches!(error, ConfigError::ConfigMapNotFound(_) | ConfigError::SecretNotFound(_)),
            reason: error.to_string(),
        })?;
        volumes.insert(volume.name.clone(), source);
    }
    let group = spec.security_context.as_ref().and_then(|context| context.fs_group);
    Ok(VolumePlan { volumes, group })
}

/// The volume's files are the agent's, so that containers see it read-only.
#[must_use]
pub fn is_written_by_agent(volume: &Volume) -> bool {
    volume.config_map.is_some()
        || volume.secret.is_some()
        || volume.projected.is_some()
        || volume.downward_api.is_some()
}

/// A relative path that does not leave the directory it starts in.
#[must_use]
pub fn stays_inside(path: &str) -> bool {
    let path = Path::new(path);
    path.components().next().is_some()
        && path.components().all(|component| matches!(component, Component::Normal(_) | Component::CurDir))
}

const DEFAULT_MODE: i32 = 0o644;

fn source(volume: &Volume, fields: &Fields<'_>, objects: &Objects) -> Result<VolumeSource, ConfigError> {
    if let Some(empty_dir) = &volume.empty_dir {
        let memory = empty_dir.medium.as_deref() == Some("Memory");
        let limit = empty_dir.size_limit.as_ref().map(quantity::units).transpose()?;
        let size_limit = limit.and_then(|limit| u64::try_from(limit).ok()).filter(|limit| *limit > 0);
        return Ok(VolumeSource::Empty { memory, size_limit });
    }
    if let Some(host_path) = &volume.host_path {
        return Ok(VolumeSource::Host {
            path: host_path.path.clone(),
            kind: match host_path.type_.as_deref() {
                Some("DirectoryOrCreate") => HostPathKind::DirectoryOrCreate,
                Some("Directory") => HostPathKind::Directory,
                Some("FileOrCreate") => HostPathKind::FileOrCreate,
                Some("File") => HostPathKind::File,
                Some("Socket") => HostPathKind::Socket,
                Some("CharDevice") => HostPathKind::CharDevice,
                Some("BlockDevice") => HostPathKind::BlockDevice,
                _ => HostPathKind::Unchecked,
            },
        });
    }
    let mut files = Files { fields, objects, memory: false, files: BTreeMap::new() };
    if let Some(source) = &volume.config_map {
        let mode = source.default_mode.unwrap_or(DEFAULT_MODE);
        files.config_map(&source.name, source.items.as_deref(), source.optional == Some(true), mode)?;
    } else if let Some(source) = &volume.secret {
        let name = source.secret_name.as_deref().unwrap_or_default();
        let mode = source.default_mode.unwrap_or(DEFAULT_MODE);
        files.secret(name, source.items.as_deref(), source.optional == Some(true), mode)?;
    } else if let Some(source) = &volume.downward_api {
        files.downward_api(source.items.as_deref(), source.default_mode.unwrap_or(DEFAULT_MODE))?;
    } else if let Some(projected) = &volume.projected {
        let mode = projected.default_mode.unwrap_or(DEFAULT_MODE);
        for source in projected.sources.iter().flatten() {
            files.projection(source, mode)?;
        }
    } else {
        return Err(ConfigError::UnsupportedVolume(kind_name(volume)));
    }
    Ok(VolumeSource::Files { memory: files.memory, files: files.files })
}

/// The field of a volume that this node cannot provide.
fn kind_name(volume: &Volume) -> &'static str {
    let kinds = [
        (volume.persistent_volume_claim.is_some(), "persistentVolumeClaim"),
        (volume.csi.is_some(), "csi"),
        (volume.nfs.is_some(), "nfs"),
        (volume.ephemeral.is_some(), "ephemeral"),
        (volume.image.is_some(), "image"),
        (volume.iscsi.is_some(), "iscsi"),
    ];
    kinds.iter().find(|(present, _)| *present).map_or("of this kind", |(_, name)| name)
}

/// Collects the files of one volume; later sources win a path.
struct Files<'a> {
    fields: &'a Fields<'a>,
    objects: &'a Objects,
    memory: bool,
    files: BTreeMap<String, FileContent>,
}

impl Files<'_> {
    fn put(&mut self, path: &str, bytes: Vec<u8>, mode: i32) -> Result<(), ConfigError> {
        if !stays_inside(path) {
            return Err(ConfigError::EscapingPath(path.to_owned()));
        }
        let mode = u32::try_from(mode).unwrap_or(0o644) & 0o777;
        self.files.insert(path.to_owned(), FileContent { bytes, mode });
        Ok(())
    }

    fn config_map(
        &mut self,
        name: &str,
        items: Option<&[KeyToPath]>,
        optional: bool,
        mode: i32,
    ) -> Result<(), ConfigError> {
        let objects = self.objects;
        let Some(map) = objects.config_maps.get(name) else {
            return if optional { Ok(()) } else { Err(ConfigError::ConfigMapNotFound(name.to_owned())) };
        };
        let keys = Objects::config_map_keys(map).map(String::as_str);
        self.keys("config", keys, |key| Objects::config_map_value(map, key), items, optional, mode)
    }

    fn secret(
        &mut self,
        name: &str,
        items: Option<&[KeyToPath]>,
        optional: bool,
        mode: i32,
    ) -> Result<(), ConfigError> {
        self.memory = true;
        let objects = self.objects;
        let Some(secret) = objects.secrets.get(name) else {
            return if optional { Ok(()) } else { Err(ConfigError::SecretNotFound(name.to_owned())) };
        };
        let keys = secret.data.iter().flat_map(BTreeMap::keys).map(String::as_str);
        let value = |key: &str| secret.data.as_ref().and_then(|data| data.get(key)).map(|value| value.0.clone());
        self.keys("secret", keys, value, items, optional, mode)
    }

    fn keys<'k>(
        &mut self,
        kind: &'static str,
        keys: impl Iterator<Item = &'k str>,
        value: impl Fn(&str) -> Option<Vec<u8>>,
        items: Option<&[KeyToPath]>,
        optional: bool,
        mode: i32,
    ) -> Result<(), ConfigError> {
        match items.filter(|items| !items.is_empty()) {
            None => {
                for key in keys {
                    self.put(key, value(key).unwrap_or_default(), mode)?;
                }
            }
            Some(items) => {
                for item in items {
                    match value(&item.key) {
                        Some(bytes) => self.put(&item.path, bytes, item.mode.unwrap_or(mode))?,
                        None if optional => {}
                        None => return Err(ConfigError::VolumeKeyNotFound { kind, key: item.key.clone() }),
                    }
                }
            }
        }
        Ok(())
    }

    fn downward_api(&mut self, items: Option<&[DownwardAPIVolumeFile]>, mode: i32) -> Result<(), ConfigError> {
        for item in items.into_iter().flatten() {
            let text = match (&item.field_ref, &item.resource_field_ref) {
                (Some(selector), _) => self.fields.field(selector)?,
                (None, Some(selector)) => self.fields.resource(selector, None)?,
                (None, None) => String::new(),
            };
            self.put(&item.path, text.into_bytes(), item.mode.unwrap_or(mode))?;
        }
        Ok(())
    }

    fn projection(&mut self, source: &VolumeProjection, mode: i32) -> Result<(), ConfigError> {
        if let Some(source) = &source.config_map {
            self.config_map(&source.name, source.items.as_deref(), source.optional == Some(true), mode)?;
        }
        if let Some(source) = &source.secret {
            self.secret(&source.name, source.items.as_deref(), source.optional == Some(true), mode)?;
        }
        if let Some(source) = &source.downward_api {
            self.downward_api(source.items.as_deref(), mode)?;
        }
        if source.service_account_token.is_some() {
            return Err(ConfigError::UnsupportedVolume("projected.serviceAccountToken"));
        }
        if source.cluster_trust_bundle.is_some() {
            return Err(ConfigError::UnsupportedVolume("projected.clusterTrustBundle"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
