//! The names of a zone that no version holds, all kinds of them. A record of the version comes before them, and
//! they before its wildcards.

use std::sync::Arc;

use dns::{Name, Rdata, Rtype, Ttl};
use zone::{Node, Version};

use crate::pods::{InsecurePods, PodAnswer};
use crate::zonal::{ZonalNames, labels_before, last_before};

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
    /// It exists, with these records; their owner in the node means nothing.
    Exists(Option<Node>),
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
        let last = last_before(name, contents.apex());
        let labels = || labels_before(name, contents.apex());
        match (last, &self.pods, &self.zonal) {
            (Some(b"pod"), Some(pods), _) => match pods.answer(contents, &labels()) {
                PodAnswer::Address(address) => {
                    let (rtype, rdata) = Rdata::address(address);
                    let mut parts = vec![(rtype, pods.ttl, rdata)];
                    let owner = Name::from_wire(name);
                    let node = owner.map(|owner| Node::build(&owner, contents.apex(), &mut parts));
                    LiveAnswer::Exists(node.ok().flatten())
                }
                PodAnswer::Empty => LiveAnswer::Exists(None),
                PodAnswer::Missing => LiveAnswer::Missing,
                PodAnswer::Unknown => LiveAnswer::Unknown,
            },
            (Some(b"svc"), _, Some(zonal)) => zonal.answer(contents, &labels()),
            (Some(b"_version"), _, _) if self.publishes_version => {
                let owner = contents.apex().child("_version");
                if owner.as_ref().is_ok_and(|owner| owner.as_wire() != name) {
                    return LiveAnswer::Missing;
                }
                let data = Rdata::txt(&version_text(version));
                // Nobody may keep it: the next version has another.
                let mut parts = vec![(Rtype::TXT, Ttl::ZERO, data)];
                let node = owner.map(|owner| Node::build(&owner, contents.apex(), &mut parts));
                LiveAnswer::Exists(node.ok().flatten())
            }
            (_, _, _) => LiveAnswer::Missing,
        }
    }
}
