//! Peers that asked for what comes after a serial that is ahead of ours: an old copy of our disk may have come back.
//!
//! At most one report of each zone waits, so that nobody can fill memory or the writer's queue with them.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use dns::Name;
use tokio::sync::Notify;
use zone::{PeerSerial, Proof};

/// The reports that nobody has taken yet.
#[derive(Debug, Default)]
pub struct PeersAhead {
    /// The last one of each zone. The lock is held for one change.
    waiting: Mutex<BTreeMap<Name, PeerSerial>>,
    is_there: Notify,
}

impl PeersAhead {
    /// Reports a peer. It replaces an earlier report of the zone, unless that has more proof.
    pub fn report(&self, report: PeerSerial) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let is_signed = |it: &PeerSerial| it.proof == Proof::Signature;
        let stays = waiting.get(&report.zone).is_some_and(|old| {
            is_signed(old) && !is_signed(&report) || report.proof == Proof::Nothing
        });
        if !stays {
            waiting.insert(report.zone.clone(), report);
            self.is_there.notify_one();
        }
    }

    /// Waits for reports and takes them.
    pub async fn take(&self) -> Vec<PeerSerial> {
        self.is_there.notified().await;
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut *waiting).into_values().collect()
    }
}

#[cfg(test)]
mod tests {
    use dns::Serial;
    use dns::testing::name;

    use super::*;

    #[tokio::test]
    async fn one_report_of_a_zone_waits_and_a_forged_one_does_not_replace_it() {
        let ahead = PeersAhead::default();
        let report = |zone, serial, proof| {
            ahead.report(PeerSerial {
                zone: name(zone),
                peer: "192.0.2.1:53".parse().unwrap(),
                serial: Serial::decode(serial),
                proof,
            });
        };
        report("a.", 1, Proof::Nothing);
        report("b.", 2, Proof::Exchange);
        report("b.", 3, Proof::Signature);
        report("b.", 4, Proof::Exchange);
        report("b.", 5, Proof::Nothing);
        let taken = ahead.take().await;
        let serials: Vec<u32> = taken.iter().map(|it| it.serial.encode()).collect();
        assert_eq!(serials, [1, 3]);
    }
}
