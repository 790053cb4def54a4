//! `log [NAMES...] [FORMAT] { class CLASS... }`: logs queries.
//!
//! The first rule whose name is a suffix of the query's name decides, even if its classes leave the query out. A single
//! argument is always a name. Of several arguments, the last is a format if it has a `{`.

pub(crate) mod handler;

use std::collections::BTreeSet;

use corefile::lexer::Token;
use corefile::parser::{Line, Statement};
use corefile::place::{Place, Report};
use dns::Name;

use crate::config::block::{Directive, Repeat};
use crate::config::zone;

/// A rule of the query log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogRule {
    /// Its place in the Corefile.
    pub place: Place,
    /// The names that it applies to, and all names below them.
    pub names: Vec<Name>,
    /// The pieces of a line.
    pub format: Vec<LogPiece>,
    /// The classes of replies that are logged; never empty.
    pub classes: BTreeSet<LogClass>,
}

/// A class of replies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogClass {
    /// Data, a delegation, or an empty reply without error.
    Success,
    /// NXDOMAIN, or no data with an SOA.
    Denial,
    /// Everything else.
    Error,
}

impl LogClass {
    /// The class as it is written.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Denial => "denial",
            Self::Error => "error",
        }
    }
}

/// A piece of a log line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LogPiece {
    /// Literal text. An unknown `{word}` is text.
    Text(String),
    /// A field of the query or its reply.
    Field(LogField),
}

/// A field of a log line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LogField {
    /// `{remote}`: the client's address.
    Remote,
    /// `{port}`: the client's port.
    Port,
    /// `{local}`: our address.
    Local,
    /// `{>id}`: the message id.
    Id,
    /// `{>opcode}`: the opcode.
    Opcode,
    /// `{type}`: the question's type.
    Type,
    /// `{class}`: the question's class.
    Class,
    /// `{name}`: the question's name, in lower case.
    Name,
    /// `{proto}`: udp or tcp.
    Proto,
    /// `{size}`: bytes of the request.
    Size,
    /// `{>do}`: the DO bit.
    Do,
    /// `{>bufsize}`: the EDNS size.
    Bufsize,
    /// `{rcode}`: the response code.
    Rcode,
    /// `{>rflags}`: the response's flags.
    Rflags,
    /// `{rsize}`: bytes of the response.
    Rsize,
    /// `{duration}`: the time taken to answer.
    Duration,
    /// `{/label}`: a metadata label.
    Metadata(String),
}

/// CoreDNS's common format.
const COMMON: &str = "{remote}:{port} - {>id} \"{type} {class} {name} {proto} {size} {>do} \
                      {>bufsize}\" {rcode} {>rflags} {rsize} {duration}";

/// The end of the combined format, after the common one.
const COMBINED_TAIL: &str = " \"{>opcode}\"";

impl Directive for LogRule {
    const WORD: &'static str = "log";
    const USAGE: &'static str = "log [NAMES…] [FORMAT] { class success|denial|error|all… }";
    const SUMMARY: &'static str = "logs queries, by default in CoreDNS's format. FORMAT comes last and needs a name before it";
    const OPTIONS: &'static str = "class";
    const REPEAT: Repeat = Repeat::Several;

    fn read(directive: &Statement, _: &[Name], report: &mut Report) -> Option<Self> {
        let (names, format) = match directive.arguments.split_last() {
            Some((last, names)) if !names.is_empty() && last.text.contains('{') => {
                (names, last.text.as_str())
            }
            Some(_) | None => (directive.arguments.as_slice(), COMMON),
        };
        if let Some(token) = directive.arguments.last() {
            for word in unknown_fields(&pieces(format)) {
                let message = format!("log has no field {word}: it is logged as it is written");
                let fix =
                    "write a field of docs/directives/log.md, or {/LABEL} for a label of metadata";
                report.warn(&token.place, message, fix);
            }
        }
        let names = match names {
            [only] if only.text.contains('{') => {
                let message = format!("{} is not a name", only.shown());
                report.error(
                    &only.place,
                    message,
                    "write a name before the format: log . FORMAT",
                );
                Vec::new()
            }
            names => zone::arguments(names, &[Name::root()], report),
        };
        let mut classes = BTreeSet::new();
        for line in &directive.lines {
            match line.name.text.as_str() {
                "class" => read_classes(line, &mut classes, report),
                _ => directive.unknown_option(line, LogRule::OPTIONS, report),
            }
        }
        if classes.is_empty() {
            classes = [LogClass::Success, LogClass::Denial, LogClass::Error].into();
        }
        Some(LogRule {
            place: directive.name.place.clone(),
            names,
            format: pieces(format),
            classes,
        })
    }
}

