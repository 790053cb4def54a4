//! Serials that the next version of a zone must be above: secondaries' serials, and those that operators order.

use dns::Serial;
use provenance::{Cause, Operator, Verb};
use tokio::sync::oneshot;
use zone::Zone;

use crate::callers::{Released, answer};
use crate::zone_edit::ZoneDraft;

/// Who has a later serial, if no operator orders one.
const THE_SECONDARIES: &str = "the secondaries";

/// The serials that the next version must be above.
#[derive(Debug, Default)]
pub(super) struct Ahead {
    /// The latest of peers.
    of_peers: Option<Serial>,
    /// The latest that was ordered.
    ordered: Option<Serial>,
    /// The operators whose orders wait for the version.
    by: Vec<Operator>,
    /// Their callers.
    asked: Vec<oneshot::Sender<Released>>,
}

/// The later one.
fn later(known: Option<Serial>, serial: Serial) -> Option<Serial> {
    Some(known.map_or(serial, |known| known.later(serial)))
}

impl Ahead {
    /// The latest of them.
    pub(super) fn serial(&self) -> Option<Serial> {
        let both = self.of_peers.into_iter().chain(self.ordered);
        both.reduce(Serial::later)
    }

    pub(super) const fn is_some(&self) -> bool {
        self.of_peers.is_some() || self.ordered.is_some()
    }

    /// Adds the serial of a peer.
    pub(super) fn raise(&mut self, serial: Serial) {
        self.of_peers = later(self.of_peers, serial);
    }

    /// Takes an operator's order for a serial above this one.
    pub(super) fn order(
        &mut self,
        zone: &Zone,
        serial: Serial,
        by: Operator,
        asked: oneshot::Sender<Released>,
    ) {
        let own = zone.current().map(|version| version.serial);
        if let Some(own) = own.filter(|own| !serial.is_after(*own)) {
            let apex = zone.apex();
            let refusal = format!("{apex} has serial {own}, and serial {serial} is not after it");
            return answer(vec![asked], &Err(refusal));
        }
        // The next serial is above it, and no secondary would take it for a later one.
        if let Some(own) = own.filter(|own| own.up_to(serial) == Serial::MAX_STEP) {
            let (apex, most) = (zone.apex(), own.next(Serial::MAX_STEP - 1));
            let refusal =
                format!("{apex} has serial {own}, and {most} is the largest that it can go above");
            return answer(vec![asked], &Err(refusal));
        }
        self.ordered = later(self.ordered, serial);
        self.by.push(by);
        self.asked.push(asked);
    }

    /// Names the operators as causes of a version. A version without a change, which only has a later serial, has no other
    /// causes than them or the secondaries.
    pub(super) fn name(&self, mut draft: ZoneDraft) -> ZoneDraft {
        if !self.is_some() {
            return draft;
        }
        let is_empty = draft.draft.is_empty();
        if is_empty {
            draft.causes.clear();
        }
        let orders = self.by.iter().map(|by| format!("a later serial: {by}"));
        draft.causes.extend(orders.map(|order| vec![cause(&order)]));
        if is_empty && draft.causes.is_empty() {
            draft.causes.push(vec![cause(THE_SECONDARIES)]);
        }
        draft
    }

    /// Forgets what the published version is above, and answers the callers.
    pub(super) fn settle(&mut self, zone: &Zone) {
        let Some(version) = zone.current() else {
            return;
        };
        if self
            .serial()
            .is_some_and(|other| version.serial.is_after(other))
        {
            self.end(&Ok(version.serial));
        }
    }

    /// Refuses all orders. The serials of peers remain.
    pub(super) fn refuse(&mut self, refusal: String) {
        let of_peers = self.of_peers;
        self.end(&Err(refusal));
        self.of_peers = of_peers;
    }

    /// Ends all orders with this answer.
    pub(super) fn end(&mut self, result: &Released) {
        let Self { asked, .. } = std::mem::take(self);
        answer(asked, result);
    }
}

/// The cause of a version that restores the order of serials.
fn cause(text: &str) -> Cause {
    Cause::of(Verb::Restored, text)
}
