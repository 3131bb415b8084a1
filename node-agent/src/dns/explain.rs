use std::net::{IpAddr, SocketAddr};
use std::str::FromStr as _;

use serde::{Deserialize, Serialize};
use skep_agent_core::dns::{Data, Domain, Name, Origin, Query, Rcode, Record, Resolution, Rtype, Topic, candidates};

use super::keeper::{Dns, Shared};
use super::servers;

/// A name that a pod would look up.
#[derive(Clone, Debug, Deserialize)]
pub struct Lookup {
    /// The name as a program gives it, or an address, whose name is looked up.
    pub name: String,
    /// Type of the records; `None` for addresses of both families.
    #[serde(rename = "type")]
    pub rtype: Option<String>,
    /// The pod's Namespace.
    #[serde(default = "default_namespace")]
    pub namespace: String,
}

fn default_namespace() -> String {
    "default".to_owned()
}

/// Nothing can be said.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum LookupError {
    /// There is no such type.
    #[error("type {0:?} is no type of DNS records")]
    Type(String),
    /// No name of this text can be asked for.
    #[error("{0:?} is no DNS name")]
    Name(String),
    /// The agent does not serve cluster DNS, or not yet.
    #[error("this node serves no cluster DNS")]
    NotServed,
}

/// What a pod finds, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    /// What was asked for.
    pub question: String,
    /// The pod's Namespace.
    pub namespace: String,
    /// Whether anything was found.
    pub found: bool,
    /// What the pod's resolver asks, one after the other, until something is found.
    pub steps: Vec<Step>,
}

/// One question and its answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Step {
    /// Fully qualified.
    pub name: String,
    /// Type of the records.
    #[serde(rename = "type")]
    pub rtype: String,
    /// How it ended.
    pub outcome: Outcome,
    /// The code of the answer.
    pub rcode: String,
    /// What in the cluster the answer comes from; absent for names of others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub origin: Option<Origin>,
    /// Who is asked, in this order; empty for names of the cluster.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub upstream: Vec<SocketAddr>,
    /// The answer was kept from an earlier question.
    pub cached: bool,
    /// The answer.
    pub records: Vec<ShownRecord>,
}

/// How a question ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Outcome {
    /// With records.
    Found,
    /// The name is there, and no record of the type.
    NoData,
    /// There is no such name.
    NoName,
    /// With an error, also while the names of the cluster are not complete.
    Failed,
}

/// A record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ShownRecord {
    /// Whose it is.
    pub name: String,
    /// Seconds.
    pub ttl: u32,
    /// Its type.
    #[serde(rename = "type")]
    pub rtype: String,
    /// What it says.
    pub data: String,
}

impl Dns {
    /// Does what a pod's resolver would do, and tells where the answers come from. Names outside of the cluster are really
    /// asked for.
    ///
    /// # Errors
    /// [`LookupError`].
    pub async fn explain(&self, lookup: &Lookup) -> Result<Explanation, LookupError> {
        let shared = self.shared();
        let domain = shared.domain().ok_or(LookupError::NotServed)?;
        let (names, types) = questions(lookup, &domain, shared)?;
        let mut explanation = Explanation {
            question: lookup.name.clone(),
            namespace: lookup.namespace.clone(),
            found: false,
            steps: Vec::new(),
        };
        for name in names {
            for &rtype in &types {
                let step = step(shared, &domain, &name, rtype).await;
                explanation.found |= step.outcome == Outcome::Found;
                explanation.steps.push(step);
            }
            if explanation.found {
                break;
            }
        }
        Ok(explanation)
    }
}

fn questions(lookup: &Lookup, domain: &Domain, shared: &Shared) -> Result<(Vec<Name>, Vec<Rtype>), LookupError> {
    let asked = match &lookup.rtype {
        Some(text) => {
            let rtype = Rtype::from_str(&text.to_ascii_uppercase());
            Some(rtype.map_err(|_| LookupError::Type(text.clone()))?)
        }
        None => None,
    };
    let unnamed = || LookupError::Name(lookup.name.clone());
    if let Ok(addr) = lookup.name.parse::<IpAddr>() {
        let name = Name::reverse_from_addr(addr).map_err(|_| unnamed())?;
        return Ok((vec![name], vec![asked.unwrap_or(Rtype::PTR)]));
    }
    let further = servers::searches(&shared.place.resolv_conf);
    let names = candidates(&lookup.name, &lookup.namespace, domain, &further);
    if names.is_empty() {
        return Err(unnamed());
    }
    Ok((names, asked.map_or_else(|| vec![Rtype::A, Rtype::AAAA], |rtype| vec![rtype])))
}

async fn step(shared: &Shared, domain: &Domain, name: &Name, rtype: Rtype) -> Step {
    let (resolution, origin) = shared.zone.read(|zone| (zone.resolve(domain, name, rtype), zone.origin(domain, name)));
    let mut upstream = Vec::new();
    let mut cached = false;
    let (rcode, records) = match resolution {
        Resolution::Reply(reply) => (reply.rcode, reply.answers),
        Resolution::NotReady => (Rcode::SERVFAIL, Vec::new()),
        Resolution::Elsewhere { records, name } => {
            upstream = shared.forwarder.servers().to_vec();
            let topic = Topic::new(&Query::new(name.clone(), rtype), name);
            let kept = shared.forwarder.recall(&topic);
            cached = kept.is_some();
            let answer = match (kept, shared.handle()) {
                (Some(kept), _) => Some(kept),
                (None, Some(runtime)) => {
                    let forwarder = std::sync::Arc::clone(&shared.forwarder);
                    // Where its tasks run when clients ask. One that panicked has said so.
                    runtime.spawn(async move { forwarder.ask(topic).await }).await.ok()
                }
                (None, None) => None,
            };
            match answer {
                Some(answer) => {
                    let reply = answer.reply.behind(records, answer.age);
                    (reply.rcode, reply.answers)
                }
                None => (Rcode::SERVFAIL, records),
            }
        }
    };
    let found = records.iter().any(|record| !matches!(record.data(), Data::Cname(_)) || rtype == Rtype::CNAME);
    let outcome = match rcode {
        Rcode::NOERROR if found => Outcome::Found,
        Rcode::NOERROR => Outcome::NoData,
        Rcode::NXDOMAIN => Outcome::NoName,
        _ => Outcome::Failed,
    };
    Step {
        name: name.to_string(),
        rtype: rtype.to_string(),
        outcome,
        rcode: rcode.to_string(),
        origin,
        upstream,
        cached,
        records: records.iter().map(shown).collect(),
    }
}

fn shown(record: &Record) -> ShownRecord {
    ShownRecord {
        name: record.owner().to_string(),
        ttl: record.ttl().as_secs(),
        rtype: record.rtype().to_string(),
        data: record.data().to_string(),
    }
}