/// Reads `class success|denial|error|all ...`.
fn read_classes(line: &Line, classes: &mut BTreeSet<LogClass>, report: &mut Report) {
    let what = "success|denial|error|all ...";
    let words: &[Token] = line.at_least_one(what, report).unwrap_or_default();
    for token in words {
        match token.text.as_str() {
            "success" => classes.extend([LogClass::Success]),
            "denial" => classes.extend([LogClass::Denial]),
            "error" => classes.extend([LogClass::Error]),
            "all" => classes.extend([LogClass::Success, LogClass::Denial, LogClass::Error]),
            _ => {
                let message = format!("log has no class {}", token.shown());
                report.error(&token.place, message, format!("write: class {what}"));
            }
        }
    }
}

/// Splits a format into its pieces.
fn pieces(format: &str) -> Vec<LogPiece> {
    let combined = format!("{COMMON}{COMBINED_TAIL}");
    let format = format
        .replace("{common}", COMMON)
        .replace("{combined}", &combined);
    let mut pieces = Vec::new();
    let mut text = String::new();
    let mut rest = format.as_str();
    while let Some(start) = rest.find('{') {
        let (before, from) = rest.split_at(start);
        text.push_str(before);
        let found = from
            .find('}')
            .and_then(|end| Some((field(&from[1..end])?, end + 1)));
        rest = if let Some((field, end)) = found {
            if !text.is_empty() {
                pieces.push(LogPiece::Text(std::mem::take(&mut text)));
            }
            pieces.push(LogPiece::Field(field));
            &from[end..]
        } else {
            text.push('{');
            &from[1..]
        };
    }
    text.push_str(rest);
    if !text.is_empty() {
        pieces.push(LogPiece::Text(text));
    }
    pieces
}

/// The words in braces that are no fields. Braces around anything else are text, as in a line of JSON.
fn unknown_fields(pieces: &[LogPiece]) -> Vec<String> {
    let is_word = |text: &str| {
        let is_part = |c: char| c.is_ascii_alphanumeric() || "_-/>.".contains(c);
        !text.is_empty() && text.chars().all(is_part)
    };
    let mut unknown = Vec::new();
    for piece in pieces {
        let LogPiece::Text(text) = piece else {
            continue;
        };
        for (before, _) in text.match_indices('}').map(|(end, _)| text.split_at(end)) {
            if let Some((_, word)) = before.rsplit_once('{').filter(|(_, word)| is_word(word)) {
                unknown.push(format!("{{{word}}}"));
            }
        }
    }
    unknown
}

/// The field with this name, written without braces.
fn field(name: &str) -> Option<LogField> {
    Some(match name {
        "remote" => LogField::Remote,
        "port" => LogField::Port,
        "local" => LogField::Local,
        ">id" => LogField::Id,
        ">opcode" => LogField::Opcode,
        "type" => LogField::Type,
        "class" => LogField::Class,
        "name" => LogField::Name,
        "proto" => LogField::Proto,
        "size" => LogField::Size,
        ">do" => LogField::Do,
        ">bufsize" => LogField::Bufsize,
        "rcode" => LogField::Rcode,
        ">rflags" => LogField::Rflags,
        "rsize" => LogField::Rsize,
        "duration" => LogField::Duration,
        _ => LogField::Metadata(name.strip_prefix('/').filter(|l| !l.is_empty())?.to_owned()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_are_text_and_fields_and_unknown_fields_are_text() {
        assert_eq!(
            pieces("a {name}{>do} {what} {/x/y} {"),
            [
                LogPiece::Text("a ".into()),
                LogPiece::Field(LogField::Name),
                LogPiece::Field(LogField::Do),
                LogPiece::Text(" {what} ".into()),
                LogPiece::Field(LogField::Metadata("x/y".into())),
                LogPiece::Text(" {".into()),
            ]
        );
        assert_eq!(
            pieces("{{type}"),
            [LogPiece::Text("{".into()), LogPiece::Field(LogField::Type),]
        );
        assert_eq!(pieces("{common} \"{>opcode}\""), pieces("{combined}"));
        assert_eq!(pieces("{common}").len(), 14 + 13);
    }

    /// CoreDNS logs them as text, too.
    #[test]
    fn a_word_in_braces_that_is_no_field_is_warned_of() {
        let warned = |format: &str| {
            let text = format!(". {{\n log . \"{format}\"\n forward . 192.0.2.1\n}}\n");
            crate::config::tests::warnings(&text)
        };
        let said = warned("{remote} {nmae} {/a/b} {>flags}");
        let want = ["{>flags}", "{nmae}"].map(|word| {
            format!(
                "Corefile:2:8: log has no field {word}: it is logged as it is written; write a field of \
                 docs/directives/log.md, or {{/LABEL}} for a label of metadata"
            )
        });
        assert_eq!(said, want);
        for format in [
            "{name}",
            "{combined}",
            "{ 'n': '{name}', 'x': 'y' }",
            "{}",
            "} {",
        ] {
            assert_eq!(warned(format), Vec::<String>::new(), "{format}");
        }
    }
}
