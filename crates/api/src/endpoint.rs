//! The endpoints: one table, from which requests are read and the OpenAPI description is made.

use std::num::NonZeroU64;

use dns::Name;
use history::{Request, Streamed};

/// The right that an endpoint needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Right {
    /// To read the zone of its path.
    Zone,
    /// To read all zones.
    All,
}

/// A parameter of the query.
#[derive(Debug, Clone, Copy)]
pub struct Parameter {
    /// Its name.
    pub name: &'static str,
    /// Its meaning, for people.
    pub meaning: &'static str,
    /// How often it may be given.
    pub times: Times,
}

/// How often a parameter may be given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Times {
    /// Never or once.
    AtMostOnce,
    /// Once.
    Once,
    /// As often as wanted.
    Any,
}

/// An endpoint.
#[derive(Debug)]
pub struct Endpoint {
    /// The last part of its path, and its label in metrics and logs.
    pub name: &'static str,
    /// Whether its path has a zone.
    pub has_zone: bool,
    /// The right that it needs.
    pub right: Right,
    /// Its purpose, for people.
    pub summary: &'static str,
    /// The parameters that it takes.
    pub parameters: &'static [Parameter],
    /// The schema of its lines in `docs/schema`.
    pub schema: &'static str,
    /// The question that it asks.
    question: fn(&Values) -> Result<Streamed, String>,
}

/// The zone and the parameters of a request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Values {
    /// The zone of the path.
    pub zone: Option<Name>,
    /// The parameters, each with a value.
    pub given: Vec<(&'static str, String)>,
}

const fn parameter(name: &'static str, meaning: &'static str) -> Parameter {
    Parameter {
        name,
        meaning,
        times: Times::AtMostOnce,
    }
}

const fn needed(name: &'static str, meaning: &'static str) -> Parameter {
    Parameter {
        times: Times::Once,
        ..parameter(name, meaning)
    }
}

const TIME: &str = "a serial, or a time: RFC 3339, a date, `2 hours ago`, `yesterday`; the newest version when absent";
const AT: Parameter = parameter("at", TIME);
const FROM: Parameter = needed("from", "the older version: a serial, or a time");
const TO: Parameter = parameter("to", TIME);
const NAME: Parameter = parameter("name", "only this name");
const ANCHOR: Parameter = Parameter {
    name: "anchor",
    meaning: "a hash that was noted elsewhere, as `HASH` or `ZONE=HASH`; it may be given several times",
    times: Times::Any,
};
const LOG: &[Parameter] = &[
    parameter("since", "only from this serial or time on"),
    parameter("until", "only up to this time"),
    parameter("name", "only versions that changed this name"),
    parameter(
        "object",
        "only versions that this object caused, as `KIND/NAMESPACE/NAME`",
    ),
    parameter("count", "no more versions than this number"),
];
const WHY: &[Parameter] = &[
    needed("name", "the name, or an address for its PTR"),
    parameter(
        "type",
        "the record type; when absent A, and PTR for an address",
    ),
];

