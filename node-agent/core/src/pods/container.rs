//! From a container of a pod to what the runtime is asked for.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, PodSpec, VolumeMount};
use sha2::{Digest as _, Sha256};

use super::config::{ContainerConfig, Mount, MountSource, Propagation, Resources};
use super::env::Environment;
use super::fields::Fields;
use super::image::ImageInfo;
use super::invalid::ConfigError;
use super::node::NodeFacts;
use super::objects::Objects;
use super::{qos, quantity, sandbox, security, volume};

/// Label that names the container.
pub const CONTAINER_NAME: &str = "io.kubernetes.container.name";
/// Annotation that tells whether the definition changed since the container was made.
pub const HASH: &str = "io.kubernetes.container.hash";
/// Annotation with the number of earlier starts.
pub const RESTART_COUNT: &str = "io.kubernetes.container.restartCount";
/// Annotation with the path of the last message, inside the container.
pub const TERMINATION_MESSAGE_PATH: &str = "io.kubernetes.container.terminationMessagePath";
/// Annotation: `File` or `FallbackToLogsOnError`.
pub const TERMINATION_MESSAGE_POLICY: &str = "io.kubernetes.container.terminationMessagePolicy";
/// Annotation with the pod's grace in seconds, for when the pod's object is gone.
pub const GRACE_PERIOD: &str = "io.kubernetes.pod.terminationGracePeriod";

const CPU_PERIOD_MICROSECONDS: i64 = 100_000;

/// The container as its `attempt`-th start.
///
/// # Errors
/// Something that it refers to is not there, or its rights contradict each other.
pub fn config(
    fields: &Fields<'_>,
    container: &Container,
    objects: &Objects,
    image: &ImageInfo,
    attempt: u32,
) -> Result<ContainerConfig, ConfigError> {
    let (pod, node) = (fields.pod, fields.node);
    let empty = PodSpec::default();
    let spec = pod.spec.as_ref().unwrap_or(&empty);
    let environment = Environment::of(container, fields, objects)?;
    let expand = |list: &Option<Vec<String>>| list.iter().flatten().map(|text| environment.expand(text)).collect();
    let mounts = mounts(spec, container, &environment)?;
    let mut labels = sandbox::pod_labels(pod);
    labels.insert(CONTAINER_NAME.to_owned(), container.name.clone());
    Ok(ContainerConfig {
        name: container.name.clone(),
        attempt,
        image: image.id.clone(),
        user_image: container.image.clone().unwrap_or_default(),
        command: expand(&container.command),
        args: expand(&container.args),
        working_dir: container.working_dir.clone().unwrap_or_default(),
        mounts,
        labels,
        annotations: annotations(spec, container, attempt),
        log_path: log_path(&container.name, attempt),
        stdin: container.stdin == Some(true),
        stdin_once: container.stdin_once == Some(true),
        tty: container.tty == Some(true),
        resources: resources(spec, container, node)?,
        namespaces: sandbox::namespaces(spec),
        security: security::of_container(pod, spec, container, image)?,
        hosts: sandbox::hosts(pod, node, fields.pod_ips),
        environment: environment.into_variables(),
    })
}

/// Log file of one start, below the pod's log directory.
#[must_use]
pub fn log_path(container: &str, attempt: u32) -> String {
    format!("{container}/{attempt}.log")
}

