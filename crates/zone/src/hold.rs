//! An operator's hold: a freeze or rollback of a zone, for a time or until it is released.

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::fmt::Display;

use dns::Serial;
use ops::TimeText;
use provenance::{Cause, Operator, Origin, Verb};

use crate::{Contents, Draft, Edit, Hash, Node};

/// A freeze or rollback.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hold {
    /// The time when it began, milliseconds since 1970 UTC.
    pub since_ms: u64,
    /// The time when it ends, milliseconds since 1970 UTC; `None`: when it is released.
    pub until_ms: Option<u64>,
    /// The operator.
    pub by: Operator,
    /// The old content that is served; `None` for a freeze.
    pub rollback: Option<Rollback>,
    /// The hash of the content that was served when the hold began; `None` when an older release stored the hold.
    pub found: Option<Hash>,
}

/// The content that a rollback serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rollback {
    /// The serial under which the content was first published.
    pub to: Serial,
    /// The hash of the content.
    pub content: Hash,
    /// The serial that was served when the rollback began.
    pub from: Serial,
    /// The serial of the last version that followed the sources.
    pub before: Serial,
}

impl Hold {
    /// Whether its time is over.
    #[must_use]
    pub const fn is_over(&self, now_ms: u64) -> bool {
        matches!(self.until_ms, Some(until_ms) if until_ms <= now_ms)
    }

    /// The kind of hold as a label.
    #[must_use]
    pub const fn as_str(&self) -> &'static str {
        match self.rollback {
            None => "frozen",
            Some(_) => "rolled_back",
        }
    }
}

impl Rollback {
    /// The cause of the version that serves the old content.
    #[must_use]
    pub fn cause(&self, hold: &Hold) -> Cause {
        let until = hold.until_ms.map(TimeText);
        let until = until.map_or("it is released".to_owned(), |time| time.to_string());
        let what = format!("serial {} until {until}", self.to);
        cause(Verb::RolledBack, &what, &hold.by)
    }

    /// The cause of records that follow the sources again.
    #[must_use]
    pub fn end(&self, by: impl Display) -> Cause {
        let what = format!("the rollback to serial {}", self.to);
        resumed(&what, by)
    }
}

/// The cause of a version that was held back until now.
#[must_use]
pub fn resumed(what: &str, by: impl Display) -> Cause {
    cause(Verb::Resumed, what, by)
}

fn cause(verb: Verb, what: &str, by: impl Display) -> Cause {
    let origin = Origin {
        manager: by.to_string().into(),
        ..Origin::default()
    };
    Cause {
        origin,
        ..Cause::of(verb, what)
    }
}

/// The draft that leads from one content to another. They differ only at these owners; costs what the owners cost.
#[must_use]
pub fn draft_to(served: &Contents, old: &Contents, owners: &BTreeSet<Box<[u8]>>) -> Draft {
    let mut edit = Edit::new(served);
    edit.set_soa(old.soa().clone());
    for key in owners {
        match old.get(key) {
            Some(node) => edit.set(node.clone(), 0),
            None => edit.remove(key, 0),
        }
    }
    edit.finish()
}

/// The owners at which two contents differ. Costs a pass over both.
#[must_use]
pub fn differing(one: &Contents, other: &Contents) -> BTreeSet<Box<[u8]>> {
    let mut owners = BTreeSet::new();
    let (mut left, mut right) = (one.nodes().peekable(), other.nodes().peekable());
    loop {
        let order = match (left.peek(), right.peek()) {
            (None, None) => return owners,
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some(a), Some(b)) => a.key().cmp(b.key()),
        };
        let a = left.next_if(|_| order.is_le());
        let b = right.next_if(|_| order.is_ge());
        if a.map(Node::as_octets) != b.map(Node::as_octets) {
            owners.extend(a.or(b).map(|node| Box::from(node.key())));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::laws::soa;
    use dns::{Name, Rdata, Ttl};

    /// A zone with an address at each of these owners.
    fn zone(owners: &[(&str, &str)]) -> Contents {
        let apex: Name = "z.".parse().unwrap();
        let mut contents = Contents::empty(&apex, soa(1));
        for (owner, address) in owners {
            let owner: Name = format!("{owner}.z.").parse().unwrap();
            let (rtype, rdata) = Rdata::address(address.parse().unwrap());
            let mut parts = vec![(rtype, Ttl::decode(5), rdata)];
            contents.insert(Node::build(&owner, &apex, &mut parts).unwrap());
        }
        contents
    }

    #[test]
    fn what_differs_is_found_and_leads_from_one_to_the_other() {
        let one = zone(&[("a", "10.0.0.1"), ("b", "10.0.0.2"), ("d", "10.0.0.4")]);
        let other = zone(&[("b", "10.0.0.3"), ("c", "10.0.0.3"), ("d", "10.0.0.4")]);
        let owners = differing(&one, &other);
        assert_eq!(owners.len(), 3);
        assert_eq!(owners, differing(&other, &one));
        let draft = draft_to(&one, &other, &owners);
        assert!(draft.contents.same_as(&other));
        assert_eq!((draft.removed.len(), draft.added.len()), (2, 2));
        assert!(differing(&one, &one).is_empty());
        assert!(draft_to(&one, &one, &BTreeSet::new()).is_empty());
    }
}
