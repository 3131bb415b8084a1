//! One function a command: read, view, print.

use std::io::Write;

use anyhow::{Context as _, Result, bail};
use serde::{Deserialize as _, Serialize};
use skep_abi::{endpoint_flags, map};
use skep_agent_core::dataplane::Names;
use skep_dataplane::Maps;

use crate::args::{Args, Command, Output};
use crate::table::{Row, columns, json};
use crate::view::connections::{ConnRow, OriginRow};
use crate::view::endpoints::EndpointRow;
use crate::view::flows::{self, Filter};
use crate::view::north_south::{
    AffinityRow, AnnouncedRow, CounterRow, HitsRow, NatRow, NodeAddrRow, RouteRow, SourceRangeRow,
};
use crate::view::policy::{self, PodPolicy};
use crate::view::policy_entries::{RuleListRow, RulesRow};
use crate::view::service_entries::{BackendRow, FrontendRow, IdentityRow, SlotRow, TailRow};
use crate::view::status::{self, Links, MapRow, Status};
use crate::view::{dns, drops, services};
use crate::{agent, source, watch};

/// Whether what was asked for is there, and as it should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    Yes,
    No,
}

/// Runs the command; what it shows goes to `out`.
pub(crate) fn run(args: &Args, out: &mut impl Write) -> Result<Found> {
    if let Command::Dns { query, rtype, namespace } = &args.command {
        return look_up(args, query, rtype.as_deref(), namespace, out);
    }
    if let Command::Status = &args.command {
        return status(args, out);
    }
    show(args, out).map(|()| Found::Yes)
}

fn show(args: &Args, out: &mut impl Write) -> Result<()> {
    if let Command::Observe { dropped, pod } = &args.command {
        let pod = pod.as_ref().map(|pod| if pod.contains('/') { pod.clone() } else { format!("default/{pod}") });
        return observe(args, &Filter { dropped: *dropped, pod }, out);
    }
    let maps = source::maps(&args.source.bpf_dir)?;
    let names = source::names(&args.source.names())?;
    let shown = match &args.command {
        Command::Maps { name: Some(name), watch: true } => {
            let read = || entries(Output::Json, name, &maps, &names);
            return watch::follow(args.output, read, out);
        }
        Command::Maps { name: None, .. } => rows(args.output, &map_rows(&maps)?)?,
        Command::Maps { name: Some(name), watch: false } => entries(args.output, name, &maps, &names)?,
        Command::Services => {
            let (frontends, slots, backends) = (maps.frontends.iter()?, maps.slots.iter()?, maps.backends.iter()?);
            let hits = maps.service_hits.totals()?;
            rows(args.output, &services::rows(&frontends, &slots, &backends, &hits, &names))?
        }
        Command::Conntrack => conntrack(args.output, &maps, &names)?,
        Command::Endpoints => table(args.output, &maps.endpoints.iter()?, |entry| EndpointRow::new(entry, &names))?,
        Command::Policy { pod } => {
            let policy = read_policy(args, pod, &maps, &names)?;
            page(args, &policy, PodPolicy::text)?
        }
        Command::Drops { all } => rows(args.output, &drops::rows(&maps.drops.totals()?, *all))?,
        Command::Status | Command::Observe { .. } | Command::Dns { .. } => String::new(),
    };
    out.write_all(shown.as_bytes())?;
    Ok(())
}

fn page<T: Serialize>(args: &Args, value: &T, text: fn(&T) -> String) -> Result<String> {
    Ok(match args.output {
        Output::Table => text(value),
        Output::Json => json(value)?,
    })
}

fn rows<R: Row>(output: Output, rows: &[R]) -> Result<String> {
    Ok(match output {
        Output::Table => columns(rows),
        Output::Json => json(&rows)?,
    })
}

fn table<E, R: Row>(output: Output, entries: &[E], row: impl Fn(&E) -> R) -> Result<String> {
    rows(output, &entries.iter().map(row).collect::<Vec<_>>())
}

