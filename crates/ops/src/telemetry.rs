//! Logs: text or JSON on standard error, or CoreDNS's lines on standard output.

use std::sync::OnceLock;

use tracing::{Event, Level, Subscriber};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{self, FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::layer::{Layer, SubscriberExt};
use tracing_subscriber::registry::{LookupSpan, Registry};
use tracing_subscriber::reload::{self, Handle};
use tracing_subscriber::util::SubscriberInitExt;

/// The format of log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum LogFormat {
    /// One line of text an event.
    Text,
    /// One JSON object an event.
    Json,
    /// As CoreDNS writes them, on standard output: `[INFO] text`, no time.
    Coredns,
}

/// The target of an error that ends the process. CoreDNS's format has a level for it. A filter for `zonewright`
/// includes it.
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

// quinn warns about single packets, which anyone may send.
const DEFAULT_FILTER: &str =
    "info,quinn=error,quinn_proto=error,kube_client=off,tower=warn,hyper=warn";

/// It logs answers that it does not understand as they are, also those with tokens. Only a filter that names it lets it speak.
const SECRETIVE: &str = "kube_client";

/// A filter of an operator, which keeps secrets out of the log.
fn without_secrets(filter: &str) -> String {
    match filter {
        "" => "error,kube_client=off".to_owned(),
        _ if filter.contains(SECRETIVE) => filter.to_owned(),
        _ => format!("{filter},{SECRETIVE}=off"),
    }
}

/// The filter of log lines, unless the command line chose one.
static FILTER: OnceLock<Handle<EnvFilter, Registry>> = OnceLock::new();

/// Starts logging for the whole process. The filter is that of `tracing_subscriber`'s `EnvFilter`.
///
/// # Errors
/// A filter that cannot be read, with the reason.
pub fn start(format: LogFormat, filter: Option<&str>) -> Result<(), String> {
    let is_chosen = filter.is_some();
    let filter = EnvFilter::builder()
        .parse(filter.map_or_else(|| DEFAULT_FILTER.to_owned(), without_secrets))
        .map_err(|error| format!("cannot read the log filter: {error}"))?;
    let (filter, handle) = reload::Layer::new(filter);
    let lines = fmt::layer().with_target(false).with_ansi(false);
    let lines = match format {
        LogFormat::Coredns => {
            let lines = lines.event_format(CorednsLines);
            lines.with_writer(std::io::stdout).boxed()
        }
        LogFormat::Text => lines.with_writer(std::io::stderr).boxed(),
        LogFormat::Json => {
            let lines = lines.json().flatten_event(true);
            lines.with_writer(std::io::stderr).boxed()
        }
    };
    tracing_subscriber::registry()
        .with(filter)
        .with(lines)
        .try_init()
        .map_err(|error| format!("cannot start logging: {error}"))?;
    if !is_chosen {
        // Logging starts once.
        drop(FILTER.set(handle));
    }
    Ok(())
}

/// Turns log lines of level debug on or off, unless the command line chose a filter.
pub fn set_debug(is_on: bool) {
    let Some(handle) = FILTER.get() else { return };
    let text = match is_on {
        true => &DEFAULT_FILTER.replacen("info", "debug", 1),
        false => DEFAULT_FILTER,
    };
    if let Err(error) = handle.reload(EnvFilter::builder().parse_lossy(text)) {
        tracing::warn!(%error, "cannot change the log filter");
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::sync::{Arc, Mutex};

    use super::*;

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
    fn a_filter_keeps_secrets_out_of_the_log_unless_it_names_their_source() {
        for (given, want) in [
            ("debug", "debug,kube_client=off"),
            ("info,kube_client=trace", "info,kube_client=trace"),
        ] {
            assert_eq!(without_secrets(given), want);
        }
        let filter = EnvFilter::builder().parse(without_secrets("")).unwrap();
        assert!(!filter.to_string().is_empty());
    }

    #[test]
    fn the_reason_of_an_end_passes_a_filter_for_this_program() {
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
        let text = String::from_utf8(lines.0.lock().unwrap().clone()).unwrap();
        assert_eq!(text, "[FATAL] the end\n");
    }
}
