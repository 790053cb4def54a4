//! How far the telling of one target is: what to do when, without socket or clock.

use std::time::{Duration, Instant};

use crate::NotifySettings;

/// What the state wants done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Action {
    /// Wait for a new version or an answer.
    Wait,
    /// Wait, at most until then.
    WaitUntil(Instant),
    Send,
    /// Note that a telling was given up, and ask again.
    GiveUp,
}

/// How far the telling of one target is: decides, without socket or clock.
#[derive(Debug)]
pub(super) struct Telling {
    settings: NotifySettings,
    /// There is something to tell that was not sent yet.
    pub(super) is_due: bool,
    /// When the last new version was sent for the first time.
    last_new: Option<Instant>,
    /// Tries of the telling in flight.
    pub(super) tries: u32,
    /// When the telling in flight is to be repeated.
    repeat_at: Option<Instant>,
    /// The telling was given up: only slow tries are left.
    pub(super) is_slow: bool,
    /// The place of the key that signs.
    key: usize,
    /// How many keys were refused since one was taken or a new version came.
    refusals: usize,
    /// The place of the first of these whose refusal was validly signed: the target knows it, and refuses the telling.
    known: Option<usize>,
    /// The last datagram could not be sent.
    is_stuck: bool,
}

impl Telling {
    pub(super) const fn new(settings: NotifySettings) -> Self {
        Self {
            settings,
            is_due: false,
            last_new: None,
            tries: 0,
            repeat_at: None,
            is_slow: false,
            key: 0,
            refusals: 0,
            known: None,
            is_stuck: false,
        }
    }

    /// There is a new version.
    pub(super) const fn changed(&mut self) {
        self.is_due = true;
    }

    pub(super) fn next(&self, now: Instant) -> Action {
        let new_at = self
            .last_new
            .map(|last| last + self.settings.interval)
            .filter(|_| self.is_due);
        if self.is_due && new_at.is_none_or(|at| at <= now) {
            return Action::Send;
        }
        match self.repeat_at {
            // What is in flight is out of date: the newer one goes out soon instead.
            _ if self.is_due => new_at.map_or(Action::Send, Action::WaitUntil),
            None => Action::Wait,
            Some(at) if at > now => Action::WaitUntil(at),
            Some(_) if !self.is_slow && self.tries >= self.settings.tries => Action::GiveUp,
            Some(_) => Action::Send,
        }
    }

    /// A datagram was sent, or could not be: it counts as a try. `slow`: the wait between slow tries.
    pub(super) fn sent(&mut self, now: Instant, slow: Duration) {
        if self.is_due {
            self.is_due = false;
            self.last_new = Some(now);
            self.tries = 0;
            self.is_slow = false;
            self.refusals = 0;
            self.known = None;
        }
        let wait = if self.is_slow {
            slow
        } else {
            let doubled = self.settings.first_timeout * 2_u32.saturating_pow(self.tries.min(16));
            doubled.min(self.settings.max_timeout)
        };
        self.tries += 1;
        self.repeat_at = Some(now + wait);
    }

    /// Notes whether a datagram left; whether it is news that it did not.
    pub(super) const fn left(&mut self, has_left: bool) -> bool {
        let is_news = !has_left && !self.is_stuck;
        self.is_stuck = !has_left;
        is_news
    }

    /// The telling in flight was refused: the next of so many keys is tried at once, for keys are exchanged at one
    /// end first; when each was refused, slow tries follow. They begin with the key that the target knows, which is
    /// one whose refusal was validly signed (`is_signed`).
    pub(super) fn refused(&mut self, now: Instant, slow: Duration, keys: usize, is_signed: bool) {
        if is_signed && self.known.is_none() {
            self.known = Some(self.key);
        }
        self.key = (self.key + 1) % keys.max(1);
        self.refusals += 1;
        // It hears us: what counts as silence begins anew.
        self.tries = 0;
        if self.refusals < keys {
            self.repeat_at = Some(now);
        } else {
            self.refusals = 0;
            self.key = self.known.take().unwrap_or(self.key);
            self.given_up(now, slow);
        }
    }

    /// Whether a refusal that was validly signed stands: one of a key that the target does not know says less.
    pub(super) const fn has_signed_refusal(&self) -> bool {
        self.known.is_some()
    }

    /// The place of the key that signs the next message.
    pub(super) const fn key(&self) -> usize {
        self.key
    }

    /// The telling in flight is given up; slow tries follow.
    pub(super) fn given_up(&mut self, now: Instant, slow: Duration) {
        self.is_slow = true;
        self.repeat_at = Some(now + slow);
    }

    /// The target took it, or holds the version: nothing is in flight.
    pub(super) const fn settled(&mut self) {
        self.repeat_at = None;
        self.tries = 0;
        self.is_slow = false;
        self.refusals = 0;
        self.known = None;
    }
}

#[cfg(test)]
mod tests;
