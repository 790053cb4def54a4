//! `rewrite [continue|stop] FIELD …`: replaces parts of questions, and restores them in replies.
//!
//! The words may be on the line or in a block. CoreDNS adds a last dot to names, even to those that are only a part of
//! a name: `prefix pre- post-` becomes `pre-.`, which no name begins with. That gives a warning.

pub(crate) mod handler;

mod edns;
mod name;

pub use edns::{EdnsAction, EdnsOption, EdnsRule, EdnsValue, Variable};
pub use name::{AnswerRule, NameMatch, NameRule, Part, filled};

use crate::config::block::{Directive, Repeat, Role, ServerBlock};
use crate::config::mnemonic;
use crate::handlers::chain::{BuildError, Chain};
use crate::rewrite::handler::RewriteHandler;
use corefile::lexer::Token;
use corefile::parser::Statement;
use corefile::place::{Place, Report};
use dns::edns::CLIENT_SUBNET;
use dns::{Name, Rcode, Rtype};

/// The fields, for messages.
const FIELDS: &str = "name, type, class, ttl, rcode, cname and edns0";
/// The largest TTL of a range without an end, as in CoreDNS.
const MAX_TTL: u32 = 0x7fff_ffff;
/// The largest response code that may be written as a number, as in CoreDNS.
const MAX_RCODE: u16 = 23;

/// A rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RewriteRule {
    /// Its place in the Corefile.
    pub place: Place,
    /// Whether no further rule is tried if this one matches.
    pub stops: bool,
    /// The part to rewrite.
    pub field: RewriteField,
}

/// The part that a rule rewrites.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RewriteField {
    /// The question's name.
    Name(NameRule),
    /// The question's type.
    Type {
        /// The client's type.
        from: Rtype,
        /// The type that the chain is asked for.
        to: Rtype,
    },
    /// The question's class.
    Class {
        /// The client's class.
        from: u16,
        /// The class that the chain is asked for.
        to: u16,
    },
    /// The TTLs of the reply.
    Ttl {
        /// The question's names that it applies to.
        names: NameMatch,
        /// The least TTL.
        least: u32,
        /// The largest TTL.
        most: u32,
    },
    /// The response code.
    Rcode {
        /// The question's names that it applies to.
        names: NameMatch,
        /// The chain's code.
        from: Rcode,
        /// The client's code.
        to: Rcode,
    },
    /// The target of an alias in the reply. The new target is looked up.
    Cname {
        /// The targets to replace.
        targets: NameMatch,
        /// The new target.
        to: String,
    },
    /// EDNS options of the query.
    Edns(EdnsRule),
}

/// Whether rules of a block put the subnet of clients into queries.
pub(crate) fn sends_subnet(block: &ServerBlock) -> bool {
    block.all::<RewriteRule>().any(|rule| match &rule.field {
        RewriteField::Edns(rule) => {
            rule.option.code() == CLIENT_SUBNET && rule.action != EdnsAction::Unset
        }
        RewriteField::Name { .. }
        | RewriteField::Type { .. }
        | RewriteField::Class { .. }
        | RewriteField::Ttl { .. }
        | RewriteField::Rcode { .. }
        | RewriteField::Cname { .. } => false,
    })
}

/// The context for reading a rule: the word to report it at, and the report.
pub(crate) struct Reading<'a> {
    /// The directive's word.
    name: &'a Token,
    report: &'a mut Report,
}

impl Reading<'_> {
    /// Reports a fault of the whole rule.
    fn wrong(&mut self, message: impl Into<String>, fix: impl Into<String>) {
        self.report.error(&self.name.place, message, fix);
    }

    /// Reports a fault of one word.
    fn wrong_at(&mut self, token: &Token, message: impl Into<String>, fix: impl Into<String>) {
        self.report.error(&token.place, message, fix);
    }
}

