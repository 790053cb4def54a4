//! `show --corefile`, `diff --corefile`: the configuration behind a version.

use std::io;

use dns::Name;
use serde_json::json;
use similar::TextDiff;
use zone::journal::KeptCorefile;

use crate::diff::{add_doubts, write_doubts};
use crate::error::{AuditError, Output, SCHEMA};
use crate::moment::TimeText;
use crate::past::Past;
use crate::show::Asked;

/// The digits of a digest in texts.
const DIGEST_SHOWN: usize = 16;

/// The Corefile of a version: the last one that was in use when it was published. Both have no order but time, so after
/// the clock was set back it may be one that came into use later. The store would have to note the newest versions with a Corefile.
struct Behind {
    serial: u32,
    time_ms: u64,
    corefile: KeptCorefile,
}

/// The last Corefile that was in use at a time, or what is known instead.
fn last_in_use(mut all: Vec<Option<KeptCorefile>>, time_ms: u64) -> Result<KeptCorefile, String> {
    let is_earlier =
        |it: &Option<KeptCorefile>| it.as_ref().is_some_and(|it| it.since_ms <= time_ms);
    let Some(place) = all.iter().rposition(is_earlier) else {
        return Err(match all.first() {
            None => "none is kept".to_owned(),
            Some(None) => "the first one that is kept is damaged".to_owned(),
            Some(Some(first)) => format!(
                "the first one that is kept was in use since {}",
                TimeText(first.since_ms)
            ),
        });
    };
    let is_last = !matches!(all.get(place + 1), Some(None));
    match all.swap_remove(place) {
        Some(found) if is_last => Ok(found),
        Some(found) => Err(format!(
            "one was in use since {}, and the one after it is damaged",
            TimeText(found.since_ms)
        )),
        None => Err("it is damaged".to_owned()),
    }
}

impl Behind {
    fn of(past: &dyn Past, zone: &Name, seq: u64) -> Result<Self, AuditError> {
        let (serial, time_ms) = past.moment(zone, seq)?;
        let corefile = last_in_use(past.corefiles()?, time_ms);
        let corefile = corefile.map_err(|known| AuditError::UnknownCorefile {
            time: TimeText(time_ms),
            known,
        })?;
        Ok(Self {
            serial: serial.encode(),
            time_ms,
            corefile,
        })
    }

    /// Which one it is, in words.
    fn title(&self, zone: &Name) -> String {
        format!(
            "the Corefile of {zone} {} of {}: in use since {}, digest {:.DIGEST_SHOWN$}…",
            self.serial,
            TimeText(self.time_ms),
            TimeText(self.corefile.since_ms),
            self.corefile.digest
        )
    }

    fn json(&self) -> serde_json::Value {
        let Self {
            serial,
            time_ms,
            corefile,
        } = self;
        json!({
            "serial": serial,
            "time": TimeText(*time_ms).to_string(),
            "timeMs": time_ms,
            "since": TimeText(corefile.since_ms).to_string(),
            "sinceMs": corefile.since_ms,
            "digest": corefile.digest,
            "text": corefile.text,
        })
    }
}

/// Writes the Corefile of a version.
pub(super) fn show(
    past: &dyn Past,
    asked: &Asked,
    output: Output,
    out: &mut dyn io::Write,
) -> Result<(), AuditError> {
    let zone = &asked.zone;
    let behind = Behind::of(past, zone, asked.seq)?;
    match output {
        Output::Text => {
            writeln!(out, "# {}", behind.title(zone))?;
            asked.write_doubt('#', out)?;
            write!(out, "{}", behind.corefile.text)?;
        }
        Output::Json => {
            let mut line = behind.json();
            line["schema"] = SCHEMA.into();
            line["zone"] = zone.to_string().into();
            if let Some(set_back) = &asked.set_back {
                line["clockSetBack"] = set_back.json();
            }
            writeln!(out, "{line}")?;
        }
    }
    Ok(())
}

/// Writes what differs between the Corefiles of two versions, as `diff -u` does. Nothing if it is the same one.
pub(super) fn diff(
    past: &dyn Past,
    zone: &Name,
    ends: &[Asked; 2],
    output: Output,
    out: &mut dyn io::Write,
) -> Result<(), AuditError> {
    let [first, second] = ends;
    let [from, to] = [
        Behind::of(past, zone, first.seq)?,
        Behind::of(past, zone, second.seq)?,
    ];
    let changes = TextDiff::from_lines(&from.corefile.text, &to.corefile.text);
    let mut changes = changes.unified_diff();
    changes.header(&from.title(zone), &to.title(zone));
    match output {
        Output::Text => {
            write_doubts([first, second], '#', out)?;
            write!(out, "{changes}")?;
        }
        Output::Json => {
            let mut line = json!({
                "schema": SCHEMA,
                "zone": zone.to_string(),
                "from": from.json(),
                "to": to.json(),
                "diff": changes.to_string(),
            });
            add_doubts([first, second], &mut line);
            writeln!(out, "{line}")?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn since(since_ms: u64) -> Option<KeptCorefile> {
        Some(KeptCorefile {
            since_ms,
            digest: since_ms.to_string(),
            text: String::new(),
        })
    }

    #[test]
    fn a_corefile_before_a_damaged_one_is_not_taken_for_the_last_in_use() {
        let all = || vec![since(10), since(20), None, since(40)];
        let asked = |time_ms| last_in_use(all(), time_ms).map(|it| it.since_ms);
        assert_eq!(asked(15), Ok(10));
        assert_eq!(asked(40), Ok(40));
        assert_eq!(asked(99), Ok(40));
        for time_ms in [20, 39] {
            let known = asked(time_ms).unwrap_err();
            assert!(known.ends_with("the one after it is damaged"), "{known}");
        }
        let known = asked(9).unwrap_err();
        assert!(
            known.starts_with("the first one that is kept was"),
            "{known}"
        );
    }
}