/// The entries of one map.
fn entries(output: Output, name: &str, maps: &Maps, names: &Names) -> Result<String> {
    match name {
        map::FRONTENDS => table(output, &maps.frontends.iter()?, |entry| FrontendRow::new(entry, names)),
        map::SLOTS => table(output, &maps.slots.iter()?, |entry| SlotRow::new(entry, names)),
        map::BACKENDS => table(output, &maps.backends.iter()?, |entry| BackendRow::new(entry, names)),
        map::ORIGINS => table(output, &maps.origins.iter()?, |entry| OriginRow::new(entry, names)),
        map::CONNTRACK => conntrack(output, maps, names),
        map::ENDPOINTS => table(output, &maps.endpoints.iter()?, |entry| EndpointRow::new(entry, names)),
        map::IDENTITIES => table(output, &maps.identities.iter()?, |entry| IdentityRow::new(entry, names)),
        map::IDENTITY_TAILS => table(output, &maps.identity_tails.iter()?, |entry| TailRow::new(entry, names)),
        map::RULE_LISTS => table(output, &maps.rule_lists.iter()?, |entry| RuleListRow::new(entry, names)),
        map::PEER_RULES => table(output, &maps.peer_rules.iter()?, |entry| RulesRow::of_peer(entry, names)),
        map::PORT_RULES => table(output, &maps.port_rules.iter()?, |entry| RulesRow::of_port(entry, names)),
        map::PREFIXES => table(output, &maps.prefixes.iter()?, |entry| RulesRow::of_prefix(entry, names)),
        map::AFFINITY => {
            let now = source::boot_time()?;
            table(output, &maps.affinity.iter()?, |entry| AffinityRow::new(entry, names, now))
        }
        map::SOURCE_RANGES => table(output, &maps.source_ranges.iter()?, |entry| SourceRangeRow::new(entry, names)),
        map::NAT => {
            let now = source::boot_time()?;
            table(output, &maps.nat.iter()?, |entry| NatRow::new(entry, names, now))
        }
        map::NODE_ADDRS => table(output, &maps.node_addrs.iter()?, NodeAddrRow::new),
        map::ROUTES => table(output, &maps.routes.iter()?, RouteRow::new),
        map::ANNOUNCED => table(output, &maps.announced.iter()?, AnnouncedRow::new),
        map::SERVICE_HITS => table(output, &maps.service_hits.totals()?, |entry| HitsRow::new(entry, names)),
        map::COUNTERS => table(output, &maps.counters.totals()?, CounterRow::new),
        map::DROPS => rows(output, &drops::rows(&maps.drops.totals()?, true)),
        map::CONFIG | map::EVENTS | map::FRAGMENTS => {
            let hint = match name {
                map::CONFIG => "`skep status` shows it",
                map::EVENTS => "`skep observe` follows it",
                _ => "it holds fragments that are under way; bpftool shows it",
            };
            bail!("map {name} has no rows of its own: {hint}")
        }
        _ => bail!("there is no map {name:?}; the maps are: {}", map::ALL.join(" ")),
    }
}

fn conntrack(output: Output, maps: &Maps, names: &Names) -> Result<String> {
    let now = source::boot_time()?;
    table(output, &maps.conntrack.iter()?, |entry| ConnRow::new(entry, names, now))
}

fn map_rows(maps: &Maps) -> Result<Vec<MapRow>> {
    let count = |name: &str| -> Result<Option<usize>> {
        Ok(Some(match name {
            map::FRONTENDS => maps.frontends.iter()?.len(),
            map::SLOTS => maps.slots.iter()?.len(),
            map::BACKENDS => maps.backends.iter()?.len(),
            map::ORIGINS => maps.origins.iter()?.len(),
            map::CONNTRACK => maps.conntrack.iter()?.len(),
            map::ENDPOINTS => maps.endpoints.iter()?.len(),
            map::IDENTITIES => maps.identities.iter()?.len(),
            map::IDENTITY_TAILS => maps.identity_tails.iter()?.len(),
            map::RULE_LISTS => maps.rule_lists.iter()?.len(),
            map::PEER_RULES => maps.peer_rules.iter()?.len(),
            map::PORT_RULES => maps.port_rules.iter()?.len(),
            map::PREFIXES => maps.prefixes.iter()?.len(),
            map::AFFINITY => maps.affinity.iter()?.len(),
            map::SOURCE_RANGES => maps.source_ranges.iter()?.len(),
            map::NAT => maps.nat.iter()?.len(),
            map::NODE_ADDRS => maps.node_addrs.iter()?.len(),
            map::ROUTES => maps.routes.iter()?.len(),
            map::ANNOUNCED => maps.announced.iter()?.len(),
            map::SERVICE_HITS => maps.service_hits.totals()?.len(),
            _ => return Ok(None),
        }))
    };
    let row = |use_: skep_dataplane::MapUse| {
        let (name, capacity) = (use_.name, use_.capacity);
        Ok(MapRow { name, kind: MapRow::kind(name), entries: count(name)?, capacity })
    };
    maps.capacities()?.into_iter().map(row).collect()
}

