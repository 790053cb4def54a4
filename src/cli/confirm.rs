//! Asks a person on a terminal before an order that concerns many records.

use std::io::{self, BufRead, IsTerminal, Write};

use dns::Name;
use history::{AuditError, Moment, OrderText, Present, Status, ZoneLine, until_ms};
use ops::{Clock, SystemClock, millis};

use crate::cli::answered::standing;
use crate::cli::args::OrderWanted;
use crate::failure::Failure;

/// Orders about a zone with more records than this are confirmed.
const RECORDS_UNASKED: usize = 50;

/// Asks on a terminal whether an order is meant, unless `--yes` says so. Elsewhere nobody is asked.
///
/// # Errors
/// When the answer is no, or a time of the order cannot be read: nobody is asked about an order that is refused anyway.
pub(crate) fn confirm(
    zone: &str,
    order: &OrderText,
    wanted: &OrderWanted,
    with_reverse: bool,
) -> Result<(), Failure> {
    let is_person = io::stdin().is_terminal() && io::stderr().is_terminal();
    if wanted.yes || !is_person {
        return Ok(());
    }
    check_times(order, millis(SystemClock.wall()))
        .map_err(|error| Failure::unusable(error.to_string()))?;
    // If there is no answer, the order itself says why.
    let status = standing(&wanted.asking.state.folder());
    let Some(what) = status.and_then(|status| to_confirm(&status, zone, order)) else {
        return Ok(());
    };
    let others = match with_reverse {
        true => " The same of its reverse zones.",
        false => "",
    };
    let failed = |error: io::Error| Failure::running(error.to_string());
    let mut terminal = io::stderr();
    write!(terminal, "{what}{others} [y/N] ").map_err(failed)?;
    terminal.flush().map_err(failed)?;
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer).map_err(failed)?;
    match answer.trim().to_ascii_lowercase().as_str() {
        "y" | "yes" => Ok(()),
        _ => Err(Failure::running("nothing was done")),
    }
}

/// Whether the times of an order can be read. The server knows more of them, such as which versions there are.
fn check_times(order: &OrderText, clock_ms: u64) -> Result<(), AuditError> {
    // A version may be from before the clock was set back, so its time may be ahead.
    let present = Present {
        clock_ms,
        newest_ms: u64::MAX,
    };
    let time = match order {
        OrderText::Rollback { to, time } => {
            Moment::parse(to, present)?;
            time
        }
        OrderText::Freeze { time: Some(time) } => time,
        OrderText::Freeze { time: None } | OrderText::Release | OrderText::Advance { .. } => {
            return Ok(());
        }
    };
    until_ms(clock_ms, time).map(drop)
}

/// What to ask before an order; `None` for a small zone.
fn to_confirm(status: &Status, zone: &str, order: &OrderText) -> Option<String> {
    let name = Name::parse(zone).ok()?.to_lower().to_string();
    let line = status.zones.iter().find(|line| line.zone == name)?;
    let records = line.records;
    let is_small = records <= RECORDS_UNASKED;
    let what = match order {
        OrderText::Advance { .. } => return to_confirm_advance(status, line),
        OrderText::Release | OrderText::Freeze { .. } | OrderText::Rollback { .. } if is_small => {
            return None;
        }
        OrderText::Release => match (&line.held, &line.order) {
            (Some(held), _) => format!(
                "Publish the version of {name} that is held ({}; {records} records are served now)?",
                held.why
            ),
            (None, Some(_)) => {
                format!(
                    "End the hold of {name}, so that it follows its sources again ({records} records)?"
                )
            }
            (None, None) => return None,
        },
        OrderText::Freeze { time } => {
            let until = match time {
                Some(time) => format!("for {time}"),
                None => "without an end".to_owned(),
            };
            format!("Freeze {name} with its {records} records {until}?")
        }
        OrderText::Rollback { to, time } => format!(
            "Serve the content that {name} had at {to} in place of its {records} records for {time}?"
        ),
    };
    Some(what)
}

