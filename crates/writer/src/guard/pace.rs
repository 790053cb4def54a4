//! The pace of a zone's versions: how many one name or one namespace may cause.
//!
//! Each version takes a serial and a place in the history, which are everybody's. So a name that changes again and again, and a
//! namespace in which something changes again and again, cause a version a second after a burst. Their changes wait for that, or
//! go out with the next version that somebody else causes. A change of a name that was quiet waits for nothing.
//!
//! A bucket is one time (the generic cell rate algorithm): each version moves it by a second, from now on at the earliest.
//! The next version may come when the time is at most the burst ahead.
//!
//! The zone's bucket is how far its serial is ahead of the clock. Two namespaces below their own pace can still move it on
//! for ever. So when it is full, the namespace that took part in most versions lately waits until it has room, or goes out
//! with the versions of others: those alone cannot fill it unless they are more than one a second.

use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

use zone::gate::Share;

use super::Key;

/// A name or a namespace causes a version in this time after its burst.
const STEP: Duration = Duration::from_secs(1);
/// A name has this part of a namespace's burst.
const OWNER_PART: u32 = 5;
/// A zone may be so many versions beyond a namespace's burst ahead of one a second. After that, namespaces that are not quiet
/// wait: so the serial stays within a minute of the clock.
const ZONE_MORE: u32 = 5;
/// The longest time that a change waits while nothing is published.
const LONGEST: Duration = Duration::from_secs(5);
/// After so many versions of the zone, the versions in which each namespace took part count half.
const HALVED_AFTER: u32 = 1024;
/// The names of one version beyond which only namespaces are counted.
const MOST_OWNERS: usize = 1000;
/// The names that are counted before those are forgotten that are quiet again.
const FEW_OWNERS: usize = 1024;

/// The versions that a zone, its namespaces and its names have caused.
#[derive(Debug, Default)]
pub(super) struct Pace {
    zone: Option<Instant>,
    /// The time of the last version.
    last: Option<Instant>,
    shares: BTreeMap<Share, Instant>,
    /// In how many of the latest versions each namespace took part.
    parts: BTreeMap<Share, u32>,
    /// The namespace that took part in most.
    most: Option<(Share, u32)>,
    /// The versions since the parts were halved.
    since_halved: u32,
    owners: HashMap<Key, Instant>,
    /// The number of names at which those that are quiet are forgotten.
    forget_at: usize,
}

impl Pace {
    /// When a change of this owner may cause a version. `burst` is the number of versions of a namespace that need no pause; 0 is
    /// no limit.
    pub(super) fn due(
        &self,
        burst: u32,
        key: &Key,
        share: Option<&Share>,
        now: Instant,
    ) -> Instant {
        let Some(share) = share.filter(|_| burst > 0) else {
            return now;
        };
        let owner = self.owners.get(key);
        let owner = owner.map_or(now, |time| free_at(*time, of_owner(burst), now));
        let busy = self.shares.get(share).filter(|time| **time > now);
        let takes_most = self.most.as_ref().is_some_and(|(most, _)| most == share);
        if busy.is_none() && !takes_most {
            return owner;
        }
        let zone = free_at(self.zone.unwrap_or(now), burst + ZONE_MORE, now);
        let at_last = self.last.map_or(now, |last| (last + LONGEST).max(now));
        let own = busy.map_or(now, |time| free_at(*time, burst, now));
        owner.max(zone.min(at_last)).max(own)
    }

    /// Counts a version that changes these owners.
    pub(super) fn count<'a>(
        &mut self,
        burst: u32,
        changes: impl Iterator<Item = (&'a Key, &'a Share)>,
        now: Instant,
    ) {
        if burst == 0 {
            return;
        }
        let zone = self.zone.unwrap_or(now).max(now) + STEP;
        self.zone = Some(zone);
        self.last = Some(now);
        let mut last: Option<&Share> = None;
        let mut counted: Vec<&Share> = Vec::new();
        for (place, (key, share)) in changes.enumerate() {
            if last != Some(share) {
                last = Some(share);
                counted.push(share);
            }
            if place < MOST_OWNERS {
                let time = self.owners.entry(key.clone()).or_insert(now);
                *time = moved(*time, of_owner(burst), now);
            }
        }
        counted.sort();
        counted.dedup();
        for share in counted {
            let time = self.shares.entry(share.clone()).or_insert(now);
            *time = moved(*time, burst, now);
            self.count_part(share);
        }
        self.since_halved += 1;
        if self.since_halved >= HALVED_AFTER {
            self.halve_parts();
        }
        if self.owners.len() > self.forget_at.max(FEW_OWNERS) {
            self.owners.retain(|_, time| *time > now);
            self.shares.retain(|_, time| *time > now);
            self.forget_at = 2 * self.owners.len();
        }
    }
}

