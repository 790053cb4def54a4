//! The directives of a block that stand around its zones at query time, each read by a file of its own.

use super::chaos::{self, Chaos};
use super::known::Word;
use super::parser::Directive;
use super::place::Report;

/// What stands around the zones of a block at query time.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Handlers {
    /// Whether questions of type ANY get one record that says nothing.
    pub any: bool,
    /// What is told in class CH.
    pub chaos: Option<Chaos>,
}

/// The directives of handlers, each with its options as its messages list them; for the reference.
pub const HANDLER_OPTIONS: &[(&str, &str)] = &[("any", ""), ("chaos", "")];

/// Reads one of these directives; others are left alone.
pub(super) fn take(
    word: Word,
    directive: &Directive,
    handlers: &mut Handlers,
    report: &mut Report,
) {
    #[expect(clippy::wildcard_enum_match_arm, reason = "config reads all others")]
    match word {
        Word::Any => {
            directive.refuse_arguments(report);
            directive.refuse_options(report);
            handlers.any = true;
        }
        Word::Chaos => handlers.chaos = Some(chaos::parse(directive, report)),
        _ => {}
    }
}
