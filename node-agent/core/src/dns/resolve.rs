use std::collections::HashSet;
use std::net::IpAddr;

use domain::base::iana::{Class, Rcode, Rtype};
use domain::base::{Serial, Ttl};
use domain::rdata::{A, Aaaa, Cname, Ns, Ptr, Soa, Srv, Txt};

use super::change::{Endpoint, Service, ServiceKind};
use super::place::{Owner, Place, locate, owner};
use super::reverse::dashed;
use super::zone::{Site, Zone};
use super::{Data, Domain, Name, Record, Reply};

/// How long clients may keep what they were told, seconds: also that a name is not there.
pub const TTL: u32 = 5;
/// Version of the specification that the names follow.
const VERSION: &str = "1.1.0";
/// An `ExternalName` may lead to another one; further than this it leads in a circle.
const LONGEST_CHAIN: usize = 8;
/// All records of a name have the same weight.
const SRV_WEIGHT: u16 = 100;

/// What the zone knows of a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Resolution {
    /// All there is to say.
    Reply(Reply),
    /// Somebody else is to be asked for `name`; his records go behind these, which led there.
    Elsewhere {
        /// `CNAME` records, none when the question itself is not the cluster's.
        records: Vec<Record>,
        /// Whom to ask for.
        name: Name,
    },
    /// The name is the cluster's, or may be, and the stream has not been complete yet: nobody can say that it does not
    /// exist.
    NotReady,
}

impl Zone {
    /// Answers a question of class IN. [`Rtype::ANY`] is answered with the records of one type (RFC 8482, 4.1).
    #[must_use]
    pub fn resolve(&self, domain: &Domain, question: &Name, rtype: Rtype) -> Resolution {
        let mut records = Vec::new();
        let mut name = question.clone();
        for _ in 0..LONGEST_CHAIN {
            if !self.is_synced() && !matches!(owner(domain, &name), Owner::Other) {
                return Resolution::NotReady;
            }
            let Some(place) = locate(self, domain, &name) else {
                return Resolution::Elsewhere { records, name };
            };
            if let (Place::Service(Service { kind: ServiceKind::ExternalName(target), .. }, _), false) =
                (&place, matches!(rtype, Rtype::CNAME | Rtype::ANY))
            {
                records.push(record(&name, Data::Cname(Cname::new(target.clone()))));
                name = target.clone();
                continue;
            }
            let context = Context { zone: self, domain, name: &name };
            return Resolution::Reply(context.reply(&place, rtype, records));
        }
        Resolution::Reply(Reply::error(Rcode::SERVFAIL))
    }
}

/// A name, and where it is looked up.
struct Context<'a> {
    zone: &'a Zone,
    domain: &'a Domain,
    name: &'a Name,
}

