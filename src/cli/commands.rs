//! The commands but `run`: each one reads, prints, and ends.

use std::io::{self, IsTerminal, Read, Write};
use std::path::Path;
use std::sync::OnceLock;
use std::time::Duration;

use directives::config::{Loaded, Overrides, Rejected};
use dns::Name;
use history::{AuditError, Follow, OrderText, Output, Question, Request, Status, write_condensed};
use tokio::runtime::Runtime;

use crate::cli::answered::{finish, ignore_closed, read_into, read_json, standing, wanted_of};
use crate::cli::args::{
    Asking, Audit, Configuration, DiffWanted, Format, HoldWanted, LogWanted, OrderWanted, Reading,
    WhyWanted,
};
use crate::cli::audit_log::name_requests;
use crate::cli::confirm::confirm;
use crate::cli::follow::follow;
use crate::cli::oneline::Oneline;
use crate::cli::render::render;
use crate::cli::terminal::{Paint, Screen, Wanted};
use crate::failure::Failure;
use crate::runtime::pod_namespace::namespace_of_account;

/// What clears a terminal: to the first line, and nothing below.
const CLEAR: &str = "\x1b[H\x1b[2J";

/// Reads the configuration.
pub(crate) fn read(configuration: &Configuration) -> Result<Loaded, Rejected> {
    let overrides = Overrides {
        default_port: configuration.port,
    };
    let env = |name: &str| {
        let written = std::env::var(name).ok();
        written.or_else(|| (name == "POD_NAMESPACE").then(namespace_of_account)?)
    };
    if configuration.corefile == Path::new("-") {
        // Standard input can be read once: a reload gets the same text again.
        static PIPED: OnceLock<String> = OnceLock::new();
        let text = PIPED.get_or_init(|| {
            let mut text = String::new();
            if let Err(error) = io::stdin().read_to_string(&mut text) {
                tracing::error!(%error, "standard input cannot be read");
            }
            text
        });
        return directives::config::parse_text("stdin", text, &overrides, &env);
    }
    directives::config::load(&configuration.corefile, &overrides, &env)
}

/// Reads the configuration; warnings are logged.
pub(crate) fn load(configuration: &Configuration) -> Result<Loaded, Failure> {
    let loaded = read(configuration).map_err(|rejected| Failure::unusable(rejected.to_string()))?;
    for warning in &loaded.warnings {
        tracing::warn!("{warning}");
    }
    Ok(loaded)
}

/// The runtime of the commands.
pub(crate) fn runtime() -> Result<Runtime, Failure> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::running(error.to_string()))
}

/// `render`.
///
/// # Errors
/// When the configuration or a source is not usable.
pub fn print_zones(
    configuration: &Configuration,
    zone: Option<&str>,
    format: Format,
) -> Result<(), Failure> {
    let loaded = load(configuration)?;
    let wanted = zone
        .map(|zone| Name::parse(zone).map_err(|error| Failure::unusable(error.to_string())))
        .transpose()?;
    let runtime = runtime()?;
    let zones = runtime.block_on(render(&loaded.config))?;
    let known: Vec<Name> = zones.iter().map(|it| it.zone.clone()).collect();
    let mut found = false;
    for rendered in zones {
        if wanted
            .as_ref()
            .is_none_or(|wanted| rendered.zone == *wanted)
        {
            found = true;
            match format.output {
                Output::Text => print(&rendered.text)?,
                Output::Json => print(&rendered.as_json())?,
            }
        }
    }
    match wanted {
        Some(zone) if !found => {
            let error = AuditError::NoZone { zone, known };
            Err(Failure::unusable(error.to_string()))
        }
        Some(_) | None => Ok(()),
    }
}

