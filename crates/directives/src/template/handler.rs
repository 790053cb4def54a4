//! `template`: makes replies from the question and from templates of records.
//!
//! The directives of a block are tried in order. The first one whose zone, class and type match takes the query if one
//! of its patterns matches. If none does, `fallthrough` decides whether the query continues; else it fails, as in
//! CoreDNS.

mod data;

use dns::{Name, Rcode, Rdata, Record, Rtype, flags, wire_is_within};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use gotext::Value;
use server::chain::{Handler, Next};
use server::message::{Outcome, Question, Reply, Request};

use crate::acl::handler::closest;
use crate::config::mnemonic::CLASS_ANY;
use crate::handlers::name_text::NameText;
use crate::handlers::tally::{Counts, Tally};
use crate::template::Template;
use crate::template::metrics as m;

/// The sections by their names, in the order of a template's records.
const SECTIONS: [&str; 3] = ["answer", "authority", "additional"];

#[derive(Debug)]
pub(crate) struct TemplateHandler {
    templates: Vec<Template>,
    /// Queries that a directive took.
    matches: Tally,
    /// Templates that failed.
    failures: Tally,
    /// Texts that are no record.
    record_failures: Tally,
}

/// The directive for a query.
enum Choice<'t> {
    /// None: the query continues.
    None,
    /// One whose patterns do not match, without `fallthrough`.
    Stopped,
    /// This one, for this zone, by the pattern at this index. `None` if it has no patterns.
    Chosen(&'t Template, &'t Name, Option<usize>),
}

impl TemplateHandler {
    pub(crate) fn new(templates: Vec<Template>, counts: Counts<'_>) -> Self {
        Self {
            templates,
            matches: counts.tally(m::MATCHES),
            failures: counts.tally(m::FAILURES),
            record_failures: counts.tally(m::RR_FAILURES),
        }
    }

    /// The directive for a question.
    fn choose(&self, question: &Question<'_>) -> Choice<'_> {
        let mut text = None;
        for template in &self.templates {
            let Some(zone) = closest(&template.zones, question.name) else {
                continue;
            };
            let is_class = template.class == CLASS_ANY
                || question.qclass == CLASS_ANY
                || question.qclass == template.class;
            let is_type = template.rtype == Rtype::ANY
                || question.qtype == Rtype::ANY
                || question.qtype == template.rtype;
            if !is_class || !is_type {
                continue;
            }
            if template.patterns.is_empty() {
                return Choice::Chosen(template, zone, None);
            }
            let text = text
                .get_or_insert_with(|| NameText::of(question.name))
                .as_str();
            let mut patterns = template.patterns.iter();
            if let Some(place) = patterns.position(|pattern| pattern.regex().is_match(text)) {
                return Choice::Chosen(template, zone, Some(place));
            }
            let mut through = template.fallthrough.iter();
            if !through.any(|name| wire_is_within(question.name, name.as_wire())) {
                return Choice::Stopped;
            }
        }
        Choice::None
    }

    /// A directive's reply to a request.
    async fn reply(
        &self,
        (template, zone, pattern): (&Template, &Name, Option<usize>),
        request: &mut Request,
        next: Next,
    ) -> Outcome {
        let class = match request.qclass {
            CLASS_ANY => template.class,
            class => class,
        };
        let qtype = match request.qtype {
            Rtype::ANY => template.rtype,
            qtype => qtype,
        };
        let (class, rtype) = (dns::class_name(class), qtype.to_string());
        let zone = zone.to_string();
        let [class_label, type_label] = [label(&class, "CLASS"), label(&rtype, "TYPE")];
        self.matches.increase(&[&zone, "", class_label, type_label]);
        if template.rcode == Rcode::SERVFAIL {
            return failed(None);
        }
        let pattern = pattern.and_then(|place| template.patterns.get(place));
        let data = data::of(request, [&zone, &class, &rtype], pattern);
        let mut reply = Reply::empty("template", template.rcode, flags::AA);
        reply.extended.extend(template.extended.clone());
        for (section, sources) in SECTIONS.into_iter().zip(&template.records) {
            for source in sources {
                let labels = [&zone, "", class_label, type_label, section, source.source()];
                let record = match self.record(source, &data, request, &labels) {
                    Ok(record) => record,
                    Err(error) => return failed(Some(error)),
                };
                let target = cname_target(&record, request.qtype);
                match section {
                    "answer" => reply.answers.push(record),
                    "authority" => reply.authority.push(record),
                    _ => reply.additional.push(record),
                }
                if let Some(target) = target.filter(|_| section == "answer") {
                    let mut asking = request.following(target);
                    if let Outcome::Reply(more) = next.clone().again(&mut asking).await {
                        reply.flags = reply.flags & !flags::TC | more.flags & flags::TC;
                        reply.answers.extend(more.answers);
                    }
                }
            }
        }
        Outcome::Reply(reply)
    }

    /// The record of a template.
    fn record(
        &self,
        source: &gotext::Template,
        data: &Value,
        request: &Request,
        labels: &[&str],
    ) -> Result<Record, String> {
        let meta = |label: &str| request.metadata.get(label).cloned().unwrap_or_default();
        let text = source.fill(data, &meta).map_err(|error| {
            self.failures.increase(labels);
            error.to_string()
        })?;
        zonefile::record(&text).inspect_err(|_| self.record_failures.increase(labels))
    }
}

/// The label of a class or type in metrics. It is `other` for a type that has only a number, so that clients cannot
/// make up labels.
fn label<'n>(name: &'n str, before_number: &str) -> &'n str {
    let number = name.strip_prefix(before_number);
    let is_number = number.is_some_and(|it| it.bytes().all(|octet| octet.is_ascii_digit()));
    if is_number { "other" } else { name }
}

/// The target of an alias in a reply to a question for addresses.
fn cname_target(record: &Record, qtype: Rtype) -> Option<Name> {
    let is_alias = record.rtype == Rtype::CNAME && [Rtype::A, Rtype::AAAA].contains(&qtype);
    let target = Rdata::name_at(record.rtype, record.rdata.as_octets());
    target
        .filter(|_| is_alias)
        .and_then(|target| Name::from_wire(target).ok())
}

fn failed(error: Option<String>) -> Outcome {
    Outcome::Failed(server::message::Failure {
        rcode: Rcode::SERVFAIL,
        by: "template",
        error,
        extended: None,
    })
}

impl Handler for TemplateHandler {
    fn name(&self) -> &'static str {
        "template"
    }

    fn passes(&self, question: &Question<'_>) -> bool {
        match self.choose(question) {
            Choice::None => true,
            Choice::Stopped | Choice::Chosen(..) => false,
        }
    }

    fn answer<'a>(&'a self, request: &'a mut Request, next: Next) -> BoxFuture<'a, Outcome> {
        let lower = request.name.to_lower();
        match self.choose(&request.question(&lower)) {
            Choice::None => next.run(request),
            Choice::Stopped => std::future::ready(failed(None)).boxed(),
            Choice::Chosen(template, zone, pattern) => {
                self.reply((template, zone, pattern), request, next).boxed()
            }
        }
    }
}

#[cfg(test)]
mod tests;
