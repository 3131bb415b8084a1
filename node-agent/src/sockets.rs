//! Unix sockets that only root may use.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use tokio::net::UnixListener;

/// Listens on `path`. One that an earlier process left is replaced in one step, so that there is always something to
/// connect to.
///
/// # Errors
/// The socket cannot be made.
pub fn bind(path: &Path) -> io::Result<UnixListener> {
    let temporary = path.with_extension("sock.new");
    match fs::remove_file(&temporary) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let listener = UnixListener::bind(&temporary)?;
    fs::set_permissions(&temporary, fs::Permissions::from_mode(0o600))?;
    fs::rename(&temporary, path)?;
    Ok(listener)
}
