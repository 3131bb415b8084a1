use skep_abi::FrontendKey;

use super::objects::Objects;
use super::owner::Owner;
use super::table::Table;

/// Who wants each frontend, by the owner's number: more than one while an address moves between Services.
#[derive(Debug, Default)]
pub(super) struct Claims {
    by_key: Table<FrontendKey, Claim>,
}

#[derive(Debug)]
enum Claim {
    One(u32),
    Several(Vec<u32>),
}

impl Claims {
    pub(super) fn add(&mut self, key: FrontendKey, owner: u32) {
        let claim = self.by_key.entry(key).or_insert(Claim::One(owner));
        match claim {
            Claim::One(one) if *one == owner => {}
            Claim::One(one) => *claim = Claim::Several(vec![*one, owner]),
            Claim::Several(owners) if owners.contains(&owner) => {}
            Claim::Several(owners) => owners.push(owner),
        }
    }

    pub(super) fn remove(&mut self, key: &FrontendKey, owner: u32) {
        let Some(claim) = self.by_key.get_mut(key) else { return };
        let left = match claim {
            Claim::One(one) => *one != owner,
            Claim::Several(owners) => {
                owners.retain(|other| *other != owner);
                !owners.is_empty()
            }
        };
        if !left {
            self.by_key.remove(key);
        }
    }

    pub(super) fn contains(&self, key: &FrontendKey) -> bool {
        self.by_key.contains_key(key)
    }

    /// Who gets it: the first by name.
    pub(super) fn owner<'a>(&self, key: &FrontendKey, objects: &'a Objects) -> Option<&'a Owner> {
        match self.by_key.get(key)? {
            Claim::One(owner) => objects.owner(*owner),
            Claim::Several(owners) => {
                owners.iter().filter_map(|&owner| objects.owner(owner)).min_by(|a, b| a.name.cmp(&b.name))
            }
        }
    }
}
