//! The maps say of every connection what the objects say, read naively.

mod model;
mod objects;

use proptest::prelude::*;

use crate::dataplane::policies::evaluate::{Connection, allows};
use crate::dataplane::samples::{change, local, settle, synced};
use crate::dataplane::{Change, LocalEndpoint, MapContents, MapWrite};
use model::World;
use objects::{PODS, Step, a_step, connections};

fn agree(world: &World, held: &MapContents) -> Result<(), TestCaseError> {
    for connection in connections() {
        prop_assert_eq!(allows(held, connection), world.allows(connection), "{:?}", connection);
    }
    Ok(())
}

/// Applies a batch that comes of one change and looks at every moment of it: each connection has its old answer or its
/// new one. But for a pod's connections to itself, which no policy decides: its labels are both sides' at once.
fn step_through(writes: &[MapWrite], held: &mut MapContents) -> Result<(), TestCaseError> {
    let before = held.clone();
    let mut after = held.clone();
    writes.iter().for_each(|write| after.apply(write));
    for write in writes {
        held.apply(write);
        for connection in connections().filter(|connection| !is_self(connection)) {
            let answers = [allows(&before, connection), allows(&after, connection)];
            prop_assert!(answers.contains(&allows(held, connection)), "{:?} after {:?}", connection, write);
        }
    }
    Ok(())
}

fn is_self(connection: &Connection) -> bool {
    let (_, addresses) = PODS[connection.ifindex as usize - 1];
    addresses.iter().any(|addr| addr.parse() == Ok(connection.remote))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_maps_say_what_the_objects_say(steps in prop::collection::vec(a_step(), 1..30)) {
        let mut world = World::default();
        let mut held = MapContents::default();
        let mut index = synced([]);
        let mut undrained = 0;
        for step in steps {
            match step {
                Step::Change(object) => {
                    world.apply(&object);
                    change(&mut index, *object);
                    undrained += 1;
                }
                Step::Local(n, Some(pod_labels)) => {
                    let endpoint = LocalEndpoint { labels: pod_labels, ..local(PODS[n].0, PODS[n].1[0], "") };
                    world.local.insert(endpoint.ifindex, endpoint.clone());
                    index.endpoint_added(endpoint);
                    undrained += 2;
                }
                Step::Local(n, None) => {
                    let ifindex = u32::try_from(n).unwrap() + 1;
                    world.local.remove(&ifindex);
                    index.endpoint_removed(ifindex);
                    undrained += 2;
                }
                Step::Drain => {
                    let writes = index.drain();
                    if undrained == 1 {
                        step_through(&writes, &mut held)?;
                    } else {
                        writes.iter().for_each(|write| held.apply(write));
                    }
                    undrained = 0;
                    agree(&world, &held)?;
                    prop_assert_eq!(&held, index.contents());
                }
                Step::Restart => {
                    index = world.start(held.clone());
                    undrained = 2;
                }
            }
        }
        settle(&mut index).iter().for_each(|write| held.apply(write));
        agree(&world, &held)?;
        let mut fresh = world.start(MapContents::default());
        settle(&mut fresh);
        let sizes = |contents: &MapContents| [
            contents.endpoints.len(), contents.identities.len(), contents.rule_lists.len(), contents.peer_rules.len(),
            contents.port_rules.len(), contents.prefixes.len(), contents.identity_tails.len(),
        ];
        prop_assert_eq!(sizes(&held), sizes(fresh.contents()));
        prop_assert_eq!(settle(&mut world.start(held.clone())), vec![]);
    }
}

#[test]
fn the_model_is_not_vacuous() {
    let mut world = World::default();
    let endpoint = local(PODS[0].0, PODS[0].1[0], "app=x");
    world.local.insert(endpoint.ifindex, endpoint);
    assert!(connections().filter(|connection| world.allows(*connection) == Some(true)).count() > 100);
    world.apply(&Change::NetworkPolicy(crate::dataplane::samples::policy("a/n0", "app=x", Some(vec![]), Some(vec![]))));
    assert_eq!(connections().filter(|connection| world.allows(*connection) == Some(true)).count(), 0);
}
