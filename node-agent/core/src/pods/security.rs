//! Rights of a pod's processes: `securityContext`.

use k8s_openapi::api::core::v1::{Container, Pod, PodSpec, SeccompProfile};

use super::config::{Seccomp, Security};
use super::image::ImageInfo;
use super::invalid::ConfigError;

/// Hidden from containers unless they are privileged or ask for `procMount: Unmasked`.
const MASKED_PATHS: [&str; 11] = [
    "/proc/asound",
    "/proc/acpi",
    "/proc/kcore",
    "/proc/keys",
    "/proc/latency_stats",
    "/proc/timer_list",
    "/proc/timer_stats",
    "/proc/sched_debug",
    "/proc/scsi",
    "/sys/firmware",
    "/sys/devices/virtual/powercap",
];

/// Read-only for them.
const READONLY_PATHS: [&str; 5] = ["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"];

/// Rights of a sandbox's own process.
#[must_use]
pub(super) fn of_sandbox(spec: &PodSpec) -> Security {
    let context = spec.security_context.as_ref();
    Security {
        user: context.and_then(|context| context.run_as_user),
        group: context.and_then(|context| context.run_as_group),
        supplemental_groups: groups(spec),
        // The pause process needs nothing that the runtime's filter forbids, whatever the pod's containers need.
        seccomp: Seccomp::RuntimeDefault,
        ..Security::default()
    }
}

/// Rights of a container: its own settings, else the pod's.
///
/// # Errors
/// `runAsNonRoot` is set, and the container would run as root or that cannot be told.
pub(super) fn of_container(
    pod: &Pod,
    spec: &PodSpec,
    container: &Container,
    image: &ImageInfo,
) -> Result<Security, ConfigError> {
    let of_pod = spec.security_context.as_ref();
    let own = container.security_context.as_ref();
    let user = own.and_then(|own| own.run_as_user).or_else(|| of_pod.and_then(|of_pod| of_pod.run_as_user));
    let non_root = own.and_then(|own| own.run_as_non_root).or_else(|| of_pod.and_then(|of_pod| of_pod.run_as_non_root));
    if non_root == Some(true) {
        verify_non_root(user, image, &super::identity(pod), &container.name)?;
    }
    let privileged = own.and_then(|own| own.privileged) == Some(true);
    let unmasked = privileged || own.and_then(|own| own.proc_mount.as_deref()) == Some("Unmasked");
    let paths = |list: &[&str]| if unmasked { Vec::new() } else { list.iter().map(|&path| path.to_owned()).collect() };
    let profile = own
        .and_then(|own| own.seccomp_profile.as_ref())
        .or_else(|| of_pod.and_then(|of_pod| of_pod.seccomp_profile.as_ref()));
    let capabilities = own.and_then(|own| own.capabilities.as_ref());
    Ok(Security {
        user,
        group: own.and_then(|own| own.run_as_group).or_else(|| of_pod.and_then(|of_pod| of_pod.run_as_group)),
        supplemental_groups: groups(spec),
        add_capabilities: capabilities.and_then(|capabilities| capabilities.add.clone()).unwrap_or_default(),
        drop_capabilities: capabilities.and_then(|capabilities| capabilities.drop.clone()).unwrap_or_default(),
        privileged,
        readonly_rootfs: own.and_then(|own| own.read_only_root_filesystem) == Some(true),
        no_new_privileges: own.and_then(|own| own.allow_privilege_escalation) == Some(false),
        masked_paths: paths(&MASKED_PATHS),
        readonly_paths: paths(&READONLY_PATHS),
        seccomp: if privileged { Seccomp::Unconfined } else { profile.map_or(Seccomp::Unconfined, seccomp) },
    })
}

fn verify_non_root(user: Option<i64>, image: &ImageInfo, pod: &str, container: &str) -> Result<(), ConfigError> {
    let (pod, container) = (pod.to_owned(), container.to_owned());
    match (user, image.user, image.username.as_str()) {
        (Some(0), ..) => Err(ConfigError::RunsAsRoot { pod, container }),
        (Some(_), ..) => Ok(()),
        (None, Some(0), _) | (None, None, "") => Err(ConfigError::ImageRunsAsRoot { pod, container }),
        (None, Some(_), _) => Ok(()),
        (None, None, user) => Err(ConfigError::ImageUserUnknown { user: user.to_owned(), pod, container }),
    }
}

fn groups(spec: &PodSpec) -> Vec<i64> {
    let context = spec.security_context.iter();
    context
        .flat_map(|context| context.fs_group.iter().chain(context.supplemental_groups.iter().flatten()))
        .copied()
        .collect()
}

fn seccomp(profile: &SeccompProfile) -> Seccomp {
    match profile.type_.as_str() {
        "RuntimeDefault" => Seccomp::RuntimeDefault,
        "Localhost" => Seccomp::Localhost(profile.localhost_profile.clone().unwrap_or_default()),
        _ => Seccomp::Unconfined,
    }
}
