//! `bufsize [OCTETS]`: the largest datagram to send.

use crate::config::block::{Directive, Repeat, Role};
use corefile::parser::Statement;
use corefile::place::Report;
use dns::Name;
use server::Shape;

/// The default size (DNS flag day 2020).
const DEFAULT: u16 = 1232;

/// The largest datagram, in octets.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bufsize(pub u16);

impl Directive for Bufsize {
    const WORD: &'static str = "bufsize";
    const USAGE: &'static str = "bufsize [OCTETS]";
    const SUMMARY: &'static str = "the size of the largest datagram that is sent, 1232 by default";
    const REPEAT: Repeat = Repeat::Joined(Some("the first counts"));
    const ROLE: Role = Role::Shapes;

    fn read(directive: &Statement, _: &[Name], report: &mut Report) -> Option<Self> {
        directive.refuse_options(report);
        let octets = match directive.at_most_one(report) {
            None => DEFAULT,
            Some(token) => match token.text.parse() {
                Ok(octets @ 512..=4096) => octets,
                Ok(_) | Err(_) => {
                    let message = format!("bufsize {} is not from 512 to 4096", token.shown());
                    report.error(&token.place, message, "write a size in bytes, such as 1232");
                    DEFAULT
                }
            },
        };
        Some(Self(octets))
    }

    fn read_again(self, again: &Statement, zones: &[Name], report: &mut Report) -> Option<Self> {
        Self::read(again, zones, report);
        Some(self)
    }

    fn shape(&self, shape: &mut Shape) {
        shape.datagram_octets = Some(self.0);
    }
}
