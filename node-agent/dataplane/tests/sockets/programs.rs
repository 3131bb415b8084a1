use std::fs;
use std::net::SocketAddr;

use aya::programs::loaded_links;
use aya::util::KernelVersion;
use skep_abi::Direction;
use skep_dataplane::{Action, Dataplane, Options};

use crate::stream::{ask, echo_server};
use crate::world::{TCP, World, serve};

/// What the verifier gives up at.
const LIMIT: u32 = 1_000_000;

const SERVICE: &str = "10.96.0.10:80";

#[test]
fn programs_stay_far_below_the_verifiers_limit() {
    let Some(world) = World::new() else { return };
    let dataplane = world.open();
    let programs = dataplane.programs();
    assert_eq!(programs.len(), 11);
    for program in programs {
        let Some(verified) = program.verified_instructions else { continue };
        println!("{}: {verified} instructions verified", program.name);
        assert!(verified < LIMIT / 4, "{}: {verified}", program.name);
    }
}

/// The kernel's numbers of the programs, by name.
fn ids(dataplane: &Dataplane) -> Vec<u32> {
    dataplane.programs().iter().map(|program| program.id).collect()
}

/// How many links anywhere run one of these programs.
fn links_of(ids: &[u32]) -> usize {
    // Links of others may go while they are listed.
    loaded_links().flatten().filter(|link| ids.contains(&link.program_id())).count()
}

/// Whether everything works: sockets are translated and programs can be tried.
fn assert_works(dataplane: &Dataplane) {
    let service: SocketAddr = SERVICE.parse().unwrap();
    let backend = echo_server("10.244.1.2:0");
    serve(dataplane, service, TCP, &[backend]);
    let (stream, reply) = ask(service);
    assert_eq!((reply, stream.peer_addr().unwrap()), (backend.to_string(), service));
    let drops = || -> u64 { dataplane.maps().drops.totals().unwrap().iter().map(|total| total.packets).sum() };
    let before = drops();
    let trial = dataplane.try_packet(Direction::Egress, &[0; 64], 1).unwrap();
    assert_eq!((trial.action, drops()), (Action::Drop, before + 1));
}

#[test]
fn the_same_object_is_not_loaded_again() {
    let Some(world) = World::new() else { return };
    let first = world.open();
    let (before, features) = (ids(&first), first.features());
    let infos = first.programs();
    drop(first);
    assert_eq!(links_of(&before), 9);
    let second = world.open();
    assert_eq!(second.programs(), infos);
    assert_eq!(second.features(), features);
    let kernel = KernelVersion::current().unwrap();
    let [set_retval, tcx] = [(5, 18), (6, 6)].map(|(major, minor)| kernel >= KernelVersion::new(major, minor, 0));
    assert_eq!((features.set_retval, features.tcx), (set_retval, tcx), "{kernel:?}");
    assert_eq!(links_of(&before), 9);
    assert_works(&second);
}

#[test]
fn another_object_is_loaded_and_the_earlier_ones_programs_go() {
    let Some(world) = World::new() else { return };
    let before = ids(&world.open());
    world.pretend_other_object();
    let dataplane = world.open();
    let after = ids(&dataplane);
    assert!(after.iter().all(|id| !before.contains(id)), "{before:?} {after:?}");
    assert_eq!((links_of(&before), links_of(&after)), (0, 9));
    // There is one directory only, and it serves the next start.
    assert_eq!(fs::read_dir(world.programs_dir()).unwrap().count(), 11);
    drop(dataplane);
    assert_eq!(ids(&world.open()), after);
}

#[test]
fn what_an_agent_that_was_killed_left_half_done_is_not_adopted() {
    let Some(world) = World::new() else { return };
    let before = ids(&world.open());
    // As it is before the directory comes to its name.
    fs::rename(world.programs_dir(), world.versioned().join("programs-new")).unwrap();
    fs::remove_file(world.versioned().join("programs-new/skep_connect6")).unwrap();
    let dataplane = world.open();
    let after = ids(&dataplane);
    assert_eq!((links_of(&before), links_of(&after)), (0, 9));
    assert_works(&dataplane);
    // As it is while an old directory of this name is removed.
    fs::remove_file(world.programs_dir().join("skep_connect6")).unwrap();
    let dataplane = world.open();
    assert_eq!((links_of(&after), links_of(&ids(&dataplane))), (0, 9));
    assert_works(&dataplane);
}

#[test]
fn programs_that_work_on_maps_which_are_no_longer_pinned_are_not_adopted() {
    let Some(world) = World::new() else { return };
    let before = ids(&world.open());
    fs::remove_file(world.versioned().join("maps/frontends")).unwrap();
    let dataplane = world.open();
    assert_eq!((links_of(&before), links_of(&ids(&dataplane))), (0, 9));
    assert_works(&dataplane);
    let before = ids(&dataplane);
    drop(dataplane);
    // All maps are there, but one of them is another map.
    let fresh = Options { bpf_dir: world.bpf_dir.with_file_name("fresh"), cgroup: None, ..world.options() };
    drop(Dataplane::open(&fresh).unwrap());
    let [ours, theirs] =
        [&world.bpf_dir, &fresh.bpf_dir].map(|dir| dir.join(format!("v{}/maps/slots", skep_abi::VERSION)));
    fs::remove_file(&ours).unwrap();
    fs::rename(&theirs, &ours).unwrap();
    let dataplane = world.open();
    assert_eq!((links_of(&before), links_of(&ids(&dataplane))), (0, 9));
    assert_works(&dataplane);
}

#[test]
fn socket_hooks_can_be_turned_off_and_on_between_two_agents() {
    let Some(world) = World::new() else { return };
    let without = Options { cgroup: None, ..world.options() };
    let pods_only = ids(&Dataplane::open(&without).unwrap());
    assert_eq!(pods_only.len(), 2);
    assert_eq!(ids(&Dataplane::open(&without).unwrap()), pods_only);
    // The socket programs are not there yet.
    let dataplane = world.open();
    let all = ids(&dataplane);
    assert_eq!(links_of(&all), 9);
    assert_works(&dataplane);
    drop(dataplane);
    let dataplane = Dataplane::open(&without).unwrap();
    assert!(ids(&dataplane).iter().all(|id| all.contains(id)));
    assert_eq!((links_of(&all), dataplane.programs().len()), (0, 2));
    drop(dataplane);
    // Now they are.
    let dataplane = world.open();
    assert_eq!(ids(&dataplane), all);
    assert_eq!(links_of(&all), 9);
    assert_works(&dataplane);
}
