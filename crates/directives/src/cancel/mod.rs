//! `cancel [TIMEOUT]`: the time limit of the handlers after it.

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

/// The default, as in CoreDNS: clients give up after five seconds.
const TIMEOUT: Duration = Duration::from_millis(5001);

/// The directive and its handler, with the time limit of the handlers after it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Cancel(Duration);

impl Directive for Cancel {
    const WORD: &'static str = "cancel";
    const USAGE: &'static str = "cancel [TIMEOUT]";
    const SUMMARY: &'static str = "answers SERVFAIL to queries that take longer, 5001ms by default";
    const REPEAT: Repeat = Repeat::Joined(Some("the last counts"));
    const ROLE: Role = Role::Shapes;

    fn read(directive: &Statement, _: &[Name], report: &mut Report) -> Option<Self> {
        directive.refuse_options(report);
        let timeout = match directive.at_most_one(report) {
            None => TIMEOUT,
            Some(token) => match go_duration(&token.text) {
                Ok(timeout) if !timeout.is_zero() => timeout,
                Ok(_) | Err(_) => {
                    let message = format!("cancel: {} is not a duration", token.shown());
                    report.error(
                        &token.place,
                        message,
                        "write a duration such as 2s or 500ms",
                    );
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
        // Zones answer without waiting.
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
    use crate::config::{Overrides, parse_text};

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

    #[test]
    fn a_time_is_longer_than_nothing() {
        for (words, want) in [
            ("cancel", Ok(TIMEOUT)),
            ("cancel 2s", Ok(Duration::from_secs(2))),
            ("cancel soon", Err("cancel: 'soon' is not a duration")),
            ("cancel 0", Err("cancel: '0' is not a duration")),
            ("cancel 0s", Err("cancel: '0s' is not a duration")),
        ] {
            let text = format!(". {{\n{words}\n}}\n");
            let read = parse_text("Corefile", &text, &Overrides::default(), &|_| None);
            let read = match &read {
                Ok(loaded) => Ok(loaded.config.servers[0].get::<Cancel>().unwrap().0),
                Err(rejected) => Err(rejected.problems[0].message.as_str()),
            };
            assert_eq!(read, want, "{words}");
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