impl Context<'_> {
    /// The reply for a name that is no alias; `before` led to it.
    fn reply(&self, place: &Place<'_>, rtype: Rtype, before: Vec<Record>) -> Reply {
        let found = if rtype == Rtype::ANY { self.any(place) } else { self.data(place, rtype) };
        let mut reply = Reply { authoritative: true, answers: before, ..Reply::default() };
        match found {
            Some(data) if !data.is_empty() => {
                if matches!(data[0], Data::Srv(_)) {
                    reply.additional = self.targets(place);
                }
                reply.answers.extend(data.into_iter().map(|data| record(self.name, data)));
                return reply;
            }
            Some(_) => {}
            // RFC 6604, 3: of the last name of a chain.
            None => reply.rcode = Rcode::NXDOMAIN,
        }
        // RFC 2308, 2: how long the absence may be kept.
        let apex = if matches!(place, Place::Pointer(_)) { self.name } else { self.domain.apex() };
        reply.authority.extend(self.soa().map(|soa| record(apex, soa)));
        reply
    }

    fn any(&self, place: &Place<'_>) -> Option<Vec<Data>> {
        use Rtype as T;
        let types = [T::A, T::AAAA, T::SRV, T::CNAME, T::PTR, T::TXT, T::SOA];
        let found = types.into_iter().map(|rtype| self.data(place, rtype));
        // Whether the name exists does not depend on the type.
        found.reduce(|known, further| if known.as_ref().is_some_and(Vec::is_empty) { further } else { known })?
    }

    /// The data of that type; `None` when the name does not exist.
    fn data(&self, place: &Place<'_>, rtype: Rtype) -> Option<Vec<Data>> {
        match place {
            Place::Nothing => None,
            Place::Branch => Some(Vec::new()),
            Place::Apex => Some(match rtype {
                Rtype::SOA => self.soa().into_iter().collect(),
                Rtype::NS => self.server_name().map(|name| Data::Ns(Ns::new(name))).into_iter().collect(),
                _ => Vec::new(),
            }),
            Place::Version => {
                let text = Txt::build_from_slice(VERSION.as_bytes()).ok().filter(|_| rtype == Rtype::TXT);
                Some(text.map(Data::Txt).into_iter().collect())
            }
            Place::NameServer => Some(addresses(self.domain.servers().iter().copied(), rtype)),
            Place::Pod(addr) => Some(addresses([*addr], rtype)),
            Place::Pointer(addr) => Some(if rtype == Rtype::PTR { self.pointers(*addr) } else { Vec::new() }),
            Place::Service(service, site) => self.of_service(service, site, rtype),
            Place::Ports { service, site, protocol, port } => {
                let asked = Asked { protocol: Some(protocol), port: port.as_deref(), named: true };
                let found = self.srv(service, site, &asked);
                // Nothing is there when no port is.
                (!found.is_empty()).then(|| if rtype == Rtype::SRV && port.is_some() { found } else { Vec::new() })
            }
            Place::Endpoint { service, site, label } => {
                let named = site.published(service).filter(|(_, endpoint)| label.names(endpoint));
                let found: Vec<IpAddr> = named.map(|(_, endpoint)| endpoint.address).collect();
                (!found.is_empty()).then(|| addresses(found, rtype))
            }
        }
    }

    fn of_service(&self, service: &Service, site: &Site, rtype: Rtype) -> Option<Vec<Data>> {
        let found = match &service.kind {
            ServiceKind::ExternalName(target) => {
                let alias = (rtype == Rtype::CNAME).then(|| Data::Cname(Cname::new(target.clone())));
                return Some(alias.into_iter().collect());
            }
            ServiceKind::ClusterIp(addrs) => addresses(addrs.iter().copied(), rtype),
            ServiceKind::Headless => {
                let mut published = site.published(service).map(|(_, endpoint)| endpoint.address).peekable();
                // Specification, 2.4.1: no ready endpoint, no name.
                published.peek()?;
                addresses(published, rtype)
            }
        };
        // An extension that `CoreDNS` has too: the only way to learn of a port without a name.
        let any = Asked { protocol: None, port: None, named: false };
        Some(if rtype == Rtype::SRV { self.srv(service, site, &any) } else { found })
    }

    /// Specification, 2.3.2 and 2.4.2.
    fn srv(&self, service: &Service, site: &Site, asked: &Asked<'_>) -> Vec<Data> {
        let data = |number, target| Data::Srv(Srv::new(0, SRV_WEIGHT, number, target));
        match &service.kind {
            ServiceKind::ExternalName(_) => Vec::new(),
            ServiceKind::ClusterIp(_) => {
                let Some(target) = self.service_name(service) else { return Vec::new() };
                let ports = service.ports.iter().filter(|port| asked.takes(&port.name, port.protocol));
                ports.map(|port| data(port.number, target.clone())).collect()
            }
            ServiceKind::Headless => {
                let mut seen = HashSet::new();
                let mut found = Vec::new();
                for (slice, endpoint) in site.published(service) {
                    for port in slice.ports.iter().filter(|port| asked.takes(&port.name, port.protocol)) {
                        let Some(target) = self.endpoint_name(service, endpoint) else { continue };
                        // A host name of two families is one target.
                        if seen.insert((port.number, target.clone())) {
                            found.push(data(port.number, target));
                        }
                    }
                }
                found
            }
        }
    }

    /// Addresses of the names that the place's `SRV` records point to.
    fn targets(&self, place: &Place<'_>) -> Vec<Record> {
        let (Place::Service(service, site) | Place::Ports { service, site, .. }) = place else { return Vec::new() };
        match &service.kind {
            ServiceKind::ExternalName(_) => Vec::new(),
            ServiceKind::ClusterIp(addrs) => {
                let Some(target) = self.service_name(service) else { return Vec::new() };
                addrs.iter().map(|&addr| record(&target, address(addr))).collect()
            }
            ServiceKind::Headless => {
                let mut seen = HashSet::new();
                let published = site.published(service).filter_map(|(_, endpoint)| {
                    let target = self.endpoint_name(service, endpoint)?;
                    seen.insert((endpoint.address, target.clone())).then(|| record(&target, address(endpoint.address)))
                });
                published.collect()
            }
        }
    }

    /// Specification, 2.3.3 and 2.4.3; as `CoreDNS` does, endpoints of every Service have a name.
    fn pointers(&self, addr: IpAddr) -> Vec<Data> {
        let pointer = |name| Data::Ptr(Ptr::new(name));
        if let Some(service) = self.zone.by_cluster_ip(addr) {
            return self.service_name(service).map(pointer).into_iter().collect();
        }
        let mut names: Vec<Name> = Vec::new();
        for (service, site) in self.zone.by_endpoint(addr) {
            for (_, endpoint) in site.published(service).filter(|(_, endpoint)| endpoint.address == addr) {
                names.extend(self.endpoint_name(service, endpoint).filter(|name| !names.contains(name)));
            }
        }
        names.into_iter().map(pointer).collect()
    }

    fn service_name(&self, service: &Service) -> Option<Name> {
        let (namespace, name) = service.key.split_once('/')?;
        self.domain.name(&[name.as_bytes(), namespace.as_bytes(), b"svc"])
    }

    fn endpoint_name(&self, service: &Service, endpoint: &Endpoint) -> Option<Name> {
        let (namespace, name) = service.key.split_once('/')?;
        let own = match &endpoint.hostname {
            Some(hostname) => hostname.as_bytes(),
            None => &dashed(endpoint.address).into_bytes(),
        };
        self.domain.name(&[own, name.as_bytes(), namespace.as_bytes(), b"svc"])
    }

    fn server_name(&self) -> Option<Name> {
        self.domain.name(&[b"ns", b"dns"])
    }

    fn soa(&self) -> Option<Data> {
        // A serial number wraps around (RFC 1982).
        #[allow(clippy::cast_possible_truncation, reason = "see above")]
        let serial = Serial::from(self.zone.revision() as u32);
        let seconds = Ttl::from_secs;
        let contact = self.domain.name(&[b"hostmaster"])?;
        let (refresh, retry, expire) = (seconds(7200), seconds(1800), seconds(86_400));
        Some(Data::Soa(Soa::new(self.server_name()?, contact, serial, refresh, retry, expire, seconds(TTL))))
    }
}

