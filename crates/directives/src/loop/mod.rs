//! `loop`: queries that come back end the server.

use crate::config::block::{Directive, Role};
use corefile::parser::Statement;
use corefile::place::Report;
use dns::Name;

pub(crate) mod handler;

/// The directive.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Loop;

impl Directive for Loop {
    const WORD: &'static str = "loop";
    const USAGE: &'static str = "loop";
    const SUMMARY: &'static str = "ends the process when forwarders lead in a circle";
    const ROLE: Role = Role::Shapes;

    fn read(directive: &Statement, _: &[Name], report: &mut Report) -> Option<Self> {
        directive.refuse_all(report);
        Some(Self)
    }
}