/// All endpoints.
pub static ENDPOINTS: &[Endpoint] = &[
    Endpoint {
        name: "log",
        has_zone: true,
        right: Right::Zone,
        summary: "lists the versions of a zone with their causes, newest first",
        parameters: LOG,
        schema: "log",
        question: log,
    },
    Endpoint {
        name: "show",
        has_zone: true,
        right: Right::Zone,
        summary: "prints the records of a version; `at=held` shows the change that is held back",
        parameters: &[AT, NAME],
        schema: "show",
        question: |values| {
            Ok(Streamed::Request(Request::Show {
                zone: values.version()?,
                name: values.get("name"),
            }))
        },
    },
    Endpoint {
        name: "diff",
        has_zone: true,
        right: Right::Zone,
        summary: "compares two versions of a zone",
        parameters: &[FROM, TO],
        schema: "diff",
        question: |values| {
            Ok(Streamed::Request(Request::Diff {
                zone: values.zone()?,
                from: values.needed("from")?,
                to: values.get("to"),
            }))
        },
    },
    Endpoint {
        name: "held",
        has_zone: true,
        right: Right::Zone,
        summary: "compares the served version with what waits to be published",
        parameters: &[],
        schema: "diff",
        question: |values| {
            let zone = values.zone()?;
            Ok(Streamed::Request(Request::Waiting { zone }))
        },
    },
    Endpoint {
        name: "blame",
        has_zone: true,
        right: Right::Zone,
        summary: "says since which version each record exists, and why",
        parameters: &[AT, NAME],
        schema: "blame",
        question: |values| {
            Ok(Streamed::Request(Request::Blame {
                zone: values.version()?,
                name: values.get("name"),
            }))
        },
    },
    Endpoint {
        name: "why",
        has_zone: true,
        right: Right::Zone,
        summary: "explains the answer that a name of the zone gets",
        parameters: WHY,
        schema: "why",
        question: |values| {
            Ok(Streamed::WhyWithin {
                zone: values.apex()?.clone(),
                name: values.needed("name")?,
                rtype: values.get("type"),
            })
        },
    },
    Endpoint {
        name: "verify",
        has_zone: true,
        right: Right::Zone,
        summary: "verifies that the history of a zone is as it was written",
        parameters: &[ANCHOR],
        schema: "verify",
        question: verify,
    },
    Endpoint {
        name: "export",
        has_zone: true,
        right: Right::Zone,
        summary: "exports the whole history of a zone with all hashes, as the file of `export --history`",
        parameters: &[],
        schema: "history",
        question: |values| {
            let zone = values.zone()?;
            Ok(Streamed::History { zone })
        },
    },
    Endpoint {
        name: "corefile",
        has_zone: true,
        right: Right::All,
        summary: "prints the Corefile that was in use with a version, without its secrets",
        parameters: &[AT],
        schema: "corefile",
        question: |values| {
            let zone = values.version()?;
            Ok(Streamed::Request(Request::Corefile { zone }))
        },
    },
    Endpoint {
        name: "corefile-diff",
        has_zone: true,
        right: Right::All,
        summary: "compares the Corefiles of two versions, without their secrets",
        parameters: &[FROM, TO],
        schema: "corefile",
        question: |values| {
            Ok(Streamed::Request(Request::Corefiles {
                zone: values.zone()?,
                from: values.needed("from")?,
                to: values.get("to"),
            }))
        },
    },
    Endpoint {
        name: "log",
        has_zone: false,
        right: Right::All,
        summary: "lists the versions of all zones with their causes, newest first",
        parameters: LOG,
        schema: "log",
        question: log,
    },
    Endpoint {
        name: "why",
        has_zone: false,
        right: Right::All,
        summary: "explains the answer that a name gets",
        parameters: WHY,
        schema: "why",
        question: |values| {
            Ok(Streamed::Request(Request::Why {
                name: values.needed("name")?,
                rtype: values.get("type"),
            }))
        },
    },
    Endpoint {
        name: "verify",
        has_zone: false,
        right: Right::All,
        summary: "verifies that the histories of all zones are as they were written",
        parameters: &[ANCHOR],
        schema: "verify",
        question: verify,
    },
    Endpoint {
        name: "status",
        has_zone: false,
        right: Right::All,
        summary: "reports zones, sources and secondaries",
        parameters: &[],
        schema: "status",
        question: |_| Ok(Streamed::Request(Request::Status)),
    },
];

fn log(values: &Values) -> Result<Streamed, String> {
    let count = values.get("count").map(|text| {
        let parsed = text.parse::<NonZeroU64>();
        let parsed = parsed.map_err(|error| format!("count={text}: {error}; write 1 or more"));
        parsed.map(NonZeroU64::get)
    });
    Ok(Streamed::Request(Request::Log {
        zone: values.zone.as_ref().map(ToString::to_string),
        since: values.get("since"),
        until: values.get("until"),
        name: values.get("name"),
        object: values.get("object"),
        count: count.transpose()?,
    }))
}

fn verify(values: &Values) -> Result<Streamed, String> {
    let anchors = values.given.iter().filter(|(name, _)| *name == ANCHOR.name);
    Ok(Streamed::Request(Request::Verify {
        zone: values.zone.as_ref().map(ToString::to_string),
        anchors: anchors.map(|(_, value)| value.clone()).collect(),
        noted: Vec::new(),
    }))
}

impl Endpoint {
    /// Its path, with `{zone}` for the zone.
    #[must_use]
    pub fn path(&self) -> String {
        match self.has_zone {
            true => format!("/v1/zones/{{zone}}/{}", self.name),
            false => format!("/v1/{}", self.name),
        }
    }

    /// The question that a request asks.
    ///
    /// # Errors
    /// What is wrong with a parameter, and the fix.
    pub fn question(&self, values: &Values) -> Result<Streamed, String> {
        (self.question)(values)
    }
}

impl Values {
    /// The value of a parameter.
    fn get(&self, name: &str) -> Option<String> {
        let mut given = self.given.iter().filter(|(it, _)| *it == name);
        given.next().map(|(_, value)| value.clone())
    }

    fn needed(&self, name: &str) -> Result<String, String> {
        let missing = || format!("the parameter {name} is missing");
        self.get(name).ok_or_else(missing)
    }

    fn apex(&self) -> Result<&Name, String> {
        let missing = || "the zone is missing".to_owned();
        self.zone.as_ref().ok_or_else(missing)
    }

    fn zone(&self) -> Result<String, String> {
        self.apex().map(ToString::to_string)
    }

    /// `ZONE` or `ZONE@MOMENT`.
    fn version(&self) -> Result<String, String> {
        let zone = self.zone()?;
        Ok(match self.get(AT.name) {
            // With an @, a part of it could be taken for the zone.
            Some(at) if at.contains('@') => return Err("at: a moment has no @".to_owned()),
            Some(at) => format!("{zone}@{at}"),
            None => zone,
        })
    }
}
