//! Acts in `log`: what people and the clock did to a zone.

use std::io;

use dns::{Name, Serial};
use serde_json::json;
use zone::journal::Act;

use crate::error::{AuditError, Output, SCHEMA};
use crate::moment::TimeText;
use crate::printable::printable;

/// Writes an act.
pub(super) fn write(
    zone: &Name,
    act: &Act,
    output: Output,
    out: &mut dyn io::Write,
) -> Result<(), AuditError> {
    let Act {
        number: _,
        time_ms,
        what,
        by,
        about,
        serial,
        seq: _,
        until_ms,
    } = act;
    let (time, until) = (TimeText(*time_ms), until_ms.map(TimeText));
    match output {
        Output::Text => {
            let serial = Serial::decode(*serial);
            let until = until.map(|until| format!(" until {until}"));
            let until = until.unwrap_or_default();
            let about = if about.is_empty() { "" } else { " " }.to_owned() + about;
            let words = what.replace('_', " ");
            let by = match by.is_nobody() {
                true => String::new(),
                false => format!(", by {by}"),
            };
            writeln!(
                out,
                "{zone} {serial} {time} {words}{}{until}{}",
                printable(&about),
                printable(&by)
            )?;
        }
        Output::Json => {
            let user = by.user.as_deref();
            let known = |text: &str| (!text.is_empty()).then(|| text.to_owned());
            let line = json!({
                "schema": SCHEMA,
                "type": "act",
                "zone": zone.to_string(),
                "serial": serial,
                "time": time.to_string(),
                "timeMs": time_ms,
                "act": what,
                "about": about,
                "by": by.to_string(),
                "uid": user.map(|user| user.uid),
                "user": user.and_then(|user| known(&user.name)),
                "process": user.and_then(|user| user.process),
                "command": user.and_then(|user| known(&user.command)),
                "reason": known(&by.reason),
                "until": until.map(|until| until.to_string()),
                "untilMs": until_ms,
            });
            writeln!(out, "{line}")?;
        }
    }
    Ok(())
}
