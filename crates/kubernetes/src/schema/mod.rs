//! DNS-Based Service Discovery for Kubernetes 1.1.0 as pure functions: facts in, records out.
//!
//! Each file implements a part of the specification. Nothing here knows versions, stores or sockets. Anything that
//! cannot become a record is left out and reported as a [`Problem`].

mod apex;
mod catalog;
mod clusterset;
mod concerned;
mod endpoint;
mod external;
mod front;
mod limits;
mod owner;
mod parse_name;
mod pod;
mod reverse;
mod room;
mod service;

pub use apex::{ApexSettings, NameServer, apex_records, soa};
pub use catalog::{CATALOG_TTL, CatalogLabels, CatalogMember, catalog_records, invalid};
pub use clusterset::{has_own_address, import_pointers, render_import};
pub use concerned::Concerned;
pub use endpoint::endpoint_label;
pub use external::{ExternalSettings, external_name, external_pointers, render_external};
pub use front::{Front, InFront, Trusted, outer_addresses_in_front, servers_in_front};
pub use limits::{
    RecordLimits, import_is_cut, records_of_import, records_of_service, service_is_cut,
};
pub use owner::{Claim, Owners, foreign_address};
pub use parse_name::{
    Below, Branch, NAME_SERVER, ObjectName, ParsedName, TOPOLOGY, TopologyRule, ZoneForm,
    parse_name, topology_text,
};
pub use pod::{pod_address, pod_name, pod_record};
pub use reverse::{has_cluster_ip, pointers};
pub use room::{Asked, Rooms};
pub use service::{render_service, service_name};

use std::fmt;

use dns::Record;
use provenance::{FactKey, Kind, ObjectKey};

/// A part of an object that DNS cannot express. The rest of the object is rendered.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Problem {
    /// The object.
    pub object: FactKey,
    /// What is wrong and what was left out.
    pub message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} {}: {}",
            self.object.kind, self.object.key, self.message
        )
    }
}

/// The records of an object, and the problems found in it.
#[derive(Debug, Default)]
pub struct Rendered {
    /// The records, in no particular order, possibly repeated.
    pub records: Vec<Record>,
    /// The parts that were left out.
    pub problems: Vec<Problem>,
}

impl Rendered {
    /// Reports a part of an object that was left out.
    fn report(&mut self, kind: Kind, key: &ObjectKey, message: String) {
        self.problems.push(Problem {
            object: FactKey {
                kind,
                key: key.clone(),
            },
            message,
        });
    }
}
