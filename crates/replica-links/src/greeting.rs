//! Asks all other replicas what they know.

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use replicas::ceiling::Ceiling;
use replicas::chain::{Epoch, ReplicaId};
use replicas::knowledge::Knowledge;
use replicas::replica::{Event, Token};
use tokio::time::{Instant, timeout_at};

use std::collections::BTreeSet;
use std::time::Duration;

use crate::links::{Shared, ask};
use crate::roster::Roster;

/// A question to all.
#[derive(Debug)]
pub(crate) struct Question<'a> {
    /// The replica that asks; its own answer does not count.
    pub(crate) me: &'a ReplicaId,
    /// Its address, which need not be asked.
    pub(crate) address: &'a str,
    /// The number of the question.
    pub(crate) token: Token,
    /// The epoch.
    pub(crate) epoch: Epoch,
    /// What the first serials of the epoch are above.
    pub(crate) ceiling: &'a Ceiling,
    /// How long it waits.
    pub(crate) wait: Duration,
}

/// Asks; gives the answers when all are there, or when the time is over.
pub(crate) async fn ask_all(shared: &Shared, roster: &dyn Roster, question: Question<'_>) -> Event {
    let Question {
        me,
        address,
        token,
        epoch,
        ceiling,
        wait,
    } = question;
    let end = Instant::now() + wait;
    let mut answers = Vec::new();
    let mut is_complete = false;
    match timeout_at(end, roster.addresses()).await {
        Ok(Ok(addresses)) => {
            let others: BTreeSet<String> = addresses.into_iter().collect();
            let others = others.iter().filter(|it| *it != address);
            let asked = others.map(|it| ask(shared, it, token, epoch, ceiling));
            let mut asked: FuturesUnordered<_> = asked.collect();
            is_complete = true;
            while let Ok(Some(answer)) = timeout_at(end, asked.next()).await {
                match answer {
                    Ok(knowledge) => answers.push(knowledge),
                    Err(error) => {
                        tracing::debug!(%error, "a replica did not answer");
                        is_complete = false;
                    }
                }
            }
            is_complete &= asked.is_empty();
        }
        Ok(Err(error)) => tracing::warn!(%error, "the other replicas are not known"),
        Err(_) => tracing::warn!("the other replicas are not known in time"),
    }
    answers.retain(|it: &Knowledge| it.replica != *me);
    Event::Greeted {
        token,
        answers,
        is_complete,
    }
}

#[cfg(test)]
mod tests;
