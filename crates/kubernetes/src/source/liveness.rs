//! Decides when a source is stale. Pure: it is told events and times, and returns the announcements.

use std::time::{Duration, Instant, SystemTime};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Turn {
    /// A part was disconnected for too long.
    Stale {
        since: SystemTime,
        reason: String,
    },
    Fresh,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Announced {
    Nothing,
    /// `Stale`.
    Stale,
    /// `Fresh`.
    Fresh,
}

/// A disconnected part.
#[derive(Debug, Clone)]
struct Down {
    /// The time when it was lost, for the deadline.
    since: Instant,
    wall: SystemTime,
    reason: String,
}

/// The parts of a source (its watches, or its folder), and how long each was disconnected.
#[derive(Debug)]
pub(super) struct Liveness {
    /// `None` for a connected part.
    parts: Vec<Option<Down>>,
    /// The time that a part may be disconnected.
    patience: Duration,
    announced: Announced,
}

impl Liveness {
    /// `parts` parts, all disconnected.
    pub(super) fn new(parts: usize, patience: Duration, now: Instant, wall: SystemTime) -> Self {
        let down = Down {
            since: now,
            wall,
            reason: "not read yet".to_owned(),
        };
        Self {
            parts: vec![Some(down); parts],
            patience,
            announced: Announced::Nothing,
        }
    }

    pub(super) fn live(&mut self, part: usize) {
        self.parts[part] = None;
    }

    /// Records that a part is disconnected. The time counts from its first failure in a row.
    pub(super) fn failed(&mut self, part: usize, now: Instant, wall: SystemTime, reason: String) {
        match &mut self.parts[part] {
            Some(down) => down.reason = reason,
            seen @ None => {
                *seen = Some(Down {
                    since: now,
                    wall,
                    reason,
                })
            }
        }
    }

    /// The part that has been disconnected longest.
    fn oldest(&self) -> Option<&Down> {
        self.parts.iter().flatten().min_by_key(|down| down.since)
    }

    /// The time to call [`Self::turn`] again if nothing happens before.
    pub(super) fn due(&self) -> Option<Instant> {
        match self.announced {
            Announced::Stale => None,
            Announced::Nothing | Announced::Fresh => self
                .oldest()
                .and_then(|down| down.since.checked_add(self.patience)),
        }
    }

    /// The announcement that is due now.
    pub(super) fn turn(&mut self, now: Instant) -> Option<Turn> {
        let Some(down) = self.oldest() else {
            let news = self.announced != Announced::Fresh;
            self.announced = Announced::Fresh;
            return news.then_some(Turn::Fresh);
        };
        let away = now.saturating_duration_since(down.since);
        if self.announced == Announced::Stale || away < self.patience {
            return None;
        }
        let turn = Turn::Stale {
            since: down.wall,
            reason: down.reason.clone(),
        };
        self.announced = Announced::Stale;
        Some(turn)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ops::{Clock, SystemClock};

    const PATIENCE: Duration = Duration::from_secs(10);

    #[test]
    fn fresh_only_when_every_part_is_seen() {
        let (now, wall) = (SystemClock.now(), SystemClock.wall());
        let mut liveness = Liveness::new(2, PATIENCE, now, wall);
        assert_eq!(liveness.turn(now), None);
        liveness.live(0);
        assert_eq!(liveness.turn(now), None);
        liveness.live(1);
        assert_eq!(liveness.turn(now), Some(Turn::Fresh));
        assert_eq!(liveness.turn(now), None);
        assert_eq!(liveness.due(), None);
    }

    #[test]
    fn stale_after_the_patience_and_counted_from_the_first_failure() {
        let (now, wall) = (SystemClock.now(), SystemClock.wall());
        let mut liveness = Liveness::new(1, PATIENCE, now, wall);
        liveness.live(0);
        liveness.turn(now);
        liveness.failed(0, now, wall, "refused".to_owned());
        let later = now + Duration::from_secs(9);
        liveness.failed(
            0,
            later,
            wall + Duration::from_secs(9),
            "still refused".to_owned(),
        );
        assert_eq!(liveness.turn(later), None);
        assert_eq!(liveness.due(), Some(now + PATIENCE));
        let stale = Turn::Stale {
            since: wall,
            reason: "still refused".to_owned(),
        };
        assert_eq!(liveness.turn(now + PATIENCE), Some(stale));
        assert_eq!(liveness.turn(now + PATIENCE * 2), None);
        assert_eq!(liveness.due(), None);
        liveness.live(0);
        assert_eq!(liveness.turn(now + PATIENCE * 3), Some(Turn::Fresh));
    }

    #[test]
    fn a_part_that_comes_back_in_time_is_not_mentioned() {
        let (now, wall) = (SystemClock.now(), SystemClock.wall());
        let mut liveness = Liveness::new(1, PATIENCE, now, wall);
        liveness.live(0);
        liveness.turn(now);
        liveness.failed(0, now, wall, "refused".to_owned());
        liveness.live(0);
        assert_eq!(liveness.turn(now + PATIENCE * 2), None);
    }
}
