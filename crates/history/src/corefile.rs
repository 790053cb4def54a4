//! `show --corefile`, `diff --corefile`: the configuration behind a version.

use std::io;

use dns::Name;
use serde_json::json;
use similar::TextDiff;
use writer::tells_presence;
use zone::journal::{Act, KeptCorefile};

use crate::diff::{add_doubts, write_doubts};
use crate::error::{AuditError, Output, SCHEMA};
use crate::moment::TimeText;
use crate::past::Past;
use crate::show::{Asked, Point};

/// The digits of a digest in texts.
const DIGEST_SHOWN: usize = 16;

/// The Corefile that a question means, with the version.
struct Behind {
    serial: u32,
    time_ms: u64,
    point: Point,
    corefile: KeptCorefile,
    /// Since when another one is in use, if one is.
    until_ms: Option<u64>,
}

impl Behind {
    fn of(past: &dyn Past, asked: &Asked) -> Result<Self, AuditError> {
        let Asked {
            zone, seq, point, ..
        } = asked;
        let (serial, version_ms) = past.moment(zone, *seq)?;
        let mut all = past.corefiles()?;
        let (place, time_ms) = match *point {
            Point::Now => (last_in_use(&all, u64::MAX), past.now_ms()),
            Point::Time(time_ms) => (last_in_use(&all, time_ms), time_ms),
            Point::Version => {
                let place = match digest_at(&past.acts(zone, 0)?.all, *seq) {
                    Some(digest) => with_digest(&all, &digest, version_ms),
                    None => last_in_use(&all, version_ms),
                };
                (place, version_ms)
            }
        };
        let place = place.map_err(|known| AuditError::UnknownCorefile {
            time: TimeText(time_ms),
            known,
        })?;
        let next = all.get(place + 1).and_then(Option::as_ref);
        let until_ms = next.map(|next| next.since_ms);
        let corefile = all.swap_remove(place).ok_or(AuditError::UnknownCorefile {
            time: TimeText(time_ms),
            known: "it is damaged".to_owned(),
        })?;
        Ok(Self {
            serial: serial.encode(),
            time_ms: version_ms,
            point: *point,
            corefile,
            until_ms,
        })
    }

    /// Which one it is, in words.
    fn title(&self, zone: &Name) -> String {
        let (serial, time) = (self.serial, TimeText(self.time_ms));
        let what = match self.point {
            Point::Version => format!("the Corefile of {zone} {serial} of {time}"),
            Point::Time(asked_ms) => format!(
                "the Corefile at {}, with {zone} {serial} of {time}",
                TimeText(asked_ms)
            ),
            Point::Now => format!("the Corefile that is in use, with {zone} {serial} of {time}"),
        };
        let until = self
            .until_ms
            .map(|until_ms| format!(" until {}", TimeText(until_ms)));
        format!(
            "{what}: in use since {}{}, digest {:.DIGEST_SHOWN$}…",
            TimeText(self.corefile.since_ms),
            until.unwrap_or_default(),
            self.corefile.digest
        )
    }

    fn json(&self) -> serde_json::Value {
        let Self {
            serial,
            time_ms,
            point: _,
            corefile,
            until_ms,
        } = self;
        json!({
            "serial": serial,
            "time": TimeText(*time_ms).to_string(),
            "timeMs": time_ms,
            "since": TimeText(corefile.since_ms).to_string(),
            "sinceMs": corefile.since_ms,
            "until": until_ms.map(|until_ms| TimeText(until_ms).to_string()),
            "untilMs": until_ms,
            "digest": corefile.digest,
            "text": corefile.text,
        })
    }
}

/// The place of the last Corefile that was in use at a time, or what is known instead.
fn last_in_use(all: &[Option<KeptCorefile>], time_ms: u64) -> Result<usize, String> {
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
    match (&all[place], all.get(place + 1)) {
        (Some(found), Some(None)) => Err(format!(
            "one was in use since {}, and the one after it is damaged",
            TimeText(found.since_ms)
        )),
        (Some(_) | None, _) => Ok(place),
    }
}

/// The place of the Corefile with this begin of its digest: of several the last one that may have been in use at a time. All
/// of them say the same.
fn with_digest(all: &[Option<KeptCorefile>], digest: &str, time_ms: u64) -> Result<usize, String> {
    let is_it =
        |it: &Option<KeptCorefile>| it.as_ref().is_some_and(|it| it.digest.starts_with(digest));
    let is_earlier = |it: &Option<KeptCorefile>| {
        is_it(it) && it.as_ref().is_some_and(|it| it.since_ms <= time_ms)
    };
    let place = all.iter().rposition(is_earlier);
    let place = place.or_else(|| all.iter().position(is_it));
    place.ok_or_else(|| format!("it has the digest {digest}…, and is not kept, or damaged"))
}

