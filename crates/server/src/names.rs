//! The names of a zone that no version holds, all kinds of them. A record of the version comes before them, and
//! they before its wildcards.

use std::sync::Arc;

use dns::{Name, Rdata, Rtype, Ttl};
use kubernetes::schema::{ZoneForm, parse_name};
use zone::{Node, Version};

use crate::pods::{InsecurePods, PodAnswer};
use crate::zonal::ZonalNames;

/// The label of the name that says which version is served, in wire form.
const VERSION_LABEL: &[u8] = b"\x08_version";

/// What answers for names of a zone that no version holds.
#[derive(Debug, Clone, Default)]
pub struct LiveNames {
    /// Names of pods made from any address.
    pub pods: Option<InsecurePods>,
    /// Endpoints by topology zone.
    pub zonal: Option<ZonalNames>,
    /// Whether `_version` says which version is served.
    pub publishes_version: bool,
}

/// What a version says of itself: its serial, and the hash that stands for all its past.
fn version_text(version: &Version) -> String {
    let hash = version.link.map(|link| format!(" hash={}", link.hash));
    format!("serial={}{}", version.serial, hash.unwrap_or_default())
}

/// What a name says that no version holds.
#[derive(Debug)]
pub enum LiveAnswer {
    /// It exists.
    Exists {
        /// Its records; their owner in the node means nothing.
        node: Option<Node>,
        /// The words of the Corefile that it exists by.
        by: &'static str,
    },
    /// There is no such name.
    Missing,
    /// Nothing can be said yet.
    Unknown,
}

impl LiveNames {
    /// Whether there is nothing to answer for.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.pods.is_none() && self.zonal.is_none() && !self.publishes_version
    }

    /// Whether others know the same, from the same source.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        let Self {
            pods,
            zonal,
            publishes_version,
        } = self;
        let same_pods = match (pods, &other.pods) {
            (Some(one), Some(two)) => Arc::ptr_eq(&one.seen, &two.seen) && one.ttl == two.ttl,
            (None, None) => true,
            (Some(_), None) | (None, Some(_)) => false,
        };
        let same_zonal = match (zonal, &other.zonal) {
            (Some(one), Some(two)) => one.is_same(two),
            (None, None) => true,
            (Some(_), None) | (None, Some(_)) => false,
        };
        same_pods && same_zonal && *publishes_version == other.publishes_version
    }

    /// What a name says that a version does not hold, in lower-case wire form; it lies in its zone.
    #[must_use]
    pub fn answer(&self, version: &Version, name: &[u8]) -> LiveAnswer {
        let contents = &version.contents;
        let apex = contents.apex();
        if self.publishes_version && name.strip_prefix(VERSION_LABEL) == Some(apex.as_wire()) {
            let data = Rdata::txt(&version_text(version));
            // Nobody may keep it: the next version has another.
            let by = "`publish` of `history`";
            return exists(by, name, apex, (Rtype::TXT, Ttl::ZERO, data));
        }
        if self.pods.is_none() && self.zonal.is_none() {
            return LiveAnswer::Missing;
        }
        let parsed = parse_name(ZoneForm::Forward, apex, name);
        if let Some(pods) = &self.pods {
            let by = "`pods insecure`";
            match pods.answer(contents, &parsed) {
                PodAnswer::Address(address) => {
                    let (rtype, rdata) = Rdata::address(address);
                    return exists(by, name, apex, (rtype, pods.ttl, rdata));
                }
                PodAnswer::Empty => return LiveAnswer::Exists { node: None, by },
                PodAnswer::Unknown => return LiveAnswer::Unknown,
                PodAnswer::Missing => {}
            }
        }
        match &self.zonal {
            Some(zonal) => zonal.answer(contents, &parsed),
            None => LiveAnswer::Missing,
        }
    }
}

/// A name that exists with one record.
fn exists(by: &'static str, name: &[u8], apex: &Name, record: (Rtype, Ttl, Rdata)) -> LiveAnswer {
    let owner = Name::from_wire(name);
    let node = owner.map(|owner| Node::build(&owner, apex, &mut vec![record]));
    let node = node.ok().flatten();
    LiveAnswer::Exists { node, by }
}
