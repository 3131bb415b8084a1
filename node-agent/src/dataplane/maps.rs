use skep_agent_core::dataplane::{MapContents, MapWrite, Write};
use skep_dataplane::{Error, Maps};

/// What the maps hold now.
///
/// # Errors
/// A map cannot be read.
pub fn read_contents(maps: &Maps) -> Result<MapContents, Error> {
    let port_rules = maps.port_rules.iter()?.into_iter().map(|(len, key, value)| ((len, key), value));
    let prefixes = maps.prefixes.iter()?.into_iter().map(|(len, key, value)| ((len, key), value));
    Ok(MapContents {
        frontends: maps.frontends.iter()?.into_iter().collect(),
        slots: maps.slots.iter()?.into_iter().collect(),
        backends: maps.backends.iter()?.into_iter().collect(),
        endpoints: maps.endpoints.iter()?.into_iter().collect(),
        identities: maps.identities.iter()?.into_iter().collect(),
        rule_lists: maps.rule_lists.iter()?.into_iter().collect(),
        peer_rules: maps.peer_rules.iter()?.into_iter().collect(),
        port_rules: port_rules.collect(),
        prefixes: prefixes.collect(),
    })
}

/// Carries out one write.
pub(super) fn apply(maps: &Maps, write: &MapWrite) -> Result<(), Error> {
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
        MapWrite::Endpoint(write) => exact!(maps.endpoints, write),
        MapWrite::Identity(write) => exact!(maps.identities, write),
        MapWrite::RuleList(write) => exact!(maps.rule_lists, write),
        MapWrite::PeerRules(write) => exact!(maps.peer_rules, write),
        MapWrite::PortRules(write) => prefix!(maps.port_rules, write),
        MapWrite::Prefix(write) => prefix!(maps.prefixes, write),
    }
}
