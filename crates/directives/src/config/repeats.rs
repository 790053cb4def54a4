//! Directives that stand several times in a block: which may, and what that means. Imports bring it: a file
//! of one's own (`*.override`) with a directive that the Corefile has already.

use corefile::parser::Statement;
use corefile::place::{Place, Report};

use crate::config::known::Word;

/// What becomes of a directive that stands in the block already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Again {
    /// Each says something of its own.
    Several,
    /// It works, as in CoreDNS; but maybe not as meant.
    Counts(&'static str),
    /// CoreDNS does not take it either, or it would be half of what was meant.
    Refused,
}

/// What becomes of it; tried with CoreDNS.
const fn again(word: Word) -> Again {
    match word {
        Word::Apex | Word::Bind | Word::File | Word::Health | Word::History | Word::Log => {
            Again::Several
        }
        Word::Acl | Word::Rewrite | Word::Template => Again::Several,
        Word::Catalog | Word::Forward | Word::Gate | Word::Reload | Word::Transfer => {
            Again::Several
        }
        Word::Bufsize | Word::Chaos => Again::Counts("the first counts"),
        Word::Autopath | Word::Root => Again::Counts("the last counts"),
        Word::Dns64 | Word::Local | Word::Timeouts => {
            Again::Counts("of each option the last counts")
        }
        Word::Loadbalance => Again::Counts("the last policy counts, and every prefer"),
        Word::Any | Word::Debug | Word::Minimal => Again::Counts("once is the same"),
        Word::Cache
        | Word::Metadata
        | Word::Errors
        | Word::External
        | Word::Hosts
        | Word::Kubernetes
        | Word::Loop
        | Word::Multicluster
        | Word::Multisocket
        | Word::Nsid
        | Word::Pprof
        | Word::Prometheus
        | Word::Ready
        | Word::Tls
        | Word::Tsig => Again::Refused,
    }
}

/// Says what is to be said of a directive that stands in the block already, there.
pub(crate) fn report(word: Word, directive: &Statement, first: &Place, report: &mut Report) {
    let (text, place) = (&directive.name.text, &directive.name.place);
    // Of another file the line alone would be looked for in this one.
    let at = match first.file == place.file {
        true => format!("in line {}", first.line),
        false => format!("in {first}"),
    };
    match again(word) {
        Again::Several => {}
        Again::Counts(which) => {
            let message = format!("{text} stands also {at}, {which}");
            report.warn(place, message, "take one out");
        }
        Again::Refused => {
            let message = format!("{text} stands already {at} of this block");
            report.error(place, message, "join the two");
        }
    }
}