/// Which ports are asked for.
struct Asked<'a> {
    protocol: Option<&'a str>,
    port: Option<&'a str>,
    /// Ports without a name have no name in DNS either.
    named: bool,
}

impl Asked<'_> {
    fn takes(&self, name: &str, protocol: &str) -> bool {
        self.protocol.is_none_or(|asked| asked == protocol)
            && self.port.is_none_or(|asked| asked == name)
            && !(self.named && name.is_empty())
    }
}

/// The addresses of the type's family, each once.
fn addresses(addrs: impl IntoIterator<Item = IpAddr>, rtype: Rtype) -> Vec<Data> {
    let wanted = |addr: &IpAddr| match rtype {
        Rtype::A => addr.is_ipv4(),
        Rtype::AAAA => addr.is_ipv6(),
        _ => false,
    };
    let mut seen = HashSet::new();
    addrs.into_iter().filter(|addr| wanted(addr) && seen.insert(*addr)).map(address).collect()
}

fn address(addr: IpAddr) -> Data {
    match addr {
        IpAddr::V4(addr) => Data::A(A::new(addr)),
        IpAddr::V6(addr) => Data::Aaaa(Aaaa::new(addr)),
    }
}

fn record(owner: &Name, data: Data) -> Record {
    Record::new(owner.clone(), Class::IN, Ttl::from_secs(TTL), data)
}
