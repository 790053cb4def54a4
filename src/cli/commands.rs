//! The commands but `run`: each one reads, prints, and ends.

use std::io::{self, Read, Write};
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use directives::config::{Loaded, Overrides, Rejected};
use directives::handlers::unresolved_upstreams;
use dns::Name;
use history::{AuditError, Follow, OrderText, Question, Request, answer, ask};
use ops::SystemClock;
use tokio::runtime::Runtime;

use crate::cli::args::{Asking, Configuration, LogWanted, OrderWanted};
use crate::cli::explain::explain;
use crate::cli::follow::follow;
use crate::cli::render::render;
use crate::cli::stopped::{NOBODY, refused, stored_past};
use crate::cli::terminal::{Paint, Screen, Wanted};
use crate::failure::{Failure, one_line};
use crate::plan::addresses::interface_addresses;
use crate::plan::clusters::wanted;
use crate::plan::model::Plan;
use crate::runtime::certificates::check_certificates;
use crate::runtime::listeners::addresses_of;
use crate::runtime::sources::Source;
use crate::runtime::zone_files::read_once;

/// How long `check` waits for the addresses of upstreams, all together.
const NAMES_WITHIN: Duration = Duration::from_secs(5);

/// Reads the configuration.
pub(crate) fn read(configuration: &Configuration) -> Result<Loaded, Rejected> {
    let overrides = Overrides {
        default_port: configuration.port,
    };
    let env = |name: &str| std::env::var(name).ok();
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

/// `check`.
///
/// # Errors
/// With every problem of the configuration.
pub fn check(configuration: &Configuration, explains: bool) -> Result<(), Failure> {
    let loaded = load(configuration)?;
    if explains {
        print(&explain(&loaded.config))?;
    }
    let runtime = runtime()?;
    check_sources(&loaded.config, &runtime)?;
    check_files(&loaded.config)?;
    check_certificates(&loaded.config)?;
    warn_of_machine(&loaded.config, &runtime);
    // The system may still look for a name.
    runtime.shutdown_background();
    let blocks = loaded.config.servers.iter();
    let zones: Vec<String> = blocks
        .flat_map(directives::config::ServerBlock::zones_written)
        .map(ToString::to_string)
        .collect();
    print(&format!(
        "{}: good; zones {}\n",
        configuration.corefile.display(),
        zones.join(" ")
    ))
}

/// Warns about problems that prevent a start on this machine; the Corefile may be for another.
fn warn_of_machine(config: &directives::config::Config, runtime: &Runtime) {
    for (listener, blocks) in config.listeners() {
        if let Err(error) = addresses_of(&listener, &blocks, &interface_addresses) {
            tracing::warn!("{}", one_line(&error));
        }
    }
    for error in runtime.block_on(unresolved_upstreams(config, NAMES_WITHIN)) {
        tracing::warn!("{}", one_line(&error.into()));
    }
}

/// The runtime of the commands.
fn runtime() -> Result<Runtime, Failure> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::running(error.to_string()))
}

/// Opens the files that the sources need. The pod's own files are not read: `check` runs elsewhere.
fn check_sources(config: &directives::config::Config, runtime: &Runtime) -> Result<(), Failure> {
    let mut wrong = Vec::new();
    for kubernetes in config
        .servers
        .iter()
        .flat_map(directives::config::ServerBlock::clusters)
    {
        if kubernetes.source == directives::config::Source::InCluster {
            continue;
        }
        let clock = Arc::new(SystemClock);
        let opened = Source::open(
            &kubernetes.source,
            wanted(kubernetes),
            clock,
            Arc::default(),
        );
        if let Err(error) = runtime.block_on(opened) {
            wrong.push(format!(
                "{}: {}: {}",
                kubernetes.place,
                kubernetes.word(),
                one_line(&error)
            ));
        }
    }
    if wrong.is_empty() {
        Ok(())
    } else {
        Err(Failure::unusable(wrong.join("\n")))
    }
}

/// Reads all files of a configuration.
fn check_files(config: &directives::config::Config) -> Result<(), Failure> {
    let plan = Plan::new(config, &|_| Vec::new());
    let wrong: Vec<String> = plan
        .files
        .iter()
        .filter_map(|file| read_once(file, Arc::new(SystemClock)).err())
        .map(|error| error.to_string())
        .collect();
    if wrong.is_empty() {
        Ok(())
    } else {
        Err(Failure::unusable(wrong.join("\n")))
    }
}

