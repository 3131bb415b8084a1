use std::hash::{BuildHasher as _, RandomState};
use std::time::Duration;

/// Waits that double from failure to failure, spread at random so that the nodes of a cluster do not come back at the same
/// moment.
#[derive(Debug)]
pub(crate) struct Backoff {
    first: Duration,
    longest: Duration,
    next: Duration,
}

impl Backoff {
    /// Begins at `first` and stays at `longest`.
    pub(crate) fn new(first: Duration, longest: Duration) -> Self {
        Self { first, longest, next: first }
    }

    /// The next wait: half of the nominal one, and a random part of the other half.
    pub(crate) fn next_wait(&mut self) -> Duration {
        let nominal = self.next;
        self.next = (nominal * 2).min(self.longest);
        // The standard library's hasher keys are the process's source of randomness; nothing secret depends on it.
        let random = RandomState::new().hash_one(()) % 1024;
        nominal / 2 + nominal.mul_f64(random as f64 / 2048.0)
    }

    /// It worked: the next wait is the first again.
    pub(crate) fn reset(&mut self) {
        self.next = self.first;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubles_within_its_bounds_and_starts_over() {
        let mut backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(1));
        for nominal in [100, 200, 400, 800, 1000, 1000] {
            let wait = backoff.next_wait().as_millis();
            assert!((nominal / 2..=nominal).contains(&wait), "{wait} ms for {nominal} ms");
        }
        backoff.reset();
        assert!(backoff.next_wait() <= Duration::from_millis(100));
    }
}
