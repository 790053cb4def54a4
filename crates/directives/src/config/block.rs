//! A server block, and what a directive in it is.

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

/// A directive of the Corefile, implemented by what it says: its configuration.
pub trait Directive: Any + Debug + Clone + PartialEq + Send + Sync {
    /// The word that begins it.
    const WORD: &'static str;
    /// How it is written, for the manual.
    const USAGE: &'static str;
    /// What it says, for the manual.
    const SUMMARY: &'static str;
    /// Its options, as messages list them.
    const OPTIONS: &'static str = "";
    /// What a second one in a block means.
    const REPEAT: Repeat = Repeat::Refused;
    /// What it does with queries.
    const ROLE: Role = Role::Setting;

    /// What its handler counts.
    const METRICS: &'static [Metric] = &[];

    /// Reads it; `None` when it says nothing that can be used, which has been reported. `zones` are those of the block,
    /// which are meant where it names none.
    fn read(directive: &Statement, zones: &[Name], report: &mut Report) -> Option<Self>;

    /// Reads another one of the block, where they are joined. The last counts, unless they are joined otherwise.
    fn read_again(self, again: &Statement, zones: &[Name], report: &mut Report) -> Option<Self> {
        Self::read(again, zones, report)
    }

    /// Whether it wants to know which pod asks.
    fn wants_clients(&self) -> bool {
        false
    }

    /// Adds its handler to the chain of its block. Of several directives of one word the first adds those of all.
    ///
    /// # Errors
    /// When a file or a name that a handler needs cannot be used.
    fn add_handlers(&self, _block: &ServerBlock, _chain: &mut Chain<'_>) -> Result<(), BuildError> {
        Ok(())
    }

    /// Says how all replies of its block are written.
    fn shape(&self, _shape: &mut Shape) {}

    /// Checks all directives of this word against the others of all blocks.
    fn check(_blocks: &[ServerBlock], _report: &mut Report) {}
}

/// What a second directive of one word in a block means. Imports bring it: a file of one's own (`*.override`) with a
/// directive that the Corefile has already. Tried with CoreDNS.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Repeat {
    /// Each says something of its own.
    Several,
    /// They are read into one. It works, as in CoreDNS; the text warns where maybe not as meant.
    Joined(Option<&'static str>),
    /// CoreDNS does not take it either, or it would be half of what was meant.
    Refused,
}

/// What a directive does with queries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Nothing: it is about the process, the listeners or the contents of zones.
    Setting,
    /// It writes zones, and answers from them.
    Zones,
    /// It observes queries, keeps replies or gives them another form.
    Shapes,
    /// It answers some questions, refuses them or asks others instead.
    Decides,
    /// It answers for names that are in no zone.
    Answers,
}

/// What one directive says. `PartialEq` compares configurations of the same type.
trait Said: Any + Debug + Send + Sync {
    /// Whether the other is of the same type and says the same.
    fn is_same(&self, other: &dyn Said) -> bool;
    /// Whether it wants to know which pod asks.
    fn wants_clients(&self) -> bool;
    /// Says how all replies of its block are written.
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
    /// Where its first key stands.
    pub place: Place,
    /// Its keys: the zones for which queries come to this block; at least one.
    pub zones: Vec<ZoneKey>,
    /// Its directives as they were written, name and arguments.
    pub written: Vec<Vec<String>>,
    /// What they say, in the order of the file.
    said: Vec<Arc<dyn Said>>,
}

impl ServerBlock {
    /// A block without directives; `written` are those to come.
    pub(crate) const fn new(place: Place, zones: Vec<ZoneKey>, written: Vec<Vec<String>>) -> Self {
        Self {
            place,
            zones,
            written,
            said: Vec::new(),
        }
    }

    /// What all directives of a word say, in the order of the file.
    pub fn all<D: Directive>(&self) -> impl DoubleEndedIterator<Item = &D> + Clone {
        let all = self.said.iter();
        all.filter_map(|said| (&**said as &dyn Any).downcast_ref())
    }

    /// What the directive of a word says, of several the first.
    #[must_use]
    pub fn get<D: Directive>(&self) -> Option<&D> {
        self.all().next()
    }

    /// Whether the block has a directive.
    #[must_use]
    pub fn has<D: Directive>(&self) -> bool {
        self.get::<D>().is_some()
    }

    /// Adds what a directive says.
    pub(crate) fn add(&mut self, directive: impl Directive) {
        self.said.push(Arc::new(directive));
    }

    /// Takes out what the directives of a word say; gives the first.
    pub(crate) fn take<D: Directive>(&mut self) -> Option<D> {
        let first = self.get::<D>().cloned();
        self.said.retain(|said| !(&**said as &dyn Any).is::<D>());
        first
    }

    /// Whether a directive wants to know which pod asks.
    #[must_use]
    pub fn wants_clients(&self) -> bool {
        self.said.iter().any(|said| said.wants_clients())
    }

    /// How all replies of the block are written.
    #[must_use]
    pub fn shape(&self) -> Shape {
        let mut shape = Shape::default();
        self.said.iter().for_each(|said| said.shape(&mut shape));
        shape
    }

    /// Whether questions for a zone come to the block this way: by a key of the zone or above it; to a zone below no
    /// key, as a catalog may be, by any.
    #[must_use]
    pub fn hears(&self, zone: &Name, scheme: Scheme) -> bool {
        let holds = |key: &ZoneKey| zone.is_within(&key.apex);
        let is_below_none = !self.zones.iter().any(holds);
        let mut keys = self.zones.iter();
        keys.any(|key| key.scheme == scheme && (is_below_none || holds(key)))
    }
}
