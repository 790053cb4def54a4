//! `log` and `errors`: write a line for each query that matches a rule, in CoreDNS's format.
//!
//! Zone transfers have their own lines. `{/label}` is `-` if `metadata` is not on.

use std::fmt::Write;
use std::net::SocketAddr;
use std::sync::Arc;

use dns::{Name, Rcode, Rtype, flags};
use futures_util::future::BoxFuture;
use ops::Clock;
use server::{ExchangeLog, LoggedExchange};
use tokio_util::sync::CancellationToken;

use crate::config::{LogClass, LogField, LogPiece, LogRule};
use crate::errors::consolidate::{self, Fate};
use crate::handlers::Consolidated;

/// EDNS flag DO, in the lower half of the OPT's TTL field (RFC 6891 section 6.1.3).
const EDNS_DO: u32 = 0x8000;

/// The rules of one server block.
#[derive(Debug, Clone)]
pub struct Rules {
    /// Its `log` rules, in order.
    pub logs: Vec<LogRule>,
    /// The settings of its `errors`, with the summaries.
    pub errors: Option<Arc<Consolidated>>,
    /// The names with `metadata`, and all names below them.
    pub metadata: Vec<Name>,
}

/// Logs queries.
#[derive(Debug, Clone, Default)]
pub struct QueryLog {
    /// The rules of each block that logs anything, by the index of the block.
    blocks: Vec<Option<Rules>>,
}

/// The parts of a message that its line needs.
#[derive(Debug, Default, PartialEq, Eq)]
struct Parsed {
    id: u16,
    /// The second 16 bits of the header.
    flags: u16,
    /// Name, type and class of the question.
    question: Option<(Name, u16, u16)>,
    /// Records in answer and authority.
    counts: [u16; 2],
    /// Whether the authority has a SOA.
    has_soa: bool,
    /// Size and flags of the OPT.
    edns: Option<(u16, u32)>,
    /// The octets without compression of owners and without OPT, which is how CoreDNS counts a reply.
    plain_octets: usize,
}

impl Parsed {
    /// The response code, with its upper bits from the OPT (RFC 6891 section 6.1.3).
    fn rcode(&self) -> Rcode {
        let [high, _, _, _] = self.edns.map_or(0, |(_, flags)| flags).to_be_bytes();
        Rcode(u16::from(high) << 4 | self.flags & 0xf)
    }

    fn is_missing(&self) -> bool {
        self.plain_octets == 0
    }
}

impl QueryLog {
    /// A log with the rules of all blocks. `None` when no block logs anything.
    #[must_use]
    pub fn new(blocks: Vec<Rules>) -> Option<Self> {
        let logs = |block: &Rules| block.errors.is_some() || !block.logs.is_empty();
        let blocks = blocks.into_iter().map(|block| Some(block).filter(logs));
        let blocks: Vec<Option<Rules>> = blocks.collect();
        let log = Self { blocks };
        log.blocks.iter().any(Option::is_some).then_some(log)
    }

    /// The summaries of all blocks.
    fn consolidated(&self) -> impl Iterator<Item = &Arc<Consolidated>> {
        let blocks = self.blocks.iter().flatten();
        let errors = blocks.filter_map(|block| block.errors.as_ref());
        errors.filter(|it| !it.is_empty())
    }

    /// The rules of the block of an exchange, if they may log it. Most exchanges need not be read for that.
    fn rules(&self, exchange: &LoggedExchange<'_>) -> Option<&Rules> {
        let may_log = |rules: &&Rules| {
            exchange.findings.error.is_some() && rules.errors.is_some() || !rules.logs.is_empty()
        };
        let place = match exchange.block {
            Some(place) => place,
            None => {
                // A query that was refused before its block was known belongs to a block all the same.
                self.blocks.iter().flatten().find(may_log)?;
                let (name, rtype, _) = question_of(exchange.query)?;
                let lower = name.to_lower();
                exchange.router.find(lower.as_wire(), Rtype(rtype))?
            }
        };
        self.blocks.get(place)?.as_ref().filter(may_log)
    }
}

impl ExchangeLog for QueryLog {
    fn log(&self, exchange: &LoggedExchange<'_>) {
        let Some(rules) = self.rules(exchange) else {
            return;
        };
        if let Some(line) = rules.line(exchange) {
            tracing::info!("{line}");
        }
        if let Some((text, errors)) = rules.error_line(exchange) {
            match errors.seen(exchange.findings.error.unwrap_or(&text), exchange.now) {
                Fate::Logged(level) => consolidate::log(level, &format!("plugin/errors: {text}")),
                Fate::Counted => {}
            }
        }
    }