/// The begin of the digest of the Corefile that was in use when a version was made, if the acts of the zone tell it. It does not
/// depend on clocks: an act has the number of the version that was current then.
fn digest_at(acts: &[Act], seq: u64) -> Option<String> {
    let mut changes = acts
        .iter()
        .filter(|act| tells_presence(act))
        .filter_map(|act| Some((act.seq?, digests_of(&act.about))));
    let mut last = None;
    let next = changes.find(|(at, digests)| {
        let is_later = *at >= seq;
        if !is_later {
            last = Some(digests.clone());
        }
        is_later
    });
    match (last, next) {
        (Some(digests), _) => digests.map(|(new, _)| new),
        (None, Some((_, digests))) => digests.map(|(_, old)| old),
        (None, None) => None,
    }
}

/// The begins of the digests of the Corefiles in an act, the new one and the one before.
fn digests_of(about: &str) -> Option<(String, String)> {
    let (_, digests) = about.split_once(", digest ")?;
    let (new, old) = digests.split_once("…, before ")?;
    let old = old.strip_suffix('…')?;
    Some((new.to_owned(), old.to_owned()))
}

/// Writes the Corefile of a version.
pub(super) fn show(
    past: &dyn Past,
    asked: &Asked,
    output: Output,
    out: &mut dyn io::Write,
) -> Result<(), AuditError> {
    let zone = &asked.zone;
    let behind = Behind::of(past, asked)?;
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
            asked.doubts.add_to(&mut line, "");
            writeln!(out, "{line}")?;
        }
    }
    Ok(())
}

/// Writes what differs between the Corefiles of two versions, as `diff -u` does; that it is the same one, if it is.
pub(super) fn diff(
    past: &dyn Past,
    zone: &Name,
    ends: &[Asked; 2],
    output: Output,
    out: &mut dyn io::Write,
) -> Result<(), AuditError> {
    let [first, second] = ends;
    let [from, to] = [Behind::of(past, first)?, Behind::of(past, second)?];
    let changes = TextDiff::from_lines(&from.corefile.text, &to.corefile.text);
    let mut changes = changes.unified_diff();
    changes.header(&from.title(zone), &to.title(zone));
    match output {
        Output::Text => {
            write_doubts([first, second], '#', out)?;
            match from.corefile.text == to.corefile.text {
                true => writeln!(out, "# both have the same Corefile: {}", to.title(zone))?,
                false => write!(out, "{changes}")?,
            }
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
        let all = [since(10), since(20), None, since(40)];
        let asked =
            |time_ms| last_in_use(&all, time_ms).map(|it| all[it].as_ref().unwrap().since_ms);
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

    fn act(what: &str, about: &str, seq: u64) -> Act {
        Act {
            number: seq,
            time_ms: 1,
            what: what.to_owned(),
            by: provenance::Operator::default(),
            about: about.to_owned(),
            serial: 1,
            seq: Some(seq),
            until_ms: None,
        }
    }

    /// What the writer writes is what is read here.
    #[test]
    fn the_corefile_of_a_version_is_known_whatever_the_clock_showed() {
        let change = |new: &str, old: &str| {
            let digests = [new, old].map(|it| it.repeat(64));
            format!(
                "from {}",
                writer::change_of_corefile(&digests[0], &digests[1])
            )
        };
        let acts = [
            act("configured", &change("bb", "aa"), 3),
            act("frozen", "", 4),
            act("configured", &change("cc", "bb"), 5),
            act("removed", "from the Corefile", 7),
        ];
        let at = |seq| digest_at(&acts, seq).map(|it| it[..2].to_owned());
        for (seq, digest) in [
            (1, "aa"),
            (3, "aa"),
            (4, "bb"),
            (5, "bb"),
            (6, "cc"),
            (7, "cc"),
        ] {
            assert_eq!(at(seq).as_deref(), Some(digest), "{seq}");
        }
        assert_eq!(at(8), None, "how it came back is not told");
        assert_eq!(digest_at(&[], 1), None);
    }

    #[test]
    fn of_corefiles_with_one_digest_that_of_the_time_is_meant() {
        let again = |since_ms, digest: &str| {
            since(since_ms).map(|it| KeptCorefile {
                digest: digest.to_owned(),
                ..it
            })
        };
        let all = [again(10, "aa1"), again(20, "bb1"), again(30, "aa1"), None];
        assert_eq!(with_digest(&all, "aa", 15), Ok(0));
        assert_eq!(with_digest(&all, "aa", 35), Ok(2));
        // The clock was set back.
        assert_eq!(with_digest(&all, "bb", 15), Ok(1));
        assert!(with_digest(&all, "cc", 35).is_err());
    }
}
