//! NetworkPolicies to rule lists.
//!
//! Local pods that are selected by the same policies in a direction share a rule list. A list changes in two ways:
//!
//! ```text
//!  other peers only    peer entries one by one, each at once right for its identity; same list
//!  anything else       drain n    the new list's entries  ─►  endpoints flip to it
//!                      drain n+1  the old list's entries are removed
//! ```
//!
//! A pod whose policies cannot be compiled or written is closed.

mod endpoint;
mod image;
mod ports;
mod prefixes;
mod rules;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use skep_abi::{Bits, Direction, PeerKey};
use skep_verdict::policy::MAX_WORDS;

use super::identity::Group;
use super::population::{Pod, PodKey, Population};
use super::staged::Staged;
use super::{EndpointPort, MapContents, MapWrite, NetworkPolicy, ObjectName, RuleListName, Selector, Write};
use endpoint::value;
use image::{Image, WORD, peer_rules};
use rules::{Rule, lay_out, names_ports, rules_of};

pub(crate) use endpoint::write_unsynced;

/// A policy as far as it could be read.
#[derive(Debug)]
enum Policy {
    Read(NetworkPolicy),
    /// Only the pods that it selects are known: they are closed.
    Unreadable(Selector),
}

impl Policy {
    fn selector(&self) -> &Selector {
        match self {
            Self::Read(policy) => &policy.pod_selector,
            Self::Unreadable(selector) => selector,
        }
    }
}

/// What decides the content of a rule list.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct ListKey {
    namespace: String,
    direction: Direction,
    policies: Vec<String>,
    /// The selected pod's ports that ingress rules name.
    named_ports: Vec<EndpointPort>,
}

#[derive(Debug)]
struct List {
    number: u32,
    rules: Vec<Rule>,
    image: Image,
    /// Some bits depend on which pods there are, not on identities only.
    follows_pods: bool,
}

/// The lists of a local endpoint.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Assignment {
    lists: [Option<ListKey>; 2],
    closed: bool,
}

/// The fold of NetworkPolicies, and of local endpoints into the `endpoints` map.
#[derive(Debug, Default)]
pub(crate) struct Policies {
    policies: BTreeMap<ObjectName, Policy>,
    changed: BTreeSet<ObjectName>,
    lists: BTreeMap<ListKey, List>,
    assigned: BTreeMap<u32, Assignment>,
    users: BTreeMap<ListKey, BTreeSet<u32>>,
    /// Lists that the maps refused: their endpoints stay closed until the policies change or the maps are read again.
    unwritable: BTreeSet<ListKey>,
    last_number: u32,
    /// Lists that the last write replaced.
    retired: Vec<(u32, Image)>,
    /// Lists found in the maps, until the first write.
    found: BTreeMap<u32, Image>,
    recheck: bool,
}

impl Policies {
    pub(crate) fn put(&mut self, policy: NetworkPolicy) {
        let name = policy.name.clone();
        let same = matches!(self.policies.get(&name), Some(Policy::Read(old)) if *old == policy);
        if !same {
            self.changed.insert(name.clone());
            self.policies.insert(name, Policy::Read(policy));
        }
    }

    /// Notes a policy that could not be read; `selects` when at least its selector could.
    pub(crate) fn reject(&mut self, name: &ObjectName, selects: Option<&Selector>) {
        if !matches!(self.policies.get(name), Some(Policy::Read(_))) {
            let selector = selects.cloned().unwrap_or_else(Selector::all);
            self.policies.insert(name.clone(), Policy::Unreadable(selector));
            self.changed.insert(name.clone());
        }
    }

    pub(crate) fn delete(&mut self, name: &ObjectName) {
        if self.policies.remove(name).is_some() {
            self.changed.insert(name.clone());
        }
    }

    pub(crate) fn policy_names(&self) -> impl Iterator<Item = &ObjectName> {
        self.policies.keys()
    }

    /// Takes over the numbers in the maps, and lets the next write compare everything with them.
    pub(crate) fn adopt(&mut self, contents: &MapContents) {
        if self.lists.is_empty() {
            self.found = Image::found(contents);
            let numbers = self.found.keys().copied();
            let used = contents.endpoints.values().flat_map(|endpoint| endpoint.rule_list);
            self.last_number = numbers.chain(used).max().unwrap_or(0).max(self.last_number);
        }
        self.retired.clear();
        self.unwritable.clear();
        self.recheck = true;
    }

