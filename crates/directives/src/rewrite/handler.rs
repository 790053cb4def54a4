//! `rewrite`: asks the chain another question, without the client's knowledge.
//!
//! Rules are tried in order, up to the first matching rule that stops. When the chain has answered, the changes are
//! undone; the reply has the client's question again. [`reply`] applies rules to replies.
//!
//! Rules for whole names are found in sets, so many rules cost no more than one for a query that none of them matches.

mod edns;
mod reply;

use std::collections::HashSet;

use dns::{Name, Rcode, Rtype};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use server::chain::{Handler, Next};
use server::message::{Outcome, Question, Request};

use self::reply::{Texts, Undo};
use crate::config::{AnswerRule, NameMatch, NameRule, Part, RewriteField, RewriteRule};
use crate::handlers::name_text::NameText;

#[derive(Debug)]
pub(crate) struct RewriteHandler {
    rules: Vec<RewriteRule>,
    /// The queries that rules may match.
    reach: Reach,
}

/// The queries that rules may match.
#[derive(Debug, Default)]
struct Reach {
    /// All queries: rules about options and targets match every query.
    all: bool,
    /// Types that are rewritten.
    types: Vec<Rtype>,
    /// Classes that are rewritten.
    classes: Vec<u16>,
    /// Whole names, in wire form and lower case.
    names: HashSet<Box<[u8]>>,
    /// The places of rules that match parts of names.
    texts: Vec<usize>,
}

/// The result of a rule.
enum Done<'r> {
    /// It does not match.
    Ignored,
    /// It matches. These are the steps for the reply.
    Fits(Vec<Undo<'r>>),
    /// Its replacement is not a name.
    Invalid(String),
}

impl RewriteHandler {
    pub(crate) fn new(rules: Vec<RewriteRule>) -> Self {
        let mut reach = Reach::default();
        for (place, rule) in rules.iter().enumerate() {
            let names = match &rule.field {
                RewriteField::Cname { .. } | RewriteField::Edns(_) => {
                    reach.all = true;
                    continue;
                }
                RewriteField::Type { from, .. } => {
                    reach.types.push(*from);
                    continue;
                }
                RewriteField::Class { from, .. } => {
                    reach.classes.push(*from);
                    continue;
                }
                RewriteField::Name(NameRule { names, .. })
                | RewriteField::Ttl { names, .. }
                | RewriteField::Rcode { names, .. } => names,
            };
            match names {
                NameMatch::Exact(text) => {
                    // No query has a text that is not a name.
                    let name = Name::parse(text).ok().map(|name| name.to_lower());
                    let wire = name.map(|name| name.as_wire().into());
                    reach.names.extend(wire);
                }
                NameMatch::Prefix(_)
                | NameMatch::Suffix(_)
                | NameMatch::Substring(_)
                | NameMatch::Regex(_) => reach.texts.push(place),
            }
        }
        Self { rules, reach }
    }

    /// Whether a rule is for names and matches this one.
    fn fits_name(&self, place: usize, name: &str) -> bool {
        match self.rules.get(place).map(|rule| &rule.field) {
            Some(
                RewriteField::Name(NameRule { names, .. })
                | RewriteField::Ttl { names, .. }
                | RewriteField::Rcode { names, .. },
            ) => names.matches(name),
            Some(
                RewriteField::Type { .. }
                | RewriteField::Class { .. }
                | RewriteField::Cname { .. }
                | RewriteField::Edns(_),
            )
            | None => false,
        }
    }

    /// Rewrites the query, lets the chain answer it, and undoes the changes.
    async fn run(&self, request: &mut Request, next: Next) -> Outcome {
        let name = request.name.clone();
        let (qtype, qclass, edns) = (request.qtype, request.qclass, request.edns.clone());
        let mut undo = Vec::new();
        let mut invalid = None;
        for rule in &self.rules {
            match apply(rule, request) {
                Done::Ignored => continue,
                Done::Fits(more) => undo.extend(more),
                Done::Invalid(name) => {
                    invalid = Some(name);
                    break;
                }
            }
            if rule.stops {
                break;
            }
        }
        let outcome = match invalid {
            Some(name) => {
                let error = format!("invalid name after rewrite: {name}");
                Outcome::failed("rewrite", Rcode::SERVFAIL, error)
            }
            None => {
                let outcome = next.clone().run(request).await;
                reply::undo(outcome, &undo, request, next).await
            }
        };
        request.name = name;
        (request.qtype, request.qclass, request.edns) = (qtype, qclass, edns);
        outcome
    }
}

