/// A netlink request that the kernel refused.
#[derive(Debug, thiserror::Error)]
#[error("{operation}: {}", reason(.source))]
pub struct NetlinkError {
    /// What was asked for.
    pub operation: String,
    /// What came back.
    pub source: rtnetlink::Error,
}

impl NetlinkError {
    /// Names the operation of an error, for `map_err`.
    pub(super) fn of(operation: impl FnOnce() -> String) -> impl FnOnce(rtnetlink::Error) -> Self {
        move |source| Self { operation: operation(), source }
    }

    /// The system's error number, when the kernel gave one.
    #[must_use]
    pub fn errno(&self) -> Option<i32> {
        errno(&self.source)
    }
}

fn errno(error: &rtnetlink::Error) -> Option<i32> {
    match error {
        rtnetlink::Error::NetlinkError(message) => Some(message.raw_code().saturating_abs()),
        _ => None,
    }
}

fn reason(error: &rtnetlink::Error) -> String {
    errno(error).map_or_else(|| error.to_string(), |errno| std::io::Error::from_raw_os_error(errno).to_string())
}

/// Whether the thing that was asked about is not there.
#[must_use]
pub fn not_found(error: &NetlinkError) -> bool {
    use nix::errno::Errno;
    error.errno().is_some_and(|errno| {
        matches!(Errno::from_raw(errno), Errno::ENODEV | Errno::ESRCH | Errno::ENOENT | Errno::ENXIO)
    })
}
