//! Prints what it costs to fill the maps: `cargo run --release -p skep-dataplane --example bulk -- DIR`, as root, with a
//! directory below `/sys/fs/bpf` that is made and removed.

use std::error::Error;
use std::io::Write as _;
use std::path::Path;
use std::time::Instant;

use skep_abi::{Addr, Backend, Config, Frontend, FrontendKey, SlotKey};
use skep_dataplane::{Dataplane, Options};

const SERVICES: u32 = 50_000;
const BACKENDS: u32 = 5;

fn main() -> Result<(), Box<dyn Error>> {
    let dir = std::env::args().nth(1).ok_or("a directory below /sys/fs/bpf is needed")?;
    let result = fill(Path::new(&dir));
    std::fs::remove_dir_all(&dir)?;
    result
}

fn fill(dir: &Path) -> Result<(), Box<dyn Error>> {
    let config = Config { version: skep_abi::VERSION, ..Config::default() };
    let dataplane = Dataplane::open(&Options { bpf_dir: dir.to_owned(), config, ..Options::default() })?;
    let maps = dataplane.maps();
    let mut out = std::io::stdout().lock();
    let slots: Vec<SlotKey> = (0..SERVICES)
        .flat_map(|service| (0..BACKENDS).map(move |index| SlotKey { service, generation: 1, index }))
        .collect();
    let ids: Vec<u32> = (1..=SERVICES * BACKENDS).collect();
    let addr = |n: u32| Addr::v4((0x0a00_0000 + n).to_be_bytes());
    let backend = |&id: &u32| Backend { addr: addr(id), node: Addr::NONE, port_be: 80, proto: 6, state: 0, flags: 0 };
    let backends: Vec<Backend> = ids.iter().map(backend).collect();
    let key = |n| FrontendKey { addr: addr(n), port_be: 80, proto: 6, scope: 0 };
    let frontends: Vec<FrontendKey> = (0..SERVICES).map(key).collect();
    let value = |service| Frontend { service, generation: 1, count: BACKENDS, flags: 0, affinity_timeout: 0 };
    let values: Vec<Frontend> = (0..SERVICES).map(value).collect();
    for round in ["new", "again"] {
        let start = Instant::now();
        let failed = maps.slots.set_all(&slots, &ids).len()
            + maps.backends.set_all(&ids, &backends).len()
            + maps.frontends.set_all(&frontends, &values).len();
        let took = start.elapsed();
        let entries = slots.len() + backends.len() + frontends.len();
        writeln!(out, "{entries} entries in batches, {round}: {took:?} ({failed} failed)")?;
    }
    let start = Instant::now();
    for (key, value) in slots.iter().zip(&ids) {
        maps.slots.set(key, value)?;
    }
    writeln!(out, "{} entries one by one: {:?}", slots.len(), start.elapsed())?;
    Ok(())
}
