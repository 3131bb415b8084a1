//! Files that change together, in the layout that containers on Kubernetes rely on.
//!
//! ```text
//! key      -> ..data/key          what containers read
//! ..data   -> ..1764600000.1      renamed over, so that all files change at one moment
//! ..1764600000.1/key              the files
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, chown, symlink};
use std::path::{Component, Path};
use std::time::{SystemTime, UNIX_EPOCH};

use skep_agent_core::pods::volume::FileContent;

use super::set_mode;

const DATA: &str = "..data";
const NEW_DATA: &str = "..data_tmp";

/// Makes the directory show exactly these files; nothing is touched when it does already.
pub(super) fn write(dir: &Path, files: &BTreeMap<String, FileContent>, group: Option<i64>) -> io::Result<()> {
    if is_current(dir, files)? {
        return Ok(());
    }
    let group = group.and_then(|group| u32::try_from(group).ok());
    let data = dir.join(DATA);
    let old = fs::read_link(&data).ok();
    let name = new_name(dir);
    let new = dir.join(&name);
    write_all(&new, files, group)?;
    let link = dir.join(NEW_DATA);
    remove_if_there(&link)?;
    symlink(&name, &link)?;
    fs::rename(&link, &data)?;
    let visible: BTreeSet<OsString> = files.keys().filter_map(|path| first_component(path)).collect();
    for name in &visible {
        let link = dir.join(name);
        if fs::symlink_metadata(&link).is_err() {
            symlink(Path::new(DATA).join(name), &link)?;
        }
    }
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let is_link = entry.file_type()?.is_symlink() && entry.file_name() != DATA;
        if is_link && !visible.contains(&entry.file_name()) {
            fs::remove_file(entry.path())?;
        }
    }
    match old {
        Some(old) => fs::remove_dir_all(dir.join(old)),
        None => Ok(()),
    }
}

fn first_component(path: &str) -> Option<OsString> {
    let mut components = Path::new(path).components();
    components.find_map(|component| match component {
        Component::Normal(name) => Some(name.to_owned()),
        _ => None,
    })
}

/// A name that no earlier content of this directory had.
fn new_name(dir: &Path) -> String {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |elapsed| elapsed.as_secs());
    let mut number = 0_u32;
    loop {
        let name = format!("..{seconds}.{number}");
        if fs::symlink_metadata(dir.join(&name)).is_err() {
            return name;
        }
        number += 1;
    }
}

fn write_all(dir: &Path, files: &BTreeMap<String, FileContent>, group: Option<u32>) -> io::Result<()> {
    make_dir(dir, group)?;
    for (path, content) in files {
        let mut parent = dir.to_owned();
        for component in Path::new(path).parent().into_iter().flat_map(Path::components) {
            parent.push(component);
            if !parent.is_dir() {
                make_dir(&parent, group)?;
            }
        }
        let path = dir.join(path);
        // Nobody may read it before its mode is set.
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
        file.write_all(&content.bytes)?;
        let mut mode = content.mode;
        if let Some(group) = group {
            chown(&path, None, Some(group))?;
            // Of a volume with a group of its own, the group can read everything.
            mode |= 0o440;
        }
        set_mode(&path, mode)?;
    }
    Ok(())
}

fn make_dir(dir: &Path, group: Option<u32>) -> io::Result<()> {
    DirBuilder::new().mode(0o755).create(dir)?;
    set_mode(dir, 0o755)?;
    if group.is_some() {
        chown(dir, None, group)?;
    }
    Ok(())
}

fn remove_if_there(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result,
    }
}

fn is_current(dir: &Path, files: &BTreeMap<String, FileContent>) -> io::Result<bool> {
    let data = dir.join(DATA);
    if !data.is_dir() {
        return Ok(false);
    }
    let mut found = BTreeSet::new();
    paths_below(&data, Path::new(""), &mut found)?;
    let wanted: BTreeSet<String> = files.keys().map(|path| normal(path)).collect();
    if found != wanted {
        return Ok(false);
    }
    for (path, content) in files {
        if fs::read(data.join(path))? != content.bytes {
            return Ok(false);
        }
    }
    Ok(true)
}

fn normal(path: &str) -> String {
    let components = Path::new(path).components().filter(|component| *component != Component::CurDir);
    components.collect::<std::path::PathBuf>().to_string_lossy().into_owned()
}

fn paths_below(dir: &Path, prefix: &Path, found: &mut BTreeSet<String>) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let path = prefix.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            paths_below(&entry.path(), &path, found)?;
        } else {
            found.insert(path.to_string_lossy().into_owned());
        }
    }
    Ok(())
}