/// Whether everything is in place, as far as the exit code tells: no map is nearly full.
fn status(args: &Args, out: &mut impl Write) -> Result<Found> {
    let status = read_status(args, &source::maps(&args.source.bpf_dir)?)?;
    out.write_all(page(args, &status, Status::text)?.as_bytes())?;
    Ok(if status.nearly_full.is_empty() { Found::Yes } else { Found::No })
}

fn read_status(args: &Args, maps: &Maps) -> Result<Status> {
    let config = maps.config.get()?;
    let endpoints = maps.endpoints.iter()?;
    let directory = args.source.bpf_dir.join(format!("v{}", skep_abi::VERSION));
    // That it does not answer is shown: the maps stand without it.
    let agent = agent::status(&args.source.run_dir.join("agent.sock")).ok();
    let rows = map_rows(maps)?;
    Ok(Status {
        version: config.version,
        directory: directory.display().to_string(),
        node_addresses: status::node_addresses(&config),
        flags: status::config_flags_of(&config),
        links: Links::new(source::links(&args.source.bpf_dir)?),
        endpoints: endpoints.len(),
        closed_endpoints: endpoints.iter().filter(|(_, value)| value.flags & endpoint_flags::CLOSED != 0).count(),
        dropped_packets: maps.drops.totals()?.iter().map(|total| total.packets).sum(),
        nearly_full: status::nearly_full(agent.as_ref(), &rows),
        maps: rows,
        agent,
    })
}

fn read_policy(args: &Args, pod: &str, maps: &Maps, names: &Names) -> Result<PodPolicy> {
    let contents = source::policy_contents(maps)?;
    let id = policy::find(pod, names).with_context(|| {
        format!("no pod {pod:?} on this node (names are read from {})", args.source.names().display())
    })?;
    let endpoint = contents.endpoints.values().find(|endpoint| endpoint.id == id);
    let endpoint = endpoint.with_context(|| format!("pod {pod:?} has no entry in the map of endpoints"))?;
    Ok(PodPolicy::new(endpoint, &contents, names))
}

/// Has the agent look a name up.
fn look_up(args: &Args, query: &str, rtype: Option<&str>, namespace: &str, out: &mut impl Write) -> Result<Found> {
    let answer = agent::look_up(&args.source.run_dir.join("agent.sock"), query, rtype, namespace)?;
    let explanation = dns::Explanation::deserialize(&answer).context("the agent's answer")?;
    let shown = match args.output {
        Output::Table => explanation.text(),
        Output::Json => json(&answer)?,
    };
    out.write_all(shown.as_bytes())?;
    Ok(if explanation.found { Found::Yes } else { Found::No })
}

/// Follows the agent's records until it or the reader of `out` ends.
fn observe(args: &Args, filter: &Filter, out: &mut impl Write) -> Result<()> {
    for line in agent::flows(&args.source.run_dir.join("agent.sock"))? {
        let line = line.context("read the agent's flow records")?;
        let record = serde_json::from_str(&line).with_context(|| format!("not a flow record: {line:?}"))?;
        if filter.takes(&record) {
            match args.output {
                Output::Table => out.write_all(flows::line(&record).as_bytes())?,
                Output::Json => writeln!(out, "{line}")?,
            }
            out.flush()?;
        }
    }
    bail!("the agent has ended")
}
