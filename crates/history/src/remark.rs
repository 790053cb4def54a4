//! Remarks in `log`, `blame` and `why`: what the answer does not have.

use std::io;

use dns::Name;
use serde_json::{Value, json};
use zone::journal::{Act, Archived};

use crate::doubts::Absence;
use crate::error::{Output, SCHEMA};
use crate::moment::TimeText;

/// A line about a zone that is neither a version, an act nor a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Remark {
    /// What it is about, as one word.
    code: &'static str,
    /// For people.
    pub(super) text: String,
    /// The versions that it is about.
    versions: Option<Versions>,
}

/// Some versions: their number, and the times of the first and the last, milliseconds since 1970 UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Versions {
    count: u64,
    since_ms: u64,
    until_ms: u64,
}

impl Versions {
    /// `None` when there are no entries.
    fn of<'a>(entries: impl Iterator<Item = &'a Archived>) -> Option<Self> {
        entries.fold(None, |sum: Option<Self>, entry| {
            Some(Self {
                count: sum.map_or(0, |sum| sum.count) + entry.versions(),
                since_ms: sum.map_or(entry.first_ms, |sum| sum.since_ms.min(entry.first_ms)),
                until_ms: sum.map_or(entry.time_ms, |sum| sum.until_ms.max(entry.time_ms)),
            })
        })
    }

    fn text(self) -> String {
        let Self {
            count,
            since_ms,
            until_ms,
        } = self;
        let (since, until) = (TimeText(since_ms), TimeText(until_ms));
        match count {
            1 => format!("a version ({since})"),
            _ => format!("{count} versions ({since} to {until})"),
        }
    }
}

impl Remark {
    /// That versions may be missing between those that were searched.
    pub(super) fn lost(zone: &Name, act: &Act) -> Self {
        let (what, time) = (&act.about, TimeText(act.time_ms));
        Self {
            code: "lost",
            text: format!("of {zone} not all versions before {time} are known: {what}"),
            versions: None,
        }
    }

    /// That versions may be missing after the newest one.
    pub(super) fn lost_at_end(zone: &Name, what: &str) -> Self {
        Self {
            code: "lost",
            text: format!("of {zone} not all versions are known: {what}"),
            versions: None,
        }
    }

    /// That the zone was not served for a time, whatever the versions before say.
    pub(super) fn not_served(zone: &Name, absence: &Absence) -> Self {
        let from = TimeText(absence.from_ms);
        let text = match absence.to_ms.map(TimeText) {
            Some(to) => format!(
                "from {from} to {to} the server did not have {zone}: nothing of it was served"
            ),
            None => {
                format!("since {from} the server does not have {zone}: nothing of it is served")
            }
        };
        Self {
            code: "notServed",
            text,
            versions: None,
        }
    }

    /// That the Corefile can change the records of an object without a change of the object.
    pub(super) fn configured(zone: &Name) -> Self {
        Self {
            code: "corefile",
            text: format!(
                "the Corefile changed meanwhile: a version of {zone} whose only cause is the Corefile is not listed, even if it \
                 changed records of the object; `log --name` lists it"
            ),
            versions: None,
        }
    }

    /// That versions were not searched, as their records and objects are not kept; `None` when all are.
    pub(super) fn unsearched<'a>(
        zone: &Name,
        entries: impl Iterator<Item = &'a Archived>,
    ) -> Option<Self> {
        let versions = Versions::of(entries.filter(|entry| !entry.has_records))?;
        Some(Self {
            code: "dropped",
            text: format!(
                "of {zone} the records and objects of {} were dropped: not searched",
                versions.text()
            ),
            versions: Some(versions),
        })
    }

    /// That a search does not find what was undone within condensed versions; `None` when there are none.
    pub(super) fn condensed<'a>(
        zone: &Name,
        entries: impl Iterator<Item = &'a Archived>,
    ) -> Option<Self> {
        let is_condensed = |entry: &&Archived| entry.has_records && !entry.is_whole();
        let versions = Versions::of(entries.filter(is_condensed))?;
        Some(Self {
            code: "condensed",
            text: format!(
                "of {zone} {} are condensed: a change that was undone within them is not listed",
                versions.text()
            ),
            versions: Some(versions),
        })
    }

    /// That changes of the SOA alone are not changes of a name.
    pub(super) fn soa(zone: &Name) -> Self {
        Self {
            code: "soa",
            text: format!(
                "versions of {zone} that changed its SOA alone are not searched: `log` without --name lists them"
            ),
            versions: None,
        }
    }

    /// That the clock was set back behind the newest version.
    pub(super) fn clock(zone: &Name, newest_ms: u64) -> Self {
        let time = TimeText(newest_ms);
        Self {
            code: "clock",
            text: format!(
                "the newest version of {zone} has the time {time}, which this clock has not reached: it was set back, and until then new versions get that time, too"
            ),
            versions: None,
        }
    }

    /// That a time of the question may have been there twice.
    pub(super) const fn set_back(text: String) -> Self {
        Self {
            code: "clock",
            text,
            versions: None,
        }
    }

    /// That acts are damaged or missing.
    pub(super) fn act_fault(zone: &Name, fault: &str) -> Self {
        Self {
            code: "acts",
            text: format!("of the acts of {zone}: {fault}"),
            versions: None,
        }
    }

    /// That older acts than this one are not there.
    pub(super) fn older_acts(zone: &Name, oldest: &Act) -> Self {
        Self {
            code: "acts",
            text: format!(
                "of the acts of {zone} those before number {}, {}, are not kept",
                oldest.number,
                TimeText(oldest.time_ms)
            ),
            versions: None,
        }
    }

    pub(super) fn write(
        &self,
        zone: &Name,
        output: Output,
        out: &mut dyn io::Write,
    ) -> io::Result<()> {
        match output {
            Output::Text => writeln!(out, "; {}", self.text),
            Output::Json => writeln!(out, "{}", self.json(zone)),
        }
    }

    pub(super) fn json(&self, zone: &Name) -> Value {
        let Self {
            code,
            text,
            versions,
        } = self;
        let mut line = json!({
            "schema": SCHEMA,
            "type": "remark",
            "zone": zone.to_string(),
            "code": code,
            "text": text,
        });
        if let Some(Versions {
            count,
            since_ms,
            until_ms,
        }) = versions
        {
            line["versions"] = (*count).into();
            line["since"] = TimeText(*since_ms).to_string().into();
            line["sinceMs"] = (*since_ms).into();
            line["until"] = TimeText(*until_ms).to_string().into();
            line["untilMs"] = (*until_ms).into();
        }
        line
    }
}
