//! What goes wrong, and how it is healed.

use dns::{Name, Serial};

use std::collections::BTreeMap;
use std::time::Duration;

use crate::fault::Fault;
use crate::replica::Event;
use crate::tests::host::Micros;
use crate::tests::plan::Mishap;
use crate::tests::world::{Due, World, micros};

/// A second.
const SECOND: Micros = 1_000_000;

impl World {
    /// A time around a mean.
    fn around(&mut self, mean: Duration) -> Micros {
        self.random.u64(..=2 * micros(mean))
    }

    /// A time that is more often short than long.
    fn some_time(&mut self, most_seconds: u64) -> Micros {
        let most = self.random.u64(1..=most_seconds * SECOND);
        self.random.u64(1..=most)
    }

    /// The source changes.
    pub(super) fn change(&mut self) {
        if self.is_healed {
            return;
        }
        let wait = self.around(self.plan.change_every);
        self.after(wait, Due::Change);
        let place = self.random.usize(..self.source.len());
        if let Some(fact) = self.source.values_mut().nth(place) {
            *fact += 1;
            self.revision += 1;
        }
    }

    /// A secondary asks a replica.
    pub(super) fn refresh(&mut self, place: usize, host: Option<usize>) {
        if host.is_none() {
            let wait = self.random.u64(SECOND..4 * SECOND);
            self.after(wait, Due::Refresh(place, None));
        }
        let host = host.unwrap_or_else(|| self.random.usize(..self.hosts.len()));
        let host = &self.hosts[host];
        if host.replica.is_none() || host.paused_until > self.time {
            return;
        }
        for (zone, tip) in &host.visible {
            let Some(file) = host.disk.folder.zones.get(zone) else {
                continue;
            };
            match self.secondaries[place].refresh(zone, tip, file) {
                Ok(Some(stored)) => self
                    .judge
                    .hold(&format!("secondary {place}"), zone, &stored),
                Ok(None) => {}
                Err(text) => self.judge.blame(text),
            }
        }
    }

    /// The serials that secondaries answer with; some do not answer.
    pub(super) fn secondary_serials(&mut self) -> BTreeMap<Name, Serial> {
        let mut serials: BTreeMap<Name, Serial> = BTreeMap::new();
        for place in 0..self.secondaries.len() {
            if self.random.u32(..3) == 0 {
                continue;
            }
            for (zone, stored) in &self.secondaries[place].zones {
                let serial = stored.tip.serial;
                let known = serials.entry(zone.clone()).or_insert(serial);
                *known = known.later(serial);
            }
        }
        serials
    }

    /// Something happens.
    pub(super) fn mishap(&mut self) {
        if self.is_healed || self.plan.mishaps.is_empty() {
            return;
        }
        let wait = self.around(self.plan.mishap_every);
        self.after(wait, Due::Mishap);
        if self.calm_until > self.time {
            return;
        }
        let place = self.random.usize(..self.plan.mishaps.len());
        let mishap = self.plan.mishaps[place];
        let host = self.random.usize(..self.hosts.len());
        let copied = self.random.usize(..self.hosts.len());
        let machine = &mut self.hosts[copied];
        if machine.copy.is_none() || self.random.u32(..5) == 0 {
            machine.copy = Some(machine.disk.folder.clone());
        }
        if self.is_traced {
            println!("{} {host} !! {mishap:?}", self.time);
        }
        self.befall(mishap, host);
    }

    /// A mishap befalls a machine or everything.
    fn befall(&mut self, mishap: Mishap, host: usize) {
        let until = self.time + self.some_time(30);
        match mishap {
            Mishap::Crash => self.crash(host),
            Mishap::Pause => self.pause(host),
            Mishap::Partition => {
                let other = self.random.usize(..self.hosts.len());
                self.network.block(host, other, until);
                if self.random.u32(..3) > 0 {
                    self.network.block(other, host, until);
                }
            }
            Mishap::Isolation => {
                for other in 0..self.hosts.len() {
                    self.network.block(host, other, until);
                    self.network.block(other, host, until);
                }
            }
            Mishap::CutFromApi => self.hosts[host].cut_until = until,
            Mishap::ApiDown => self.api_down_until = until,
            Mishap::ApiSlow => self.api_slow_until = until,
            Mishap::LinkCut => self.cut_links(),
            Mishap::DiskFull => {
                self.hosts[host].disk.is_full = true;
                self.hosts[host].disk.full_until = until;
            }
            Mishap::DiskError => self.hosts[host].disk.fails = true,
            Mishap::DiskSlow => self.hosts[host].slow_until = until,
            Mishap::Wipe => self.wipe(host),
            Mishap::OldCopy => self.put_back(host),
            Mishap::ClockJump => {
                let most = [3, 600, 86_400][self.random.usize(..3)];
                self.hosts[host].wall_offset = self.random.i64(-most..=most);
            }
            Mishap::LeaseDeleted => {
                if (0..self.hosts.len()).any(|it| self.knows_all(it)) {
                    self.api.delete();
                }
            }
            Mishap::Restore => {
                // The design names this: a restored store is safe as long as the replicas hear each other.
                self.heal();
                self.calm_until = self.time + 60 * SECOND;
                self.after(20 * SECOND, Due::Restore);
            }
            Mishap::Leave => self.leave(host),
            Mishap::AcceptLoss => {
                let now = self.hosts[host].now(self.time, 0);
                let replica = self.hosts[host].replica.as_ref();
                if replica.is_some_and(|it| it.status(now.boot).lacks_eligible) {
                    self.step(host, Event::AcceptLoss);
                }
            }
            Mishap::WatchStale => self.hosts[host].stale_until = until,
            Mishap::Damage => self.damages += 1,
        }
    }

