//! Logs: text or JSON on standard error.

use tracing_subscriber::EnvFilter;

/// How log lines look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum LogFormat {
    /// One line of text an event.
    Text,
    /// One JSON object an event.
    Json,
}

/// The filter when nothing else is said.
const DEFAULT_FILTER: &str =
    "info,hickory_server=warn,hickory_proto=warn,kube_client=off,tower=warn,hyper=warn";

/// Starts logging for the whole process. The filter is that of `tracing_subscriber`'s `EnvFilter`.
///
/// # Errors
/// A filter that cannot be read, with the reason.
pub fn start(format: LogFormat, filter: Option<&str>) -> Result<(), String> {
    let filter = EnvFilter::builder()
        .parse(filter.unwrap_or(DEFAULT_FILTER))
        .map_err(|error| format!("the log filter is not understood: {error}"))?;
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr);
    let started = match format {
        LogFormat::Text => builder.with_target(false).with_ansi(false).try_init(),
        LogFormat::Json => builder
            .json()
            .flatten_event(true)
            .with_target(false)
            .try_init(),
    };
    started.map_err(|error| format!("logging cannot start: {error}"))
}
