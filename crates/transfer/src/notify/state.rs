//! The state of notifying one target. Decides without socket or clock.

use std::time::{Duration, Instant};

use crate::NotifySettings;

/// The next action.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Action {
    /// Wait for a new version or an answer.
    Wait,
    /// Wait, at most until then.
    WaitUntil(Instant),
    Send,
    /// Report the failure, and continue with slow tries.
    GiveUp,
}

/// The state of notifying one target.
#[derive(Debug)]
pub(super) struct NotifyState {
    settings: NotifySettings,
    /// There is a version that was not announced yet.
    pub(super) is_due: bool,
    /// When the last new version was sent for the first time.
    last_new: Option<Instant>,
    /// Tries of the current NOTIFY.
    pub(super) tries: u32,
    /// The time of the next try.
    repeat_at: Option<Instant>,
    /// The NOTIFY was given up: only slow tries are left.
    pub(super) is_slow: bool,
    /// The place of the key that signs.
    key: usize,
    /// How many keys were refused since one was taken or a new version came.
    refusals: usize,
    /// The first of these keys whose refusal was signed: the target knows the key, and refuses the NOTIFY.
    known: Option<usize>,
    /// The last datagram could not be sent.
    is_stuck: bool,
}

impl NotifyState {
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
            // The current NOTIFY is out of date: the newer version is announced soon instead.
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

    /// The NOTIFY was refused. The next of the `keys` is tried at once, because keys are exchanged at one end first.
    /// When all were refused, slow tries follow. They begin with a key that the target knows, one with a validly
    /// signed refusal (`is_signed`).
    pub(super) fn refused(&mut self, now: Instant, slow: Duration, keys: usize, is_signed: bool) {
        if is_signed && self.known.is_none() {
            self.known = Some(self.key);
        }
        self.key = (self.key + 1) % keys.max(1);
        self.refusals += 1;
        // The target answers, so the count of unanswered tries starts again.
        self.tries = 0;
        if self.refusals < keys {
            self.repeat_at = Some(now);
        } else {
            self.refusals = 0;
            self.key = self.known.take().unwrap_or(self.key);
            self.given_up(now, slow);
        }
    }

    /// Whether a validly signed refusal was received. Refusals of keys that the target does not know mean less.
    pub(super) const fn has_signed_refusal(&self) -> bool {
        self.known.is_some()
    }

    /// The place of the key that signs the next message.
    pub(super) const fn key(&self) -> usize {
        self.key
    }

    /// Gives the NOTIFY up; slow tries follow.
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