    /// Notes a write that failed. Endpoints of the list that it belongs to are closed by the next write.
    pub(crate) fn write_failed(&mut self, write: &MapWrite) {
        let number = match *write {
            MapWrite::RuleList(Write::Put(key, _)) => key.list,
            MapWrite::PeerRules(Write::Put(key, _)) => key.list,
            MapWrite::PortRules(Write::Put((_, key), _)) => key.list,
            MapWrite::Prefix(Write::Put((_, key), _)) => key.list,
            MapWrite::Endpoint(Write::Put(..)) => {
                // The endpoint still asks the list that it had; found again when the maps are adopted again.
                self.retired.clear();
                return;
            }
            _ => return,
        };
        let list = self.lists.iter().find(|(_, list)| list.number == number).map(|(key, _)| key.clone());
        self.unwritable.extend(list);
    }

    /// Whether an endpoint would flip to a list that is not whole.
    pub(crate) fn is_void(&self, write: &MapWrite) -> bool {
        let MapWrite::Endpoint(Write::Put(_, value)) = write else { return false };
        let mut lists = self.unwritable.iter().filter_map(|key| self.lists.get(key));
        lists.any(|list| value.rule_list.contains(&list.number))
    }

    pub(crate) fn has_retired(&self) -> bool {
        !self.retired.is_empty()
    }

    /// Whether some endpoint is closed because of its policies.
    pub(crate) fn closed(&self) -> impl Iterator<Item = u32> {
        self.assigned.iter().filter(|(_, assignment)| assignment.closed).map(|(&ifindex, _)| ifindex)
    }

    /// Stages what changed since the last call. `pods` are the pods that came, went or changed, `interfaces` the local
    /// interfaces that did.
    pub(crate) fn write(
        &mut self,
        population: &mut Population,
        pods: &BTreeSet<PodKey>,
        mut interfaces: BTreeSet<u32>,
        staged: &mut Staged,
    ) {
        let retired = std::mem::take(&mut self.retired);
        let identities = population.identities.take_changed();
        let departed = population.identities.take_departed();
        let changed = std::mem::take(&mut self.changed);
        let recheck = std::mem::take(&mut self.recheck);
        let namespaces: BTreeSet<&str> = changed.iter().map(|name| name.namespace.as_str()).collect();
        self.unwritable.retain(|key| !namespaces.contains(key.namespace.as_str()));
        interfaces.extend(population.local().iter().filter_map(|(&ifindex, endpoint)| {
            (recheck || namespaces.contains(endpoint.namespace.as_str())).then_some(ifindex)
        }));
        interfaces.extend(self.users_of_unwritable());
        for &ifindex in &interfaces {
            let assignment = population.local_pod(ifindex).map(|(endpoint, pod)| self.assign(&endpoint.namespace, pod));
            self.reassign(ifindex, assignment);
        }

        let wanted: Vec<ListKey> = self.users.keys().cloned().collect();
        for key in wanted {
            let stale = match self.lists.get(&key) {
                None => true,
                Some(list) => {
                    (list.follows_pods && !pods.is_empty())
                        || key.policies.iter().any(|policy| changed.contains(&ObjectName::new(&key.namespace, policy)))
                }
            };
            if stale {
                if self.build(&key, population, staged) {
                    self.lists.get(&key).into_iter().for_each(|list| list.lend_peers(&departed, staged));
                    interfaces.extend(self.users.get(&key).into_iter().flatten());
                }
            } else if let Some(list) = self.lists.get_mut(&key) {
                for &identity in &identities {
                    let group = population.identities.group(identity);
                    let entries = group.map(|group| peer_rules(&list.rules, identity, group));
                    list.replace_peers(identity, entries, staged);
                }
            }
            if recheck && let Some(list) = self.lists.get(&key) {
                list.image.put(list.number, staged);
            }
        }
        for &ifindex in &interfaces {
            self.write_endpoint(ifindex, population, staged);
        }
        let unused: Vec<ListKey> = self.lists.keys().filter(|key| !self.users.contains_key(key)).cloned().collect();
        for key in unused {
            self.retired.extend(self.lists.remove(&key).map(|list| (list.number, list.image)));
        }
        for (number, image) in retired {
            image.delete(number, staged);
        }
        if recheck {
            self.found.clear();
            self.prune(population, staged);
        }
    }

