use std::fs;
use std::io;
use std::path::PathBuf;

/// A kernel setting that could not be changed.
#[derive(Debug, thiserror::Error)]
#[error("set {name} to {value}: {source}")]
pub struct SysctlError {
    /// Path below `/proc/sys`.
    pub name: String,
    /// The value.
    pub value: String,
    /// Why.
    pub source: io::Error,
}

/// Sets a kernel setting of the calling thread's network namespace. `name` is the path below `/proc/sys`. One that has the
/// value already is not written, so that a read-only `/proc/sys` that is set up right is good enough.
///
/// # Errors
/// [`SysctlError`].
pub fn set_sysctl(name: &str, value: &str) -> Result<(), SysctlError> {
    let path = PathBuf::from("/proc/sys").join(name);
    if fs::read_to_string(&path).is_ok_and(|now| now.trim() == value) {
        return Ok(());
    }
    fs::write(&path, value).map_err(|source| SysctlError { name: name.to_owned(), value: value.to_owned(), source })
}

/// As [`set_sysctl`]; a setting that this kernel does not have is left out.
///
/// # Errors
/// [`SysctlError`].
pub fn set_sysctl_if_present(name: &str, value: &str) -> Result<(), SysctlError> {
    match set_sysctl(name, value) {
        Err(error) if error.source.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result,
    }
}
