use std::fs::File;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nix::sched::{CloneFlags, setns};
use tokio::sync::oneshot;

use super::Netlink;

/// A network namespace that is not the agent's own.
#[derive(Clone, Debug)]
pub struct Namespace {
    path: Arc<PathBuf>,
    file: Arc<File>,
}

impl Namespace {
    /// Opens the namespace that is mounted at `path`.
    ///
    /// # Errors
    /// The path cannot be opened.
    pub fn open(path: &Path) -> io::Result<Self> {
        Ok(Self { path: Arc::new(path.to_owned()), file: Arc::new(File::open(path)?) })
    }

    /// For requests that name the namespace by descriptor.
    #[must_use]
    pub fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// Runs `work` inside of the namespace, and gives what it returned and a netlink socket that acts there.
    ///
    /// On a thread that ends with it: a thread of the pool that came back into the wrong namespace would be worse than
    /// the cost of a new one.
    ///
    /// # Errors
    /// The namespace cannot be entered, or the socket not be opened.
    pub async fn enter<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> io::Result<(T, Netlink)> {
        let runtime = tokio::runtime::Handle::current();
        let (answer, answered) = oneshot::channel();
        let file = Arc::clone(&self.file);
        std::thread::Builder::new().name("netns".to_owned()).stack_size(128 * 1024).spawn(move || {
            let inside = || {
                setns(&*file, CloneFlags::CLONE_NEWNET)?;
                let _runtime = runtime.enter();
                let netlink = Netlink::open()?;
                Ok((work(), netlink))
            };
            // Nobody waits any more when the request was dropped.
            let _ = answer.send(inside());
        })?;
        answered.await.map_err(|_| io::Error::other(format!("the thread in {} ended early", self.path.display())))?
    }
}
