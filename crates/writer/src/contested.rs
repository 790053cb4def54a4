//! Addresses with endpoints in namespaces that do not own them: they have no PTR there, and their objects are told so.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::Arc;

use kubernetes::schema::{Problem, foreign_address};
use provenance::FactKey;

/// The objects with an endpoint at an address that belongs to others, each with the first namespace that owns it.
pub(crate) type Losers = Vec<(FactKey, Option<Arc<str>>)>;

/// The contested addresses. A change of one address costs its own objects.
#[derive(Debug, Default)]
pub(crate) struct Contested {
    by_address: HashMap<IpAddr, Losers>,
    by_object: BTreeMap<FactKey, BTreeSet<IpAddr>>,
}

impl Contested {
    /// Takes over what was found at some addresses; `is_whole`: at all. Gives the objects whose problem may differ, each
    /// with its first problem. There is one for all addresses of an object, so that they cannot fill the log.
    pub(crate) fn take_in(
        &mut self,
        found: BTreeMap<IpAddr, Losers>,
        is_whole: bool,
    ) -> BTreeMap<FactKey, Option<Problem>> {
        let mut touched: BTreeSet<FactKey> = BTreeSet::new();
        if is_whole {
            touched.extend(std::mem::take(&mut self.by_object).into_keys());
            self.by_address.clear();
        }
        for (address, losers) in found {
            let before = match losers.is_empty() {
                true => self.by_address.remove(&address),
                false => self.by_address.insert(address, losers.clone()),
            };
            for (object, _) in before.unwrap_or_default() {
                if let Some(addresses) = self.by_object.get_mut(&object) {
                    addresses.remove(&address);
                    if addresses.is_empty() {
                        self.by_object.remove(&object);
                    }
                }
                touched.insert(object);
            }
            for (object, _) in losers {
                let addresses = self.by_object.entry(object.clone()).or_default();
                addresses.insert(address);
                touched.insert(object);
            }
        }
        let problem = |object: FactKey| {
            let problem = self.problem(&object);
            (object, problem)
        };
        touched.into_iter().map(problem).collect()
    }

    /// The problem of an object with the first of its addresses that belong to others.
    fn problem(&self, object: &FactKey) -> Option<Problem> {
        let address = self.by_object.get(object)?.first()?;
        let mut losers = self.by_address.get(address)?.iter();
        let (_, owner) = losers.find(|(loser, _)| loser == object)?;
        Some(foreign_address(object, *address, owner.as_deref()))
    }
}
