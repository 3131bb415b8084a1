use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt as _;

use skep_agent_core::pods::volume::FileContent;
use tempfile::TempDir;

use super::*;

fn plan(files: &[(&str, &str, u32)]) -> VolumePlan {
    let files = files.iter().map(|&(path, text, mode)| (path.to_owned(), FileContent { bytes: text.into(), mode }));
    let source = VolumeSource::Files { memory: false, files: files.collect() };
    VolumePlan { volumes: BTreeMap::from([("settings".to_owned(), source)]), group: None }
}

fn layout(dir: &TempDir) -> Layout {
    Layout { pods: dir.path().join("pods"), logs: dir.path().join("logs") }
}

#[test]
fn files_change_all_at_once_and_only_when_they_change() {
    let dir = TempDir::new().unwrap();
    let layout = layout(&dir);
    write(&layout, "u1", &plan(&[("a", "1", 0o400), ("d/b", "2", 0o644)])).unwrap();
    let volume = layout.volume("u1", "settings");
    let read = |path: &str| fs::read_to_string(volume.join(path)).ok();
    assert_eq!((read("a"), read("d/b")), (Some("1".to_owned()), Some("2".to_owned())));
    assert_eq!(fs::metadata(volume.join("a")).unwrap().mode() & 0o777, 0o400);
    assert_eq!(fs::read_link(volume.join("d")).unwrap(), Path::new("..data/d"));
    let first = fs::read_link(volume.join("..data")).unwrap();

    write(&layout, "u1", &plan(&[("a", "1", 0o400), ("d/b", "2", 0o644)])).unwrap();
    assert_eq!(fs::read_link(volume.join("..data")).unwrap(), first, "nothing changed, so nothing is written");

    write(&layout, "u1", &plan(&[("a", "1", 0o400), ("c", "3", 0o644)])).unwrap();
    assert_ne!(fs::read_link(volume.join("..data")).unwrap(), first);
    assert_eq!((read("a"), read("d/b"), read("c")), (Some("1".to_owned()), None, Some("3".to_owned())));
    let mut names: Vec<_> = fs::read_dir(&volume).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names.len(), 4, "the old files are gone: {names:?}");
}

#[test]
fn host_paths_are_checked() {
    let dir = TempDir::new().unwrap();
    let missing = dir.path().join("missing");
    assert!(host_path(&missing, HostPathKind::Unchecked).is_ok());
    assert!(host_path(&missing, HostPathKind::Directory).is_err());
    assert!(host_path(&missing, HostPathKind::DirectoryOrCreate).is_ok() && missing.is_dir());
    let error = host_path(&missing, HostPathKind::File).unwrap_err();
    assert_eq!(error.to_string(), "hostPath type check failed: is not a file");
}

#[test]
fn a_part_of_a_volume_never_leads_out_of_it() {
    if !nix::unistd::Uid::effective().is_root() {
        eprintln!("skipped: mounting needs root");
        return;
    }
    let dir = TempDir::new().unwrap();
    let layout = layout(&dir);
    let volume = layout.volume("u1", "data");
    fs::create_dir_all(&volume).unwrap();
    std::os::unix::fs::symlink("/etc", volume.join("out")).unwrap();
    let target = layout.sub_path("u1", "app", 0);
    assert!(sub_path(&volume, Path::new("out/passwd"), &target).is_err());
    sub_path(&volume, Path::new("in/side"), &target).unwrap();
    fs::write(target.join("file"), "x").unwrap();
    assert_eq!(fs::read_to_string(volume.join("in/side/file")).unwrap(), "x");
    sub_path(&volume, Path::new("in/side"), &target).unwrap();
    remove(&layout, "u1").unwrap();
    assert!(!layout.pod("u1").exists());
}

#[test]
fn memory_is_mounted_once_and_removed() {
    if !nix::unistd::Uid::effective().is_root() {
        eprintln!("skipped: mounting needs root");
        return;
    }
    let dir = TempDir::new().unwrap();
    let layout = layout(&dir);
    let source = VolumeSource::Empty { memory: true, size_limit: Some(1 << 20) };
    let plan = VolumePlan { volumes: BTreeMap::from([("cache".to_owned(), source)]), group: Some(1234) };
    write(&layout, "u1", &plan).unwrap();
    write(&layout, "u1", &plan).unwrap();
    let volume = layout.volume("u1", "cache");
    assert!(mounts::is_mount_point(&volume).unwrap());
    assert_eq!(fs::metadata(&volume).unwrap().gid(), 1234);
    fs::create_dir_all(layout.logs.join("shop_web_u1/app")).unwrap();
    fs::create_dir_all(layout.logs.join("shop_web_u2/app")).unwrap();
    remove(&layout, "u1").unwrap();
    assert!(!layout.pod("u1").exists() && !layout.logs.join("shop_web_u1").exists());
    assert!(layout.logs.join("shop_web_u2").exists());
}
