//! How long to wait before trying again.

use jiff::{SignedDuration, Timestamp};

/// Doubling delays: nothing before the first retry, then `initial`, 2 x `initial`, ... up to `max`; forgotten after two
/// times `max` without failure.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Backoff {
    initial: SignedDuration,
    max: SignedDuration,
    current: Option<Current>,
}

#[derive(Clone, Debug, Eq, PartialEq)]
struct Current {
    delay: SignedDuration,
    updated: Timestamp,
}

impl Backoff {
    /// Restarts of containers and pulls of images: 10 s to 5 min.
    #[must_use]
    pub fn restarts() -> Self {
        Self::new(SignedDuration::from_secs(10), SignedDuration::from_secs(300))
    }

    /// Attempts at what usually succeeds soon: 1 s to 10 s.
    #[must_use]
    pub fn attempts() -> Self {
        Self::new(SignedDuration::from_secs(1), SignedDuration::from_secs(10))
    }

    fn new(initial: SignedDuration, max: SignedDuration) -> Self {
        Self { initial, max, current: None }
    }

    /// Until when to wait after a failure at `failed`, if that is still to come.
    #[must_use]
    pub fn hold(&self, failed: Timestamp, now: Timestamp) -> Option<Timestamp> {
        let current = self.current.as_ref().filter(|current| !self.is_expired(current, failed))?;
        let until = failed.checked_add(current.delay).unwrap_or(Timestamp::MAX);
        (until > now).then_some(until)
    }

    /// Takes note of a try that follows a failure at `failed`: the next failure waits longer.
    pub fn advance(&mut self, failed: Timestamp, now: Timestamp) {
        let delay = match &self.current {
            Some(current) if !self.is_expired(current, failed) => (current.delay * 2).min(self.max),
            _ => self.initial,
        };
        self.current = Some(Current { delay, updated: now });
    }

    /// Takes note of a failure now, and says when to try again.
    pub fn fail(&mut self, now: Timestamp) -> Timestamp {
        self.advance(now, now);
        self.hold(now, now).unwrap_or(now)
    }

    /// The delay that applies now.
    #[must_use]
    pub fn delay(&self) -> SignedDuration {
        self.current.as_ref().map_or(SignedDuration::ZERO, |current| current.delay)
    }

    /// It succeeded.
    pub fn reset(&mut self) {
        self.current = None;
    }

    fn is_expired(&self, current: &Current, failed: Timestamp) -> bool {
        failed.duration_since(current.updated) > self.max * 2
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubles_to_the_maximum_and_is_forgotten() {
        let start = Timestamp::from_second(1_000_000).unwrap();
        let mut backoff = Backoff::restarts();
        let mut now = start;
        let mut delays = Vec::new();
        for _ in 0..8 {
            let until = backoff.hold(now, now).unwrap_or(now);
            delays.push(until.duration_since(now).as_secs());
            backoff.advance(now, until);
            now = until + SignedDuration::from_secs(1);
        }
        assert_eq!(delays, [0, 10, 20, 40, 80, 160, 300, 300]);
        let after_a_long_run = now + SignedDuration::from_secs(601);
        assert_eq!(backoff.hold(after_a_long_run, after_a_long_run), None);
        backoff.advance(after_a_long_run, after_a_long_run);
        assert_eq!(backoff.delay().as_secs(), 10);
    }
}
