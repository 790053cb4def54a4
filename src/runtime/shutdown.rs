//! The end of the process: for how long it still answers, and the order in which things are closed.

use std::time::Duration;

use anyhow::{Context, anyhow};
use directives::config::{Config, Health, ServerBlock};
use ops::TaskEnd;

use crate::failure::{Failure, HandlerFault, WriterEnded, one_line};
use crate::runtime::ingest::Data;
use crate::runtime::signals::Wish;

/// Waits for the writer's end and closes its store.
pub(crate) async fn close(data: Data) -> anyhow::Result<()> {
    let journal = data.end().await?;
    let closed = tokio::task::spawn_blocking(|| journal.close()).await?;
    closed.context("the store could not be closed cleanly")
}

/// How the process ends at a second signal.
pub(crate) fn ended_by(wish: Wish) -> Result<(), Failure> {
    match wish {
        Wish::Quit => Ok(()),
        Wish::End(_) | Wish::Reload => Err(Failure::running("ended by a second signal")),
    }
}

/// How long to answer after the first signal: the longest time of a block.
pub(crate) fn lameduck_of(config: &Config) -> Duration {
    let healths = config.servers.iter().filter_map(health_of);
    healths.max().unwrap_or_default()
}

/// How long a block answers after the first signal.
fn health_of(block: &ServerBlock) -> Option<Duration> {
    block.get::<Health>().map(|health| health.lameduck)
}

/// The end of a task as an error. A fault of a handler leaves out the name of the task.
pub(crate) fn describe(end: Option<Result<(), TaskEnd>>) -> anyhow::Error {
    match end {
        Some(Err(TaskEnd::Failed(_, error))) if error.is::<HandlerFault>() => {
            anyhow::Error::from_boxed(error)
        }
        Some(Err(end)) => end.into(),
        Some(Ok(())) | None => anyhow!("a task ended"),
    }
}

/// The failure to report, of why the process ends and how the writer's store was closed.
pub(crate) fn outcome(
    failed: Option<anyhow::Error>,
    closed: anyhow::Result<()>,
) -> Result<(), Failure> {
    match (failed, closed) {
        (Some(error), Err(why)) if error.is::<WriterEnded>() => {
            Err(Failure::running(one_line(&why)))
        }
        (Some(error), _) | (None, Err(error)) => Err(Failure::running(one_line(&error))),
        (None, Ok(())) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The message about a task that failed with this error.
    fn said_of(error: impl Into<ops::TaskError>) -> String {
        describe(Some(Err(TaskEnd::Failed("x".into(), error.into())))).to_string()
    }

    #[test]
    fn a_handlers_fault_is_told_as_it_is_and_no_other_tasks() {
        assert_eq!(said_of(HandlerFault("loop found".into())), "loop found");
        let named = "task \"x\" failed: plugin/x is a folder";
        assert_eq!(said_of("plugin/x is a folder"), named);
    }

    #[test]
    fn why_the_store_could_not_be_closed_is_told_in_place_of_a_writer_that_ended() {
        let said = |failed: Option<anyhow::Error>, closed: anyhow::Result<()>| {
            outcome(failed, closed).map_err(|failure| failure.to_string())
        };
        let panicked = || Err(anyhow!("it panicked"));
        let ended = || Some(anyhow::Error::new(WriterEnded));
        let same_text = || Some(anyhow!("the writer ended"));
        assert_eq!(said(ended(), panicked()), Err("it panicked".into()));
        assert_eq!(
            said(same_text(), panicked()),
            Err("the writer ended".into())
        );
        assert_eq!(said(ended(), Ok(())), Err("the writer ended".into()));
        assert_eq!(said(None, panicked()), Err("it panicked".into()));
        assert_eq!(said(None, Ok(())), Ok(()));
    }
}
