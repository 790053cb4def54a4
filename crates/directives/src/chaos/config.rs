//! `chaos [VERSION [AUTHORS...]]`: what is told of the server in class CH.

use corefile::parser::Statement;
use corefile::place::{Place, Report};

/// The most octets of one string of a TXT record (RFC 1035 section 3.3.14).
const MAX_OCTETS: usize = 255;

/// What is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chaos {
    /// Where it stands.
    pub place: Place,
    /// The version; nothing stands for our own.
    pub version: Option<String>,
    /// The authors.
    pub authors: Vec<String>,
}

/// Reads the directive.
pub(crate) fn parse(directive: &Statement, report: &mut Report) -> Chaos {
    directive.refuse_options(report);
    for token in &directive.arguments {
        if token.text.len() > MAX_OCTETS {
            let message = format!("chaos: a text of {} octets", token.text.len());
            report.error(&token.place, message, format!("write at most {MAX_OCTETS}"));
        }
    }
    let mut words = directive.arguments.iter().map(|token| token.text.clone());
    Chaos {
        place: directive.name.place.clone(),
        version: words.next(),
        authors: words.collect(),
    }
}
