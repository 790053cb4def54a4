//! `minimal`: answers without authority and additional sections.

use crate::config::block::{Directive, Repeat, Role};
use corefile::parser::Statement;
use corefile::place::Report;
use dns::Name;
use server::Shape;

/// The directive. The server shapes replies by it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Minimal;

impl Directive for Minimal {
    const WORD: &'static str = "minimal";
    const USAGE: &'static str = "minimal";
    const SUMMARY: &'static str = "leaves the authority and additional sections out of answers";
    const REPEAT: Repeat = Repeat::Joined(Some("once is the same"));
    const ROLE: Role = Role::Shapes;

    fn read(directive: &Statement, _: &[Name], report: &mut Report) -> Option<Self> {
        directive.refuse_all(report);
        Some(Self)
    }

    fn shape(&self, shape: &mut Shape) {
        shape.is_minimal = true;
    }
}
