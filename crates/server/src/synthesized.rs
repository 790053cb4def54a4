//! Names of a zone that no version holds. A record of the version comes before them, and they before its wildcards.
//!
//! Which there are is not known here: directives answer for them.

use std::any::Any;
use std::fmt::Debug;

use dns::{Name, Rdata, Rtype, Ttl};
use zone::{Node, Version};

/// Answers for names that no version of a zone holds.
pub trait SynthesizedNames: Any + Debug + Send + Sync {
    /// Says whether there is a name that a version does not hold, in lower-case wire form and within its zone. Called for
    /// every missing name: it must be quick for a name of another kind.
    fn answer(&self, version: &Version, name: &[u8]) -> Synthesized;

    /// Whether others give the same answers, from the same source; `(other as &dyn Any).downcast_ref::<Self>()` says
    /// what the others are.
    fn is_same(&self, other: &dyn SynthesizedNames) -> bool;
}

/// The answer for a name that no version holds.
#[derive(Debug)]
pub enum Synthesized {
    /// It exists.
    Exists {
        /// Its records; their owner in the node means nothing.
        node: Option<Node>,
        /// The words of the Corefile that it exists by.
        by: &'static str,
    },
    /// There is no such name.
    Missing,
    /// It is not known yet.
    Unknown,
}

impl Synthesized {
    /// A name that exists with one record.
    #[must_use]
    pub fn record(by: &'static str, name: &[u8], apex: &Name, record: (Rtype, Ttl, Rdata)) -> Self {
        let owner = Name::from_wire(name);
        let node = owner.map(|owner| Node::build(&owner, apex, &mut vec![record]));
        let node = node.ok().flatten();
        Self::Exists { node, by }
    }
}
