use std::collections::HashMap;
use std::path::PathBuf;

use serde::Deserialize;
use skep_cni::{Command, Failure, INVALID_CONFIG, INVALID_ENVIRONMENT, Request, UNDECODABLE};

/// Versions of the CNI specification that results can be written in.
pub(crate) const VERSIONS: [&str; 3] = ["0.3.1", "0.4.0", "1.0.0"];

/// CNI error code: the version of the configuration is not supported.
const INCOMPATIBLE_VERSION: u32 = 1;

/// The network configuration, as the runtime writes it to standard input.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Config {
    /// Version of the result.
    #[serde(default)]
    pub(crate) cni_version: String,
    /// The agent's socket.
    #[serde(default)]
    pub(crate) socket: PathBuf,
    /// The agent's state directory.
    #[serde(default)]
    pub(crate) state_dir: PathBuf,
}

impl Config {
    /// Reads the configuration.
    pub(crate) fn parse(text: &str) -> Result<Self, Failure> {
        let config: Self = serde_json::from_str(text).map_err(|error| Failure {
            code: UNDECODABLE,
            message: format!("network configuration on standard input: {error}"),
        })?;
        if VERSIONS.contains(&config.cni_version.as_str()) {
            return Ok(config);
        }
        Err(Failure {
            code: INCOMPATIBLE_VERSION,
            message: format!("cniVersion {:?} is not one of {}", config.cni_version, VERSIONS.join(", ")),
        })
    }

    /// Checks what only the plugin proper needs; `loopback` is configured by the runtime and has neither.
    pub(crate) fn require_paths(&self) -> Result<(), Failure> {
        for (field, path) in [("socket", &self.socket), ("stateDir", &self.state_dir)] {
            if !path.is_absolute() {
                let message = format!("{field}: {:?} is not an absolute path", path.display().to_string());
                return Err(Failure { code: INVALID_CONFIG, message });
            }
        }
        Ok(())
    }
}

/// The request that the environment describes.
pub(crate) fn request(command: Command, variable: impl Fn(&str) -> Option<String>) -> Result<Request, Failure> {
    let invalid = |message: String| Failure { code: INVALID_ENVIRONMENT, message };
    let required = |name: &str| {
        variable(name).filter(|value| !value.is_empty()).ok_or_else(|| invalid(format!("{name}: required")))
    };
    let container = required("CNI_CONTAINERID")?;
    // The id becomes a file name.
    let mut characters = container.chars();
    let plain = characters.next().is_some_and(|c| c.is_ascii_alphanumeric())
        && characters.all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-'));
    if !plain {
        return Err(invalid(format!("CNI_CONTAINERID: {container:?} has characters that an id cannot have")));
    }
    let netns = match command {
        Command::Del => variable("CNI_NETNS").unwrap_or_default(),
        Command::Add | Command::Check => required("CNI_NETNS")?,
    };
    let ifname = required("CNI_IFNAME")?;
    if ifname.len() > 15 || ifname.contains(['/', ':', ' ']) {
        return Err(invalid(format!("CNI_IFNAME: {ifname:?} is no interface name")));
    }
    let args = variable("CNI_ARGS").unwrap_or_default();
    let args: HashMap<&str, &str> = args.split(';').filter_map(|pair| pair.split_once('=')).collect();
    let arg = |name: &str| args.get(name).map_or_else(String::new, |&value| value.to_owned());
    Ok(Request {
        command,
        container,
        netns,
        ifname,
        namespace: arg("K8S_POD_NAMESPACE"),
        name: arg("K8S_POD_NAME"),
        uid: arg("K8S_POD_UID"),
    })
}