impl Pace {
    /// Counts a version in which a namespace took part. Of two with as many, the one that had them first stays the one
    /// with most.
    fn count_part(&mut self, share: &Share) {
        let parts = self.parts.entry(share.clone()).or_default();
        *parts += 1;
        if self.most.as_ref().is_none_or(|(_, most)| *parts > *most) {
            self.most = Some((share.clone(), *parts));
        }
    }

    fn halve_parts(&mut self) {
        self.since_halved = 0;
        self.parts.retain(|_, parts| {
            *parts /= 2;
            *parts > 0
        });
        self.most = { self.most.take() }.map(|(share, parts)| (share, parts / 2));
    }
}

/// The burst of a name.
fn of_owner(burst: u32) -> u32 {
    (burst / OWNER_PART).max(1)
}

/// When a bucket has room for a version.
fn free_at(time: Instant, burst: u32, now: Instant) -> Instant {
    let earlier = STEP * burst.saturating_sub(1);
    time.checked_sub(earlier).map_or(now, |free| free.max(now))
}

/// A bucket after one more version. A version that somebody else caused takes no more than there is.
fn moved(time: Instant, burst: u32, now: Instant) -> Instant {
    (time.max(now) + STEP).min(now + STEP * burst)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ops::{Clock, HandClock};

    const BURST: u32 = 50;

    /// Names that change whenever they may, for some seconds in steps of 10 ms. Each has a namespace. Gives the number of
    /// versions, each with the names that caused it or went with it.
    fn versions(names: &[(&str, &str)], seconds: u64) -> Vec<usize> {
        let clock = HandClock::at(1_000);
        let mut pace = Pace::default();
        let names: Vec<(Key, Share)> = names
            .iter()
            .map(|(name, share)| (name.as_bytes().into(), Share::new(share)))
            .collect();
        let start = clock.now();
        let mut versions = Vec::new();
        for tick in 0..seconds * 100 {
            let now = start + Duration::from_millis(10 * tick);
            let due = |(key, share): &(Key, Share)| pace.due(BURST, key, Some(share), now) <= now;
            if names.iter().any(due) {
                let changes = names.iter().map(|(key, share)| (key, share));
                pace.count(BURST, changes, now);
                versions.push(names.len());
            }
        }
        versions
    }

    #[test]
    fn a_name_causes_ten_versions_and_then_one_a_second() {
        assert_eq!(versions(&[("a", "n")], 1).len(), 10);
        assert_eq!(versions(&[("a", "n")], 100).len(), 109);
    }

    #[test]
    fn a_namespace_causes_fifty_versions_and_then_one_a_second() {
        let clock = HandClock::at(1_000);
        let (start, share) = (clock.now(), Share::new("n"));
        let mut pace = Pace::default();
        let mut published = 0_u32;
        // Each change is of another name.
        for change in 0..10_000_u32 {
            let now = start + Duration::from_millis(10) * change;
            let key: Key = change.to_be_bytes().into();
            if pace.due(BURST, &key, Some(&share), now) <= now {
                pace.count(BURST, [(&key, &share)].into_iter(), now);
                published += 1;
            }
        }
        assert_eq!(published, 149, "in 100 seconds");
        assert!(pace.owners.len() <= 2 * FEW_OWNERS);
    }

    #[test]
    fn a_quiet_namespace_waits_for_nothing_and_a_busy_one_for_five_seconds_at_most() {
        let clock = HandClock::at(1_000);
        let now = clock.now();
        let (busy, quiet) = (Share::new("busy"), Share::new("quiet"));
        let key: Key = b"k".as_slice().into();
        let mut pace = Pace::default();
        for number in 0..1000_u32 {
            let others = Share::new(&format!("n{number}"));
            pace.count(BURST, [(&key, &others)].into_iter(), now);
        }
        pace.count(BURST, [(&key, &busy)].into_iter(), now);
        let other: Key = b"o".as_slice().into();
        assert_eq!(pace.due(BURST, &other, Some(&quiet), now), now);
        assert_eq!(pace.due(BURST, &other, None, now), now);
        assert_eq!(pace.due(BURST, &other, Some(&busy), now), now + LONGEST);
        assert_eq!(pace.due(0, &other, Some(&busy), now), now);
    }
}
