//! The supervised set of tasks: every task has a name, and none may end before shutdown.

use std::borrow::Cow;
use std::collections::HashMap;
use std::future::Future;

use tokio::task::{Id, JoinError, JoinSet};
use tokio_util::sync::CancellationToken;

use crate::panics::panic_text;

/// The name of a task.
pub type Name = Cow<'static, str>;
/// The error of a failed task.
pub type TaskError = Box<dyn std::error::Error + Send + Sync>;

/// An end of a task that ends the process.
#[derive(Debug, thiserror::Error)]
pub enum TaskEnd {
    /// It returned before the shutdown.
    #[error("task \"{0}\" ended before shutdown")]
    Early(Name),
    /// It failed.
    #[error("task \"{0}\" failed: {1}")]
    Failed(Name, TaskError),
    /// It panicked.
    #[error("task \"{0}\" panicked: {1}")]
    Panicked(Name, String),
}

/// The tasks of the process.
#[derive(Debug)]
pub struct Tasks {
    set: JoinSet<Result<(), TaskError>>,
    /// For each running task its name, and the token that ends it.
    names: HashMap<Id, (Name, CancellationToken)>,
    /// Cancelled by the shutdown.
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
    pub fn spawn<F, E>(&mut self, name: impl Into<Name>, task: F)
    where
        F: Future<Output = Result<(), E>> + Send + 'static,
        E: Into<TaskError>,
    {
        let stop = self.cancel.clone();
        self.spawn_until(name, &stop, task);
    }

    /// Starts a task that has to run until `stop` or the token of all tasks is cancelled.
    pub fn spawn_until<F, E>(&mut self, name: impl Into<Name>, stop: &CancellationToken, task: F)
    where
        F: Future<Output = Result<(), E>> + Send + 'static,
        E: Into<TaskError>,
    {
        let ended = async move { task.await.map_err(Into::into) };
        let handle = self.set.spawn(ended);
        self.names.insert(handle.id(), (name.into(), stop.clone()));
    }

    /// Waits until a task ends; `None` when there is none. An end before the task was cancelled is an error.
    pub async fn next_end(&mut self) -> Option<Result<(), TaskEnd>> {
        let joined = self.set.join_next_with_id().await?;
        Some(self.judge(joined))
    }

    fn judge(
        &mut self,
        joined: Result<(Id, Result<(), TaskError>), JoinError>,
    ) -> Result<(), TaskEnd> {
        let id = match &joined {
            Ok((id, _)) => *id,
            Err(error) => error.id(),
        };
        let (name, stop) = match self.names.remove(&id) {
            Some(known) => known,
            None => ("unknown".into(), self.cancel.clone()),
        };
        match joined {
            Ok((_, Ok(()))) if stop.is_cancelled() || self.cancel.is_cancelled() => Ok(()),
            Ok((_, Ok(()))) => Err(TaskEnd::Early(name)),
            Ok((_, Err(error))) => Err(TaskEnd::Failed(name, error)),
            Err(error) => {
                let text = match error.try_into_panic() {
                    Ok(payload) => panic_text(&*payload),
                    Err(error) => error.to_string(),
                };
                Err(TaskEnd::Panicked(name, text))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_task_with_a_token_of_its_own_ends_with_that() {
        let mut tasks = Tasks::new(CancellationToken::new());
        let stop = CancellationToken::new();
        tasks.spawn_until("short", &stop, async { Ok::<_, String>(()) });
        assert!(matches!(
            tasks.next_end().await,
            Some(Err(TaskEnd::Early(_)))
        ));
        stop.cancel();
        tasks.spawn_until("told", &stop, async { Ok::<_, String>(()) });
        assert!(matches!(tasks.next_end().await, Some(Ok(()))));
    }

    #[tokio::test]
    async fn a_task_that_ends_early_is_an_error_and_after_shutdown_it_is_none() {
        let mut tasks = Tasks::new(CancellationToken::new());
        tasks.spawn("short", async { Ok::<_, String>(()) });
        assert!(matches!(
            tasks.next_end().await,
            Some(Err(TaskEnd::Early(name))) if name == "short"
        ));
        tasks.spawn("bad", async { Err("why") });
        assert!(matches!(
            tasks.next_end().await,
            Some(Err(TaskEnd::Failed(name, _))) if name == "bad"
        ));
        tasks.spawn("boom", async {
            if tokio::task::try_id().is_some() {
                panic!("boom")
            } else {
                Ok::<_, String>(())
            }
        });
        assert!(
            matches!(tasks.next_end().await, Some(Err(TaskEnd::Panicked(_, text))) if text == "boom")
        );
        tasks.cancel().cancel();
        tasks.spawn("late", async { Ok::<_, String>(()) });
        assert!(matches!(tasks.next_end().await, Some(Ok(()))));
        assert!(tasks.next_end().await.is_none());
    }
}
