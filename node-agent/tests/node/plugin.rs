//! The CNI plugin, as a container runtime runs it.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use super::pods::Pod;
use super::world::World;

pub struct Plugin {
    bin_dir: PathBuf,
    config: Value,
}

impl Plugin {
    pub fn new(world: &World) -> Self {
        let config = json!({
            "name": "skep", "type": "skep-cni",
            "socket": world.run_dir().join("cni.sock"), "stateDir": world.state_dir(),
        });
        Self { bin_dir: world.cni_bin_dir(), config }
    }

    fn run(&self, name: &str, command: &str, version: &str, pod: Option<&Pod>) -> Result<Value, Value> {
        let mut config = self.config.clone();
        config["cniVersion"] = version.into();
        let mut process = Command::new(self.bin_dir.join(name));
        process.env_clear().env("CNI_COMMAND", command).env("CNI_PATH", &self.bin_dir).env("CNI_IFNAME", "eth0");
        if name == "loopback" {
            process.env("CNI_IFNAME", "lo");
            config = json!({"cniVersion": version, "name": "cni-loopback", "type": "loopback"});
        }
        if let Some(pod) = pod {
            process.env("CNI_CONTAINERID", format!("container-of-{}", pod.name)).env("CNI_NETNS", &pod.netns).env(
                "CNI_ARGS",
                format!("IgnoreUnknown=1;K8S_POD_NAMESPACE=shop;K8S_POD_NAME={};K8S_POD_UID={}", pod.name, pod.uid()),
            );
        }
        let mut child = process.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        // A plugin that fails early reads nothing.
        let _ = child.stdin.take().unwrap().write_all(config.to_string().as_bytes());
        let output = child.wait_with_output().unwrap();
        let answer = match output.stdout.as_slice() {
            [] => Value::Null,
            text => serde_json::from_slice(text).unwrap(),
        };
        if output.status.success() { Ok(answer) } else { Err(answer) }
    }

    pub fn version(&self) -> Value {
        self.run("skep-cni", "VERSION", "1.0.0", None).unwrap()
    }

    pub fn try_add(&self, pod: &mut Pod, version: &str) -> Result<Value, Value> {
        let result = self.run("skep-cni", "ADD", version, Some(pod))?;
        let ips = result["ips"].as_array().unwrap().iter();
        pod.addresses =
            ips.map(|ip| ip["address"].as_str().unwrap().split_once('/').unwrap().0.parse().unwrap()).collect();
        Ok(result)
    }

    pub fn add(&self, pod: &mut Pod, version: &str) -> Value {
        self.try_add(pod, version).unwrap_or_else(|error| panic!("ADD of {}: {error}", pod.name))
    }

    pub fn delete(&self, pod: &Pod) {
        self.run("skep-cni", "DEL", "1.0.0", Some(pod)).unwrap_or_else(|error| panic!("DEL of {}: {error}", pod.name));
    }

    pub fn check(&self, pod: &Pod) {
        self.run("skep-cni", "CHECK", "1.0.0", Some(pod)).unwrap_or_else(|error| panic!("CHECK: {error}"));
    }

    pub fn loopback(&self, pod: &Pod) -> Value {
        self.run("loopback", "ADD", "0.3.1", Some(pod)).unwrap()
    }
}
