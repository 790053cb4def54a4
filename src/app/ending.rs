//! How the process ends: for how long it goes on answering, and what is closed last.

use std::time::Duration;

use anyhow::{Context, anyhow};
use directives::config::{Config, ServerBlock};
use ops::TaskEnd;

use crate::app::data::Data;
use crate::app::failure::Failure;
use crate::app::signals::Wish;

/// Waits for the writer's end and closes its store.
pub(super) async fn close(data: Data) -> anyhow::Result<()> {
    let journal = data.end().await?.store;
    let closed = tokio::task::spawn_blocking(|| journal.close()).await?;
    closed.context("the store could not be closed cleanly")
}

/// How the process ends at a second signal.
pub(super) fn ended_by(wish: Wish) -> Result<(), Failure> {
    match wish {
        Wish::Quit => Ok(()),
        Wish::End(_) | Wish::Reload => Err(Failure::running("ended by a second signal")),
    }
}

/// How long to go on answering after the first signal: the longest that a block says.
pub(super) fn lameduck_of(config: &Config) -> Duration {
    let healths = config.servers.iter().filter_map(health_of);
    healths.max().unwrap_or_default()
}

/// How long a block wants to go on answering.
fn health_of(block: &ServerBlock) -> Option<Duration> {
    block.health.as_ref().map(|health| health.lameduck)
}

/// What a task's end means.
pub(super) fn describe(end: Option<Result<(), TaskEnd>>) -> anyhow::Error {
    match end {
        // What a handler says says all, and in CoreDNS's words.
        Some(Err(TaskEnd::Failed(_, text))) if text.starts_with("plugin/") => anyhow!(text),
        Some(Err(end)) => end.into(),
        Some(Ok(())) | None => anyhow!("a task ended"),
    }
}