/// What, when it changes, makes a running container be replaced: its name and image are all that may change.
///
/// Containers carry the value: computing it differently would restart every container when the agent is upgraded.
#[must_use]
pub fn hash(container: &Container) -> String {
    let mut hasher = Sha256::new();
    hasher.update(container.name.as_bytes());
    hasher.update([0]);
    hasher.update(container.image.as_deref().unwrap_or_default().as_bytes());
    hasher.finalize().iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

/// Where the container leaves its last message.
#[must_use]
pub fn termination_message_path(container: &Container) -> &str {
    container.termination_message_path.as_deref().filter(|path| !path.is_empty()).unwrap_or("/dev/termination-log")
}

fn annotations(spec: &PodSpec, container: &Container, attempt: u32) -> BTreeMap<String, String> {
    let policy = container.termination_message_policy.as_deref().unwrap_or("File");
    let pairs = [
        (HASH, hash(container)),
        (RESTART_COUNT, attempt.to_string()),
        (TERMINATION_MESSAGE_PATH, termination_message_path(container).to_owned()),
        (TERMINATION_MESSAGE_POLICY, policy.to_owned()),
        (GRACE_PERIOD, super::grace_seconds(spec).to_string()),
    ];
    pairs.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
}

/// CPU and memory limits. A request that is absent is as large as the limit.
fn resources(spec: &PodSpec, container: &Container, node: &NodeFacts) -> Result<Resources, ConfigError> {
    let resources = container.resources.as_ref();
    let limits = resources.and_then(|resources| resources.limits.as_ref());
    let requests = resources.and_then(|resources| resources.requests.as_ref());
    let cpu_limit = limits.and_then(|limits| limits.get("cpu")).map_or(Ok(0), quantity::milli)?;
    let cpu_request = requests.and_then(|requests| requests.get("cpu")).map_or(Ok(cpu_limit), quantity::milli)?;
    let memory_limit = limits.and_then(|limits| limits.get("memory")).map_or(Ok(0), quantity::units)?;
    // The kernel's bounds of cpu.shares, and its shortest quota.
    let cpu_shares = cpu_request.saturating_mul(1024).checked_div(1000).unwrap_or(0).clamp(2, 262_144);
    let cpu_quota = cpu_limit.saturating_mul(CPU_PERIOD_MICROSECONDS) / 1000;
    Ok(Resources {
        cpu_period: if cpu_limit > 0 { CPU_PERIOD_MICROSECONDS } else { 0 },
        cpu_quota: if cpu_limit > 0 { cpu_quota.max(1000) } else { 0 },
        cpu_shares,
        memory_limit,
        oom_score_adj: qos::oom_score_adj(spec, container, node.memory_bytes),
    })
}

fn mounts(spec: &PodSpec, container: &Container, environment: &Environment) -> Result<Vec<Mount>, ConfigError> {
    let declared: Vec<&VolumeMount> = container.volume_mounts.iter().flatten().collect();
    let mut mounts = Vec::with_capacity(declared.len() + 2);
    for mount in &declared {
        let volume = spec.volumes.iter().flatten().find(|volume| volume.name == mount.name);
        let Some(volume) = volume else {
            let (volume, container) = (mount.name.clone(), container.name.clone());
            return Err(ConfigError::UnknownVolume { volume, container });
        };
        let sub_path = match mount.sub_path_expr.as_deref().filter(|expression| !expression.is_empty()) {
            Some(expression) => environment.expand(expression),
            None => mount.sub_path.clone().unwrap_or_default(),
        };
        if !sub_path.is_empty() && !volume::stays_inside(&sub_path) {
            return Err(ConfigError::EscapingPath(sub_path));
        }
        mounts.push(Mount {
            container_path: absolute(&mount.mount_path),
            source: MountSource::Volume { name: mount.name.clone(), sub_path },
            // What the agent writes is not the container's to change.
            readonly: mount.read_only == Some(true) || volume::is_written_by_agent(volume),
            propagation: match mount.mount_propagation.as_deref() {
                Some("HostToContainer") => Propagation::HostToContainer,
                Some("Bidirectional") => Propagation::Bidirectional,
                _ => Propagation::Private,
            },
        });
    }
    let is_free = |path: &str| declared.iter().all(|mount| absolute(&mount.mount_path) != path);
    let mut own = |container_path: &str, source: MountSource| {
        if is_free(container_path) {
            let (readonly, propagation) = (false, Propagation::Private);
            mounts.push(Mount { container_path: container_path.to_owned(), source, readonly, propagation });
        }
    };
    own("/etc/hosts", MountSource::Hosts);
    own(termination_message_path(container), MountSource::TerminationMessage);
    Ok(mounts)
}

fn absolute(path: &str) -> String {
    if path.starts_with('/') { path.to_owned() } else { format!("/{path}") }
}

#[cfg(test)]
mod tests;
