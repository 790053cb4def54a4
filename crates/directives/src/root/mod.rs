//! `root FOLDER`: the folder of a block's relative paths.

use std::path::PathBuf;
use std::sync::Arc;

use corefile::parser::Statement;
use corefile::place::Report;
use dns::Name;

use crate::config::block::{Directive, Repeat};

/// The directive. Its folder is read with the other statements of the block.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Root;

impl Directive for Root {
    const WORD: &'static str = "root";
    const USAGE: &'static str = "root FOLDER";
    const SUMMARY: &'static str =
        "the folder in which relative paths of `file` and `tls` in the block begin";
    const REPEAT: Repeat = Repeat::Joined(Some("the last counts"));

    fn read(directive: &Statement, _: &[Name], report: &mut Report) -> Option<Self> {
        directive.refuse_options(report);
        if directive.at_most_one(report).is_none() {
            let fix = "write: root FOLDER";
            report.error(&directive.name.place, "root has no folder", fix);
        }
        Some(Self)
    }
}

/// The folder of a block's relative paths, wherever `root` is in the block.
pub(crate) fn folder(directives: &[Statement]) -> Option<Arc<PathBuf>> {
    let mut roots = directives.iter().filter(|it| it.name.text == Root::WORD);
    // Of several the last counts, as in CoreDNS.
    let folder = roots.next_back()?.arguments.first()?;
    Some(Arc::new(PathBuf::from(&folder.text)))
}