    /// The lists that a pod must have.
    fn assign(&self, namespace: &str, pod: &Pod) -> Assignment {
        let first = ObjectName::new(namespace, "");
        let policies = self.policies.range(first..).take_while(|(name, _)| name.namespace == namespace);
        let selecting: Vec<_> =
            policies.map(|(_, policy)| policy).filter(|policy| policy.selector().matches(&pod.labels)).collect();
        let mut closed = selecting.iter().any(|policy| matches!(policy, Policy::Unreadable(_)));
        let lists = [Direction::Ingress, Direction::Egress].map(|direction| {
            let isolating = selecting.iter().filter_map(|policy| match policy {
                Policy::Read(policy) => rules_of(direction, policy).map(|_| policy),
                Policy::Unreadable(_) => None,
            });
            let isolating: Vec<_> = isolating.collect();
            if isolating.is_empty() {
                return None;
            }
            let named = direction == Direction::Ingress
                && isolating.iter().any(|policy| names_ports(Direction::Ingress, policy));
            Some(ListKey {
                namespace: namespace.to_owned(),
                direction,
                policies: isolating.iter().map(|policy| policy.name.name.clone()).collect(),
                named_ports: if named { pod.named_ports.clone() } else { Vec::new() },
            })
        });
        closed |= lists.iter().flatten().any(|key| self.unwritable.contains(key));
        // A closed endpoint asks no list, and what was written of a list that failed can go.
        let lists = if closed { [None, None] } else { lists };
        Assignment { lists, closed }
    }

    fn reassign(&mut self, ifindex: u32, assignment: Option<Assignment>) {
        if let Some(old) = self.assigned.remove(&ifindex) {
            for key in old.lists.into_iter().flatten() {
                if let Some(users) = self.users.get_mut(&key) {
                    users.remove(&ifindex);
                    if users.is_empty() {
                        self.users.remove(&key);
                    }
                }
            }
        }
        if let Some(new) = assignment {
            for key in new.lists.iter().flatten() {
                self.users.entry(key.clone()).or_default().insert(ifindex);
            }
            self.assigned.insert(ifindex, new);
        }
    }

    fn users_of_unwritable(&self) -> Vec<u32> {
        self.unwritable.iter().filter_map(|key| self.users.get(key)).flatten().copied().collect()
    }

    /// Compiles a list. Returns whether its number is a new one, which its endpoints must flip to.
    fn build(&mut self, key: &ListKey, population: &Population, staged: &mut Staged) -> bool {
        let policies: Vec<&NetworkPolicy> = key
            .policies
            .iter()
            .filter_map(|name| match self.policies.get(&ObjectName::new(&key.namespace, name)) {
                Some(Policy::Read(policy)) => Some(policy),
                _ => None,
            })
            .collect();
        let rules = lay_out(key.direction, &policies, &key.named_ports, population);
        let image = Image::compile(&rules, &population.identities);
        let follows_pods =
            key.direction == Direction::Egress && policies.iter().any(|policy| names_ports(Direction::Egress, policy));
        let old = self.lists.remove(key);
        let before = old.as_ref().map(|old| old.number);
        let reusable = match old {
            Some(old) if old.image.same_frame(&image) => Some((old.number, old.image)),
            Some(old) => {
                self.retired.push((old.number, old.image));
                None
            }
            None => self.find(key, &image, staged.contents()),
        };
        let number = match reusable {
            Some((number, old)) => {
                image.put(number, staged);
                for &peer in old.peers.keys().filter(|peer| !image.peers.contains_key(peer)) {
                    let used = population.identities.group(peer.identity).is_some();
                    remove_peer(PeerKey { list: number, ..peer }, used, staged);
                }
                number
            }
            None => {
                self.last_number = self.last_number.wrapping_add(1).max(1);
                image.put(self.last_number, staged);
                self.last_number
            }
        };
        self.lists.insert(key.clone(), List { number, rules, image, follows_pods });
        before != Some(number)
    }

    /// A list of an earlier agent that an endpoint of this one has and that is the same but for peers.
    fn find(&mut self, key: &ListKey, image: &Image, contents: &MapContents) -> Option<(u32, Image)> {
        let users = self.users.get(key)?;
        let numbers = users.iter().filter_map(|ifindex| {
            let endpoint = contents.endpoints.get(ifindex)?;
            endpoint.rule_list.get(key.direction as usize).copied()
        });
        let number =
            numbers.into_iter().find(|number| self.found.get(number).is_some_and(|old| old.same_frame(image)))?;
        Some((number, self.found.remove(&number)?))
    }

