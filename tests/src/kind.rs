//! The kind backend of [`Cluster`](crate::Cluster): a cluster of Docker containers that somebody's kind made.

use crate::command::{output, words};

/// Why the kind backend cannot run on this machine, `None` if it can.
pub fn missing() -> Option<String> {
    for line in ["docker version", "kind version"] {
        match output(&mut words(line)) {
            Err(_) => return Some(format!("`{line}` cannot be run")),
            Ok(result) if !result.status.success() => {
                let error = String::from_utf8_lossy(&result.stderr);
                return Some(format!("`{line}`: {}", error.lines().next().unwrap_or("failed")));
            }
            Ok(_) => {}
        }
    }
    None
}