    fn background(
        &self,
        clock: &Arc<dyn Clock>,
        cancel: &CancellationToken,
    ) -> Vec<BoxFuture<'static, ()>> {
        self.consolidated()
            .map(|errors| Arc::clone(errors).run(Arc::clone(clock), cancel.clone()))
            .collect()
    }
}

impl Rules {
    /// The line of an exchange, if a rule logs it.
    fn line(&self, exchange: &LoggedExchange<'_>) -> Option<String> {
        let (name, _, _) = &question_of(exchange.query)?;
        let rule = self
            .logs
            .iter()
            .find(|rule| rule.names.iter().any(|zone| name.is_within(zone)))?;
        let reply = parse(exchange.reply);
        if !rule.classes.contains(&class_of(&reply)) {
            return None;
        }
        let query = parse(exchange.query);
        let knows = self.metadata.iter().any(|zone| name.is_within(zone));
        let mut line = String::new();
        for piece in &rule.format {
            match piece {
                LogPiece::Text(text) => line.push_str(text),
                LogPiece::Field(LogField::Metadata(_)) if !knows => line.push('-'),
                LogPiece::Field(field) => push_field(&mut line, field, exchange, &query, &reply),
            }
        }
        Some(line)
    }

    /// The line of a failed exchange, if `errors` is on.
    fn error_line(&self, exchange: &LoggedExchange<'_>) -> Option<(String, &Consolidated)> {
        let why = exchange.findings.error?;
        let (name, rtype, _) = question_of(exchange.query)?;
        let errors = self.errors.as_deref()?;
        let rcode = exchange.reply.get(3)? & 0xf;
        let rtype = Rtype(rtype);
        Some((format!("{rcode} {name} {rtype}: {why}"), errors))
    }
}

/// Writes a field of a line.
fn push_field(
    line: &mut String,
    field: &LogField,
    exchange: &LoggedExchange<'_>,
    query: &Parsed,
    reply: &Parsed,
) {
    let question = query.question.as_ref();
    let written = match field {
        LogField::Remote => push_address(line, exchange.peer),
        LogField::Local => push_address(line, exchange.local),
        LogField::Port => write!(line, "{}", exchange.peer.port()),
        LogField::Id => write!(line, "{}", query.id),
        LogField::Opcode => write!(line, "{}", (query.flags & flags::OPCODE) >> 11),
        LogField::Type => match question {
            Some((_, rtype, _)) => write!(line, "{}", Rtype(*rtype)),
            None => line.write_char('-'),
        },
        LogField::Class => match question {
            Some((_, _, 1)) => line.write_str("IN"),
            Some((_, _, 3)) => line.write_str("CH"),
            Some((_, _, class)) => write!(line, "CLASS{class}"),
            None => line.write_char('-'),
        },
        LogField::Name => match question {
            Some((name, _, _)) => write!(line, "{}", name.to_lower()),
            None => line.write_char('-'),
        },
        LogField::Proto => line.write_str(exchange.proto),
        LogField::Size => write!(line, "{}", exchange.query.len()),
        LogField::Do => {
            write!(
                line,
                "{}",
                query.edns.is_some_and(|(_, flags)| flags & EDNS_DO != 0)
            )
        }
        LogField::Bufsize => {
            let size = match (exchange.proto, query.edns) {
                ("tcp", _) => u16::MAX,
                (_, None) => 512,
                (_, Some((size, _))) => size.max(512),
            };
            write!(line, "{size}")
        }
        LogField::Rcode | LogField::Rflags if exchange.reply.is_empty() => line.write_char('-'),
        LogField::Rcode => write!(line, "{}", reply.rcode()),
        LogField::Rflags => line.write_str(&flag_names(reply.flags)),
        LogField::Rsize => write!(line, "{}", reply.plain_octets),
        LogField::Duration => write!(line, "{}s", exchange.took.as_secs_f64()),
        LogField::Metadata(label) => line.write_str(&found_out(label, exchange, reply)),
    };
    written.expect("a String takes all that is written");
}

/// A label of metadata. It is empty if nothing was found, and `-` without `metadata`.
fn found_out(label: &str, exchange: &LoggedExchange<'_>, reply: &Parsed) -> String {
    let found = match label {
        "log/class" => Some(class_of(reply).as_str().to_owned()),
        "log/type" => Some(type_of(reply).to_owned()),
        _ => exchange.findings.metadata.get(label).cloned(),
    };
    found.unwrap_or_else(|| "-".to_owned())
}

