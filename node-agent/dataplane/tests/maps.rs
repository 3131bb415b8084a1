//! The maps by their handles. Needs root; the BPF file system is in a mount namespace of its own.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "all of this is test code"
)]

use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, unshare};
use skep_abi::{Addr, Config, Counter, NodeAddr, Route, RouteKey, SlotKey};
use skep_dataplane::{Dataplane, Maps, Options};

/// Loads the kernel object into a BPF file system of this thread's own mount namespace, and calls `act`.
fn with_maps(act: impl FnOnce(&Maps)) {
    if !nix::unistd::geteuid().is_root() {
        eprintln!("skipped: BPF needs root");
        return;
    }
    unshare(CloneFlags::CLONE_NEWNS).unwrap();
    mount(None::<&str>, "/", None::<&str>, MsFlags::MS_REC | MsFlags::MS_PRIVATE, None::<&str>).unwrap();
    let dir = tempfile::tempdir().unwrap();
    mount(Some("bpf"), dir.path(), Some("bpf"), MsFlags::empty(), None::<&str>).unwrap();
    let options = Options {
        bpf_dir: dir.path().join("skep"),
        config: Config { version: skep_abi::VERSION, ..Config::default() },
        ..Options::default()
    };
    let dataplane = Dataplane::open(&options).unwrap();
    act(dataplane.maps());
    drop(dataplane);
    umount2(dir.path(), MntFlags::MNT_DETACH).unwrap();
}

#[test]
fn many_entries_are_written_at_once_and_each_that_has_no_room_is_named() {
    with_maps(|maps| {
        let slot = |index| SlotKey { service: 1, generation: 1, index };
        let keys: Vec<SlotKey> = (0..10_000).map(slot).collect();
        let values: Vec<u32> = (0..10_000).collect();
        assert!(maps.slots.set_all(&keys, &values).is_empty());
        assert_eq!(maps.slots.iter().unwrap(), keys.iter().copied().zip(values).collect::<Vec<_>>());
        // A value that is there is replaced.
        assert!(maps.slots.set_all(&keys[..2], &[7, 8]).is_empty());
        assert_eq!((maps.slots.get(&keys[0]).unwrap(), maps.slots.get(&keys[2]).unwrap()), (Some(7), Some(2)));
        assert!(maps.slots.set_all(&[], &[]).is_empty());

        let capacity = 16_384;
        let addresses: Vec<Addr> = (0..capacity + 10_u32).map(|n| Addr::v4((0x0a00_0000 + n).to_be_bytes())).collect();
        let failed = maps.node_addrs.set_all(&addresses, &vec![NodeAddr { flags: 1 }; addresses.len()]);
        let places: Vec<usize> = failed.iter().map(|(at, _)| *at).collect();
        assert_eq!(places, (capacity as usize..capacity as usize + 10).collect::<Vec<_>>());
        assert!(failed.iter().all(|(_, error)| error.is_full()));
        assert_eq!(maps.node_addrs.iter().unwrap().len(), capacity as usize);
    });
}

#[test]
fn the_longest_route_counts_and_counters_begin_at_zero() {
    with_maps(|maps| {
        let key = |a, b| RouteKey { addr: Addr::v4([10, a, b, 0]) };
        let route = |flags| Route { node: Addr::NONE, flags, pad: 0 };
        maps.routes.set(96 + 16, &key(1, 0), &route(1)).unwrap();
        maps.routes.set(96 + 24, &key(1, 2), &route(2)).unwrap();
        let found = |key| maps.routes.longest_match(128, &key).unwrap().map(|route| route.flags);
        assert_eq!([found(key(1, 1)), found(key(1, 2)), found(key(2, 0))], [Some(1), Some(2), None]);
        assert_eq!(maps.counters.totals().unwrap(), Counter::ALL.map(|counter| (counter, 0)));
        assert_eq!(maps.service_hits.totals().unwrap(), []);
    });
}
