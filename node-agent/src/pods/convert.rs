//! Between the core's terms and CRI's messages.

use std::path::Path;

use k8s_cri::v1 as cri;
use skep_agent_core::pods::config::{Namespaces, PidNamespace, Propagation, Protocol, Seccomp, Security};
use skep_agent_core::pods::{ContainerConfig, SandboxConfig};

/// A mount with the path of the node that it shows.
pub(super) struct ResolvedMount<'a> {
    pub(super) container_path: &'a str,
    pub(super) host_path: &'a Path,
    pub(super) readonly: bool,
    pub(super) propagation: Propagation,
}

pub(super) fn sandbox(config: &SandboxConfig) -> cri::PodSandboxConfig {
    let security = &config.security;
    cri::PodSandboxConfig {
        metadata: Some(cri::PodSandboxMetadata {
            name: config.name.clone(),
            uid: config.uid.clone(),
            namespace: config.namespace.clone(),
            attempt: config.attempt,
        }),
        hostname: config.hostname.clone(),
        log_directory: config.log_directory.clone(),
        dns_config: Some(cri::DnsConfig {
            servers: config.dns.servers.clone(),
            searches: config.dns.searches.clone(),
            options: config.dns.options.clone(),
        }),
        port_mappings: config
            .ports
            .iter()
            .map(|port| cri::PortMapping {
                protocol: match port.protocol {
                    Protocol::Tcp => cri::Protocol::Tcp,
                    Protocol::Udp => cri::Protocol::Udp,
                    Protocol::Sctp => cri::Protocol::Sctp,
                }
                .into(),
                container_port: port.container_port,
                host_port: port.host_port,
                host_ip: port.host_ip.clone(),
            })
            .collect(),
        labels: config.labels.clone().into_iter().collect(),
        annotations: config.annotations.clone().into_iter().collect(),
        linux: Some(cri::LinuxPodSandboxConfig {
            cgroup_parent: config.cgroup_parent.clone(),
            security_context: Some(cri::LinuxSandboxSecurityContext {
                namespace_options: Some(namespaces(config.namespaces)),
                run_as_user: security.user.map(int64),
                run_as_group: security.group.filter(|_| security.user.is_some()).map(int64),
                supplemental_groups: security.supplemental_groups.clone(),
                privileged: config.privileged,
                seccomp: Some(seccomp(&security.seccomp)),
                ..cri::LinuxSandboxSecurityContext::default()
            }),
            sysctls: config.sysctls.clone().into_iter().collect(),
            ..cri::LinuxPodSandboxConfig::default()
        }),
        windows: None,
    }
}

pub(super) fn container(config: &ContainerConfig, mounts: &[ResolvedMount<'_>]) -> cri::ContainerConfig {
    let resources = &config.resources;
    cri::ContainerConfig {
        metadata: Some(cri::ContainerMetadata { name: config.name.clone(), attempt: config.attempt }),
        image: Some(cri::ImageSpec {
            image: config.image.clone(),
            user_specified_image: config.user_image.clone(),
            ..cri::ImageSpec::default()
        }),
        command: config.command.clone(),
        args: config.args.clone(),
        working_dir: config.working_dir.clone(),
        envs: config
            .environment
            .iter()
            .map(|(key, value)| cri::KeyValue { key: key.clone(), value: value.clone() })
            .collect(),
        mounts: mounts
            .iter()
            .map(|mount| cri::Mount {
                container_path: mount.container_path.to_owned(),
                host_path: mount.host_path.to_string_lossy().into_owned(),
                readonly: mount.readonly,
                propagation: match mount.propagation {
                    Propagation::Private => cri::MountPropagation::PropagationPrivate,
                    Propagation::HostToContainer => cri::MountPropagation::PropagationHostToContainer,
                    Propagation::Bidirectional => cri::MountPropagation::PropagationBidirectional,
                }
                .into(),
                ..cri::Mount::default()
            })
            .collect(),
        labels: config.labels.clone().into_iter().collect(),
        annotations: config.annotations.clone().into_iter().collect(),
        log_path: config.log_path.clone(),
        stdin: config.stdin,
        stdin_once: config.stdin_once,
        tty: config.tty,
        linux: Some(cri::LinuxContainerConfig {
            resources: Some(cri::LinuxContainerResources {
                cpu_period: resources.cpu_period,
                cpu_quota: resources.cpu_quota,
                cpu_shares: resources.cpu_shares,
                memory_limit_in_bytes: resources.memory_limit,
                oom_score_adj: resources.oom_score_adj,
                ..cri::LinuxContainerResources::default()
            }),
            security_context: Some(security_context(&config.security, config.namespaces)),
        }),
        ..cri::ContainerConfig::default()
    }
}

fn security_context(security: &Security, own: Namespaces) -> cri::LinuxContainerSecurityContext {
    cri::LinuxContainerSecurityContext {
        capabilities: Some(cri::Capability {
            add_capabilities: security.add_capabilities.clone(),
            drop_capabilities: security.drop_capabilities.clone(),
            ..cri::Capability::default()
        }),
        privileged: security.privileged,
        namespace_options: Some(namespaces(own)),
        run_as_user: security.user.map(int64),
        run_as_group: security.group.map(int64),
        readonly_rootfs: security.readonly_rootfs,
        supplemental_groups: security.supplemental_groups.clone(),
        no_new_privs: security.no_new_privileges,
        masked_paths: security.masked_paths.clone(),
        readonly_paths: security.readonly_paths.clone(),
        seccomp: Some(seccomp(&security.seccomp)),
        ..cri::LinuxContainerSecurityContext::default()
    }
}

fn namespaces(own: Namespaces) -> cri::NamespaceOption {
    let node_or_pod = |of_node: bool| if of_node { cri::NamespaceMode::Node } else { cri::NamespaceMode::Pod };
    cri::NamespaceOption {
        network: node_or_pod(own.host_network).into(),
        pid: match own.pid {
            PidNamespace::Container => cri::NamespaceMode::Container,
            PidNamespace::Pod => cri::NamespaceMode::Pod,
            PidNamespace::Host => cri::NamespaceMode::Node,
        }
        .into(),
        ipc: node_or_pod(own.host_ipc).into(),
        ..cri::NamespaceOption::default()
    }
}

fn seccomp(seccomp: &Seccomp) -> cri::SecurityProfile {
    use cri::security_profile::ProfileType;
    let (profile_type, localhost_ref) = match seccomp {
        Seccomp::RuntimeDefault => (ProfileType::RuntimeDefault, String::new()),
        Seccomp::Unconfined => (ProfileType::Unconfined, String::new()),
        Seccomp::Localhost(profile) => (ProfileType::Localhost, profile.clone()),
    };
    cri::SecurityProfile { profile_type: profile_type.into(), localhost_ref }
}

fn int64(value: i64) -> cri::Int64Value {
    cri::Int64Value { value }
}
