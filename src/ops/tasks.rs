//! The supervised set of tasks: every task has a name, and none may end before shutdown.

use std::any::Any;
use std::collections::HashMap;
use std::future::Future;

use tokio::task::{Id, JoinError, JoinSet};
use tokio_util::sync::CancellationToken;

/// Why a task is no more.
#[derive(Debug, thiserror::Error)]
pub enum TaskEnd {
    /// It returned although nobody asked it to.
    #[error("task \"{0}\" ended before shutdown")]
    Early(&'static str),
    /// It failed.
    #[error("task \"{0}\" failed: {1}")]
    Failed(&'static str, String),
    /// It panicked.
    #[error("task \"{0}\" panicked: {1}")]
    Panicked(&'static str, String),
}

/// The tasks of the process.
#[derive(Debug)]
pub struct Tasks {
    /// The running tasks.
    set: JoinSet<(&'static str, Result<(), String>)>,
    /// The tasks' names, for those that panic.
    names: HashMap<Id, &'static str>,
    /// Cancelled when the process is to end.
    cancel: CancellationToken,
}

impl Tasks {
    /// An empty set whose tasks watch this token.
    #[must_use]
    pub fn new(cancel: CancellationToken) -> Self {
        Self {
            set: JoinSet::new(),
            names: HashMap::new(),
            cancel,
        }
    }

    /// The token that tasks watch.
    #[must_use]
    pub const fn cancel(&self) -> &CancellationToken {
        &self.cancel
    }

    /// Starts a task. It has to run until the token is cancelled.
    pub fn spawn<F, E>(&mut self, name: &'static str, task: F)
    where
        F: Future<Output = Result<(), E>> + Send + 'static,
        E: std::fmt::Display,
    {
        let handle = self
            .set
            .spawn(async move { (name, task.await.map_err(|error| error.to_string())) });
        self.names.insert(handle.id(), name);
    }

    /// Waits until a task ends. Before shutdown any end is an error; afterwards `None` once all ended.
    pub async fn next_end(&mut self) -> Option<Result<(), TaskEnd>> {
        let joined = self.set.join_next().await?;
        Some(self.judge(joined))
    }

    /// Whether an end was in order.
    fn judge(
        &self,
        joined: Result<(&'static str, Result<(), String>), JoinError>,
    ) -> Result<(), TaskEnd> {
        match joined {
            Ok((_, Ok(()))) if self.cancel.is_cancelled() => Ok(()),
            Ok((name, Ok(()))) => Err(TaskEnd::Early(name)),
            Ok((name, Err(error))) => Err(TaskEnd::Failed(name, error)),
            Err(error) => {
                let name = self.names.get(&error.id()).copied().unwrap_or("unknown");
                let text = match error.try_into_panic() {
                    Ok(payload) => panic_text(&*payload),
                    Err(error) => error.to_string(),
                };
                Err(TaskEnd::Panicked(name, text))
            }
        }
    }
}

/// What a panic said.
#[must_use]
pub fn panic_text(payload: &(dyn Any + Send)) -> String {
    payload
        .downcast_ref::<&str>()
        .map(ToString::to_string)
        .or_else(|| payload.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "no text".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_task_that_ends_early_is_an_error_and_after_shutdown_it_is_none() {
        let mut tasks = Tasks::new(CancellationToken::new());
        tasks.spawn("short", async { Ok::<_, String>(()) });
        assert!(matches!(
            tasks.next_end().await,
            Some(Err(TaskEnd::Early("short")))
        ));
        tasks.spawn("bad", async { Err("why") });
        assert!(matches!(
            tasks.next_end().await,
            Some(Err(TaskEnd::Failed("bad", _)))
        ));
        tasks.spawn("boom", async {
            if tokio::task::try_id().is_some() {
                panic!("boom")
            } else {
                Ok::<_, String>(())
            }
        });
        assert!(
            matches!(tasks.next_end().await, Some(Err(TaskEnd::Panicked("boom", text))) if text == "boom")
        );
        tasks.cancel().cancel();
        tasks.spawn("late", async { Ok::<_, String>(()) });
        assert!(matches!(tasks.next_end().await, Some(Ok(()))));
        assert!(tasks.next_end().await.is_none());
    }
}
