//! A server block, and the trait of its directives.

use std::any::Any;
use std::fmt::Debug;
use std::sync::Arc;

use corefile::parser::Statement;
use corefile::place::{Place, Report};
use dns::Name;
use ops::metrics::Metric;
use server::Shape;

use crate::config::zone::{Scheme, ZoneKey};
use crate::handlers::chain::{BuildError, Chain};

/// The configuration that a directive of the Corefile gives.
pub trait Directive: Any + Debug + Clone + PartialEq + Send + Sync {
    /// The word that begins it.
    const WORD: &'static str;
    /// Its syntax, for the manual.
    const USAGE: &'static str;
    /// Its purpose, for the manual.
    const SUMMARY: &'static str;
    /// Its options, as messages list them.
    const OPTIONS: &'static str = "";
    /// The meaning of a second one in a block.
    const REPEAT: Repeat = Repeat::Refused;
    /// Its effect on queries.
    const ROLE: Role = Role::Setting;

    /// The metrics of its handler.
    const METRICS: &'static [Metric] = &[];

    /// Reads it. `None` when nothing of it can be used, which has been reported. `zones` are the block's, for a
    /// directive that names none.
    fn read(directive: &Statement, zones: &[Name], report: &mut Report) -> Option<Self>;

    /// Reads a second one of the block, if [`Repeat::Joined`]. By default the second one replaces the first.
    fn read_again(self, again: &Statement, zones: &[Name], report: &mut Report) -> Option<Self> {
        Self::read(again, zones, report)
    }

    /// Whether it needs to know the client's pod.
    fn wants_clients(&self) -> bool {
        false
    }

    /// Adds its handler to the chain of its block. If a block has several directives of one word, the first one adds
    /// the handlers of all.
    ///
    /// # Errors
    /// When a file or a name that a handler needs cannot be used.
    fn add_handlers(&self, _block: &ServerBlock, _chain: &mut Chain<'_>) -> Result<(), BuildError> {
        Ok(())
    }

    /// Sets the form of the block's replies.
    fn shape(&self, _shape: &mut Shape) {}

    /// Checks all directives of this word, in all blocks.
    fn check(_blocks: &[ServerBlock], _report: &mut Report) {}
}

/// The meaning of a second directive of one word in a block. Imports often bring one: a file of the user's own
/// (`*.override`) has a directive that the Corefile has already. Tried with CoreDNS.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Repeat {
    /// Each has its own effect.
    Several,
    /// They are read into one, as in CoreDNS. The text is a warning, for directives of which that may not be meant.
    Joined(Option<&'static str>),
    /// It is an error. CoreDNS refuses it too, or would lose half of it.
    Refused,
}

/// The effect of a directive on queries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// None: it concerns the process, the listeners or the contents of zones.
    Setting,
    /// It writes zones, and answers from them.
    Zones,
    /// It observes queries, caches replies or changes their form.
    Shapes,
    /// It answers some queries itself, refuses them or replaces them.
    Decides,
    /// It answers for names that no zone has.
    Answers,
}

/// A directive of any type. `PartialEq` compares values of the same type.
trait Said: Any + Debug + Send + Sync {
    /// Whether the other has the same type and is equal.
    fn is_same(&self, other: &dyn Said) -> bool;
    fn wants_clients(&self) -> bool;
    fn shape(&self, shape: &mut Shape);
}

impl<D: Directive> Said for D {
    fn is_same(&self, other: &dyn Said) -> bool {
        (other as &dyn Any).downcast_ref::<D>() == Some(self)
    }

    fn wants_clients(&self) -> bool {
        Directive::wants_clients(self)
    }

    fn shape(&self, shape: &mut Shape) {
        Directive::shape(self, shape);
    }
}

impl PartialEq for dyn Said {
    fn eq(&self, other: &Self) -> bool {
        self.is_same(other)
    }
}

/// A server block.
#[derive(Debug, Clone, PartialEq)]
pub struct ServerBlock {
    /// The place of its first key.
    pub place: Place,
    /// Its keys: the zones whose queries this block gets; at least one.
    pub zones: Vec<ZoneKey>,
    /// Its directives as text: the word and the arguments of each.
    pub written: Vec<Vec<String>>,
    said: Vec<Arc<dyn Said>>,
}

impl ServerBlock {
    /// A block whose directives, `written`, are not yet read.
    pub(crate) const fn new(place: Place, zones: Vec<ZoneKey>, written: Vec<Vec<String>>) -> Self {
        Self {
            place,
            zones,
            written,
            said: Vec::new(),
        }
    }

    /// All directives of a type, in the order of the file.
    pub fn all<D: Directive>(&self) -> impl DoubleEndedIterator<Item = &D> + Clone {
        let all = self.said.iter();
        all.filter_map(|said| (&**said as &dyn Any).downcast_ref())
    }

    /// The directive of a type, or the first of several.
    #[must_use]
    pub fn get<D: Directive>(&self) -> Option<&D> {
        self.all().next()
    }

    /// Whether the block has a directive of this type.
    #[must_use]
    pub fn has<D: Directive>(&self) -> bool {
        self.get::<D>().is_some()
    }

    pub(crate) fn add(&mut self, directive: impl Directive) {
        self.said.push(Arc::new(directive));
    }

    /// Removes the directives of a type; returns the first.
    pub(crate) fn take<D: Directive>(&mut self) -> Option<D> {
        let first = self.get::<D>().cloned();
        self.said.retain(|said| !(&**said as &dyn Any).is::<D>());
        first
    }

    /// Whether a directive needs to know the client's pod.
    #[must_use]
    pub fn wants_clients(&self) -> bool {
        self.said.iter().any(|said| said.wants_clients())
    }

    /// The form of all replies of the block.
    #[must_use]
    pub fn shape(&self) -> Shape {
        let mut shape = Shape::default();
        self.said.iter().for_each(|said| said.shape(&mut shape));
        shape
    }

    /// Whether queries for a zone reach this block over `scheme`: by a key that is the zone or above it. If no key is
    /// above the zone, as with a catalog, any key will do.
    #[must_use]
    pub fn hears(&self, zone: &Name, scheme: Scheme) -> bool {
        let holds = |key: &ZoneKey| zone.is_within(&key.apex);
        let is_below_none = !self.zones.iter().any(holds);
        let mut keys = self.zones.iter();
        keys.any(|key| key.scheme == scheme && (is_below_none || holds(key)))
    }
}
