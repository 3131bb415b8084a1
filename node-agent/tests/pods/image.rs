//! An image of busybox, made here: an OCI image layout in one archive.

use std::fs::File;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

/// Runs until it is told to stop.
pub(crate) const PAUSE: &str = "docker.io/skep-test/pause:1";
/// A shell and its tools.
pub(crate) const BUSYBOX: &str = "docker.io/skep-test/busybox:1";
pub(crate) const STATIC_BUSYBOX: &str = "/bin/busybox";

/// Writes the archive of both images.
pub(crate) fn write(archive: &Path) {
    let layer = layer();
    let mut blobs = vec![];
    let mut blob = |media_type: &str, content: Vec<u8>| -> Value {
        let digest: String = Sha256::digest(&content).iter().map(|byte| format!("{byte:02x}")).collect();
        let descriptor = json!({"mediaType": media_type, "digest": format!("sha256:{digest}"), "size": content.len()});
        blobs.push((digest, content));
        descriptor
    };
    let layer = blob("application/vnd.oci.image.layer.v1.tar", layer);
    let mut manifests = vec![];
    let images = [(PAUSE, json!({"Entrypoint": ["/bin/sleep", "2147483647"]})), (BUSYBOX, json!({"Cmd": ["sh"]}))];
    for (name, mut config) in images {
        config["Env"] = json!(["PATH=/bin"]);
        let architecture = if std::env::consts::ARCH == "aarch64" { "arm64" } else { "amd64" };
        let config = json!({"architecture": architecture, "os": "linux", "config": config,
                            "rootfs": {"type": "layers", "diff_ids": [layer["digest"]]}});
        let config = blob("application/vnd.oci.image.config.v1+json", config.to_string().into_bytes());
        let manifest = json!({"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
                              "config": config, "layers": [layer]});
        let mut manifest = blob("application/vnd.oci.image.manifest.v1+json", manifest.to_string().into_bytes());
        manifest["annotations"] = json!({"io.containerd.image.name": name});
        manifests.push(manifest);
    }
    let mut tar = tar::Builder::new(File::create(archive).unwrap());
    let mut add = |path: &str, content: &[u8]| {
        let mut header = tar::Header::new_gnu();
        header.set_mode(0o644);
        header.set_size(content.len() as u64);
        tar.append_data(&mut header, path, content).unwrap();
    };
    add("oci-layout", br#"{"imageLayoutVersion":"1.0.0"}"#);
    add("index.json", json!({"schemaVersion": 2, "manifests": manifests}).to_string().as_bytes());
    for (digest, content) in &blobs {
        add(&format!("blobs/sha256/{digest}"), content);
    }
    tar.into_inner().unwrap().sync_all().unwrap();
}

fn layer() -> Vec<u8> {
    let mut tar = tar::Builder::new(Vec::new());
    for (dir, mode) in [("bin/", 0o755), ("etc/", 0o755), ("tmp/", 0o1777)] {
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(tar::EntryType::Directory);
        header.set_mode(mode);
        header.set_size(0);
        tar.append_data(&mut header, dir, std::io::empty()).unwrap();
    }
    let content = std::fs::read(STATIC_BUSYBOX).unwrap();
    let mut header = tar::Header::new_gnu();
    header.set_mode(0o755);
    header.set_size(content.len() as u64);
    tar.append_data(&mut header, "bin/busybox", content.as_slice()).unwrap();
    let applets = Command::new(STATIC_BUSYBOX).arg("--list").output().unwrap().stdout;
    for applet in String::from_utf8(applets).unwrap().lines().filter(|applet| *applet != "busybox") {
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(tar::EntryType::Symlink);
        header.set_mode(0o777);
        header.set_size(0);
        tar.append_link(&mut header, format!("bin/{applet}"), "busybox").unwrap();
    }
    tar.into_inner().unwrap()
}
