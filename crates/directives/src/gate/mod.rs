//! `gate [ZONES...] { shrink PERCENT; at_least RECORDS; hold D }` and `gate [ZONES...] off`: which losses are
//! held until someone has looked. Ours.

use std::time::Duration;

use corefile::parser::Statement;
use corefile::place::{Place, Report};
use corefile::quantity::duration_or_seconds;
use dns::Name;

use crate::config::block::{Directive, Repeat, ServerBlock};
use crate::config::zone;
use crate::config::zoned::{self, Zoned};

/// What is held of some zones. What was not said is `None`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gate {
    /// Where it stands.
    pub place: Place,
    /// The zones it is for, and those below them.
    pub zones: Vec<Name>,
    /// Whether nothing is held.
    pub is_off: bool,
    /// What takes more than so many per cent of the records away may be held.
    pub shrink_percent: Option<u8>,
    /// What takes at least so many records away may be held.
    pub at_least: Option<usize>,
    /// How long it is held at most.
    pub hold: Option<Hold>,
}

/// How long a change is held at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hold {
    /// So long.
    For(Duration),
    /// Until it is released.
    Forever,
}

impl Directive for Gate {
    const WORD: &'static str = "gate";
    const USAGE: &'static str = "gate [ZONES…] off|{ … }";
    const SUMMARY: &'static str =
        "which losses of zones are held until someone has looked; on with its defaults without it";
    const OPTIONS: &'static str = "shrink, at_least and hold";
    const REPEAT: Repeat = Repeat::Several;

    fn read(directive: &Statement, block_zones: &[Name], report: &mut Report) -> Option<Self> {
        let place = directive.name.place.clone();
        let (arguments, is_off) = match directive.arguments.split_last() {
            Some((last, before)) if last.text == "off" => (before, true),
            Some(_) | None => (directive.arguments.as_slice(), false),
        };
        let mut gate = Gate {
            zones: zone::arguments(arguments, block_zones, report),
            place,
            is_off,
            shrink_percent: None,
            at_least: None,
            hold: None,
        };
        if directive.lines.is_empty() != is_off {
            let (message, fix) = if is_off {
                ("gate is off and has options", "take off or the block out")
            } else {
                (
                    "gate says nothing",
                    "write a block with shrink, at_least or hold, or: gate off",
                )
            };
            report.error(&gate.place, message, fix);
        }
        for line in &directive.lines {
            match line.name.text.as_str() {
                "shrink" => {
                    let value = line.value("PERCENT", percent, report);
                    line.set(&mut gate.shrink_percent, value, report);
                }
                "at_least" => {
                    let parse = |text: &str| text.parse().map_err(|_| "not a whole number");
                    let value = line.value("RECORDS", parse, report);
                    line.set(&mut gate.at_least, value, report);
                }
                "hold" => {
                    let value = line.value("DURATION", hold, report);
                    line.set(&mut gate.hold, value, report);
                }
                _ => directive.unknown_option(line, Gate::OPTIONS, report),
            }
        }
        Some(gate)
    }

    fn check(blocks: &[ServerBlock], report: &mut Report) {
        zoned::check::<Self>(blocks, report);
    }
}

impl Zoned for Gate {
    fn zones(&self) -> &[Name] {
        &self.zones
    }

    fn place(&self) -> &Place {
        &self.place
    }

    fn candidates(block: &ServerBlock) -> Vec<&Name> {
        block.cluster_zones().collect()
    }
}

/// A share in per cent, with the sign or without.
fn percent(text: &str) -> Result<u8, &'static str> {
    let number = text.strip_suffix('%').unwrap_or(text).parse().ok();
    let number = number.filter(|number| *number <= 100);
    number.ok_or("not a whole number from 0 to 100")
}

/// A duration that is not nothing, or `forever`.
fn hold(text: &str) -> Result<Hold, String> {
    if text == "forever" {
        return Ok(Hold::Forever);
    }
    match duration_or_seconds(text) {
        Ok(time) if time.is_zero() => Err("nothing would be held; write: gate off".to_owned()),
        Ok(time) => Ok(Hold::For(time)),
        Err(error) => Err(format!("{error}, or forever")),
    }
}
