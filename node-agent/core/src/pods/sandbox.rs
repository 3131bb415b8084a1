//! From a pod to its sandbox.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Pod, PodSpec};

use super::config::{Dns, Namespaces, PidNamespace, PortMapping, Protocol, SandboxConfig};
use super::node::NodeFacts;
use super::security;

/// Labels by which tools (`crictl`, log collectors) find what belongs to a pod.
pub const POD_NAME: &str = "io.kubernetes.pod.name";
/// See [`POD_NAME`].
pub const POD_NAMESPACE: &str = "io.kubernetes.pod.namespace";
/// See [`POD_NAME`].
pub const POD_UID: &str = "io.kubernetes.pod.uid";

/// A host name longer than this is cut by Kubernetes.
const MAX_HOSTNAME: usize = 63;

/// The sandbox that the pod needs, as its `attempt`-th.
#[must_use]
pub fn config(pod: &Pod, node: &NodeFacts, attempt: u32) -> SandboxConfig {
    let empty = PodSpec::default();
    let spec = pod.spec.as_ref().unwrap_or(&empty);
    let metadata = &pod.metadata;
    let name = metadata.name.clone().unwrap_or_default();
    let namespace = metadata.namespace.clone().unwrap_or_default();
    let uid = metadata.uid.clone().unwrap_or_default();
    let mut labels = metadata.labels.clone().unwrap_or_default();
    labels.extend(pod_labels(pod));
    let namespaces = namespaces(spec);
    SandboxConfig {
        attempt,
        hostname: if namespaces.host_network { String::new() } else { hostname(&name, spec) },
        log_directory: log_directory(pod, node),
        dns: dns(&namespace, spec, node),
        ports: ports(spec),
        labels,
        annotations: metadata.annotations.clone().unwrap_or_default(),
        cgroup_parent: node.cgroup_parent.clone().unwrap_or_default(),
        sysctls: sysctls(spec),
        namespaces,
        privileged: containers(spec)
            .any(|container| container.security_context.as_ref().and_then(|context| context.privileged) == Some(true)),
        security: security::of_sandbox(spec),
        runtime_handler: spec.runtime_class_name.clone().unwrap_or_default(),
        name,
        namespace,
        uid,
    }
}

/// `{log dir}/{namespace}_{name}_{uid}`: where `kubectl logs` and log collectors look.
#[must_use]
pub fn log_directory(pod: &Pod, node: &NodeFacts) -> String {
    let part = |text: &Option<String>| text.clone().unwrap_or_default();
    let metadata = &pod.metadata;
    format!("{}/{}_{}_{}", node.log_dir, part(&metadata.namespace), part(&metadata.name), part(&metadata.uid))
}

/// The labels that name the pod.
#[must_use]
pub fn pod_labels(pod: &Pod) -> BTreeMap<String, String> {
    let metadata = &pod.metadata;
    let pairs = [(POD_NAME, &metadata.name), (POD_NAMESPACE, &metadata.namespace), (POD_UID, &metadata.uid)];
    pairs.into_iter().map(|(label, value)| (label.to_owned(), value.clone().unwrap_or_default())).collect()
}

/// Which namespaces the pod's processes share.
#[must_use]
pub fn namespaces(spec: &PodSpec) -> Namespaces {
    let pid = match (spec.host_pid, spec.share_process_namespace) {
        (Some(true), _) => PidNamespace::Host,
        (_, Some(true)) => PidNamespace::Pod,
        _ => PidNamespace::Container,
    };
    Namespaces { host_network: spec.host_network == Some(true), pid, host_ipc: spec.host_ipc == Some(true) }
}

/// The pod's host name: `spec.hostname`, else its name.
#[must_use]
pub fn hostname(name: &str, spec: &PodSpec) -> String {
    let name = spec.hostname.as_deref().filter(|hostname| !hostname.is_empty()).unwrap_or(name);
    let cut = name.char_indices().nth(MAX_HOSTNAME).map_or(name, |(end, _)| &name[..end]);
    cut.trim_end_matches(['-', '.']).to_owned()
}

/// The fully qualified name, when the pod has a subdomain and the cluster a domain.
fn qualified(hostname: &str, namespace: &str, spec: &PodSpec, node: &NodeFacts) -> Option<String> {
    let subdomain = spec.subdomain.as_deref().filter(|subdomain| !subdomain.is_empty())?;
    let (_, domain) = node.cluster_dns.as_ref()?;
    Some(format!("{hostname}.{subdomain}.{namespace}.svc.{domain}"))
}