    /// A process dies, and starts after a rest.
    pub(super) fn kill(&mut self, host: usize, rest: Micros) {
        let end = self.end_of(host);
        for link in self.network.links_of(end) {
            self.send(end, link, None);
        }
        self.hosts[host].stop(&mut self.random);
        self.hosts[host].paused_until = self.time;
        self.parked[host].clear();
        let end = self.end_of(host);
        self.after(rest, Due::Start(end));
    }

    /// A process dies, and sometimes again soon.
    fn crash(&mut self, host: usize) {
        let rest = self.some_time(25);
        self.kill(host, rest);
        if self.random.u32(..3) == 0 {
            let end = self.end_of(host);
            let wait = rest + self.random.u64(..500_000);
            self.after(wait, Due::Kill(end, rest));
        }
    }

    /// A process stands still.
    fn pause(&mut self, host: usize) {
        let rest = self.some_time(45);
        self.hosts[host].paused_until = self.time + rest;
        self.after(rest, Due::Resume(host));
    }

    /// A process goes on: what came in the meantime is there at once.
    pub(super) fn resume(&mut self, host: usize) {
        if self.hosts[host].paused_until > self.time {
            return;
        }
        for due in std::mem::take(&mut self.parked[host]) {
            self.after(0, due);
        }
    }

    /// Some connections break.
    fn cut_links(&mut self) {
        for link in self.network.whole() {
            if self.random.bool() {
                self.network.cut(link, &mut self.random);
                for side in 0..2 {
                    let delay = self.some_time(3);
                    self.after(delay, Due::Deliver(link, side));
                }
            }
        }
    }

    /// Whether a disk has the highest epoch and every announced version.
    fn knows_all(&self, host: usize) -> bool {
        let highest = self.api.ceilings.keys().next_back().copied();
        let disk = &self.hosts[host].disk;
        disk.folder.vow.epoch >= highest.unwrap_or_default() && self.judge.is_whole(disk)
    }

    /// Whether a disk must not be lost: the Lease is gone, blank, or from a backup, and no other disk knows what was in it. With both lost
    /// nobody can know which serials were used.
    fn is_last_witness(&self, host: usize) -> bool {
        let lease = self.api.lease.as_ref();
        let is_certain = lease.is_some_and(|it| !it.record.is_blank()) && !self.is_restored;
        let mut others = (0..self.hosts.len()).filter(|it| *it != host);
        !is_certain && !others.any(|it| self.knows_all(it))
    }

    /// A pod starts with an empty disk.
    fn wipe(&mut self, host: usize) {
        if self.is_last_witness(host) {
            return;
        }
        let rest = self.some_time(10);
        self.kill(host, rest);
        let keeps_name = self.lacks(Fault::SameName);
        self.hosts[host].wipe(host, keeps_name);
    }

    /// An old copy of a disk is put back.
    fn put_back(&mut self, host: usize) {
        if let Some(copy) = self.hosts[host].copy.clone()
            && !self.is_last_witness(host)
        {
            let rest = self.some_time(10);
            self.kill(host, rest);
            let id = self.hosts[host].id.clone();
            self.hosts[host].disk.folder = copy;
            self.judge.damage(&id);
        }
    }

    /// A process ends as it should, and starts again.
    fn leave(&mut self, host: usize) {
        if self.hosts[host].replica.is_none() || self.hosts[host].paused_until > self.time {
            return;
        }
        let end = self.end_of(host);
        let rest = self.random.u64(100_000..3 * SECOND);
        self.hosts[host].is_leaving = true;
        let patience = if self.hosts[host].term.is_some() {
            3 * SECOND
        } else {
            0
        };
        self.step(host, Event::Leave);
        self.after(patience, Due::Kill(end, rest));
    }

    /// The API server's store is restored.
    pub(super) fn restore(&mut self) {
        if self.is_traced {
            println!("{} restored", self.time);
        }
        if !(0..self.hosts.len()).any(|it| self.knows_all(it)) {
            return;
        }
        // The API server starts again for it: no call from before arrives.
        self.forget_calls();
        self.api.restore(&mut self.random);
        self.is_restored = true;
    }

    /// Everything works again.
    pub(super) fn heal(&mut self) {
        self.network.heal();
        (self.api_down_until, self.api_slow_until) = (0, 0);
        for index in 0..self.hosts.len() {
            let host = &mut self.hosts[index];
            host.cut_until = 0;
            host.stale_until = 0;
            host.slow_until = 0;
            host.disk.is_full = false;
            host.disk.fails = false;
            host.paused_until = self.time;
            self.resume(index);
            let end = self.end_of(index);
            self.after(0, Due::Start(end));
        }
    }

    /// An operator who sees no leader lets the best replica lead.
    pub(super) fn operate(&mut self) {
        if self.hosts.iter().any(|host| host.lead.is_some()) {
            return;
        }
        let best = (0..self.hosts.len()).max_by_key(|index| {
            let disk = &self.hosts[*index].disk;
            let seqs = disk.folder.zones.values().map(|it| it.newest().age());
            (disk.folder.vow.branch, seqs.max())
        });
        if let Some(best) = best {
            self.step(best, Event::AcceptLoss);
        }
    }
}
