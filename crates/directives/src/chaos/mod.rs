//! `chaos [VERSION [AUTHORS...]]`: the answers about the server in class CH.

pub(crate) mod handler;

use corefile::parser::Statement;
use corefile::place::{Place, Report};
use dns::Name;

use crate::chaos::handler::ChaosHandler;
use crate::config::block::{Directive, Repeat, Role, ServerBlock};
use crate::handlers::chain::{BuildError, Chain};

/// The most octets of one string of a TXT record (RFC 1035 section 3.3.14).
const MAX_OCTETS: usize = 255;

/// The answers in class CH.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chaos {
    /// Its place in the Corefile.
    pub place: Place,
    /// The version; `None` means our own.
    pub version: Option<String>,
    /// The authors.
    pub authors: Vec<String>,
}

impl Directive for Chaos {
    const WORD: &'static str = "chaos";
    const USAGE: &'static str = "chaos [VERSION [AUTHORS…]]";
    const SUMMARY: &'static str = "tells the name and version of the server, in class CH";
    const REPEAT: Repeat = Repeat::Joined(Some("the first counts"));
    const ROLE: Role = Role::Decides;

    fn read(directive: &Statement, _: &[Name], report: &mut Report) -> Option<Self> {
        directive.refuse_options(report);
        for token in &directive.arguments {
            if token.text.len() > MAX_OCTETS {
                let message = format!("chaos: a text of {} octets", token.text.len());
                report.error(&token.place, message, format!("write at most {MAX_OCTETS}"));
            }
        }
        let mut words = directive.arguments.iter().map(|token| token.text.clone());
        Some(Self {
            place: directive.name.place.clone(),
            version: words.next(),
            authors: words.collect(),
        })
    }

    fn read_again(self, again: &Statement, zones: &[Name], report: &mut Report) -> Option<Self> {
        Self::read(again, zones, report);
        Some(self)
    }

    fn add_handlers(&self, _: &ServerBlock, chain: &mut Chain<'_>) -> Result<(), BuildError> {
        chain.add(ChaosHandler::new(self.clone(), chain.context.hostname));
        Ok(())
    }
}
