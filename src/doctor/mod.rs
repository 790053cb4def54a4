//! Probes a secondary from here, as a NOTIFY would reach it, and says how to fix it.
//!
//! `probe` has the sockets. This file decides what the answers mean.

mod probe;

pub use probe::{Patient, Probed, Standing, probe};

use std::fmt;
use std::io;

use dns::{Name, Rcode, Serial};

/// The outcome of one question.
#[derive(Debug)]
pub enum Reached<T> {
    /// An answer.
    Answered(T),
    /// Nobody listens there.
    Closed,
    /// No answer in time.
    Silent,
    /// It took the question and broke off.
    Broken(io::Error),
    /// The question could not be sent.
    Failed(io::Error),
}

impl<T> Reached<T> {
    /// The content of an answer.
    fn map<U>(self, say: impl FnOnce(T) -> U) -> Reached<U> {
        match self {
            Self::Answered(answer) => Reached::Answered(say(answer)),
            Self::Closed => Reached::Closed,
            Self::Silent => Reached::Silent,
            Self::Broken(error) => Reached::Broken(error),
            Self::Failed(error) => Reached::Failed(error),
        }
    }
}

/// Our serial, before the secondary was asked for its own the last time and after that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ours {
    /// Our serial before the probe.
    pub before: Serial,
    /// After.
    pub after: Serial,
}

/// The outcome of a query for the SOA.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SoaAnswer {
    /// The response code.
    pub rcode: Rcode,
    /// The serial of the answer.
    pub serial: Option<Serial>,
}

/// The outcome of a NOTIFY.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotifyAnswer {
    /// The response code.
    pub rcode: Rcode,
    /// The TSIG error of the answer; 0 for none.
    pub tsig_error: u16,
    /// The answer was signed by the key, or no key is used.
    pub is_signed: bool,
    /// How many seconds its clock is ahead of ours, as far as it said.
    pub clock_ahead: Option<i64>,
}

/// What our server saw of the secondary's requests for the zone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Requests {
    /// Whether it asked since the probe began.
    pub has_asked: bool,
    /// The key that signed its last request.
    pub key: Option<String>,
    /// Why its last request was refused, and how many seconds ago.
    pub denied: Option<(String, u64)>,
}

/// All that was found out about one zone at one secondary.
#[derive(Debug)]
pub struct Findings {
    /// The SOA by UDP.
    pub udp: Reached<SoaAnswer>,
    /// The SOA by TCP; that of a catalog which UDP does not show as it is after NOTIFY, asked with the key.
    pub tcp: Reached<SoaAnswer>,
    /// NOTIFY.
    pub notify: Reached<NotifyAnswer>,
    /// Our serial, as far as it is known.
    pub ours: Option<Ours>,
    /// Its requests, as far as they are known.
    pub requests: Option<Requests>,
    /// The zone is a catalog.
    pub is_catalog: bool,
}

impl Findings {
    /// Whether it answered over UDP or TCP.
    #[must_use]
    pub fn is_reached(&self) -> bool {
        let answered = |reached: &Reached<SoaAnswer>| matches!(reached, Reached::Answered(_));
        answered(&self.udp) || answered(&self.tcp)
    }

    /// Whether it does not take the key for this zone.
    #[must_use]
    pub fn refuses_key(&self) -> bool {
        let Reached::Answered(notify) = &self.notify else {
            return false;
        };
        let is_unsigned = notify.rcode == Rcode::NOERROR && !notify.is_signed;
        [BADSIG, BADKEY].contains(&notify.tsig_error) || is_unsigned
    }
}

/// A finding: one line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Diagnosis {
    /// All is well.
    Well(String),
    /// Something is wrong.
    Ill {
        /// The problem.
        what: String,
        /// The fix.
        fix: String,
    },
}

impl fmt::Display for Diagnosis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Well(text) => write!(f, "OK: {text}"),
            Self::Ill { what, fix } => write!(f, "FAIL: {what}; {fix}"),
        }
    }
}

/// TSIG errors (RFC 8945 section 3).
const BADSIG: u16 = 16;
const BADKEY: u16 = 17;
const BADTIME: u16 = 18;
/// Clocks may differ by so many seconds before it is said (RFC 8945 section 10 allows 300).
const CLOCK_SECONDS: i64 = 60;