/// Applies a rule to a query.
fn apply<'r>(rule: &'r RewriteRule, request: &mut Request) -> Done<'r> {
    let lower = |request: &Request| request.name.to_lower().to_string();
    let fits = |fits: bool, undo: Option<Undo<'r>>| {
        if fits {
            Done::Fits(undo.into_iter().collect())
        } else {
            Done::Ignored
        }
    };
    match &rule.field {
        RewriteField::Name(rule) => rename(rule, request, lower(request)),
        RewriteField::Type { from, to } => {
            let is_it = request.qtype == *from;
            request.qtype = if is_it { *to } else { request.qtype };
            fits(is_it, None)
        }
        RewriteField::Class { from, to } => {
            let is_it = request.qclass == *from;
            request.qclass = if is_it { *to } else { request.qclass };
            fits(is_it, None)
        }
        RewriteField::Ttl { names, least, most } => {
            let (least, most) = (*least, *most);
            let undo = Undo::Ttl { least, most };
            fits(names.matches(&lower(request)), Some(undo))
        }
        RewriteField::Rcode { names, from, to } => {
            let (from, to) = (*from, *to);
            let undo = Undo::Rcode { from, to };
            fits(names.matches(&lower(request)), Some(undo))
        }
        RewriteField::Cname { targets, to } => fits(true, Some(Undo::Target { targets, to })),
        RewriteField::Edns(rule) => fits(edns::apply(rule, request), None),
    }
}

/// The replacement for a name by a rule with `metadata`; `None` when the rule does not match or a value is missing.
fn expanded(parts: &[Part], names: &NameMatch, name: &str, request: &Request) -> Option<String> {
    let NameMatch::Regex(pattern) = names else {
        return None;
    };
    let groups = pattern.regex().captures(name)?;
    let mut text = String::new();
    for part in parts {
        match part {
            Part::Text(part) => text.push_str(part),
            Part::Group(number) => text.push_str(groups.get(*number).map_or("", |it| it.as_str())),
            Part::Label(label) => {
                let value = request.metadata.get(label.as_str())?;
                (!value.is_empty()).then_some(())?;
                text.push_str(&value.to_ascii_lowercase());
            }
        }
    }
    Some(text)
}

/// Applies a rule for names. `lower` is the query's name.
fn rename<'r>(rule: &'r NameRule, request: &mut Request, lower: String) -> Done<'r> {
    let text = match &rule.parts {
        Some(parts) => expanded(parts, &rule.names, &lower, request),
        None => rule.names.replaced(&lower, &rule.to),
    };
    let Some(text) = text else {
        return Done::Ignored;
    };
    match Name::parse(&text) {
        Ok(name) => request.name = name,
        Err(_) => return Done::Invalid(text),
    }
    let back = match &rule.names {
        NameMatch::Exact(_) => Some(Texts::Below {
            from: text,
            to: lower,
        }),
        NameMatch::Suffix(from) => rule.auto.then_some(Texts::Suffix {
            from: &rule.to,
            to: from,
        }),
        NameMatch::Prefix(_) | NameMatch::Substring(_) | NameMatch::Regex(_) => {
            rule.auto.then_some(Texts::Below {
                from: text,
                to: lower,
            })
        }
    };
    let mut undo = Vec::new();
    if let Some(back) = back {
        undo.push(Undo::Owner(back.clone()));
        undo.push(Undo::Value(back));
    }
    undo.extend(rule.answers.iter().map(|answer| match answer {
        AnswerRule::Name(pattern, to) => Undo::Owner(Texts::Found { pattern, to }),
        AnswerRule::Value(pattern, to) => Undo::Value(Texts::Found { pattern, to }),
    }));
    Done::Fits(undo)
}

impl Handler for RewriteHandler {
    fn name(&self) -> &'static str {
        "rewrite"
    }

    fn passes(&self, question: &Question<'_>) -> bool {
        let reach = &self.reach;
        if reach.all
            || reach.types.contains(&question.qtype)
            || reach.classes.contains(&question.qclass)
            || reach.names.contains(question.name)
        {
            return false;
        }
        if reach.texts.is_empty() {
            return true;
        }
        let text = NameText::of(question.name);
        let mut rules = reach.texts.iter();
        !rules.any(|place| self.fits_name(*place, text.as_str()))
    }

    fn answer<'a>(&'a self, request: &'a mut Request, next: Next) -> BoxFuture<'a, Outcome> {
        self.run(request, next).boxed()
    }
}

#[cfg(test)]
mod tests;
