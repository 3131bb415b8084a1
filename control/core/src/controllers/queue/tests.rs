use jiff::{SignedDuration, Timestamp};

use super::Queue;
use crate::controllers::{Key, Kind};

fn key(name: &str) -> Key {
    Key::cluster(Kind::Node, name)
}

fn start() -> Timestamp {
    "2026-01-01T00:00:00Z".parse().expect("a time")
}

#[test]
fn a_key_waits_once_and_is_worked_on_once_at_a_time() {
    let mut queue = Queue::default();
    queue.add(key("a"));
    queue.add(key("a"));
    queue.add(key("b"));
    assert_eq!(queue.pop(start()), Some(key("a")));
    queue.add(key("a"));
    assert_eq!(queue.pop(start()), Some(key("b")));
    assert_eq!(queue.pop(start()), None, "a is being worked on");
    queue.succeed(&key("a"));
    assert_eq!(queue.pop(start()), Some(key("a")), "it changed meanwhile");
    queue.succeed(&key("a"));
    assert_eq!(queue.pop(start()), None);
}

#[test]
fn failures_in_a_row_double_the_wait_up_to_thirty_seconds() {
    let mut queue = Queue::default();
    let mut now = start();
    queue.add(key("a"));
    let mut waits = Vec::new();
    for _ in 0..16 {
        assert_eq!(queue.pop(now), Some(key("a")));
        queue.fail(&key("a"), now);
        let due = queue.deadline().expect("comes back");
        waits.push(due.duration_since(now).as_millis());
        assert_eq!(queue.pop(due - SignedDuration::from_millis(1)), None);
        now = due;
    }
    assert_eq!(waits[..5], [5, 10, 20, 40, 80]);
    assert_eq!(waits[15], 30_000);
    queue.pop(now);
    queue.succeed(&key("a"));
    queue.add(key("a"));
    queue.pop(now);
    queue.fail(&key("a"), now);
    assert_eq!(queue.deadline(), Some(now + SignedDuration::from_millis(5)), "success starts over");
}

#[test]
fn of_two_times_the_earlier_counts() {
    let mut queue = Queue::default();
    let at = |seconds| start() + SignedDuration::from_secs(seconds);
    queue.add_at(key("a"), at(10));
    queue.add_at(key("a"), at(5));
    queue.add_at(key("a"), at(20));
    assert_eq!(queue.deadline(), Some(at(5)));
    assert_eq!(queue.pop(at(5)), Some(key("a")));
    assert_eq!(queue.deadline(), None);
}
