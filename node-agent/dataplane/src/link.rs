use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

use crate::Error;
use crate::sys::{self, AttachType, Target};

/// Makes the link that is pinned at `path` run `program` on `target`.
///
/// A link that is there and still hangs on the target is given the program in place, so that no packet or system call
/// passes without one. Otherwise a new link is made and takes the pin.
pub(crate) fn ensure(
    path: &Path,
    program: BorrowedFd<'_>,
    target: Target<'_>,
    target_id: u64,
    attach: AttachType,
) -> Result<(), Error> {
    if update(path, program, target, target_id, attach)? {
        return Ok(());
    }
    remove(path)?;
    let link = sys::link_create(program, target, attach).map_err(|e| failed(path, "cannot be attached", &e))?;
    sys::pin(link.as_fd(), path).map_err(|e| failed(path, "cannot be pinned", &e))
}

/// Gives the link at `path` another program in place; says whether there is such a link on the target.
pub(crate) fn update(
    path: &Path,
    program: BorrowedFd<'_>,
    target: Target<'_>,
    target_id: u64,
    attach: AttachType,
) -> Result<bool, Error> {
    let link = match sys::get(path) {
        Ok(link) => link,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(failed(path, "cannot be opened", &error)),
    };
    let info = sys::link_info(link.as_fd()).map_err(|e| failed(path, "cannot be read", &e))?;
    if !info.is_on(target, target_id, attach) {
        return Ok(false);
    }
    sys::link_update(link.as_fd(), program).map_err(|e| failed(path, "cannot be given the new program", &e))?;
    Ok(true)
}

/// Detaches and removes a pinned link. Absence is no error.
pub(crate) fn remove(path: &Path) -> Result<(), Error> {
    // Without this the program would run on until the kernel has freed the pin, some time after its removal.
    if let Ok(link) = sys::get(path)
        && let Err(error) = sys::link_detach(link.as_fd())
    {
        tracing::debug!(path = %path.display(), %error, "link not detached: what it hung on may be gone");
    }
    match fs::remove_file(path) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(source) => Err(Error::Io { path: path.to_owned(), source }),
    }
}

fn failed(path: &Path, what: &str, error: &io::Error) -> Error {
    Error::Link { path: path.to_owned(), message: format!("{what}: {error}") }
}
