//! `nsid [DATA]`: the name of this server, for who asks for it (RFC 5001).

use corefile::parser::Statement;
use corefile::place::Report;

/// What is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Nsid {
    /// The name of the machine.
    Hostname,
    /// This text.
    Text(String),
}

/// The most octets of the text: it goes into each reply that asks for it.
const MAX_OCTETS: usize = 128;

/// Reads the directive; several words are joined by spaces, as CoreDNS does.
pub(crate) fn parse(directive: &Statement, report: &mut Report) -> Nsid {
    directive.refuse_options(report);
    let words = directive.arguments.iter().map(|token| token.text.as_str());
    let text = words.collect::<Vec<_>>().join(" ");
    if text.len() > MAX_OCTETS {
        let message = format!("nsid: the text has {} octets", text.len());
        let mend = format!("write at most {MAX_OCTETS}");
        report.error(&directive.name.place, message, mend);
    }
    if text.is_empty() {
        Nsid::Hostname
    } else {
        Nsid::Text(text)
    }
}
