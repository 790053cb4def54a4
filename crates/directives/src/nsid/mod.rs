//! `nsid [DATA]`: the name of this server, for clients that ask for it (RFC 5001).

use corefile::parser::Statement;
use corefile::place::Report;
use dns::Name;

use crate::config::block::{Directive, ServerBlock};
use crate::config::listener::listeners;

/// The name to send.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Nsid {
    /// The name of the machine.
    Hostname,
    /// This text.
    Text(String),
}

/// The most bytes of the text, as each reply with NSID carries it.
const MAX_OCTETS: usize = 128;

impl Directive for Nsid {
    const WORD: &'static str = "nsid";
    const USAGE: &'static str = "nsid [DATA]";
    const SUMMARY: &'static str =
        "sends DATA (the machine's name by default) to clients that ask for it with EDNS NSID";

    fn read(directive: &Statement, _: &[Name], report: &mut Report) -> Option<Self> {
        directive.refuse_options(report);
        let words = directive.arguments.iter().map(|token| token.text.as_str());
        let text = words.collect::<Vec<_>>().join(" ");
        if text.len() > MAX_OCTETS {
            let message = format!("nsid: the text has {} octets", text.len());
            let fix = format!("write at most {MAX_OCTETS}");
            report.error(&directive.name.place, message, fix);
        }
        Some(if text.is_empty() {
            Nsid::Hostname
        } else {
            Nsid::Text(text)
        })
    }

    fn check(blocks: &[ServerBlock], report: &mut Report) {
        for (_, blocks) in listeners(blocks) {
            let mut all = blocks
                .iter()
                .filter_map(|block| Some((*block, block.get::<Self>()?)));
            let Some((_, first)) = all.next() else {
                continue;
            };
            for (block, nsid) in all {
                if nsid != first {
                    let message =
                        "another block on this listener has a different nsid, which counts";
                    report.warn(&block.place, message, "write the same in both");
                }
            }
        }
    }
}
