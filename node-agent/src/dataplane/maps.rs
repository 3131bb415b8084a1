use skep_agent_core::dataplane::{MapContents, MapWrite, Write};
use skep_dataplane::{Error, Maps};

/// What the maps hold now.
///
/// # Errors
/// A map cannot be read.
pub fn read_contents(maps: &Maps) -> Result<MapContents, Error> {
    let port_rules = maps.port_rules.iter()?.into_iter().map(|(len, key, value)| ((len, key), value));
    let source_ranges = maps.source_ranges.iter()?.into_iter().map(|(len, key, value)| ((len, key), value));
    let routes = maps.routes.iter()?.into_iter().map(|(len, key, value)| ((len, key), value));
    let prefixes = maps.prefixes.iter()?.into_iter().map(|(len, key, value)| ((len, key), value));
    Ok(MapContents {
        frontends: maps.frontends.iter()?.into_iter().collect(),
        slots: maps.slots.iter()?.into_iter().collect(),
        backends: maps.backends.iter()?.into_iter().collect(),
        source_ranges: source_ranges.collect(),
        node_addrs: maps.node_addrs.iter()?.into_iter().collect(),
        routes: routes.collect(),
        announced: maps.announced.iter()?.into_iter().collect(),
        endpoints: maps.endpoints.iter()?.into_iter().collect(),
        identities: maps.identities.iter()?.into_iter().collect(),
        identity_tails: maps.identity_tails.iter()?.into_iter().collect(),
        rule_lists: maps.rule_lists.iter()?.into_iter().collect(),
        peer_rules: maps.peer_rules.iter()?.into_iter().collect(),
        port_rules: port_rules.collect(),
        prefixes: prefixes.collect(),
    })
}

/// Carries out one write.
fn apply(maps: &Maps, write: &MapWrite) -> Result<(), Error> {
    macro_rules! exact {
        ($table:expr, $write:expr) => {
            match $write {
                Write::Put(key, value) => $table.set(key, value),
                Write::Delete(key) => $table.remove(key).map(drop),
            }
        };
    }
    macro_rules! prefix {
        ($table:expr, $write:expr) => {
            match $write {
                Write::Put((len, key), value) => $table.set(*len, key, value),
                Write::Delete((len, key)) => $table.remove(*len, key).map(drop),
            }
        };
    }
    match write {
        MapWrite::Frontend(write) => exact!(maps.frontends, write),
        MapWrite::Slot(write) => exact!(maps.slots, write),
        MapWrite::Backend(write) => exact!(maps.backends, write),
        MapWrite::SourceRange(write) => prefix!(maps.source_ranges, write),
        MapWrite::NodeAddr(write) => exact!(maps.node_addrs, write),
        MapWrite::Route(write) => prefix!(maps.routes, write),
        MapWrite::Announced(write) => exact!(maps.announced, write),
        MapWrite::Endpoint(write) => exact!(maps.endpoints, write),
        MapWrite::Identity(write) => exact!(maps.identities, write),
        MapWrite::IdentityTail(write) => exact!(maps.identity_tails, write),
        MapWrite::RuleList(write) => exact!(maps.rule_lists, write),
        MapWrite::PeerRules(write) => exact!(maps.peer_rules, write),
        MapWrite::PortRules(write) => prefix!(maps.port_rules, write),
        MapWrite::Prefix(write) => prefix!(maps.prefixes, write),
    }
}

/// How many writes at the beginning of `writes` can be carried out together: puts of one map that may have very many, else
/// one.
pub fn run_length(writes: &[MapWrite]) -> usize {
    macro_rules! run {
        ($kind:ident) => {
            writes.iter().take_while(|write| matches!(write, MapWrite::$kind(Write::Put(..)))).count()
        };
    }
    match writes.first() {
        Some(MapWrite::Slot(Write::Put(..))) => run!(Slot),
        Some(MapWrite::Backend(Write::Put(..))) => run!(Backend),
        Some(MapWrite::Frontend(Write::Put(..))) => run!(Frontend),
        Some(MapWrite::Identity(Write::Put(..))) => run!(Identity),
        Some(MapWrite::IdentityTail(Write::Put(..))) => run!(IdentityTail),
        Some(MapWrite::PeerRules(Write::Put(..))) => run!(PeerRules),
        Some(_) => 1,
        None => 0,
    }
}

/// Carries out writes of one run ([`run_length`]), or some of it. Returns the places of those that failed.
pub fn apply_run(maps: &Maps, run: &[&MapWrite]) -> Vec<(usize, Error)> {
    macro_rules! put_all {
        ($kind:ident, $table:expr) => {{
            let puts = run.iter().filter_map(|write| match write {
                MapWrite::$kind(Write::Put(key, value)) => Some((*key, *value)),
                _ => None,
            });
            let (keys, values): (Vec<_>, Vec<_>) = puts.unzip();
            $table.set_all(&keys, &values)
        }};
    }
    match run.first() {
        Some(MapWrite::Slot(Write::Put(..))) => put_all!(Slot, maps.slots),
        Some(MapWrite::Backend(Write::Put(..))) => put_all!(Backend, maps.backends),
        Some(MapWrite::Frontend(Write::Put(..))) => put_all!(Frontend, maps.frontends),
        Some(MapWrite::Identity(Write::Put(..))) => put_all!(Identity, maps.identities),
        Some(MapWrite::IdentityTail(Write::Put(..))) => put_all!(IdentityTail, maps.identity_tails),
        Some(MapWrite::PeerRules(Write::Put(..))) => put_all!(PeerRules, maps.peer_rules),
        _ => run.iter().enumerate().filter_map(|(at, write)| Some((at, apply(maps, write).err()?))).collect(),
    }
}
