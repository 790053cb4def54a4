//! `log --follow` and `export --follow`: versions after those that were given last, oldest first, a page at a time.
//!
//! The last line of a page is for the one who asks: where to go on. So a stream outlives the server, and one
//! that was cut off goes on where it stopped, by the serial it saw last.

use std::collections::BTreeMap;
use std::io;

use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::audit::past::{AuditError, Output, Past, step_of};
use crate::audit::{export, log};
use crate::dns::Name;

/// The most versions in a page.
const PAGE_VERSIONS: u64 = 1000;

/// Where to go on: the number of the version of each zone that was given last.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Cursor {
    /// By zone; a zone that is not in it is given from its oldest version on.
    pub given: BTreeMap<String, u64>,
    /// Whether there may be more at once.
    pub is_more: bool,
}

/// What is followed.
#[derive(Debug)]
pub(super) struct Followed<'a> {
    /// The zones.
    pub(super) zones: &'a [Name],
    /// Which versions.
    pub(super) filter: &'a log::Filter,
    /// Whether each line has all that a check of the hashes needs.
    pub(super) is_whole: bool,
}

/// A cursor that stands at the newest version of each zone.
pub(super) fn now(past: &dyn Past, zones: &[Name]) -> Cursor {
    let newest = |zone: &Name| Some((zone.to_string(), past.range(zone)?.1));
    Cursor {
        given: zones.iter().filter_map(newest).collect(),
        is_more: false,
    }
}

/// Writes a page, and where to go on.
pub(super) fn write(
    past: &dyn Past,
    followed: &Followed<'_>,
    cursor: &Cursor,
    output: Output,
    out: &mut dyn io::Write,
) -> Result<(), AuditError> {
    let mut next = Cursor {
        given: cursor.given.clone(),
        is_more: false,
    };
    for zone in followed.zones {
        let Some((oldest, newest)) = past.range(zone) else {
            continue;
        };
        let given = cursor.given.get(&zone.to_string()).copied();
        // A zone that begins anew, for its store was lost, has lower numbers.
        let given = given.filter(|given| *given <= newest);
        let first = given.map_or(oldest, |given| given + 1);
        if first < oldest {
            gap(zone, (first, oldest), output, out)?;
        }
        let first = first.max(oldest);
        let last = newest.min(first.saturating_add(PAGE_VERSIONS - 1));
        for seq in first..=last {
            let step = step_of(past, zone, seq)?;
            if !followed.filter.takes(&step) {
                continue;
            }
            match output {
                _ if followed.is_whole => writeln!(out, "{}", export::version_json(zone, &step))?,
                Output::Text => log::write_text(zone, &step, followed.filter.name.as_ref(), out)?,
                Output::Json => writeln!(out, "{}", log::version_json(zone, &step))?,
            }
        }
        next.is_more |= last < newest;
        next.given.insert(zone.to_string(), last);
    }
    let line = serde_json::to_string(&next).map_err(io::Error::other)?;
    Ok(writeln!(out, "{line}")?)
}

/// Says that versions left the history before they were given.
fn gap(
    zone: &Name,
    (first, oldest): (u64, u64),
    output: Output,
    out: &mut dyn io::Write,
) -> Result<(), AuditError> {
    let lost = oldest - first;
    match output {
        Output::Text => writeln!(out, "{zone}: {lost} versions are not kept any more")?,
        Output::Json => {
            let line = json!({ "type": "gap", "zone": zone.to_string(), "versions": lost });
            writeln!(out, "{line}")?;
        }
    }
    Ok(())
}
