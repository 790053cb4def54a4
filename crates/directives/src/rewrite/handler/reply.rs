//! Applies rules to the reply of a rewritten question.
//!
//! The steps are taken for each record of authority, answers and additional, beginning with the last rule's, as in
//! CoreDNS. The response code is compared once for each record. So if one rule's code leads to another's, the result is
//! CoreDNS's.

use dns::{Name, Rcode, Rdata, Record, Rtype, Ttl, flags};
use server::chain::Next;
use server::message::{Outcome, Reply, Request};

use crate::config::{NameMatch, Pattern, filled};

/// A step.
#[derive(Debug)]
pub(super) enum Undo<'r> {
    /// Replaces owners.
    Owner(Texts<'r>),
    /// Replaces names in the data.
    Value(Texts<'r>),
    /// Limits TTLs to a range.
    Ttl {
        /// The least.
        least: u32,
        /// The most.
        most: u32,
    },
    /// Replaces a response code.
    Rcode {
        /// The old code.
        from: Rcode,
        /// The new code.
        to: Rcode,
    },
    /// Replaces the target of an alias, and looks the new one up.
    Target {
        /// The targets to replace.
        targets: &'r NameMatch,
        /// The new target.
        to: &'r str,
    },
}

/// The names to replace, and their replacement.
#[derive(Debug, Clone)]
pub(super) enum Texts<'r> {
    /// A name and the names below it, in this case of letters.
    Below {
        from: String,
        /// Its replacement.
        to: String,
    },
    /// Names with this suffix.
    Suffix { from: &'r str, to: &'r str },
    /// Names that match a pattern. The whole name is replaced.
    Found {
        pattern: &'r Pattern,
        /// The replacement of the whole name.
        to: &'r str,
    },
}

impl Texts<'_> {
    /// The replacement of a name; `None` when it stays, or when the result would be no name.
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

/// The place of the name in the data of a type, for the types that CoreDNS rewrites. For a SOA it is the server's name.
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

/// The data with its name replaced.
fn with_name(record: &Record, texts: &Texts<'_>) -> Option<Rdata> {
    let data = record.rdata.as_octets();
    let at = name_place(record.rtype, data)?;
    let (name, end) = Name::decode(data, at).ok()?;
    let new = texts.replaced(&name)?;
    let octets = [data.get(..at)?, new.as_wire(), data.get(end..)?].concat();
    Rdata::from_octets(&octets).ok()
}

impl Undo<'_> {
    /// Takes the step for a record.
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

/// The response code after all steps for it.
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

/// Takes all steps for the outcome of the rewritten `request`.
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
            // The records before the alias stay, those after it do not.
            reply.answers.truncate(place + 1);
            reply.answers.retain(|it| it.rtype == Rtype::CNAME);
            reply.answers.extend(more.answers);
            reply.flags = reply.flags & !flags::TC | more.flags & flags::TC;
            return;
        }
    }
}

/// Replaces the target of an alias, if it is one of these, and adds the server's answer for the new one.
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