/// CoreDNS's name for the kind of a reply.
fn type_of(reply: &Parsed) -> &'static str {
    let [answers, authority] = reply.counts;
    match reply.rcode() {
        _ if reply.is_missing() => "OTHERERROR",
        Rcode::NOERROR if answers > 0 => "NOERROR",
        Rcode::NOERROR if reply.has_soa => "NODATA",
        Rcode::NOERROR if authority > 0 => "DELEGATION",
        Rcode::NOERROR => "NOERROR",
        Rcode::NXDOMAIN if answers == 0 => "NXDOMAIN",
        Rcode::SERVFAIL | Rcode::NOTIMP => "SERVERERROR",
        _ => "OTHERERROR",
    }
}

/// Writes an address as CoreDNS does, with IPv6 in brackets.
fn push_address(line: &mut String, address: SocketAddr) -> std::fmt::Result {
    match address.ip().to_canonical() {
        std::net::IpAddr::V4(v4) => write!(line, "{v4}"),
        std::net::IpAddr::V6(v6) => write!(line, "[{v6}]"),
    }
}

/// The names of the header flags that are set, in CoreDNS's order.
fn flag_names(bits: u16) -> String {
    let known = [
        (0x8000, "qr"),
        (0x0400, "aa"),
        (0x0200, "tc"),
        (0x0100, "rd"),
        (0x0080, "ra"),
        (0x0040, "z"),
        (0x0020, "ad"),
        (0x0010, "cd"),
    ];
    let set: Vec<&str> = known
        .iter()
        .filter(|(bit, _)| bits & bit != 0)
        .map(|(_, name)| *name)
        .collect();
    set.join(",")
}

/// The class of a reply for `class success|denial|error`.
fn class_of(reply: &Parsed) -> LogClass {
    let [answers, authority] = reply.counts;
    match reply.rcode() {
        _ if reply.is_missing() => LogClass::Error,
        Rcode::NOERROR if answers > 0 || authority == 0 || !reply.has_soa => LogClass::Success,
        Rcode::NOERROR | Rcode::NXDOMAIN => LogClass::Denial,
        _ => LogClass::Error,
    }
}

/// The question of a message: name, type and class.
fn question_of(message: &[u8]) -> Option<(Name, u16, u16)> {
    if message.get(4..6)? == [0, 0] {
        return None;
    }
    let (name, end) = Name::decode(message, 12).ok()?;
    let [a, b, c, d] = message.get(end..end + 4)?.try_into().ok()?;
    Some((name, u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])))
}

/// Reads the parts of a message that a line needs. A part that cannot be read stays empty.
fn parse(message: &[u8]) -> Parsed {
    let mut parsed = Parsed::default();
    // Reading stops at the first fault. The parts before it count.
    let _complete = fill(message, &mut parsed);
    parsed
}

/// Reads a message as far as it is valid.
fn fill(message: &[u8], parsed: &mut Parsed) -> Option<()> {
    let number = |at: usize| {
        Some(u16::from_be_bytes(
            message.get(at..at + 2)?.try_into().ok()?,
        ))
    };
    parsed.id = number(0)?;
    parsed.flags = number(2)?;
    let counts = [number(6)?, number(8)?, number(10)?];
    parsed.counts = [counts[0], counts[1]];
    let mut at = 12;
    parsed.plain_octets = at;
    if number(4)? > 0 {
        let (name, end) = Name::decode(message, at).ok()?;
        parsed.plain_octets += name.as_wire().len() + 4;
        parsed.question = Some((name, number(end)?, number(end + 2)?));
        at = end + 4;
    }
    for (section, count) in counts.into_iter().enumerate() {
        for _ in 0..count {
            let (owner, end) = Name::decode(message, at).ok()?;
            let rtype = Rtype(number(end)?);
            let low = u32::from(number(end + 4)?) << 16 | u32::from(number(end + 6)?);
            match (section, rtype) {
                (1, Rtype::SOA) => parsed.has_soa = true,
                (2, Rtype::OPT) => parsed.edns = Some((number(end + 2)?, low)),
                _ => {}
            }
            let data = usize::from(number(end + 8)?);
            if rtype != Rtype::OPT {
                let of_names = names_in(message, rtype, end + 10).unwrap_or(data);
                parsed.plain_octets += owner.as_wire().len() + 10 + of_names;
            }
            at = end + 10 + data;
        }
    }
    Some(())
}

/// The octets of data without compression, for types whose data may have compressed names (RFC 1035).
fn names_in(message: &[u8], rtype: Rtype, at: usize) -> Option<usize> {
    let name = |at: usize| Name::decode(message, at).ok();
    let length = |(name, _): &(Name, usize)| name.as_wire().len();
    match rtype {
        Rtype::CNAME | Rtype::NS | Rtype::PTR => Some(length(&name(at)?)),
        Rtype::MX => Some(2 + length(&name(at + 2)?)),
        Rtype::SOA => {
            let first = name(at)?;
            let second = name(first.1)?;
            Some(length(&first) + length(&second) + 20)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests;
