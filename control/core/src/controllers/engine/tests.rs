use jiff::SignedDuration;

use super::{Controller, Engine, Report, Turn, Work};
use crate::controllers::testing::{World, node};
use crate::controllers::{Change, Index, Key, Kind, Outcome, Touched, Write};
use crate::scheduler::Scheduler;

/// Asks for something whenever it is asked.
struct Restless;

impl Controller for Restless {
    fn name(&self) -> &'static str {
        "restless"
    }

    fn affected(&self, touched: &Touched, _index: &Index) -> Vec<Key> {
        if touched.key.kind == Kind::Node { vec![touched.key.clone()] } else { Vec::new() }
    }

    fn reconcile(&self, _key: &Key, _index: &Index, _turn: Turn) -> Outcome {
        Outcome { actions: vec![Write::Nothing.into()], requeue_after: None }
    }
}

fn engine() -> Engine {
    Engine::new(vec![Box::new(Restless)], Scheduler::default(), 1)
}

fn take(engine: &mut Engine, world: &World) -> Option<Work> {
    engine.next(world.now)
}

#[test]
fn nothing_is_decided_before_the_first_listing() {
    let mut world = World::new();
    world.must(node("a"));
    let mut engine = engine();
    for change in world.log.clone() {
        engine.apply(change, world.now);
    }
    assert!(take(&mut engine, &world).is_none());
    assert_eq!(engine.deadline(), None);
    engine.apply(world.listing(), world.now);
    assert!(take(&mut engine, &world).is_some());
}

#[test]
fn a_key_waits_until_its_own_writes_are_seen() {
    let mut world = World::new();
    world.must(node("a"));
    let mut engine = engine();
    engine.apply(world.listing(), world.now);
    let work = take(&mut engine, &world).expect("work");
    let written = world.revision + 2;
    engine.finish(work.ticket, Report { revision: written, failed: false }, world.now);
    // A change that the write did not cause comes first.
    let key = Key::cluster(Kind::Node, "a");
    world.merge(&key, None, &serde_json::json!({"metadata": {"labels": {"x": "y"}}})).expect("changes");
    engine.apply(world.log.last().expect("a change").clone(), world.now);
    assert!(take(&mut engine, &world).is_none(), "revision {written} was not seen yet");
    engine.apply(Change::Progress { revision: written }, world.now);
    assert!(take(&mut engine, &world).is_some());
}

#[test]
fn a_write_that_is_never_seen_holds_a_key_for_five_minutes() {
    let mut world = World::new();
    world.must(node("a"));
    let mut engine = engine();
    engine.apply(world.listing(), world.now);
    let work = take(&mut engine, &world).expect("work");
    engine.finish(work.ticket, Report { revision: 1_000_000, failed: true }, world.now);
    world.pass(SignedDuration::from_secs(1));
    assert!(take(&mut engine, &world).is_none());
    let due = engine.deadline().expect("a deadline");
    assert_eq!(due.duration_since(world.now), SignedDuration::from_mins(5) - SignedDuration::from_secs(1));
    world.now = due;
    engine.tick(world.now);
    assert!(take(&mut engine, &world).is_some());
}
