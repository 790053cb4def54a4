//! `cancel [TIMEOUT]`: how long the handlers behind have for a query.

use std::time::Duration;

use corefile::parser::Statement;
use corefile::place::Report;
use corefile::quantity::go_duration;
use dns::{Name, Rcode};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use server::chain::{Handler, Next};
use server::message::{Outcome, Question, Request};

use crate::config::block::{Directive, Repeat, Role, ServerBlock};
use crate::handlers::chain::{BuildError, Chain};

/// The time unless written, CoreDNS's: clients give up after five seconds.
const TIMEOUT: Duration = Duration::from_millis(5001);

/// The directive, and its handler: how long the handlers behind have.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Cancel(Duration);

impl Directive for Cancel {
    const WORD: &'static str = "cancel";
    const USAGE: &'static str = "cancel [TIMEOUT]";
    const SUMMARY: &'static str = "SERVFAIL for queries that take longer, 5001ms unless given";
    const REPEAT: Repeat = Repeat::Joined(Some("the last counts"));
    const ROLE: Role = Role::Shapes;

    fn read(directive: &Statement, _: &[Name], report: &mut Report) -> Option<Self> {
        directive.refuse_options(report);
        let timeout = match directive.at_most_one(report) {
            None => TIMEOUT,
            Some(token) => match go_duration(&token.text) {
                Ok(timeout) if !timeout.is_zero() => timeout,
                Ok(_) | Err(_) => {
                    let message = format!("cancel: {} is no time", token.shown());
                    report.error(&token.place, message, "write a time such as 2s or 500ms");
                    TIMEOUT
                }
            },
        };
        Some(Self(timeout))
    }

    fn add_handlers(&self, _: &ServerBlock, chain: &mut Chain<'_>) -> Result<(), BuildError> {
        chain.add(*self);
        Ok(())
    }
}

impl Handler for Cancel {
    fn name(&self) -> &'static str {
        Self::WORD
    }

    fn passes(&self, _: &Question<'_>) -> bool {
        // Zones answer at once.
        true
    }

    fn answer<'a>(&'a self, request: &'a mut Request, next: Next) -> BoxFuture<'a, Outcome> {
        async move {
            let in_time = tokio::time::timeout(self.0, next.run(request)).await;
            in_time.unwrap_or_else(|_| {
                let error = "context deadline exceeded";
                Outcome::failed(Self::WORD, Rcode::SERVFAIL, error)
            })
        }
        .boxed()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use server::testing::{Counting, chain, request, text};

    use super::*;

    /// Answers after a time.
    struct Slow(Duration);

    impl Handler for Slow {
        fn name(&self) -> &'static str {
            "slow"
        }

        fn passes(&self, _: &Question<'_>) -> bool {
            false
        }

        fn answer<'a>(&'a self, request: &'a mut Request, next: Next) -> BoxFuture<'a, Outcome> {
            async move {
                tokio::time::sleep(self.0).await;
                next.run(request).await
            }
            .boxed()
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_takes_too_long_is_a_failure() {
        for (millis, want) in [
            (5000, "NOERROR | a.test. 300 IN A 10.0.0.1"),
            (5002, "SERVFAIL: context deadline exceeded"),
        ] {
            let slow = Arc::new(Slow(Duration::from_millis(millis)));
            let counting = Arc::new(Counting::default());
            let server = chain(vec![Arc::new(Cancel(TIMEOUT)), slow], vec![counting]);
            let outcome = server.answer(&mut request("a.test. A")).await;
            assert_eq!(text(&outcome, 1), want);
        }
    }
}
