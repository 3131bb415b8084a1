use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

use super::*;
use crate::pods::config::Seccomp;

fn pod(mut spec: Value, container: Value) -> Pod {
    let mut container = container;
    container["name"] = json!("app");
    container["image"] = json!("busybox:1");
    spec["containers"] = json!([container]);
    serde_json::from_value(json!({"metadata": {"name": "web", "namespace": "shop", "uid": "u1"}, "spec": spec}))
        .unwrap()
}

fn convert(spec: Value, container: Value) -> Result<ContainerConfig, ConfigError> {
    convert_with(spec, container, &ImageInfo { id: "sha256:1".to_owned(), ..ImageInfo::default() })
}

fn convert_with(spec: Value, container: Value, image: &ImageInfo) -> Result<ContainerConfig, ConfigError> {
    let pod = pod(spec, container);
    let node = NodeFacts { memory_bytes: 1 << 30, ..NodeFacts::default() };
    let fields = Fields { pod: &pod, node: &node, pod_ips: &[] };
    config(&fields, &pod.spec.as_ref().unwrap().containers[0], &Objects::default(), image, 3)
}

#[test]
fn commands_are_expanded_and_named_by_attempt() {
    let container = json!({
        "command": ["sh", "-c"], "args": ["echo $(GREETING) $(NONE)"], "workingDir": "/tmp", "tty": true, "stdin": true,
        "env": [{"name": "GREETING", "value": "hello"}],
    });
    let found = convert(json!({"terminationGracePeriodSeconds": 7}), container).unwrap();
    assert_eq!(found.command, ["sh", "-c"]);
    assert_eq!(found.args, ["echo hello $(NONE)"]);
    assert_eq!(found.working_dir, "/tmp");
    assert_eq!(found.log_path, "app/3.log");
    assert!(found.tty && found.stdin && !found.stdin_once);
    assert_eq!(found.image, "sha256:1");
    assert_eq!(found.labels[CONTAINER_NAME], "app");
    assert_eq!(found.labels[sandbox::POD_UID], "u1");
    assert_eq!(found.annotations[RESTART_COUNT], "3");
    assert_eq!(found.annotations[GRACE_PERIOD], "7");
}

#[test]
fn resources_become_cgroup_limits() {
    let limits = |cpu_shares, cpu_quota, memory_limit, oom_score_adj| Resources {
        cpu_period: if cpu_quota > 0 { 100_000 } else { 0 },
        cpu_quota,
        cpu_shares,
        memory_limit,
        oom_score_adj,
    };
    let table = [
        (json!({}), limits(2, 0, 0, 1000)),
        (json!({"requests": {"cpu": "250m"}}), limits(256, 0, 0, 999)),
        (json!({"limits": {"cpu": "500m"}}), limits(512, 50_000, 0, 999)),
        (json!({"limits": {"cpu": "1m", "memory": "64Mi"}}), limits(2, 1000, 64 << 20, -997)),
        (
            json!({"requests": {"cpu": "2", "memory": "256Mi"}, "limits": {"memory": "512Mi"}}),
            limits(2048, 0, 512 << 20, 750),
        ),
    ];
    for (resources, expected) in table {
        assert_eq!(convert(json!({}), json!({"resources": resources})).unwrap().resources, expected, "{resources}");
    }
    let error = convert(json!({}), json!({"resources": {"limits": {"cpu": "much"}}})).unwrap_err();
    assert!(error.to_string().contains("\"much\""), "{error}");
}

