//! A writer that makes no versions, because another replica leads. It keeps its facts up to date, so that it can begin at once.
//!
//! Versions of the leader become current without it. When this replica leads, everything is rendered on top of the newest
//! version, as after a restart: what differs is the next version, and the gate judges it.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use dns::{Name, Serial};
use kubernetes::facts::Dirty;
use zone::Zone;

use crate::cluster::Cluster;
use crate::files::HeldFile;
use crate::{Pipeline, Store};

impl<S: Store> Pipeline<S> {
    /// Takes in what changed without a version of it: tables of synthesized names, and which sources are there.
    pub(super) fn follow(&mut self) {
        self.seen.clear();
        for cluster in &mut self.clusters {
            if cluster.state.is_synced() {
                cluster.follow();
                if cluster.handles.gauges.synced.swap(1, Ordering::Relaxed) == 0 {
                    self.observer.synced(&cluster.plan.source);
                }
            }
        }
        for (_, held) in &mut self.files {
            match held {
                HeldFile::Zone(own) => own.follow(),
                HeldFile::Etcd(own) => own.follow(),
                HeldFile::Overlay(_) => {}
            }
        }
        for catalog in &self.catalogs {
            catalog.zone.set_stale_since_ms(None);
        }
    }

    /// This replica makes versions from now on: the next commit renders everything. With `must_publish` each zone gets a
    /// version, even with the same content.
    pub(super) fn lead(&mut self, must_publish: bool) {
        self.store.lead();
        for (zone, guard) in self.guarded() {
            guard.restart(zone);
        }
        for cluster in &mut self.clusters {
            cluster.render_anew();
        }
        for (_, held) in &mut self.files {
            match held {
                HeldFile::Zone(own) => own.publish_anew(),
                HeldFile::Etcd(own) => own.render_anew(),
                HeldFile::Overlay(_) => {}
            }
        }
        for catalog in &mut self.catalogs {
            catalog.compare_anew();
        }
        if must_publish {
            let served = self.zones.all().iter().filter_map(serial_of);
            let served: Vec<(Name, Serial)> = served.collect();
            for (apex, serial) in served {
                if let Some((_, ahead)) = self.ahead_of(&apex) {
                    ahead.raise(serial);
                }
            }
        }
    }
}

/// The name and the serial of a zone that has a version.
fn serial_of(zone: &Arc<Zone>) -> Option<(Name, Serial)> {
    let version = zone.current()?;
    Some((zone.apex().clone(), version.serial))
}

impl Cluster {
    /// Brings the tables of handlers up to date, and forgets what is dirty: all of it is rendered when this replica leads.
    fn follow(&mut self) {
        self.tell_live();
        self.all_dirty = false;
        self.dirty = Dirty::default();
        self.triggered.clear();
        self.imports_dirty &= !self.state.has_imports();
        self.tell_stale();
    }

    /// Has the next commit render everything.
    fn render_anew(&mut self) {
        self.all_dirty = true;
        self.is_exact = false;
        self.imports_dirty = true;
    }
}
