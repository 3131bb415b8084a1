//! Container images made here, so that no registry is needed: an OCI image layout (OCI image spec 1.0) in one archive.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

/// The image that holds a pod's namespaces.
pub const PAUSE: &str = "docker.io/skep/pause:1";
/// busybox with its applets.
pub const BUSYBOX: &str = "docker.io/library/busybox:1.35";
/// busybox and the demo program.
pub const DEMO_V1: &str = "docker.io/skep/demo:1";
/// The same with another label, for rolling updates.
pub const DEMO_V2: &str = "docker.io/skep/demo:2";

const STATIC_BUSYBOX: &str = "/bin/busybox";

/// Writes the archive of all four images, unless it is there and newer than what it is made of.
pub fn build(demo: &Path, archive: &Path) -> Result<()> {
    let modified = |path: &Path| fs::metadata(path).and_then(|m| m.modified()).ok();
    let fresh = modified(archive).is_some_and(|made| {
        [modified(demo), modified(Path::new(STATIC_BUSYBOX))].into_iter().flatten().all(|source| source < made)
    });
    if fresh {
        return Ok(());
    }
    let mut layout = Layout::default();
    let busybox = layout.layer(&busybox_files()?)?;
    let program = layout.layer(&[Entry::program("skep-demo", demo)?])?;
    let path = json!(["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/"]);
    layout.image(PAUSE, &[&program], json!({"Entrypoint": ["/skep-demo", "pause"], "Env": path}));
    layout.image(BUSYBOX, &[&busybox], json!({"Cmd": ["sh"], "Env": path}));
    for (name, version) in [(DEMO_V1, "1"), (DEMO_V2, "2")] {
        let config =
            json!({"Entrypoint": ["/skep-demo"], "Cmd": ["serve"], "Env": path, "Labels": {"version": version}});
        layout.image(name, &[&busybox, &program], config);
    }
    layout.write(archive)
}

/// One file, directory or link of a layer.
struct Entry {
    path: String,
    kind: EntryKind,
}

enum EntryKind {
    Directory(u32),
    File(Vec<u8>, u32),
    Link(&'static str),
}

impl Entry {
    fn program(path: &str, source: &Path) -> Result<Self> {
        let content = fs::read(source).with_context(|| format!("cannot read {}", source.display()))?;
        Ok(Self { path: path.to_owned(), kind: EntryKind::File(content, 0o755) })
    }
}

fn busybox_files() -> Result<Vec<Entry>> {
    let applets = crate::command::run(&mut crate::command::command(STATIC_BUSYBOX, ["--list"]))?;
    let mut files = vec![
        Entry { path: "bin/".to_owned(), kind: EntryKind::Directory(0o755) },
        Entry { path: "etc/".to_owned(), kind: EntryKind::Directory(0o755) },
        Entry { path: "tmp/".to_owned(), kind: EntryKind::Directory(0o1777) },
        Entry { path: "root/".to_owned(), kind: EntryKind::Directory(0o700) },
        Entry::program("bin/busybox", Path::new(STATIC_BUSYBOX))?,
        Entry {
            path: "etc/passwd".to_owned(),
            kind: EntryKind::File(
                b"root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n".to_vec(),
                0o644,
            ),
        },
        Entry { path: "etc/group".to_owned(), kind: EntryKind::File(b"root:x:0:\nnogroup:x:65534:\n".to_vec(), 0o644) },
    ];
    let links = applets.lines().filter(|applet| *applet != "busybox");
    files.extend(links.map(|applet| Entry { path: format!("bin/{applet}"), kind: EntryKind::Link("busybox") }));
    Ok(files)
}

/// An image layout in memory: blobs by digest, and the manifests that the index names.
#[derive(Default)]
struct Layout {
    blobs: BTreeMap<String, Vec<u8>>,
    manifests: Vec<Value>,
}

impl Layout {
    fn blob(&mut self, media_type: &str, content: Vec<u8>) -> Value {
        let digest: String = Sha256::digest(&content).iter().map(|byte| format!("{byte:02x}")).collect();
        let descriptor = json!({"mediaType": media_type, "digest": format!("sha256:{digest}"), "size": content.len()});
        self.blobs.insert(digest, content);
        descriptor
    }

    /// Uncompressed: the archive is read once, from a local disk.
    fn layer(&mut self, entries: &[Entry]) -> Result<Value> {
        let mut tar = tar::Builder::new(Vec::new());
        for entry in entries {
            let mut header = tar::Header::new_gnu();
            header.set_mtime(0);
            match &entry.kind {
                EntryKind::Directory(mode) => {
                    header.set_entry_type(tar::EntryType::Directory);
                    header.set_mode(*mode);
                    header.set_size(0);
                    tar.append_data(&mut header, &entry.path, std::io::empty())?;
                }
                EntryKind::File(content, mode) => {
                    header.set_mode(*mode);
                    header.set_size(content.len() as u64);
                    tar.append_data(&mut header, &entry.path, content.as_slice())?;
                }
                EntryKind::Link(target) => {
                    header.set_entry_type(tar::EntryType::Symlink);
                    header.set_mode(0o777);
                    header.set_size(0);
                    tar.append_link(&mut header, &entry.path, target)?;
                }
            }
        }
        Ok(self.blob("application/vnd.oci.image.layer.v1.tar", tar.into_inner()?))
    }

    fn image(&mut self, name: &str, layers: &[&Value], config: Value) {
        let architecture = match std::env::consts::ARCH {
            "x86_64" => "amd64",
            "aarch64" => "arm64",
            other => other,
        };
        // Layers are uncompressed, so that their digest is also their diff id.
        let diff_ids: Vec<&Value> = layers.iter().map(|layer| &layer["digest"]).collect();
        let config = json!({
            "architecture": architecture, "os": "linux", "config": config,
            "rootfs": {"type": "layers", "diff_ids": diff_ids},
        });
        let config = self.blob("application/vnd.oci.image.config.v1+json", config.to_string().into_bytes());
        let manifest = json!({
            "schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json", "config": config, "layers": layers,
        });
        let mut manifest = self.blob("application/vnd.oci.image.manifest.v1+json", manifest.to_string().into_bytes());
        manifest["annotations"] = json!({"io.containerd.image.name": name});
        self.manifests.push(manifest);
    }

    fn write(&self, archive: &Path) -> Result<()> {
        let dir = archive.parent().context("an archive has a directory")?;
        fs::create_dir_all(dir)?;
        let partial: PathBuf = archive.with_extension("partial");
        let mut tar = tar::Builder::new(File::create(&partial)?);
        let mut add = |path: &str, content: &[u8]| -> Result<()> {
            let mut header = tar::Header::new_gnu();
            header.set_mode(0o644);
            header.set_mtime(0);
            header.set_size(content.len() as u64);
            Ok(tar.append_data(&mut header, path, content)?)
        };
        add("oci-layout", br#"{"imageLayoutVersion":"1.0.0"}"#)?;
        add("index.json", json!({"schemaVersion": 2, "manifests": self.manifests}).to_string().as_bytes())?;
        for (digest, content) in &self.blobs {
            add(&format!("blobs/sha256/{digest}"), content)?;
        }
        tar.into_inner()?.sync_all()?;
        Ok(fs::rename(&partial, archive)?)
    }
}