/// Content of the pod's `/etc/hosts`.
#[must_use]
pub fn hosts(pod: &Pod, node: &NodeFacts, pod_ips: &[String]) -> String {
    let empty = PodSpec::default();
    let spec = pod.spec.as_ref().unwrap_or(&empty);
    let name = pod.metadata.name.as_deref().unwrap_or_default();
    let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
    let mut text = if spec.host_network == Some(true) {
        format!("# Written by skep-agent from the node's hosts file.\n{}", node.hosts)
    } else {
        let mut text = String::from(
            "# Written by skep-agent.\n127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n\
             fe00::0\tip6-localnet\nff00::0\tip6-mcastprefix\nff02::1\tip6-allnodes\nff02::2\tip6-allrouters\n",
        );
        let hostname = hostname(name, spec);
        for ip in pod_ips {
            text.push_str(ip);
            if let Some(qualified) = qualified(&hostname, namespace, spec, node) {
                text.push('\t');
                text.push_str(&qualified);
            }
            text.push('\t');
            text.push_str(&hostname);
            text.push('\n');
        }
        text
    };
    let aliases = spec.host_aliases.iter().flatten();
    for (alias, names) in aliases.filter_map(|alias| Some((alias, alias.hostnames.as_ref()?))) {
        if !text.ends_with('\n') {
            text.push('\n');
        }
        text.push_str(&alias.ip);
        text.push('\t');
        text.push_str(&names.join("\t"));
        text.push('\n');
    }
    text
}

/// `dnsPolicy` and `dnsConfig`: servers and searches are appended, an option replaces one of its name.
#[must_use]
pub fn dns(namespace: &str, spec: &PodSpec, node: &NodeFacts) -> Dns {
    let policy = spec.dns_policy.as_deref().unwrap_or("ClusterFirst");
    let host_network = spec.host_network == Some(true);
    let of_cluster = match policy {
        "ClusterFirst" => !host_network,
        "ClusterFirstWithHostNet" => true,
        _ => false,
    };
    let mut dns = match (&node.cluster_dns, policy) {
        (_, "None") => Dns::default(),
        (Some((servers, domain)), _) if of_cluster => {
            let mut searches = vec![format!("{namespace}.svc.{domain}"), format!("svc.{domain}"), domain.clone()];
            searches.extend(node.resolver.searches.iter().cloned());
            Dns { servers: servers.clone(), searches, options: vec!["ndots:5".to_owned()] }
        }
        _ => node.resolver.clone(),
    };
    if let Some(extra) = &spec.dns_config {
        append(&mut dns.servers, extra.nameservers.iter().flatten());
        append(&mut dns.searches, extra.searches.iter().flatten());
        for option in extra.options.iter().flatten() {
            let name = option.name.as_deref().unwrap_or_default();
            dns.options.retain(|present| present.split(':').next() != Some(name));
            match option.value.as_deref().filter(|value| !value.is_empty()) {
                Some(value) => dns.options.push(format!("{name}:{value}")),
                None => dns.options.push(name.to_owned()),
            }
        }
    }
    dns
}

fn append<'a>(list: &mut Vec<String>, extra: impl Iterator<Item = &'a String>) {
    for entry in extra {
        if !list.contains(entry) {
            list.push(entry.clone());
        }
    }
}

fn containers(spec: &PodSpec) -> impl Iterator<Item = &k8s_openapi::api::core::v1::Container> {
    spec.containers.iter().chain(spec.init_containers.iter().flatten())
}

fn ports(spec: &PodSpec) -> Vec<PortMapping> {
    let ports = spec.containers.iter().flat_map(|container| container.ports.iter().flatten());
    ports
        .map(|port| PortMapping {
            protocol: match port.protocol.as_deref() {
                Some("UDP") => Protocol::Udp,
                Some("SCTP") => Protocol::Sctp,
                _ => Protocol::Tcp,
            },
            container_port: port.container_port,
            host_port: port.host_port.unwrap_or(0),
            host_ip: port.host_ip.clone().unwrap_or_default(),
        })
        .collect()
}

fn sysctls(spec: &PodSpec) -> BTreeMap<String, String> {
    let sysctls = spec.security_context.iter().flat_map(|context| context.sysctls.iter().flatten());
    sysctls.map(|sysctl| (sysctl.name.clone(), sysctl.value.clone())).collect()
}

#[cfg(test)]
mod tests;
