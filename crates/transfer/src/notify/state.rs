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
    /// Whether a version has not been announced yet.
    pub(super) is_due: bool,
    /// The time at which the last new version was first sent.
    last_new: Option<Instant>,
    /// Tries of the current NOTIFY.
    pub(super) tries: u32,
    /// The time of the next try.
    repeat_at: Option<Instant>,
    /// Whether the NOTIFY was given up and only slow tries are left.
    pub(super) is_slow: bool,
    /// The index of the key that signs.
    key: usize,
    /// The number of keys refused since one was accepted or a new version came.
    refusals: usize,
    /// The first of these keys whose refusal was signed: the target knows the key, and refuses the NOTIFY.
    known: Option<usize>,
    /// Whether the last datagram could not be sent.
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

    /// Notes a try: a datagram that was sent or could not be sent. `slow` is the wait between slow tries.
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

    /// Notes whether a datagram was sent. Returns whether it is the first one that was not.
    pub(super) const fn left(&mut self, has_left: bool) -> bool {
        let is_news = !has_left && !self.is_stuck;
        self.is_stuck = !has_left;
        is_news
    }

    /// Notes that the NOTIFY was refused. The next of the `keys` is tried at once, because keys are exchanged at one
    /// end first. When all were refused, slow tries follow. They begin with a key that the target knows: one with a
    /// validly signed refusal (`is_signed`).
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

    /// The index of the key that signs the next message.
    pub(super) const fn key(&self) -> usize {
        self.key
    }

    /// Gives the NOTIFY up; slow tries follow.
    pub(super) fn given_up(&mut self, now: Instant, slow: Duration) {
        self.is_slow = true;
        self.repeat_at = Some(now + slow);
    }

    /// Notes that the target accepted the NOTIFY, or has the version.
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