impl Directive for RewriteRule {
    const WORD: &'static str = "rewrite";
    const USAGE: &'static str = "rewrite [continue|stop] FIELD …";
    const SUMMARY: &'static str =
        "asks another question than the client's, and changes the reply back";
    const REPEAT: Repeat = Repeat::Several;
    const ROLE: Role = Role::Decides;

    fn read(directive: &Statement, _: &[Name], report: &mut Report) -> Option<Self> {
        let mut words: Vec<&Token> = directive.arguments.iter().collect();
        if words.len() < 2 {
            for line in &directive.lines {
                words.push(&line.name);
                words.extend(&line.arguments);
            }
        } else {
            directive.refuse_options(report);
        }
        let reading = &mut Reading {
            name: &directive.name,
            report,
        };
        let mode = words.first().map(|word| word.text.to_ascii_lowercase());
        let stops = match mode.as_deref() {
            Some("continue") => false,
            Some("stop") | Some(_) | None => true,
        };
        if matches!(mode.as_deref(), Some("continue" | "stop")) {
            words.remove(0);
        }
        let Some((field, words)) = words.split_first() else {
            let fix =
                format!("write: rewrite [continue|stop] FIELD …, FIELD being one of {FIELDS}");
            reading.wrong("rewrite has no field", fix);
            return None;
        };
        let read = match field.text.to_ascii_lowercase().as_str() {
            "name" => name::parse(words, reading).map(RewriteField::Name),
            "type" => types(words, reading),
            "class" => classes(words, reading),
            "ttl" => ttl(words, reading),
            "rcode" => rcode(words, reading),
            "cname" => cname(words, reading),
            "edns0" => edns::parse(words, reading).map(RewriteField::Edns),
            "answer" => {
                let fix = "write: rewrite name FROM TO answer …";
                reading.wrong_at(field, "only a rule for names can rewrite answers", fix);
                None
            }
            _ => {
                let message = format!("rewrite has no field {}", field.shown());
                reading.wrong_at(field, message, format!("its fields are {FIELDS}"));
                None
            }
        };
        Some(RewriteRule {
            place: directive.name.place.clone(),
            stops,
            field: read?,
        })
    }

    fn add_handlers(&self, block: &ServerBlock, chain: &mut Chain<'_>) -> Result<(), BuildError> {
        chain.add(RewriteHandler::new(block.all().cloned().collect()));
        Ok(())
    }
}

/// Reads `FROM TO` with `read`, both in any case.
fn pair<T>(
    words: &[&Token],
    what: &str,
    read: impl Fn(&str) -> Option<T>,
    reading: &mut Reading<'_>,
) -> Option<(T, T)> {
    let [from, to] = words else {
        reading.wrong(
            format!("a rule for a {what} has two words, not {}", words.len()),
            format!("write: rewrite {what} FROM TO"),
        );
        return None;
    };
    let mut one = |token: &Token| {
        let value = read(&token.text.to_ascii_uppercase());
        if value.is_none() {
            let message = format!("{} is not a {what}", token.shown());
            reading.wrong_at(token, message, format!("write the name of a {what}"));
        }
        value
    };
    let (from, to) = (one(from), one(to));
    Some((from?, to?))
}

/// Reads `type FROM TO`.
fn types(words: &[&Token], reading: &mut Reading<'_>) -> Option<RewriteField> {
    let (from, to) = pair(words, "type", mnemonic::rtype, reading)?;
    Some(RewriteField::Type { from, to })
}

/// Reads `class FROM TO`.
fn classes(words: &[&Token], reading: &mut Reading<'_>) -> Option<RewriteField> {
    let (from, to) = pair(words, "class", mnemonic::class, reading)?;
    Some(RewriteField::Class { from, to })
}

