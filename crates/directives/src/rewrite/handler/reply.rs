//! What rules do to the reply of a rewritten question.
//!
//! The steps are taken for each record, the last rule's first: authority, answers, additional, as in CoreDNS.
//! A response code is looked at once for each record, so that rules whose codes lead on to each other do so as
//! they do there.

use dns::{Name, Rcode, Rdata, Record, Rtype, Ttl, flags};
use server::chain::Next;
use server::message::{Outcome, Reply, Request};

use crate::config::{NameMatch, Pattern, filled};

/// A step.
#[derive(Debug)]
pub(super) enum Undo<'r> {
    /// Owners become others.
    Owner(Texts<'r>),
    /// Names in the data become others.
    Value(Texts<'r>),
    /// TTLs lie in a range.
    Ttl {
        /// The least.
        least: u32,
        /// The most.
        most: u32,
    },
    /// A code becomes another.
    Rcode {
        /// The one.
        from: Rcode,
        /// The other.
        to: Rcode,
    },
    /// The target of an alias becomes another, which is looked up.
    Target {
        /// Which targets.
        targets: &'r NameMatch,
        /// What they become.
        to: &'r str,
    },
}

/// Which names become which.
#[derive(Debug, Clone)]
pub(super) enum Texts<'r> {
    /// A name and what is below it, letter by letter.
    Below {
        /// The name.
        from: String,
        /// What it becomes.
        to: String,
    },
    /// What ends so.
    Suffix {
        /// The end.
        from: &'r str,
        /// What it becomes.
        to: &'r str,
    },
    /// That in which something is found, as a whole.
    Found {
        /// What is found.
        pattern: &'r Pattern,
        /// What the whole becomes.
        to: &'r str,
    },
}

impl Texts<'_> {
    /// What a name becomes; `None` when it stays, or would be none.
    fn replaced(&self, name: &Name) -> Option<Name> {
        let text = name.to_string();
        let new = match self {
            Self::Below { from, to } => {
                let above = text.strip_suffix(from.as_str())?;
                let is_whole = above.is_empty() || above.ends_with('.');
                is_whole.then(|| [above, to].concat())?
            }
            Self::Suffix { from, to } => [text.strip_suffix(from)?, to].concat(),
            Self::Found { pattern, to } => filled(pattern, &text, to)?,
        };
        Name::parse(&new).ok()
    }
}

/// Where a name stands in the data of a type, of those that CoreDNS rewrites: a SOA's is its server.
fn name_place(rtype: Rtype, data: &[u8]) -> Option<usize> {
    match rtype {
        Rtype::NS | Rtype::CNAME | Rtype::PTR | Rtype::DNAME | Rtype::SOA => Some(0),
        Rtype::MX => Some(2),
        Rtype::SRV => Some(6),
        Rtype::NAPTR => {
            // Order and preference, then flags, service and expression, each with its length.
            let mut at = 4;
            for _ in 0..3 {
                at += 1 + usize::from(*data.get(at)?);
            }
            Some(at)
        }
        _ => None,
    }
}

/// Data with the name in it changed.
fn with_name(record: &Record, texts: &Texts<'_>) -> Option<Rdata> {
    let data = record.rdata.as_octets();
    let at = name_place(record.rtype, data)?;
    let (name, end) = Name::decode(data, at).ok()?;
    let new = texts.replaced(&name)?;
    let octets = [data.get(..at)?, new.as_wire(), data.get(end..)?].concat();
    Rdata::from_octets(&octets).ok()
}

impl Undo<'_> {
    /// Takes the step for a record and the code of its reply.
    fn take(&self, record: &mut Record) {
        match self {
            Self::Owner(texts) => {
                if let Some(owner) = texts.replaced(&record.owner) {
                    record.owner = owner;
                }
            }
            Self::Value(texts) => {
                if let Some(rdata) = with_name(record, texts) {
                    record.rdata = rdata;
                }
            }
            Self::Ttl { least, most } => {
                let seconds = record.ttl.seconds().clamp(*least, *most);
                record.ttl = Ttl::decode(seconds);
            }
            Self::Rcode { .. } | Self::Target { .. } => {}
        }
    }
}

/// What becomes of a code.
fn rcode_after(undo: &[Undo<'_>], mut rcode: Rcode) -> Rcode {
    for step in undo.iter().rev() {
        match step {
            Undo::Rcode { from, to } if rcode == *from => rcode = *to,
            Undo::Rcode { .. }
            | Undo::Owner(_)
            | Undo::Value(_)
            | Undo::Ttl { .. }
            | Undo::Target { .. } => {}
        }
    }
    rcode
}

/// Takes all steps for an outcome of the rewritten `request`.
pub(super) async fn undo(
    outcome: Outcome,
    undo: &[Undo<'_>],
    request: &Request,
    next: Next,
) -> Outcome {
    if undo.is_empty() {
        return outcome;
    }
    match outcome {
        Outcome::Dropped => Outcome::Dropped,
        Outcome::Failed(mut failure) => {
            failure.rcode = rcode_after(undo, failure.rcode);
            Outcome::Failed(failure)
        }
        Outcome::Reply(mut reply) => {
            let sections = [&reply.answers, &reply.authority, &reply.additional];
            let records: usize = sections.iter().map(|section| section.len()).sum();
            for _ in 0..records.max(1) {
                let before = reply.rcode;
                reply.rcode = rcode_after(undo, before);
                if reply.rcode == before {
                    break;
                }
            }
            undo_records(&mut reply, undo, request, next).await;
            Outcome::Reply(reply)
        }
    }
}

/// Takes the steps for the records of a reply.
async fn undo_records(reply: &mut Reply, undo: &[Undo<'_>], request: &Request, next: Next) {
    for record in reply.authority.iter_mut().chain(&mut reply.additional) {
        undo.iter().rev().for_each(|step| step.take(record));
    }
    for place in 0..reply.answers.len() {
        let mut found = None;
        for step in undo.iter().rev() {
            let record = &mut reply.answers[place];
            match step {
                Undo::Target { targets, to } => {
                    let more = look_up(record, targets, to, request, next.clone()).await;
                    found = more.or(found);
                }
                Undo::Owner(_) | Undo::Value(_) | Undo::Ttl { .. } | Undo::Rcode { .. } => {
                    step.take(record);
                }
            }
        }
        if let Some(more) = found {
            // What led to the alias stays, what it led to does not.
            reply.answers.truncate(place + 1);
            reply.answers.retain(|it| it.rtype == Rtype::CNAME);
            reply.answers.extend(more.answers);
            reply.flags = reply.flags & !flags::TC | more.flags & flags::TC;
            return;
        }
    }
}

/// Gives an alias its other target, if it is one of these, and what the server says to that.
async fn look_up(
    record: &mut Record,
    targets: &NameMatch,
    to: &str,
    request: &Request,
    next: Next,
) -> Option<Reply> {
    let target = Rdata::name_at(record.rtype, record.rdata.as_octets());
    let target = target.filter(|_| record.rtype == Rtype::CNAME)?;
    let text = Name::from_wire(target).ok()?.to_string();
    let other = Name::parse(&targets.replaced(&text, to)?).ok()?;
    let mut asking = request.asking(other.clone(), request.qtype);
    let reply = match next.again(&mut asking).await {
        Outcome::Reply(reply) => reply,
        Outcome::Failed(failure) => Reply::empty(failure.by, failure.rcode, 0),
        Outcome::Dropped => return None,
    };
    record.rdata = Rdata::name(&other);
    Some(reply)
}
