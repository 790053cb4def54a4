//! Which changes of a batch a record can have come or gone by.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::net::IpAddr;

use dns::{RrRef, Rtype};

use crate::facts::{Concern, Concerns};
use crate::schema::endpoint_label;

/// The octets of SRV data before the target.
const SRV_HEAD: usize = 6;

/// The causes of a batch that concern a part of a Service, by what they concern.
#[derive(Debug, Default)]
pub struct Concerned {
    /// Causes that concern SRV records.
    ports: HashSet<u32>,
    /// Causes that concern endpoints.
    endpoints: HashSet<u32>,
    by_address: HashMap<IpAddr, BTreeSet<u32>>,
    by_label: HashMap<String, BTreeSet<u32>>,
}

impl Concerned {
    /// Reads what causes concern. `hides_empty`: Services without endpoints are hidden.
    #[must_use]
    pub fn of(concerns: &Concerns, hides_empty: bool) -> Self {
        let mut concerned = Self::default();
        for (cause, concern) in concerns.iter() {
            match concern {
                Concern::Ports => {
                    concerned.ports.insert(cause);
                }
                Concern::Endpoints { refills, .. } if *refills && hides_empty => {}
                Concern::Endpoints { endpoints, .. } => {
                    concerned.endpoints.insert(cause);
                    for endpoint in endpoints {
                        for address in endpoint.addresses.iter() {
                            let causes = concerned.by_address.entry(*address);
                            causes.or_default().insert(cause);
                            let label = endpoint_label(endpoint, *address);
                            let causes = concerned.by_label.entry(label);
                            causes.or_default().insert(cause);
                        }
                    }
                }
            }
        }
        concerned
    }

    /// Whether all causes concern all records.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ports.is_empty() && self.endpoints.is_empty()
    }

    /// Whether the cause may be one for a part of the records.
    #[must_use]
    pub fn is_partial(&self, cause: u32) -> bool {
        self.ports.contains(&cause) || self.endpoints.contains(&cause)
    }

    /// Those of the causes that concern a record of a Service or ServiceImport; all if none does.
    #[must_use]
    pub fn narrowed(&self, causes: &BTreeSet<u32>, rr: RrRef<'_>) -> BTreeSet<u32> {
        let of_endpoint = match rr.rtype {
            Rtype::A | Rtype::AAAA => rr.address().and_then(|it| self.by_address.get(&it)),
            Rtype::SRV => target_label(rr).and_then(|label| self.by_label.get(label)),
            _ => return causes.clone(),
        };
        let concerns = |cause: &&u32| {
            let by_port = self.ports.contains(*cause) && rr.rtype == Rtype::SRV;
            let by_endpoint = of_endpoint.is_some_and(|causes| causes.contains(*cause));
            by_port || by_endpoint || !self.is_partial(**cause)
        };
        let narrowed: BTreeSet<u32> = causes.iter().filter(concerns).copied().collect();
        match narrowed.is_empty() {
            true => causes.clone(),
            false => narrowed,
        }
    }
}

/// The first label of an SRV record's target.
fn target_label(rr: RrRef<'_>) -> Option<&str> {
    let (length, rest) = rr.data.get(SRV_HEAD..)?.split_first()?;
    std::str::from_utf8(rest.get(..usize::from(*length))?).ok()
}