/// Something is wrong.
fn ill(what: impl Into<String>, fix: impl Into<String>) -> Diagnosis {
    Diagnosis::Ill {
        what: what.into(),
        fix: fix.into(),
    }
}

/// The findings; `key` signs our messages.
#[must_use]
pub fn diagnose(findings: &Findings, key: Option<&Name>) -> Diagnosis {
    let (udp, tcp) = match (way("UDP", &findings.udp), way("TCP", &findings.tcp)) {
        (Ok(udp), Ok(tcp)) => (udp, tcp),
        (Err(_), Err(Diagnosis::Ill { what, fix: _ })) => {
            let fix = "start it, or correct the address in `to` and the route to it";
            return ill(format!("not reached over UDP nor over TCP: {what}"), fix);
        }
        (Err(diagnosis), _) | (_, Err(diagnosis)) => return diagnosis,
    };
    let notify = match &findings.notify {
        Reached::Answered(notify) => notify,
        Reached::Closed | Reached::Silent | Reached::Broken(_) | Reached::Failed(_) => {
            let fix = "let NOTIFY (UDP, from here) through, and allow it for the zone";
            return ill("it answers queries, but not NOTIFY", fix);
        }
    };
    if let Some(diagnosis) = of_key(notify, key) {
        return diagnosis;
    }
    // Knot shows a catalog over TCP alone.
    let by_tcp = tcp.serial.filter(|_| findings.is_catalog);
    let theirs = udp.serial.or(by_tcp);
    if findings.is_catalog && theirs.is_none() && udp.rcode != Rcode::SERVFAIL {
        let rcode = udp.rcode;
        let text = format!(
            "it does not show the catalog ({rcode}), or does not read it; then list the zones in its configuration"
        );
        return Diagnosis::Well(text);
    }
    let requests = findings.requests.as_ref();
    if let Some(diagnosis) = of_zone(udp.rcode, theirs, notify, requests) {
        return diagnosis;
    }
    of_serials(theirs, findings, notify, key)
}

/// The problem of a secondary that lacks a version, and the fix, as far as its requests show them.
fn lacks(what: String, requests: Option<&Requests>) -> Diagnosis {
    match requests {
        Some(Requests {
            denied: Some((reason, seconds)),
            ..
        }) => ill(
            format!("{what}; we refused its request {seconds} s ago: {reason}"),
            "correct its configuration, or `to` and `allow` of transfer: see zonewright emit",
        ),
        Some(Requests {
            has_asked: false, ..
        }) => ill(
            format!("{what}; the secondary has not asked us since it was notified"),
            "correct the primary's address and port there, and let TCP through to here; its log has more",
        ),
        Some(_) | None => ill(
            what,
            "see its log for failed transfers; name it with its key in `to` or `allow` of transfer",
        ),
    }
}

/// The answer over one transport, or the problem with the transport.
fn way<'a>(name: &str, reached: &'a Reached<SoaAnswer>) -> Result<&'a SoaAnswer, Diagnosis> {
    let fix = format!("make it listen on {name}, and open port and firewall for {name}");
    match reached {
        Reached::Answered(answer) => Ok(answer),
        Reached::Closed => Err(ill(format!("no server listens on {name}"), fix)),
        Reached::Silent => Err(ill(format!("no answer over {name}"), fix)),
        Reached::Broken(error) => {
            let fix = format!("see its log: it does not answer queries over {name}");
            Err(ill(format!("no answer over {name}: {error}"), fix))
        }
        Reached::Failed(error) => {
            let fix = "correct `source` in transfer, or the routes from here";
            Err(ill(format!("cannot send over {name}: {error}"), fix))
        }
    }
}

