//! `errors consolidate`: summarises repeated errors, in one line for each pattern and period.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use ops::Clock;
use regex::Regex;
use tokio_util::sync::CancellationToken;

use crate::config::{Consolidate, Level};

/// The interval of the checks for periods that are over.
const LOOK: Duration = Duration::from_millis(250);

/// A pattern and its count.
#[derive(Debug)]
struct Pattern {
    /// Its settings.
    of: Consolidate,
    /// The pattern.
    regex: Regex,
    /// The start of the period, and the errors since. Locked for one read or one write.
    counted: Mutex<Option<(Instant, u64)>>,
}

/// The patterns of a block.
#[derive(Debug, Default)]
pub struct Consolidated(Vec<Pattern>);

/// The fate of an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It is logged at this level.
    Logged(Level),
    /// It is counted.
    Counted,
}

impl Consolidated {
    /// The pattern's expressions were checked when the Corefile was read.
    #[must_use]
    pub fn new(all: &[Consolidate]) -> Self {
        let pattern = |of: &Consolidate| {
            Some(Pattern {
                of: of.clone(),
                regex: Regex::new(&of.pattern).ok()?,
                counted: Mutex::default(),
            })
        };
        Self(all.iter().filter_map(pattern).collect())
    }

    /// Whether there is no pattern.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Counts an error for the first pattern that matches.
    pub(crate) fn seen(&self, error: &str, now: Instant) -> Fate {
        let Some(pattern) = self.0.iter().find(|it| it.regex.is_match(error)) else {
            return Fate::Logged(Level::Error);
        };
        let mut counted = pattern
            .counted
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let (_, count) = counted.get_or_insert((now, 0));
        *count += 1;
        if *count == 1 && pattern.of.show_first {
            Fate::Logged(pattern.of.level)
        } else {
            Fate::Counted
        }
    }

    /// The summaries of periods that are over; without `now`, those of all periods.
    fn due(&self, now: Option<Instant>) -> Vec<(Level, String)> {
        let mut lines = Vec::new();
        for Pattern { of, counted, .. } in &self.0 {
            let mut counted = counted.lock().unwrap_or_else(PoisonError::into_inner);
            let is_over = |begin: Instant| {
                now.is_none_or(|now| now.saturating_duration_since(begin) >= of.period)
            };
            let Some((_, count)) = counted.take_if(|(begin, _)| is_over(*begin)) else {
                continue;
            };
            // An error that was logged itself needs no summary.
            if count > u64::from(of.show_first) {
                let (pattern, period) = (&of.pattern, &of.period_text);
                let text = format!(
                    "plugin/errors: {count} errors like '{pattern}' occurred in last {period}"
                );
                lines.push((of.level, text));
            }
        }
        lines
    }

    /// Logs summaries that are due until cancelled, then the rest.
    #[must_use]
    pub fn run(
        self: Arc<Self>,
        clock: Arc<dyn Clock>,
        cancel: CancellationToken,
    ) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            loop {
                tokio::select! {
                    () = cancel.cancelled() => break,
                    () = tokio::time::sleep(LOOK) => {}
                }
                let due = self.due(Some(clock.now()));
                due.iter().for_each(|(level, line)| log(*level, line));
            }
            let rest = self.due(None);
            rest.iter().for_each(|(level, line)| log(*level, line));
        })
    }
}

pub(crate) fn log(level: Level, line: &str) {
    match level {
        Level::Error => tracing::error!("{line}"),
        Level::Warning => tracing::warn!("{line}"),
        Level::Info => tracing::info!("{line}"),
        Level::Debug => tracing::debug!("{line}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ops::SystemClock;

    /// A pattern for five minutes.
    fn pattern(text: &str, show_first: bool) -> Consolidate {
        Consolidate {
            period: Duration::from_secs(300),
            period_text: "5m".to_owned(),
            pattern: text.to_owned(),
            level: Level::Warning,
            show_first,
        }
    }

    #[test]
    fn errors_are_summed_up_by_the_first_pattern_that_fits() {
        let all = [pattern("^2 a", false), pattern("timeout$", true)];
        let errors = Consolidated::new(&all);
        let start = SystemClock.now();
        assert_eq!(errors.seen("2 a. A: timeout", start), Fate::Counted);
        let shown = Fate::Logged(Level::Warning);
        assert_eq!(errors.seen("2 b. A: timeout", start), shown);
        assert_eq!(
            errors.seen("2 b. A: other", start),
            Fate::Logged(Level::Error)
        );
        assert_eq!(errors.due(Some(start)), []);
        let end = start + Duration::from_secs(300);
        let said = "plugin/errors: 1 errors like '^2 a' occurred in last 5m".to_owned();
        assert_eq!(errors.due(Some(end)), [(Level::Warning, said)]);
        assert_eq!(errors.due(None), []);
        assert_eq!(errors.seen("2 b. A: timeout", end), shown);
        assert_eq!(errors.seen("2 c. A: timeout", end), Fate::Counted);
        let said = "plugin/errors: 2 errors like 'timeout$' occurred in last 5m".to_owned();
        assert_eq!(errors.due(None), [(Level::Warning, said)]);
    }
}
