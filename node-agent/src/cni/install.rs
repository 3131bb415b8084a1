use std::fs;
use std::io;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use serde_json::json;

use crate::config::Config;

/// Name of the plugin, and of its file.
const PLUGIN: &str = "skep-cni";
/// The name under which a runtime looks for the plugin that brings `lo` up.
const LOOPBACK: &str = "loopback";
/// Sorts before what other networks usually install: a runtime takes the first.
const CONFLIST: &str = "10-skep.conflist";

/// The plugin cannot be installed.
#[derive(Debug, thiserror::Error)]
#[error("install the CNI plugin: {path}: {source}")]
pub struct InstallError {
    path: PathBuf,
    source: io::Error,
}

/// Puts the plugin, found beside the agent's own executable, where the runtime looks for it. What is there already and
/// the same is left alone.
///
/// # Errors
/// [`InstallError`].
pub fn install_plugin(config: &Config) -> Result<(), InstallError> {
    let own = std::env::current_exe().map_err(|source| InstallError { path: "/proc/self/exe".into(), source })?;
    let source_path = own.with_file_name(PLUGIN);
    let content = fs::read(&source_path).map_err(|source| InstallError { path: source_path.clone(), source })?;
    let target = config.cni_bin_dir.join(PLUGIN);
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |source| InstallError { path, source }
    };
    fs::create_dir_all(&config.cni_bin_dir).map_err(failed(&config.cni_bin_dir))?;
    if fs::read(&target).is_ok_and(|now| now == content) {
        return link_loopback(&config.cni_bin_dir).map_err(failed(&config.cni_bin_dir.join(LOOPBACK)));
    }
    let temporary = config.cni_bin_dir.join(format!(".{PLUGIN}.new"));
    fs::write(&temporary, content)
        .and_then(|()| fs::set_permissions(&temporary, fs::Permissions::from_mode(0o755)))
        .and_then(|()| fs::rename(&temporary, &target))
        .map_err(failed(&target))?;
    link_loopback(&config.cni_bin_dir).map_err(failed(&config.cni_bin_dir.join(LOOPBACK)))
}

/// Somebody else's `loopback` does as well.
fn link_loopback(bin_dir: &Path) -> io::Result<()> {
    match symlink(PLUGIN, bin_dir.join(LOOPBACK)) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}

/// Tells the runtime to use the plugin. From then on it takes its network for ready, so the agent must be.
///
/// # Errors
/// [`InstallError`].
pub fn install_configuration(config: &Config) -> Result<(), InstallError> {
    let target = config.cni_conf_dir.join(CONFLIST);
    let failed = |source| InstallError { path: target.clone(), source };
    let plugin = json!({"type": PLUGIN, "socket": config.cni_socket(), "stateDir": config.state_dir});
    let conflist = json!({"cniVersion": "1.0.0", "name": "skep", "plugins": [plugin]});
    let text = serde_json::to_vec_pretty(&conflist).map_err(|error| failed(error.into()))?;
    if fs::read(&target).is_ok_and(|now| now == text) {
        return Ok(());
    }
    fs::create_dir_all(&config.cni_conf_dir).map_err(failed)?;
    // In the same directory, so that the rename is one step; a runtime ignores names without its endings.
    let temporary = config.cni_conf_dir.join(format!(".{CONFLIST}.new"));
    fs::write(&temporary, text).and_then(|()| fs::rename(&temporary, &target)).map_err(failed)
}
