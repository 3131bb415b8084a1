use std::collections::BTreeMap;
use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Instant;

use skep_abi::map;
use skep_dataplane::{Dataplane, Error, Maps, Options};

use crate::stream::{ask, echo_server};
use crate::world::{TCP, World, config, frontend_key, serve};

const SERVICE: &str = "10.96.0.10:80";

/// Inode number of everything pinned: a pin that was made anew has another.
fn pins(world: &World) -> BTreeMap<String, u64> {
    use std::os::unix::fs::MetadataExt;
    let mut pins = BTreeMap::new();
    for dir in ["maps", "links"] {
        for entry in fs::read_dir(world.versioned().join(dir)).unwrap() {
            let entry = entry.unwrap();
            pins.insert(entry.file_name().into_string().unwrap(), entry.metadata().unwrap().ino());
        }
    }
    pins
}

#[test]
fn hooks_and_maps_stay_when_the_agent_ends_and_are_adopted_by_the_next() {
    let Some(world) = World::new() else { return };
    let service: SocketAddr = SERVICE.parse().unwrap();
    let backend = echo_server("10.244.1.2:0");
    let dataplane = world.open();
    serve(&dataplane, service, TCP, &[backend]);
    let before = pins(&world);
    assert!(before.contains_key("cgroup-connect4") && before.contains_key("frontends"), "{before:?}");
    drop(dataplane);
    assert_eq!(ask(service).1, backend.to_string(), "between two agents");
    let dataplane = world.open();
    assert_eq!(pins(&world), before);
    let frontend = dataplane.maps().frontends.get(&frontend_key(service, TCP)).unwrap().unwrap();
    assert_eq!(frontend.count, 1);
    assert_eq!(ask(service).1, backend.to_string());
}

#[test]
fn no_connection_is_missed_or_reset_while_programs_are_adopted_or_exchanged() {
    let Some(world) = World::new() else { return };
    let service: SocketAddr = SERVICE.parse().unwrap();
    let backend = echo_server("10.244.1.2:0");
    let dataplane = world.open();
    serve(&dataplane, service, TCP, &[backend]);
    let listener = TcpListener::bind("10.244.1.2:0").unwrap();
    let other: SocketAddr = "10.96.0.11:80".parse().unwrap();
    serve(&dataplane, other, TCP, &[listener.local_addr().unwrap()]);
    let mut open = TcpStream::connect(other).unwrap();
    let (mut accepted, _) = listener.accept().unwrap();

    let stop = Arc::new(AtomicBool::new(false));
    let count = Arc::new(AtomicU64::new(0));
    // The thread inherits this one's namespaces.
    let load = thread::spawn({
        let (stop, count) = (Arc::clone(&stop), Arc::clone(&count));
        move || {
            while !stop.load(Ordering::Relaxed) {
                assert_eq!(ask(service).1, backend.to_string());
                count.fetch_add(1, Ordering::Relaxed);
            }
        }
    });
    for same_object in [true, false, true, false, true] {
        if !same_object {
            world.pretend_other_object();
        }
        let started = Instant::now();
        drop(world.open());
        println!("{} in {:?}", if same_object { "adopted" } else { "loaded and exchanged" }, started.elapsed());
    }
    // What the hooks remember of sockets that are open is brought to maps of other sizes.
    for size in [50_000, 20_000] {
        let started = Instant::now();
        let capacities = [(map::ORIGINS, size), (map::SLOTS, size), (map::FRONTENDS, size)].into();
        drop(Dataplane::open(&Options { capacities, ..world.options() }).unwrap());
        println!("maps of {size} entries in {:?}", started.elapsed());
        assert_eq!(open.peer_addr().unwrap(), other);
    }
    stop.store(true, Ordering::Relaxed);
    load.join().unwrap();
    println!("{} connections during 7 restarts", count.load(Ordering::Relaxed));

    open.write_all(b"still here").unwrap();
    let mut buffer = [0; 10];
    accepted.read_exact(&mut buffer).unwrap();
    assert_eq!(&buffer, b"still here");
    assert_eq!(open.peer_addr().unwrap(), other);
}

#[test]
fn maps_can_be_opened_without_loading_anything() {
    let Some(world) = World::new() else { return };
    assert!(matches!(Maps::open(&world.bpf_dir), Err(Error::Map { name: "frontends", .. })));
    let dataplane = world.open();
    serve(&dataplane, SERVICE.parse().unwrap(), TCP, &[]);
    let maps = Maps::open(&world.bpf_dir).unwrap();
    assert_eq!(maps.frontends.iter().unwrap().len(), 1);
    assert_eq!(maps.config.get().unwrap(), config());
    let capacities = maps.capacities().unwrap();
    assert_eq!(capacities.len(), skep_abi::map::ALL.len());
    assert!(capacities.iter().all(|map| map.capacity > 0), "{capacities:?}");
}

#[test]
fn a_pinned_map_of_another_layout_is_refused_and_left_alone() {
    let Some(world) = World::new() else { return };
    let dataplane = world.open();
    let maps_dir = world.versioned().join("maps");
    drop(dataplane);
    // A map of another layout under this one's name.
    fs::remove_file(maps_dir.join("frontends")).unwrap();
    fs::rename(maps_dir.join("slots"), maps_dir.join("frontends")).unwrap();
    let error = Dataplane::open(&world.options()).err().unwrap();
    assert!(matches!(error, Error::Layout { name: "frontends", .. }), "{error}");
    assert!(maps_dir.join("frontends").exists());
}

#[test]
fn a_directory_that_is_on_no_bpf_file_system_is_refused() {
    let Some(world) = World::new() else { return };
    let dir = tempfile::tempdir().unwrap();
    let options = skep_dataplane::Options { bpf_dir: dir.path().to_owned(), ..world.options() };
    assert!(matches!(Dataplane::open(&options), Err(Error::NotBpfFs(_))));
}

#[test]
fn links_of_another_cgroup_are_made_anew() {
    let Some(world) = World::new() else { return };
    let other = world.cgroup.join("other");
    fs::create_dir(&other).unwrap();
    let options = skep_dataplane::Options { cgroup: Some(other.clone()), ..world.options() };
    let opened = Dataplane::open(&options);
    fs::remove_dir(&other).unwrap();
    let dataplane = opened.unwrap();
    serve(&dataplane, SERVICE.parse().unwrap(), TCP, &[]);
    // This process is not in the other cgroup.
    let error = TcpStream::connect(SERVICE).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NetworkUnreachable, "{error}");
    drop(dataplane);
    let _dataplane = world.open();
    let error = TcpStream::connect(SERVICE).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionRefused, "{error}");
}
