//! `gate [ZONES...] { shrink PERCENT; at_least RECORDS; hold D }` and `gate [ZONES...] off`: which losses of records
//! are held back until an operator has looked. Ours.

use std::time::Duration;

use corefile::parser::Statement;
use corefile::place::{Place, Report};
use corefile::quantity::duration_or_seconds;
use dns::Name;

use crate::config::block::{Directive, Repeat, ServerBlock};
use crate::config::zone;
use crate::config::zoned::{self, Zoned};

/// The settings of the gate for some zones. A setting that is not written is `None`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gate {
    /// Its place in the Corefile.
    pub place: Place,
    /// The zones that it applies to, and all zones below them.
    pub zones: Vec<Name>,
    /// Whether the gate is off.
    pub is_off: bool,
    /// A change that removes more than this per cent of the records may be held.
    pub shrink_percent: Option<u8>,
    /// A change that removes at least this number of records may be held.
    pub at_least: Option<usize>,
    /// The longest time that a change is held.
    pub hold: Option<Hold>,
}

/// The longest time that a change is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hold {
    /// This long.
    For(Duration),
    /// Until it is released.
    Forever,
}

impl Directive for Gate {
    const WORD: &'static str = "gate";
    const USAGE: &'static str = "gate [ZONES…] off|{ … }";
    const SUMMARY: &'static str = "sets which losses of a zone are held until an operator has looked at them. Without it the gate is on, with its defaults";
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
                ("gate is off, but has options", "remove off or the block")
            } else {
                (
                    "gate has no options",
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
        let etcd = block.etcd_zones().map(|(zone, _)| zone);
        block.cluster_zones().chain(etcd).collect()
    }
}

/// Reads a share in per cent, with or without the sign.
fn percent(text: &str) -> Result<u8, &'static str> {
    let number = text.strip_suffix('%').unwrap_or(text).parse().ok();
    let number = number.filter(|number| *number <= 100);
    number.ok_or("not a whole number from 0 to 100")
}

/// Reads a duration above zero, or `forever`.
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