/// `render`.
///
/// # Errors
/// When the configuration or a source is not usable.
pub fn print_zones(configuration: &Configuration, zone: Option<&str>) -> Result<(), Failure> {
    let loaded = load(configuration)?;
    let wanted = zone
        .map(|zone| Name::parse(zone).map_err(|error| Failure::unusable(error.to_string())))
        .transpose()?;
    let runtime = runtime()?;
    let zones = runtime.block_on(render(&loaded.config))?;
    let known: Vec<String> = zones.iter().map(|zone| zone.zone.to_string()).collect();
    let mut found = false;
    for rendered in zones {
        if wanted
            .as_ref()
            .is_none_or(|wanted| rendered.zone == *wanted)
        {
            found = true;
            print(&rendered.text)?;
        }
    }
    match wanted {
        Some(wanted) if !found => Err(Failure::unusable(format!(
            "the Corefile has no zone {wanted}; it has {}",
            known.join(", ")
        ))),
        _ => Ok(()),
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
        asking,
    } = wanted;
    if !follow {
        let request = Request::Log {
            zone,
            since,
            until,
            name,
            object,
            count,
        };
        return question(request, &asking);
    }
    // The command line lets no `until` stand beside it.
    let wanted = Follow {
        zone,
        since,
        name,
        object,
        ..Follow::default()
    };
    follow_log(&wanted, &asking)
}

/// `log --follow`.
fn follow_log(wanted: &Follow, asking: &Asking) -> Result<(), Failure> {
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
        screen.write_all(versions)?;
        screen.flush()?;
        Ok(!screen.is_closed())
    };
    follow(&asking.state.state, asking.output, &request, &mut show)
}

/// `show`.
///
/// # Errors
/// When there is no answer.
pub fn show(zone: String, name: Option<String>, asking: &Asking) -> Result<(), Failure> {
    question(Request::Show { zone, name }, asking)
}

/// `diff`.
///
/// # Errors
/// When there is no answer.
pub fn diff(
    zone: String,
    from: String,
    to: Option<String>,
    asking: &Asking,
) -> Result<(), Failure> {
    question(Request::Diff { zone, from, to }, asking)
}

/// `blame`.
///
/// # Errors
/// When there is no answer.
pub fn blame(zone: String, name: Option<String>, asking: &Asking) -> Result<(), Failure> {
    question(Request::Blame { zone, name }, asking)
}

/// `verify`.
///
/// # Errors
/// When there is no answer, or the history is not as it was written.
pub fn verify(zone: Option<String>, asking: &Asking) -> Result<(), Failure> {
    question(Request::Verify { zone }, asking)
}

/// `status`.
///
/// # Errors
/// When no server runs.
pub fn status(asking: &Asking) -> Result<(), Failure> {
    question(Request::Status, asking)
}

/// `why`.
///
/// # Errors
/// When no server runs.
pub fn why(name: String, rtype: Option<String>, asking: &Asking) -> Result<(), Failure> {
    question(Request::Why { name, rtype }, asking)
}

/// `release`, `freeze`, `advance` and `rollback`.
///
/// # Errors
/// When no server runs, or the order is not possible.
pub fn order(zone: String, order: OrderText, wanted: &OrderWanted) -> Result<(), Failure> {
    let OrderWanted { reason, asking } = wanted;
    let reason = reason.clone();
    let request = Request::Order {
        zone,
        order,
        reason,
    };
    question(request, asking)
}

/// Asks the running server, else the store itself.
fn question(request: Request, asking: &Asking) -> Result<(), Failure> {
    let Asking {
        state,
        output,
        look,
    } = asking;
    let question = Question {
        request,
        output: *output,
    };
    let mut out = Screen::open(wanted_of(&question), *look);
    let answered = match ask(&state.state, &question, &mut out) {
        Some(answered) => answered.map_err(refused),
        None => match question.request {
            Request::Status | Request::Standing | Request::Why { .. } | Request::Order { .. } => {
                Err(Failure::running(AuditError::NoServer.to_string()))
            }
            Request::Log { .. }
            | Request::Follow(_)
            | Request::Show { .. }
            | Request::Diff { .. }
            | Request::Blame { .. }
            | Request::Verify { .. }
            | Request::History { .. } => {
                let past = stored_past(&state.state)?;
                answer(&question, &past, NOBODY, &mut out).map_err(refused)
            }
        },
    };
    let closed = out.close();
    answered.and_then(|()| closed.or_else(ignore_closed))
}

/// How an answer is shown.
fn wanted_of(question: &Question) -> Wanted {
    let (paint, is_paged) = match question.request {
        Request::Log { .. } => (Paint::Log, true),
        Request::Diff { .. } => (Paint::Diff, true),
        Request::Show { .. } | Request::Blame { .. } => (Paint::None, true),
        Request::Follow(_)
        | Request::Verify { .. }
        | Request::History { .. }
        | Request::Status
        | Request::Standing
        | Request::Why { .. }
        | Request::Order { .. } => (Paint::None, false),
    };
    Wanted {
        output: question.output,
        paint,
        is_paged,
    }
}

/// Prints to standard output.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())
        .and_then(|()| out.flush())
        .or_else(ignore_closed)
}

/// A reader that had enough (`| head`) is no failure.
fn ignore_closed(error: io::Error) -> Result<(), Failure> {
    if error.kind() == io::ErrorKind::BrokenPipe {
        Ok(())
    } else {
        Err(Failure::running(format!("standard output: {error}")))
    }
}