/// Splits `[KIND] NAME VALUES…` into the matched names and this number of values.
fn split_names<'t>(
    words: &'t [&'t Token],
    usage: &str,
    values: usize,
    reading: &mut Reading<'_>,
) -> Option<(NameMatch, &'t [&'t Token])> {
    let has_kind = match words.len().checked_sub(values) {
        Some(1) => false,
        Some(2) => true,
        Some(_) | None => {
            let message = format!("a rule of {} words", words.len());
            reading.wrong(message, format!("write: rewrite {usage}"));
            return None;
        }
    };
    if has_kind {
        let names = NameMatch::parse(words[0], words[1], reading)?;
        return Some((names, &words[2..]));
    }
    let exact = name::normal(&words[0].text);
    Some((NameMatch::Exact(exact), &words[1..]))
}

/// Reads `ttl [KIND] NAME SECONDS|MIN-MAX|-MAX|MIN-`.
fn ttl(words: &[&Token], reading: &mut Reading<'_>) -> Option<RewriteField> {
    let usage = "ttl [exact|prefix|suffix|substring|regex] NAME SECONDS|MIN-MAX|MIN-|-MAX";
    let (names, values) = split_names(words, usage, 1, reading)?;
    let value = values.first()?;
    let Some((least, most)) = ttl_range(&value.text) else {
        let message = format!("{} is neither a TTL nor a range of TTLs", value.shown());
        reading.wrong_at(value, message, format!("write: rewrite {usage}"));
        return None;
    };
    Some(RewriteField::Ttl { names, least, most })
}

/// Reads a TTL or a range of TTLs.
fn ttl_range(text: &str) -> Option<(u32, u32)> {
    let number = |text: &str| {
        let is_digits = text.bytes().all(|octet| octet.is_ascii_digit());
        text.parse::<u32>().ok().filter(|_| is_digits)
    };
    let range = match text.split_once('-') {
        None => {
            let one = number(text)?;
            (one, one)
        }
        Some(("", "")) => return None,
        Some(("", most)) => (0, number(most)?),
        Some((least, "")) => (number(least)?, MAX_TTL),
        Some((least, most)) => (number(least)?, number(most)?),
    };
    (range.0 <= range.1).then_some(range)
}

/// Reads `rcode [KIND] NAME FROM TO`.
fn rcode(words: &[&Token], reading: &mut Reading<'_>) -> Option<RewriteField> {
    let usage = "rcode [exact|prefix|suffix|substring|regex] NAME FROM TO";
    let (names, values) = split_names(words, usage, 2, reading)?;
    let mut codes = values.iter().map(|token| {
        let number = token.text.parse().ok().filter(|it| *it <= MAX_RCODE);
        let code = number
            .map(Rcode)
            .or_else(|| Rcode::of_mnemonic(&token.text));
        if code.is_none() {
            let message = format!("{} is not a response code", token.shown());
            let fix = format!("write one by name, or as a number up to {MAX_RCODE}");
            reading.wrong_at(token, message, fix);
        }
        code
    });
    let (from, to) = (codes.next().flatten(), codes.next().flatten());
    Some(RewriteField::Rcode {
        names,
        from: from?,
        to: to?,
    })
}

/// Reads `cname [KIND] FROM TO`.
fn cname(words: &[&Token], reading: &mut Reading<'_>) -> Option<RewriteField> {
    let (kind, from, to) = match words {
        [from, to] => (None, from, to),
        [kind, from, to] => (Some(kind), from, to),
        _ => {
            let message = format!("a rule of {} words", words.len());
            let fix = "write: rewrite cname [exact|prefix|suffix|substring|regex] FROM TO";
            reading.wrong(message, fix);
            return None;
        }
    };
    let Some(kind) = kind else {
        return Some(RewriteField::Cname {
            targets: NameMatch::Exact(name::normal(&from.text)),
            to: name::normal(&to.text),
        });
    };
    // Only whole names get a last dot here, as in CoreDNS.
    let targets = NameMatch::parse_lower(kind, from, reading)?;
    let to = match &targets {
        NameMatch::Exact(_) => name::normal(&to.text),
        NameMatch::Prefix(_)
        | NameMatch::Suffix(_)
        | NameMatch::Substring(_)
        | NameMatch::Regex(_) => to.text.to_ascii_lowercase(),
    };
    Some(RewriteField::Cname { targets, to })
}
