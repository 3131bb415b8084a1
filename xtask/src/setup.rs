//! Finds out what this machine lacks, says so, and installs it: Debian packages with apt, one program with cargo.

use std::path::Path;
use std::process::Command;

use anyhow::{Result, bail};
use skep_tests::workspace;

use crate::shell::{cargo, find, is_root, run};

/// What the machine is wanted for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd)]
pub(crate) enum For {
    Building,
    Running,
    Testing,
}

/// Something that has to be there, and the packages that bring it.
struct Need {
    what: &'static str,
    why: &'static str,
    /// What must exist: a program in PATH, or a file when it begins with '/'.
    proof: &'static [&'static str],
    packages: &'static [&'static str],
    wanted_for: For,
}

const NEEDS: &[Need] = &[
    Need {
        what: "C compiler",
        why: "links the programs",
        proof: &["cc"],
        packages: &["gcc", "libc6-dev"],
        wanted_for: For::Building,
    },
    Need {
        what: "protoc",
        why: "generates the gRPC code",
        proof: &["protoc", "/usr/include/google/protobuf/empty.proto"],
        packages: &["protobuf-compiler", "libprotobuf-dev"],
        wanted_for: For::Building,
    },
    Need {
        what: "ip",
        why: "makes the nodes' networks",
        proof: &["ip"],
        packages: &["iproute2"],
        wanted_for: For::Running,
    },
    Need {
        what: "nsenter, unshare and setsid",
        why: "enter and make the nodes' namespaces",
        proof: &["nsenter", "unshare", "setsid"],
        packages: &["util-linux"],
        wanted_for: For::Running,
    },
    Need {
        what: "containerd and runc",
        why: "run the containers",
        proof: &["containerd", "ctr", "runc"],
        packages: &["containerd", "runc"],
        wanted_for: For::Running,
    },
    Need {
        what: "static busybox",
        why: "goes into the images",
        proof: &["/bin/busybox"],
        packages: &["busybox-static"],
        wanted_for: For::Running,
    },
    Need {
        what: "nft and iptables",
        why: "the tests show that they have no rules, the benchmarks compare with them",
        proof: &["nft", "iptables", "ip6tables"],
        packages: &["nftables", "iptables"],
        wanted_for: For::Testing,
    },
];

/// What Debian brings for building kernel objects where rustup's nightly has no `rust-src`.
const BPF_PACKAGES: &[&str] = &["rustc-web", "cargo-web", "libstd-rust-web-dev-bpf"];
/// What `bpf-linker` is built from and runs with.
const LLVM_PACKAGES: &[&str] = &["llvm-22-dev", "libpolly-22-dev"];
const LLVM_PREFIX: &str = "/usr/lib/llvm-22";

/// Installs what is missing, or says how to.
pub(crate) fn install(wanted: For) -> Result<()> {
    let mut packages: Vec<&str> = Vec::new();
    let mut missing = |what: &str, why: &str, from: &[&'static str]| {
        println!("missing: {what} ({why})");
        packages.extend(from);
    };
    for need in NEEDS.iter().filter(|need| need.wanted_for <= wanted) {
        let there =
            |proof: &&str| if proof.starts_with('/') { Path::new(proof).exists() } else { find(proof).is_some() };
        if !need.proof.iter().all(there) {
            missing(need.what, need.why, need.packages);
        }
    }
    if !has_bpf_rust() {
        missing("a Rust toolchain for BPF", "compiles the kernel object", BPF_PACKAGES);
    }
    let linker = find("bpf-linker").is_some();
    if !linker && !Path::new(LLVM_PREFIX).join("include").exists() {
        missing("LLVM 22", "bpf-linker is built with it", LLVM_PACKAGES);
    }
    if wanted >= For::Running && find("kubectl").is_none() {
        missing("kubectl", "talks to the cluster", &["kubernetes-client"]);
    }
    install_packages(&packages)?;
    if !linker {
        println!("missing: bpf-linker (links the kernel object); building it takes a minute or two");
        let mut install = cargo(["install", "bpf-linker", "--locked", "--version", "0.13.0"]);
        if Path::new(LLVM_PREFIX).exists() {
            install.args(["--no-default-features", "--features", "llvm-22"]);
            install.env("LLVM_PREFIX", LLVM_PREFIX).env("LLVM_SYS_221_PREFIX", LLVM_PREFIX);
        }
        run(&mut install)?;
    }
    if wanted >= For::Testing { unpack_oldest_kubectl() } else { Ok(()) }
}

/// Debian's kubectl is older than anybody's: unpacked beside the programs, it leaves the machine's own alone.
fn unpack_oldest_kubectl() -> Result<()> {
    let dir = workspace::target_dir().join("kubernetes-client");
    if dir.join("usr/bin/kubectl").exists() || find("apt-get").is_none() {
        return Ok(());
    }
    std::fs::create_dir_all(&dir)?;
    println!("fetching Debian's kubectl, the oldest that the tests use");
    run(Command::new("apt-get")
        .args(["download", "-qq", "-o", "APT::Sandbox::User=root", "kubernetes-client"])
        .current_dir(&dir))?;
    for entry in std::fs::read_dir(&dir)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "deb") {
            run(Command::new("dpkg").arg("--extract").arg(&path).arg(&dir))?;
            std::fs::remove_file(&path)?;
        }
    }
    Ok(())
}

fn has_bpf_rust() -> bool {
    skep_ebpf_toolchain::rustc_for_bpf().is_some()
}

fn install_packages(packages: &[&str]) -> Result<()> {
    if packages.is_empty() {
        return Ok(());
    }
    let list = packages.join(" ");
    if find("apt-get").is_none() {
        bail!(
            "this is no Debian. Install, by the names that your system has for them: {list}\n\
             For the kernel object any of these will do:\n  \
             rustup toolchain install nightly --component rust-src && cargo install bpf-linker"
        );
    }
    println!("installing with apt: {list}");
    let apt = |args: &[&str]| {
        let mut command = if is_root() { Command::new("apt-get") } else { Command::new("sudo") };
        if !is_root() {
            command.arg("apt-get");
        }
        command.env("DEBIAN_FRONTEND", "noninteractive").args(args);
        run(&mut command)
    };
    apt(&["update", "-qq"])?;
    let mut install = vec!["install", "-y", "-qq", "--no-install-recommends"];
    install.extend(packages);
    apt(&install)
}
