//! `template CLASS TYPE [ZONE...] { match RE...; answer RR...; rcode R; … }`: replies made from the question.

pub(crate) mod handler;
pub(crate) mod metrics;

use corefile::lexer::Token;
use corefile::parser::{Line, Statement};
use corefile::place::{Place, Report};
use dns::{Name, Rcode, Rtype};
use ops::metrics::Metric;

use crate::config::block::{Directive, Repeat, Role, ServerBlock};
use crate::config::mnemonic;
use crate::config::pattern::Pattern;
use crate::config::zone;
use crate::handlers::chain::{BuildError, Chain};
use crate::template::handler::TemplateHandler;

/// The fields of the question that a template may use.
const FIELDS: &[&str] = &[
    "Zone", "Name", "Class", "Type", "Match", "Group", "Message", "Question", "Remote", "Regex",
    "Meta",
];

/// A directive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template {
    /// Its place in the Corefile.
    pub place: Place,
    /// Its class; 255 means all.
    pub class: u16,
    /// Its type; ANY means all.
    pub rtype: Rtype,
    /// The names that it applies to, and all names below them.
    pub zones: Vec<Name>,
    /// The name must match one of these. An empty list matches any name.
    pub patterns: Vec<Pattern>,
    /// The records of the reply: answer, authority, additional.
    pub records: [Vec<gotext::Template>; 3],
    /// The response code.
    pub rcode: Rcode,
    /// An extended error, and its text.
    pub extended: Option<(u16, String)>,
    /// Names that fall through to the next handler when no pattern matches, with all names below them.
    pub fallthrough: Vec<Name>,
}

impl Directive for Template {
    const WORD: &'static str = "template";
    const USAGE: &'static str = "template CLASS TYPE [ZONE…]";
    const SUMMARY: &'static str = "makes replies from the question, with Go templates";
    const OPTIONS: &'static str =
        "match, answer, additional, authority, rcode, ederror, fallthrough and upstream";
    const REPEAT: Repeat = Repeat::Several;
    const ROLE: Role = Role::Answers;
    const METRICS: &'static [Metric] = metrics::METRICS;

    fn read(directive: &Statement, block_zones: &[Name], report: &mut Report) -> Option<Self> {
        let place = directive.name.place.clone();
        let [class, rtype, zones @ ..] = directive.arguments.as_slice() else {
            let fix = "write: template CLASS TYPE [ZONE...] { … }, such as template IN A";
            report.error(&place, "template has no class and type", fix);
            return None;
        };
        let mut template = Template {
            place,
            class: word(class, "class", mnemonic::class, report).unwrap_or_default(),
            rtype: word(rtype, "type", mnemonic::rtype, report).unwrap_or(Rtype::ANY),
            zones: zone::arguments(zones, block_zones, report),
            patterns: Vec::new(),
            records: <[Vec<gotext::Template>; 3]>::default(),
            rcode: Rcode::NOERROR,
            extended: None,
            fallthrough: Vec::new(),
        };
        for line in &directive.lines {
            option(&mut template, directive, line, report);
        }
        Some(template)
    }

    fn add_handlers(&self, block: &ServerBlock, chain: &mut Chain<'_>) -> Result<(), BuildError> {
        chain.add(TemplateHandler::new(
            block.all().cloned().collect(),
            chain.context.counts,
        ));
        Ok(())
    }
}

/// Reads a word in capitals.
fn word<T>(
    token: &Token,
    what: &str,
    read: impl Fn(&str) -> Option<T>,
    report: &mut Report,
) -> Option<T> {
    let value = read(&token.text);
    if value.is_none() {
        let message = format!("{} is not a {what}", token.shown());
        report.error(
            &token.place,
            message,
            format!("write a {what} in capitals, or ANY"),
        );
    }
    value
}

fn option(template: &mut Template, directive: &Statement, line: &Line, report: &mut Report) {
    match line.name.text.as_str() {
        "match" => {
            for token in line.at_least_one("REGEX...", report).unwrap_or_default() {
                let pattern = Pattern::parse(token, &token.text, report);
                template.patterns.extend(pattern);
            }
        }
        "answer" => records(line, &mut template.records[0], report),
        "authority" => records(line, &mut template.records[1], report),
        "additional" => records(line, &mut template.records[2], report),
        "rcode" => {
            if let Some(token) = line.exactly_one("RCODE", report)
                && let Some(rcode) = word(token, "response code", mnemonic::rcode, report)
            {
                template.rcode = rcode;
            }
        }
        "ederror" => template.extended = extended(line, report).or(template.extended.take()),
        "fallthrough" => {
            template.fallthrough = zone::arguments(&line.arguments, &[Name::root()], report);
        }
        // CoreDNS ignores it.
        "upstream" => {}
        "var" | "expr" => {
            let why = "a template may use the question and the groups of match: write the form of the names into the pattern of match, or forward them to a CoreDNS with this template";
            report.not_supported(
                &line.name.place,
                &format!("template {}", line.name.text),
                why,
            );
        }
        _ => directive.unknown_option(line, Template::OPTIONS, report),
    }
}

fn records(line: &Line, section: &mut Vec<gotext::Template>, report: &mut Report) {
    for token in line.at_least_one("RR...", report).unwrap_or_default() {
        match gotext::Template::parse(&token.text, FIELDS) {
            Ok(template) => section.push(template),
            Err(error) => {
                let message = format!("{}: {error}", line.name.text);
                let fix = "write a record with fields such as {{ .Name }} and {{ .Group.a }}";
                report.error(&token.place, message, fix);
            }
        }
    }
}

/// Reads `ederror CODE [TEXT]`.
fn extended(line: &Line, report: &mut Report) -> Option<(u16, String)> {
    let (code, text) = match line.arguments.as_slice() {
        [code] => (code, String::new()),
        [code, text] => (code, text.text.clone()),
        _ => {
            let fix = "write: ederror CODE [TEXT]";
            report.error(&line.name.place, "ederror takes a code and a text", fix);
            return None;
        }
    };
    let Ok(number) = code.text.parse() else {
        let message = format!("{} is not a number up to 65535", code.shown());
        report.error(&code.place, message, "write: ederror CODE [TEXT]");
        return None;
    };
    Some((number, text))
}

impl Template {
    /// Whether a template uses metadata.
    #[must_use]
    pub fn uses_metadata(&self) -> bool {
        let mut all = self.records.iter().flatten();
        all.any(|template| template.names("Meta"))
    }

    /// The words in the templates that begin with `start`, without it.
    pub(crate) fn words_after<'a>(&'a self, start: &'a str) -> impl Iterator<Item = &'a str> {
        let all = self.records.iter().flatten();
        all.flat_map(move |template| template.words_after(start))
    }
}