/// `log`.
///
/// # Errors
/// When there is no answer.
pub fn log(wanted: LogWanted) -> Result<(), Failure> {
    let LogWanted {
        zone,
        since,
        until,
        name,
        object,
        count,
        follow,
        oneline,
        audit,
        reading,
    } = wanted;
    if oneline && reading.asking.output == Output::Json {
        return Err(Failure::unusable(
            "--oneline is for text; --output json prints each version as one line",
        ));
    }
    if !follow {
        let request = Request::Log {
            zone,
            since,
            until,
            name,
            object,
            count,
        };
        return match oneline {
            true => read_oneline(request, &reading),
            false => read_audited(request, &audit, &reading),
        };
    }
    // The command line lets no `until` stand beside it.
    let wanted = Follow {
        zone,
        since,
        name,
        object,
        ..Follow::default()
    };
    follow_log(&wanted, oneline, &reading.asking)
}

/// `log --follow`.
fn follow_log(wanted: &Follow, is_oneline: bool, asking: &Asking) -> Result<(), Failure> {
    let request = |cursor| {
        Request::Follow(Follow {
            cursor,
            ..wanted.clone()
        })
    };
    let shown = Wanted {
        output: asking.output,
        paint: Paint::Log,
        is_paged: false,
    };
    let mut screen = Screen::open(shown, asking.look);
    let mut show = |versions: &[u8]| -> io::Result<bool> {
        if is_oneline {
            let mut lines = Oneline::new(&mut screen);
            lines.write_all(versions)?;
            lines.flush()?;
        } else {
            screen.write_all(versions)?;
            screen.flush()?;
        }
        Ok(!screen.is_closed())
    };
    follow(&asking.state.folder(), asking.output, &request, &mut show)
}

/// `show`.
///
/// # Errors
/// When there is no answer.
pub fn show(
    zone: String,
    name: Option<String>,
    is_corefile: bool,
    reading: &Reading,
) -> Result<(), Failure> {
    let request = match is_corefile {
        true => Request::Corefile { zone },
        false => Request::Show { zone, name },
    };
    read_history(request, reading)
}

/// `diff`.
///
/// # Errors
/// When there is no answer.
pub fn diff(wanted: DiffWanted) -> Result<(), Failure> {
    let DiffWanted {
        zone,
        from,
        to,
        held: _,
        corefile,
        audit,
        reading,
    } = wanted;
    // The command line has either a start or `--held`.
    let request = match from.map(|from| range(from, to)) {
        Some((from, to)) if corefile => Request::Corefiles { zone, from, to },
        Some((from, to)) => Request::Diff { zone, from, to },
        None => Request::Waiting { zone },
    };
    read_audited(request, &audit, &reading)
}

/// Both ends of `FROM..TO`; without an end it is the current version.
fn range(from: String, to: Option<String>) -> (String, Option<String>) {
    match from.split_once("..") {
        Some((start, end)) if to.is_none() => {
            let end = (!end.is_empty()).then(|| end.to_owned());
            (start.to_owned(), end)
        }
        _ => (from, to),
    }
}

/// `blame`.
///
/// # Errors
/// When there is no answer.
pub fn blame(
    zone: String,
    name: Option<String>,
    audit: &Audit,
    reading: &Reading,
) -> Result<(), Failure> {
    read_audited(Request::Blame { zone, name }, audit, reading)
}

/// `status`, again and again with so many seconds between. If it is whole, each zone has lines of its own.
///
/// # Errors
/// When no server runs. One that comes back is waited for, if it ran at first.
pub fn status(watch: Option<u64>, is_whole: bool, asking: &Asking) -> Result<(), Failure> {
    let reading = reading_of(asking);
    let Some(seconds) = watch else {
        let question = status_question(asking.output);
        let mut screen = Screen::open(wanted_of(&question), asking.look);
        let answered = status_into(is_whole, &reading, &mut screen);
        return finish(answered, screen);
    };
    let is_screen = io::stdout().is_terminal() && asking.output == Output::Text;
    let mut has_answered = false;
    loop {
        let mut text = Vec::new();
        match status_into(is_whole, &reading, &mut text) {
            Ok(()) => has_answered = true,
            Err(failure) if !has_answered => return Err(failure),
            Err(failure) if asking.output == Output::Text => {
                text = format!("{failure}\n").into_bytes();
            }
            // Only lines of JSON are printed.
            Err(_) => {}
        }
        let start = if is_screen { CLEAR } else { "" };
        let end = match asking.output {
            Output::Text if !is_screen => "\n",
            Output::Text | Output::Json => "",
        };
        let mut out = io::stdout().lock();
        let written = [start.as_bytes(), &text, end.as_bytes()]
            .iter()
            .try_for_each(|part| out.write_all(part))
            .and_then(|()| out.flush());
        if let Err(error) = written {
            return ignore_closed(error);
        }
        drop(out);
        std::thread::park_timeout(Duration::from_secs(seconds));
    }
}

