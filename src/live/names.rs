//! The names of a zone that no version holds, all kinds of them.

use std::sync::Arc;

use crate::dns::{Name, Rdata, Rtype, Ttl};
use crate::live::pods::{InsecurePods, PodAnswer};
use crate::live::zonal::{ZonalNames, labels_before, last_before};
use crate::zone::{Node, Version};

/// What answers for names of a zone that no version holds.
#[derive(Debug, Clone, Default)]
pub struct LiveNames {
    /// Names of pods made from any address.
    pub pods: Option<InsecurePods>,
    /// Endpoints by topology zone.
    pub zonal: Option<ZonalNames>,
    /// Whether `_version` says which version is served.
    pub publishes_version: bool,
    /// Whether names of pods and of topology zones come before what the version says: where a file lies
    /// under the cluster's zone, its wildcards must not answer for names that the cluster has.
    pub comes_first: bool,
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
            comes_first,
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
        let same_flags =
            (*publishes_version, *comes_first) == (other.publishes_version, other.comes_first);
        same_pods && same_zonal && same_flags
    }

    /// What a name says before the version is asked, in lower-case wire form; it lies in its zone. Missing is
    /// what the version is asked for.
    #[must_use]
    pub(super) fn answer_first(&self, version: &Version, name: &[u8]) -> LiveAnswer {
        let is_cluster = || {
            let last = last_before(name, version.contents.apex());
            matches!(last, Some(b"pod" | b"svc"))
        };
        if self.comes_first && is_cluster() {
            self.answer(version, name)
        } else {
            LiveAnswer::Missing
        }
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