/// What to ask before a serial is raised: a secondary that does not have the last one may never follow again.
fn to_confirm_advance(status: &Status, line: &ZoneLine) -> Option<String> {
    let ZoneLine { zone, serial, .. } = line;
    let of_zone = status.secondaries.iter().filter(|it| it.zone == *zone);
    let is_other = |took: &u32| Some(*took) != *serial;
    let mut late = of_zone.filter_map(|it| Some((&it.secondary, it.took.filter(is_other)?)));
    let (secondary, took) = late.next()?;
    let more = match late.count() {
        0 => String::new(),
        more => format!(" ({more} more like it)"),
    };
    let serial = serial.map_or("none".to_owned(), |it| it.to_string());
    Some(format!(
        "{secondary} has serial {took}, not {serial} yet{more}. After another step it may take no further version. Advance {zone}?"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(records: usize, held: bool) -> Status {
        let held = held.then(|| {
            serde_json::json!({ "why": "it would lose 90 of 100 records", "sinceMs": 1, "untilMs": null,
                "isReleasable": true })
        });
        let zone = serde_json::json!({ "zone": "z.", "serial": 7, "timeMs": 1, "records": records,
            "staleSinceMs": null, "hash": null, "held": held, "order": null });
        let all = serde_json::json!({ "version": "1", "zones": [zone], "sources": [], "secondaries": [],
            "problems": [], "listeners": [] });
        serde_json::from_value(all).expect("it is a status")
    }

    #[test]
    fn orders_about_many_records_are_confirmed_and_others_are_not() {
        let release = OrderText::Release;
        let asked = to_confirm(&status(100, true), "Z", &release).expect("it is asked");
        assert!(asked.contains("it would lose 90 of 100 records"), "{asked}");
        assert_eq!(to_confirm(&status(50, true), "z.", &release), None);
        assert_eq!(
            to_confirm(&status(100, false), "z.", &release),
            None,
            "nothing is held"
        );
        assert_eq!(
            to_confirm(&status(100, true), "y.", &release),
            None,
            "no such zone"
        );
        let freeze = OrderText::Freeze { time: None };
        let asked = to_confirm(&status(51, false), "z", &freeze).expect("it is asked");
        assert_eq!(asked, "Freeze z. with its 51 records without an end?");
        let rollback = OrderText::Rollback {
            to: "5".into(),
            time: "1h".into(),
        };
        let asked = to_confirm(&status(51, false), "z", &rollback).expect("it is asked");
        assert!(
            asked.contains("had at 5") && asked.contains("for 1h"),
            "{asked}"
        );
        let advance = OrderText::Advance { serial: 9 };
        assert_eq!(to_confirm(&status(100, true), "z.", &advance), None);
    }

    #[test]
    fn times_that_cannot_be_read_are_refused_before_anybody_is_asked() {
        let now = 1_795_286_400_000;
        let refusal = |order: &OrderText| check_times(order, now).err().map(|it| it.to_string());
        let rollback = |to: &str, time: &str| {
            refusal(&OrderText::Rollback {
                to: to.to_owned(),
                time: time.to_owned(),
            })
        };
        for to in ["1795286401", "2 hours ago", "yesterday", "2099-01-01"] {
            assert_eq!(rollback(to, "1h"), None, "{to}");
        }
        let said = rollback("2 ours ago", "1h").expect("it is no time");
        assert!(said.contains("neither a serial nor a time"), "{said}");
        let freeze = |time: &str| {
            refusal(&OrderText::Freeze {
                time: Some(time.to_owned()),
            })
        };
        for time in ["90s", "30m", "2h 30m", " 1d "] {
            assert_eq!((rollback("7", time), freeze(time)), (None, None), "{time}");
        }
        for time in ["1 our", "-1h", "2h ago", "now", ""] {
            let want = format!("\"{time}\" is not a time up to 3650d; write 90s, 30m, 2h or 1d");
            assert_eq!(rollback("7", time), Some(want.clone()), "{time}");
            assert_eq!(freeze(time), Some(want), "{time}");
        }
        assert_eq!(refusal(&OrderText::Freeze { time: None }), None);
    }

    #[test]
    fn a_serial_is_not_raised_unasked_while_a_secondary_lacks_the_last_one() {
        let with = |took: &[Option<u32>]| {
            let lines = took.iter().map(|took| {
                serde_json::json!({ "zone": "z.", "secondary": "192.0.2.9:53", "told": 7, "acknowledged": 7,
                    "took": took, "by": null, "lagVersions": null, "lagSeconds": null })
            });
            let lines: Vec<_> = lines.collect();
            let mut status = status(3, false);
            status.secondaries =
                serde_json::from_value(lines.into()).expect("they are secondaries");
            to_confirm(&status, "z.", &OrderText::Advance { serial: 9 })
        };
        assert_eq!(with(&[Some(7), None]), None);
        let want = "192.0.2.9:53 has serial 6, not 7 yet (1 more like it). After another step it may take no further version. Advance z.?";
        assert_eq!(with(&[Some(7), Some(6), Some(5)]).as_deref(), Some(want));
    }
}