/// What `status` asks.
const fn status_question(output: Output) -> Question {
    Question {
        request: Request::Status,
        output,
    }
}

/// Writes what the server says of itself, for people with one line for reverse zones that are alike unless it is whole.
fn status_into(is_whole: bool, reading: &Reading, out: &mut dyn Write) -> Result<(), Failure> {
    let output = reading.asking.output;
    if is_whole || output == Output::Json {
        return read_into(&status_question(output), reading, out);
    }
    let mut line = Vec::new();
    read_into(&status_question(Output::Json), reading, &mut line)?;
    let status: Status = read_json(&line)?;
    write_condensed(&status, out).or_else(ignore_closed)
}

/// `why`.
///
/// # Errors
/// When no server runs.
pub fn why(wanted: WhyWanted) -> Result<(), Failure> {
    let WhyWanted {
        name,
        rtype,
        asking,
    } = wanted;
    question(Request::Why { name, rtype }, &asking)
}

/// `release`.
///
/// # Errors
/// When no server runs, or nothing is to be released.
pub fn release(zone: String, is_dry: bool, wanted: &HoldWanted) -> Result<(), Failure> {
    match is_dry {
        true => question(Request::Waiting { zone }, &wanted.order.asking),
        false => hold(zone, OrderText::Release, wanted),
    }
}

/// `reload`.
///
/// # Errors
/// When no server runs, or the Corefile has a problem.
pub fn reload(asking: &Asking) -> Result<(), Failure> {
    question(Request::Reload, asking)
}

/// `promote`.
///
/// # Errors
/// When no server runs, it is not one of several replicas, or nothing needs to be lost.
pub fn promote(asking: &Asking) -> Result<(), Failure> {
    question(Request::Promote, asking)
}

/// `notify`.
///
/// # Errors
/// When no server runs, or it notifies nobody of the zone.
pub fn notify(zone: String, asking: &Asking) -> Result<(), Failure> {
    question(Request::Notify { zone }, asking)
}

/// `stop`.
///
/// # Errors
/// When no server runs.
pub fn stop(asking: &Asking) -> Result<(), Failure> {
    question(Request::Stop, asking)
}

/// `freeze` and `rollback`.
///
/// # Errors
/// When no server runs, or the order is not possible.
pub fn hold(zone: String, order: OrderText, wanted: &HoldWanted) -> Result<(), Failure> {
    let HoldWanted {
        with_reverse,
        order: who,
    } = wanted;
    confirm(&zone, &order, who, *with_reverse)?;
    let state = who.asking.state.folder();
    let is_release = matches!(order, OrderText::Release);
    let before = is_release.then(|| standing(&state)).flatten();
    let request = Request::Order {
        zone,
        order,
        reason: who.reason.clone(),
        with_reverse: *with_reverse,
    };
    let done = question(request, &who.asking);
    match (done, before) {
        (Err(failure), Some(before))
            if standing(&state).is_some_and(|after| is_only_gated(&before, &after)) =>
        {
            Err(failure.while_running())
        }
        (done, _) => done,
    }
}

/// Whether a release ended a freeze or rollback, after which the gate holds the version: the order was right.
fn is_only_gated(before: &Status, after: &Status) -> bool {
    let mut ended = after.zones.iter().filter(|line| {
        let mut earlier = before.zones.iter().filter(|it| it.zone == line.zone);
        line.order.is_none() && earlier.any(|it| it.order.is_some())
    });
    ended.any(|line| line.held.is_some())
}

