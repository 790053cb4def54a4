//! Names of a zone that no version holds. A version's own records come before them, and its wildcards after them.
//!
//! Directives decide which of these names exist.

use std::any::Any;
use std::fmt::Debug;

use dns::{Name, Rdata, Rtype, Ttl};
use zone::{Node, Version};

/// Answers for names that no version of a zone holds.
pub trait SynthesizedNames: Any + Debug + Send + Sync {
    /// Whether a name exists that a version does not hold. The name is within the zone, in wire form and lower case. It
    /// is called for every missing name: it must be quick for a name of another kind.
    fn answer(&self, version: &Version, name: &[u8]) -> Synthesized;

    /// Whether both give the same answers, from the same source. `(other as &dyn Any).downcast_ref::<Self>()` is the
    /// other one.
    fn is_same(&self, other: &dyn SynthesizedNames) -> bool;
}

/// The answer for a name that no version holds.
#[derive(Debug)]
pub enum Synthesized {
    /// It exists.
    Exists {
        /// Its records. Their owner in the node has no meaning.
        node: Option<Node>,
        /// The words of the Corefile that make it exist.
        by: &'static str,
    },
    /// It does not exist.
    Missing,
    /// It is not known yet whether it exists.
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