/// Problems with the key or the clocks.
fn of_key(notify: &NotifyAnswer, key: Option<&Name>) -> Option<Diagnosis> {
    let key = key?;
    let ahead = notify.clock_ahead.unwrap_or(0);
    let clock = |ahead: i64| {
        let by = ahead.unsigned_abs();
        let word = if ahead < 0 { "behind" } else { "ahead" };
        format!("its clock is {by} s {word}")
    };
    let fix = "set both clocks by NTP: TSIG allows 300 s";
    match notify.tsig_error {
        0 => {}
        BADSIG => {
            let fix = "give both sides the same secret: see zonewright emit --with-secrets";
            return Some(ill(format!("key {key}: BADSIG, another secret"), fix));
        }
        BADKEY => {
            let fix = "add the key there under this name and algorithm, and allow it NOTIFY of the zone (Knot: `action: notify`): \
                see zonewright emit";
            let what = format!(
                "key {key}: BADKEY, it has no such key, or does not allow it to this zone or to the address from which we ask (`source` in transfer sets it)"
            );
            return Some(ill(what, fix));
        }
        BADTIME => {
            let said = notify
                .clock_ahead
                .map_or_else(String::new, |it| format!(", {}", clock(it)));
            return Some(ill(format!("key {key}: BADTIME{said}"), fix));
        }
        other => {
            let fix = "allow MACs of full length for the algorithm there";
            return Some(ill(format!("key {key}: TSIG error {other}"), fix));
        }
    }
    if notify.rcode == Rcode::NOERROR && !notify.is_signed {
        let fix = "add the key there for NOTIFY of this zone: see zonewright emit";
        return Some(ill(format!("its answer is not signed by {key}"), fix));
    }
    (ahead.abs() > CLOCK_SECONDS).then(|| ill(clock(ahead), fix))
}

/// Problems with the zone there.
fn of_zone(
    rcode: Rcode,
    serial: Option<Serial>,
    notify: &NotifyAnswer,
    requests: Option<&Requests>,
) -> Option<Diagnosis> {
    if rcode == Rcode::SERVFAIL {
        let what = "it has the zone configured and no data (SERVFAIL)".to_owned();
        return Some(lacks(what, requests));
    }
    if serial.is_none() {
        let fix = "add the zone there: see zonewright emit; if it has it, see its log for refused transfers (a wrong clock, another key)";
        return Some(ill(format!("it does not serve the zone ({rcode})"), fix));
    }
    if notify.rcode == Rcode::NOERROR {
        return None;
    }
    let fix = "allow NOTIFY from this address and with this key for the zone (allow-notify)";
    Some(ill(format!("it refuses NOTIFY ({})", notify.rcode), fix))
}

/// The findings about serials.
fn of_serials(
    theirs: Option<Serial>,
    findings: &Findings,
    notify: &NotifyAnswer,
    key: Option<&Name>,
) -> Diagnosis {
    let (ours, requests) = (findings.ours, findings.requests.as_ref());
    let mut text = "reached over UDP and TCP, NOTIFY accepted".to_owned();
    if let Some(key) = key {
        text.push_str(&format!(", key {key}"));
    }
    if let Some(ahead) = notify.clock_ahead {
        text.push_str(&format!(", clock {ahead:+} s"));
    }
    let asked_with = requests.and_then(|it| it.key.as_deref());
    let other = |key: &Name| asked_with.filter(|it| *it != key.to_string());
    if let Some(other) = key.and_then(other) {
        text.push_str(&format!(", but its last request had the key {other}"));
    }
    match (theirs, ours) {
        (Some(theirs), Some(Ours { before: _, after })) if theirs == after => {
            Diagnosis::Well(format!("{text}, same serial {theirs}"))
        }
        (Some(theirs), Some(Ours { before: _, after })) if theirs.is_after(after) => {
            let fix = "it followed another primary or a lost disk of ours: publish a version \
                        above it, or make it transfer the whole zone again";
            ill(
                format!("its serial {theirs} is ahead of ours, {after}"),
                fix,
            )
        }
        (Some(theirs), Some(Ours { before, after: _ })) if before.is_after(theirs) => {
            let what = format!("its serial {theirs} is behind ours, {before}");
            lacks(what, requests)
        }
        (Some(theirs), Some(Ours { before: _, after })) => {
            Diagnosis::Well(format!("{text}, serial {theirs} follows ours, now {after}"))
        }
        (Some(theirs), None) => {
            Diagnosis::Well(format!("{text}, serial {theirs}; ours is not known"))
        }
        (None, _) => ill("it sent no serial", "see its log"),
    }
}

#[cfg(test)]
mod tests;