#[test]
fn rights_of_the_container_override_the_pods() {
    let of_pod = json!({"securityContext": {"runAsUser": 1000, "runAsGroup": 1000, "fsGroup": 2000, "supplementalGroups": [3000],
                                            "seccompProfile": {"type": "RuntimeDefault"}}});
    let found = convert(of_pod.clone(), json!({})).unwrap().security;
    assert_eq!((found.user, found.group, found.supplemental_groups), (Some(1000), Some(1000), vec![2000, 3000]));
    assert_eq!(found.seccomp, Seccomp::RuntimeDefault);
    assert!(!found.no_new_privileges && !found.readonly_rootfs && !found.masked_paths.is_empty());
    let own = json!({"securityContext": {
        "runAsUser": 5, "readOnlyRootFilesystem": true, "allowPrivilegeEscalation": false,
        "capabilities": {"add": ["NET_ADMIN"], "drop": ["ALL"]}, "seccompProfile": {"type": "Localhost", "localhostProfile": "p.json"},
    }});
    let found = convert(of_pod, own).unwrap().security;
    assert_eq!(found.user, Some(5));
    assert_eq!(found.add_capabilities, ["NET_ADMIN"]);
    assert_eq!(found.drop_capabilities, ["ALL"]);
    assert_eq!(found.seccomp, Seccomp::Localhost("p.json".to_owned()));
    assert!(found.no_new_privileges && found.readonly_rootfs);
    let found = convert(json!({}), json!({"securityContext": {"privileged": true}})).unwrap().security;
    assert!(found.privileged && found.masked_paths.is_empty() && found.readonly_paths.is_empty());
    assert_eq!(found.seccomp, Seccomp::Unconfined);
}

#[test]
fn root_is_refused_where_it_is_not_wanted() {
    let image = |user, username: &str| ImageInfo { user, username: username.to_owned(), ..ImageInfo::default() };
    let table = [
        (
            json!({"runAsUser": 0}),
            image(Some(5), ""),
            Err("container's runAsUser breaks non-root policy (pod: \"web_shop(u1)\", container: app)"),
        ),
        (json!({"runAsUser": 5}), image(Some(0), ""), Ok(())),
        (json!({}), image(Some(5), ""), Ok(())),
        (
            json!({}),
            image(Some(0), ""),
            Err("container has runAsNonRoot and image will run as root (pod: \"web_shop(u1)\", container: app)"),
        ),
        (
            json!({}),
            image(None, ""),
            Err("container has runAsNonRoot and image will run as root (pod: \"web_shop(u1)\", container: app)"),
        ),
        (
            json!({}),
            image(None, "nobody"),
            Err(
                "container has runAsNonRoot and image has non-numeric user (nobody), cannot verify user is non-root (pod: \"web_shop(u1)\", container: app)",
            ),
        ),
    ];
    for (context, image, expected) in table {
        let mut context = context;
        context["runAsNonRoot"] = json!(true);
        let found = convert_with(json!({}), json!({"securityContext": context}), &image);
        assert_eq!(found.map(|_| ()).map_err(|error| error.to_string()), expected.map_err(str::to_owned));
    }
}

#[test]
fn mounts_of_volumes_and_the_agents_own_files() {
    let spec = json!({"volumes": [{"name": "data", "emptyDir": {}}, {"name": "settings", "configMap": {"name": "c"}}]});
    let container = json!({
        "env": [{"name": "PART", "value": "a"}],
        "volumeMounts": [
            {"name": "data", "mountPath": "/data", "subPathExpr": "$(PART)/b", "mountPropagation": "HostToContainer"},
            {"name": "settings", "mountPath": "/etc/settings"},
            {"name": "data", "mountPath": "/etc/hosts", "subPath": "hosts", "readOnly": true},
        ],
    });
    let found = convert(spec.clone(), container).unwrap().mounts;
    let volume =
        |name: &str, sub_path: &str| MountSource::Volume { name: name.to_owned(), sub_path: sub_path.to_owned() };
    let found: Vec<_> =
        found.iter().map(|mount| (mount.container_path.as_str(), mount.source.clone(), mount.readonly)).collect();
    let expected = [
        ("/data", volume("data", "a/b"), false),
        ("/etc/settings", volume("settings", ""), true),
        ("/etc/hosts", volume("data", "hosts"), true),
        ("/dev/termination-log", MountSource::TerminationMessage, false),
    ];
    assert_eq!(found, expected);
    let escaping = json!({"volumeMounts": [{"name": "data", "mountPath": "/d", "subPath": "a/../../b"}]});
    assert_eq!(convert(spec.clone(), escaping).unwrap_err(), ConfigError::EscapingPath("a/../../b".to_owned()));
    let unknown = json!({"volumeMounts": [{"name": "x", "mountPath": "/d"}]});
    assert_eq!(
        convert(spec, unknown).unwrap_err().to_string(),
        "cannot find volume \"x\" to mount into container \"app\""
    );
}