    fn write_endpoint(&self, ifindex: u32, population: &Population, staged: &mut Staged) {
        let (Some((endpoint, pod)), Some(assignment)) = (population.local_pod(ifindex), self.assigned.get(&ifindex))
        else {
            staged.delete_endpoint(ifindex);
            return;
        };
        let lists = [&assignment.lists[0], &assignment.lists[1]].map(|key| self.lists.get(key.as_ref()?));
        let too_long = lists.iter().flatten().any(|list| list.image.words.len() > usize::from(MAX_WORDS));
        let lists = lists.map(|list| list.map(|list| (list.number, list.image.words.len())));
        staged.put_endpoint(ifindex, value(endpoint, pod.identity, lists, assignment.closed || too_long));
    }

    /// Removes what the maps hold and nothing here owns.
    fn prune(&mut self, population: &Population, staged: &mut Staged) {
        let contents = staged.contents();
        let endpoints = contents.endpoints.keys().filter(|ifindex| !population.local().contains_key(ifindex));
        let endpoints: Vec<u32> = endpoints.copied().collect();
        let live: BTreeMap<u32, &Image> = self.lists.values().map(|list| (list.number, &list.image)).collect();
        let mut stale_peers = Vec::new();
        for (number, mut found) in Image::found(contents) {
            match live.get(&number) {
                // A live list has no more than its image, but for peers that are gone.
                Some(image) => {
                    found.peers.retain(|key, _| !image.peers.contains_key(key));
                    stale_peers.extend(found.peers.into_keys().map(|key| PeerKey { list: number, ..key }));
                }
                // An endpoint may have been flipped away from it just now: next time.
                None if !self.retired.iter().any(|(retired, _)| *retired == number) => {
                    self.retired.push((number, found));
                }
                None => {}
            }
        }
        for ifindex in endpoints {
            staged.delete_endpoint(ifindex);
        }
        for key in stale_peers {
            staged.delete_peer(key);
        }
    }

    /// Lists and where their rules come from.
    pub(crate) fn names(&self) -> BTreeMap<u32, RuleListName> {
        let name = |(key, list): (&ListKey, &List)| {
            let name = RuleListName {
                direction: match key.direction {
                    Direction::Ingress => "ingress",
                    Direction::Egress => "egress",
                }
                .to_owned(),
                namespace: key.namespace.clone(),
                policies: key.policies.clone(),
                rules: list.rules.iter().map(|rule| rule.name.clone()).collect(),
            };
            (list.number, name)
        };
        self.lists.iter().map(name).collect()
    }
}

impl List {
    /// In a new list, lets the identities that went out of use pass until the addresses have got their new ones.
    fn lend_peers(&self, departed: &BTreeMap<u64, Arc<Group>>, staged: &mut Staged) {
        let held = |identity: u64, staged: &Staged| staged.contents().identities.values().any(|&held| held == identity);
        for (&identity, group) in departed {
            if !held(identity, staged) {
                continue;
            }
            for (key, bits) in peer_rules(&self.rules, identity, group) {
                let at = PeerKey { list: self.number, ..key };
                staged.put_peer(at, bits);
                staged.delete_peer(at);
            }
        }
    }

    /// Replaces the entries of one identity; `None` when no pod has it any more.
    fn replace_peers(&mut self, identity: u64, entries: Option<BTreeMap<PeerKey, Bits>>, staged: &mut Staged) {
        let used = entries.is_some();
        let entries = entries.unwrap_or_default();
        let end = u32::try_from(self.rules.len().div_ceil(WORD)).unwrap_or(u32::MAX);
        for word in 0..end {
            let key = PeerKey { identity, list: 0, word };
            let at = PeerKey { list: self.number, ..key };
            match entries.get(&key) {
                Some(&bits) => {
                    staged.put_peer(at, bits);
                    self.image.peers.insert(key, bits);
                }
                None if self.image.peers.remove(&key).is_some() => remove_peer(at, used, staged),
                None => {}
            }
        }
    }
}

/// Removes a peer entry: at once when pods have the identity, else after the addresses that had it.
fn remove_peer(key: PeerKey, used: bool, staged: &mut Staged) {
    if used { staged.revoke_peer(key) } else { staged.delete_peer(key) }
}

#[cfg(test)]
pub(crate) mod evaluate;
#[cfg(test)]
mod tests;