/// `advance`.
///
/// # Errors
/// When no server runs, or the order is not possible.
pub fn advance(zone: String, serial: u32, wanted: &OrderWanted) -> Result<(), Failure> {
    let order = OrderText::Advance { serial };
    confirm(&zone, &order, wanted, false)?;
    let request = Request::Order {
        zone,
        order,
        reason: wanted.reason.clone(),
        with_reverse: false,
    };
    question(request, &wanted.asking)
}

/// Asks the running server.
fn question(request: Request, asking: &Asking) -> Result<(), Failure> {
    read_history(request, &reading_of(asking))
}

fn reading_of(asking: &Asking) -> Reading {
    Reading {
        read_only: false,
        asking: asking.clone(),
    }
}

/// Asks the running server, else the store itself.
fn read_history(request: Request, reading: &Reading) -> Result<(), Failure> {
    let question = Question {
        request,
        output: reading.asking.output,
    };
    let mut screen = Screen::open(wanted_of(&question), reading.asking.look);
    let answered = read_into(&question, reading, &mut screen);
    finish(answered, screen)
}

/// The same, each entry of the log as one line.
fn read_oneline(request: Request, reading: &Reading) -> Result<(), Failure> {
    let question = Question {
        request,
        output: reading.asking.output,
    };
    let mut screen = Screen::open(wanted_of(&question), reading.asking.look);
    let mut lines = Oneline::new(&mut screen);
    let answered = read_into(&question, reading, &mut lines);
    let ended = lines.flush().or_else(ignore_closed);
    finish(answered.and(ended), screen)
}

/// The same, with the requests of audit logs where some are named.
fn read_audited(request: Request, audit: &Audit, reading: &Reading) -> Result<(), Failure> {
    match &*audit.logs {
        [] => read_history(request, reading),
        logs => name_requests(request, reading, logs),
    }
}

/// Prints to standard output.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())
        .and_then(|()| out.flush())
        .or_else(ignore_closed)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Its exit code was that of a wrong question.
    #[test]
    fn a_release_after_which_the_gate_holds_was_no_wrong_question() {
        let status = |has_order: bool, is_held: bool| -> Status {
            let order = has_order.then(|| {
                serde_json::json!({ "rolledBackTo": null, "sinceMs": 1, "untilMs": null, "by": "uid 0" })
            });
            let held = is_held.then(|| {
                serde_json::json!({ "why": "it would lose 90 of 100 records", "sinceMs": 1, "untilMs": null,
                    "isReleasable": true })
            });
            let zone = serde_json::json!({ "zone": "z.", "serial": 7, "timeMs": 1, "records": 100,
                "staleSinceMs": null, "hash": null, "held": held, "order": order });
            let all = serde_json::json!({ "version": "1", "zones": [zone], "sources": [], "secondaries": [],
                "problems": [], "listeners": [] });
            serde_json::from_value(all).expect("it is a status")
        };
        for (before, after, want) in [
            (status(true, true), status(false, true), true),
            (status(true, false), status(false, false), false),
            (status(false, true), status(false, true), false),
            (status(true, true), status(true, true), false),
        ] {
            assert_eq!(is_only_gated(&before, &after), want, "{before:?} {after:?}");
        }
    }

    #[test]
    fn a_range_has_two_ends_or_ends_at_the_current_version() {
        for (from, to, want) in [
            ("7", None, ("7", None)),
            ("7", Some("9"), ("7", Some("9"))),
            ("7..9", None, ("7", Some("9"))),
            ("7..", None, ("7", None)),
            (
                "2026-11-21T14:00:00.5Z..now",
                None,
                ("2026-11-21T14:00:00.5Z", Some("now")),
            ),
            // Refused later, as no serial is like this.
            ("7..9", Some("11"), ("7..9", Some("11"))),
        ] {
            let (start, end) = range(from.to_owned(), to.map(ToOwned::to_owned));
            assert_eq!((start.as_str(), end.as_deref()), want, "{from} {to:?}");
        }
    }
}
