//! `state FOLDER`: the state folder, for a command line that is that of CoreDNS.

use std::path::PathBuf;

use corefile::parser::Statement;
use corefile::place::{Place, Report};
use dns::Name;

use crate::config::block::{Directive, ServerBlock};

/// The state folder that the Corefile names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StateFolder {
    /// Its place in the Corefile.
    place: Place,
    /// Where it is.
    pub(crate) folder: PathBuf,
}

impl Directive for StateFolder {
    const WORD: &'static str = "state";
    const USAGE: &'static str = "state FOLDER";
    const SUMMARY: &'static str = "the state folder of the process, unless `--state` or `$STATE_DIRECTORY` names one. All blocks that have it name the same folder. A new one counts from the next start on";

    fn read(directive: &Statement, _: &[Name], report: &mut Report) -> Option<Self> {
        directive.refuse_options(report);
        let Some(folder) = directive.at_most_one(report) else {
            let fix = "write: state FOLDER";
            report.error(&directive.name.place, "state has no folder", fix);
            return None;
        };
        Some(Self {
            place: directive.name.place.clone(),
            folder: PathBuf::from(&folder.text),
        })
    }

    fn check(blocks: &[ServerBlock], report: &mut Report) {
        let mut all = blocks.iter().filter_map(|block| block.get::<Self>());
        let Some(first) = all.next() else {
            return;
        };
        for other in all.filter(|other| other.folder != first.folder) {
            let message = format!(
                "state: {} is named here, and {} in {}",
                other.folder.display(),
                first.folder.display(),
                first.place
            );
            report.error(
                &other.place,
                message,
                "name one folder: the process has one",
            );
        }
    }
}
