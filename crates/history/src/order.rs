//! `freeze`, `rollback`, `release`: carries out operators' commands and writes the result.

use std::io;
use std::time::Duration;

use dns::{Name, Serial};
use provenance::Operator;
use serde_json::json;

use crate::doubts::Doubts;
use crate::error::{AuditError, MOST_REASON_OCTETS, Output, SCHEMA};
use crate::moment::{TimeText, parse_duration};
use crate::past::{Order, Past};
use crate::printable::printable;
use crate::status::OrderLine;

/// The longest hold: ten years of 365 days.
const LONGEST: Duration = Duration::from_secs(3650 * 86_400);

/// An order about a zone.
pub(super) struct ZoneOrder {
    pub(super) zone: Name,
    pub(super) order: Order,
    /// What makes the version of a rollback doubtful.
    pub(super) doubts: Doubts,
}

/// The end of a time such as `30m` that begins now, milliseconds since 1970 UTC.
///
/// # Errors
/// [`AuditError::Time`].
pub fn until_ms(now_ms: u64, text: &str) -> Result<u64, AuditError> {
    let wrong = || AuditError::Time(text.to_owned());
    let time = parse_duration(text.trim()).filter(|time| !time.is_zero() && *time <= LONGEST);
    let time_ms = time.and_then(|time| u64::try_from(time.as_millis()).ok());
    let until = now_ms.checked_add(time_ms.ok_or_else(wrong)?);
    until.ok_or_else(wrong)
}

/// The operator of an order with the reason that he gives.
pub(super) fn with_reason(
    past: &dyn Past,
    zone: &Name,
    operator: &Operator,
    reason: Option<&str>,
) -> Result<Operator, AuditError> {
    match reason.map(str::trim).filter(|reason| !reason.is_empty()) {
        Some(reason) if reason.len() > MOST_REASON_OCTETS => Err(AuditError::LongReason),
        Some(reason) => Ok(operator.with_reason(reason)),
        None if past.requires_reason(zone) => Err(AuditError::NoReason(zone.clone())),
        None => Ok(operator.clone()),
    }
}

/// Carries out an order and writes the result.
pub(super) fn carry_out(
    past: &dyn Past,
    asked: &ZoneOrder,
    by: &Operator,
    output: Output,
    out: &mut dyn io::Write,
) -> Result<(), AuditError> {
    let ZoneOrder {
        zone,
        order,
        doubts,
    } = asked;
    let standing = past.status().and_then(|status| {
        let mut lines = status.zones.into_iter();
        lines.find(|line| line.zone == zone.to_string())?.order
    });
    let serial = past.order(zone, *order, by)?;
    let until_ms = order.until_ms();
    let until = until_ms.map(TimeText);
    let ends_hold = !matches!(order, Order::Advance { .. });
    if output == Output::Json {
        let mut answer = json!({
            "schema": SCHEMA,
            "zone": zone.to_string(),
            "serial": serial.encode(),
            "until": until.map(|until| until.to_string()),
            "untilMs": until_ms,
            "rolledBackTo": order.rolled_back_to().map(Serial::encode),
            "ends": standing.as_ref().filter(|_| ends_hold).map(standing_text),
        });
        doubts.add_to(&mut answer, "");
        return Ok(writeln!(out, "{answer}")?);
    }
    write_text(asked, serial, standing.as_ref(), out)
}

/// Writes what an order did, after which the zone has this serial.
fn write_text(
    asked: &ZoneOrder,
    serial: Serial,
    standing: Option<&OrderLine>,
    out: &mut dyn io::Write,
) -> Result<(), AuditError> {
    let zone = &asked.zone;
    let end = match asked.order.until_ms().map(TimeText) {
        Some(until) => format!("until {until}, or until: zonewright release {zone}"),
        None => format!("until: zonewright release {zone}"),
    };
    match asked.order {
        Order::Release if standing.is_some() => {
            writeln!(
                out,
                "{zone} follows its sources again, with serial {serial}"
            )?;
        }
        Order::Release => writeln!(out, "{zone} is published with serial {serial}")?,
        Order::Advance { serial: above } => {
            writeln!(out, "{zone} has serial {serial}, which is above {above}")?;
            return Ok(());
        }
        Order::Freeze { until_ms } => {
            let old = standing.and_then(|order| order.rolled_back_to);
            if let Some(old) = old {
                writeln!(
                    out,
                    "{zone} stays rolled back to serial {old}, with serial {serial} {end}"
                )?;
                return end_of(standing, out);
            }
            writeln!(out, "{zone} is frozen with serial {serial} {end}")?;
            warn_of_endless(until_ms, out)?;
        }
        Order::Rollback {
            seq: _,
            serial: to,
            until_ms: _,
        } => {
            writeln!(
                out,
                "{zone} has the content of serial {to} again, with serial {serial} {end}"
            )?;
            for line in asked.doubts.lines() {
                writeln!(out, "    {line}")?;
            }
        }
    }
    end_of(standing, out)
}

/// Warns of a freeze without an end.
fn warn_of_endless(until_ms: Option<u64>, out: &mut dyn io::Write) -> io::Result<()> {
    const WARNING: &str = "this freeze does not end by itself, and changes of the sources wait for it; --for 2h would end it";
    match until_ms {
        Some(_) => Ok(()),
        None => writeln!(out, "    warning: {WARNING}"),
    }
}

/// Describes an earlier hold.
fn standing_text(order: &OrderLine) -> String {
    let OrderLine {
        rolled_back_to,
        since_ms: _,
        until_ms,
        by,
    } = order;
    let what = match rolled_back_to {
        Some(serial) => format!("the rollback to serial {serial}"),
        None => "the freeze".to_owned(),
    };
    let until = until_ms.map(|until| format!(" until {}", TimeText(until)));
    format!("{what}{} by {by}", until.unwrap_or_default())
}

/// Writes which earlier hold the new order ends.
fn end_of(standing: Option<&OrderLine>, out: &mut dyn io::Write) -> Result<(), AuditError> {
    if let Some(order) = standing {
        writeln!(out, "    this ends {}", printable(&standing_text(order)))?;
    }
    Ok(())
}
