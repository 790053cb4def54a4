//! Logs: text or JSON on standard error.

use std::sync::OnceLock;

use tracing::{Event, Level, Subscriber};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::reload::Handle;

/// How log lines look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum LogFormat {
    /// One line of text an event.
    Text,
    /// One JSON object an event.
    Json,
    /// As CoreDNS writes them, on standard output: `[INFO] text`, no time.
    Coredns,
}

/// The target of an error that ends the process: CoreDNS's lines have a level for it. Below that of all others, so
/// that who filters for these has it, too.
pub const FATAL: &str = "zonewright::fatal";

/// Writes `[LEVEL] text field=value …`.
struct CorednsLines;

impl<S, N> FormatEvent<S, N> for CorednsLines
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> std::fmt::Result {
        let level = *event.metadata().level();
        let level = match level {
            Level::ERROR if event.metadata().target() == FATAL => "FATAL",
            Level::ERROR => "ERROR",
            Level::WARN => "WARNING",
            Level::INFO => "INFO",
            Level::DEBUG | Level::TRACE => "DEBUG",
        };
        write!(writer, "[{level}] ")?;
        context.format_fields(writer.by_ref(), event)?;
        writeln!(writer)
    }
}

/// The filter when nothing else is said.
const DEFAULT_FILTER: &str =
    "info,hickory_server=warn,hickory_proto=warn,kube_client=off,tower=warn,hyper=warn";

/// Starts logging for the whole process. The filter is that of `tracing_subscriber`'s `EnvFilter`.
///
/// # Errors
/// A filter that cannot be read, with the reason.
pub fn start(format: LogFormat, filter: Option<&str>) -> Result<(), String> {
    let is_chosen = filter.is_some();
    let filter = EnvFilter::builder()
        .parse(filter.unwrap_or(DEFAULT_FILTER))
        .map_err(|error| format!("the log filter is not understood: {error}"))?;
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_target(false)
        .with_ansi(false);
    let started = match format {
        LogFormat::Coredns => {
            let builder = builder
                .event_format(CorednsLines)
                .with_writer(std::io::stdout);
            let builder = builder.with_filter_reloading();
            keep(builder.reload_handle(), is_chosen);
            builder.try_init()
        }
        LogFormat::Text => {
            let builder = builder.with_writer(std::io::stderr).with_filter_reloading();
            keep(builder.reload_handle(), is_chosen);
            builder.try_init()
        }
        LogFormat::Json => {
            let builder = builder
                .json()
                .flatten_event(true)
                .with_writer(std::io::stderr);
            let builder = builder.with_filter_reloading();
            keep(builder.reload_handle(), is_chosen);
            builder.try_init()
        }
    };
    started.map_err(|error| format!("logging cannot start: {error}"))
}

/// Takes another filter.
type Refilter = Box<dyn Fn(&str) + Send + Sync>;

/// Changes what is logged; nothing where the command line chose it.
static REFILTER: OnceLock<Refilter> = OnceLock::new();

/// Keeps the handle on the filter.
fn keep<S: 'static>(handle: Handle<EnvFilter, S>, is_chosen: bool) {
    if is_chosen {
        return;
    }
    let refilter: Refilter = Box::new(move |text| {
        let filter = EnvFilter::builder().parse_lossy(text);
        if let Err(error) = handle.reload(filter) {
            tracing::warn!(%error, "the log filter stays as it was");
        }
    });
    // Logging starts once.
    drop(REFILTER.set(refilter));
}

/// Logs lines of the level debug, too, or not; where the command line chose what is logged, that stays.
pub fn set_debug(is_on: bool) {
    if let Some(refilter) = REFILTER.get() {
        if is_on {
            refilter(&DEFAULT_FILTER.replacen("info", "debug", 1));
        } else {
            refilter(DEFAULT_FILTER);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::sync::{Arc, Mutex};

    use super::*;

    /// Lines that were logged.
    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);

    impl Write for Lines {
        fn write(&mut self, octets: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().write(octets)
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn why_the_process_ends_is_said_to_whoever_filters_for_this_program() {
        let lines = Lines::default();
        let writer = lines.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_env_filter(EnvFilter::builder().parse("zonewright=info").unwrap())
            .event_format(CorednsLines)
            .with_writer(move || writer.clone())
            .finish();
        tracing::subscriber::with_default(subscriber, || {
            tracing::error!(target: FATAL, "the end");
            tracing::error!(target: "other", "no matter");
        });
        let said = String::from_utf8(lines.0.lock().unwrap().clone()).unwrap();
        assert_eq!(said, "[FATAL] the end\n");
    }
}
