//! What status, `/ready` and the metrics read of the running parts.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock, PoisonError};

use dns::{Name, Rcode, Serial};
use history::{AheadLine, ResetLine, SandboxLine, SecondaryLine, SourceLine, Status, ZoneLine};
use kubernetes::source::ErrorClass;
use ops::metrics as m;
use ops::metrics::{Metric, Sample};
use ops::{Clock, millis};
use provenance::Operator;
use server::{Common, Proto, RCODES, Stats};
use transfer::TransferOutcome;
use transfer::{Lag, SecondaryStatus, SecondaryTable, TransferKind};
use zone::Zone;
use zone::gate::Why;

use crate::plan::clusters::PlannedCluster;
use crate::runtime::archiver::{ArchiveState, ArchiveStates};
use crate::runtime::deployment::{DeployedCluster, Deployment};
use crate::runtime::note_board::NoteBoard;
use crate::runtime::replicas::Role;
use crate::runtime::state_folder::StateFolder;
use crate::runtime::status::{ListeningNow, zone_line};
use crate::runtime::troubles::{PeerAhead, Troubles};

/// What is not ready on a replica that is behind.
const BEHIND: &str = "this replica, which is behind the leader";

/// Handles on all parts that can be looked at.
pub(crate) struct Observed {
    /// Zones, sources and files.
    pub(crate) deployment: Arc<Deployment>,
    /// What all servers share: counters, secondaries.
    common: Common,
    /// What is wrong now.
    pub(crate) troubles: Arc<Troubles>,
    /// How the archives stand. The lock protects the map for one change or one reading.
    pub(crate) archives: ArchiveStates,
    /// The sockets on which the server listens.
    listening: ListeningNow,
    /// The places that get signed notes.
    notes: Arc<NoteBoard>,
    /// The time.
    clock: Arc<dyn Clock>,
    /// The state folder.
    state: StateFolder,
    /// What the process may no longer do.
    sandbox: SandboxLine,
    /// Who leads, if this is one of several replicas.
    role: Arc<OnceLock<Arc<Role>>>,
}

/// The parts that outlast a reload.
#[derive(Clone, Copy)]
pub(crate) struct ObservedParts<'a> {
    /// What all servers share.
    pub(crate) common: &'a Common,
    /// The sockets on which the server listens.
    pub(crate) listening: &'a ListeningNow,
    /// The places that get signed notes.
    pub(crate) notes: &'a Arc<NoteBoard>,
}

impl Observed {
    /// Handles on what is planned and bound.
    pub(crate) fn new(
        deployment: &Arc<Deployment>,
        parts: ObservedParts<'_>,
        clock: &Arc<dyn Clock>,
        state: &StateFolder,
        sandbox: SandboxLine,
    ) -> Self {
        let ObservedParts {
            common,
            listening,
            notes,
        } = parts;
        Self {
            deployment: Arc::clone(deployment),
            common: common.clone(),
            troubles: Arc::default(),
            archives: Arc::default(),
            listening: Arc::clone(listening),
            notes: Arc::clone(notes),
            clock: Arc::clone(clock),
            state: state.clone(),
            sandbox,
            role: Arc::default(),
        }
    }

    /// The same parts around another deployment.
    pub(crate) fn around(&self, deployment: &Arc<Deployment>) -> Self {
        Self {
            deployment: Arc::clone(deployment),
            common: self.common.clone(),
            troubles: Arc::clone(&self.troubles),
            archives: Arc::clone(&self.archives),
            listening: Arc::clone(&self.listening),
            notes: Arc::clone(&self.notes),
            clock: Arc::clone(&self.clock),
            state: self.state.clone(),
            sandbox: self.sandbox.clone(),
            role: Arc::clone(&self.role),
        }
    }

    /// How the archives stand now.
    fn archive_states(&self) -> BTreeMap<Name, ArchiveState> {
        let states = self.archives.lock();
        states.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The state folder.
    pub(crate) const fn state(&self) -> &StateFolder {
        &self.state
    }

    /// This is one of several replicas.
    pub(crate) fn set_role(&self, role: &Arc<Role>) {
        let is_first = self.role.set(Arc::clone(role)).is_ok();
        debug_assert!(is_first, "a process is one replica");
    }

    /// Lets this replica lead, by the word of an operator.
    ///
    /// # Errors
    /// Why it may not.
    pub(crate) async fn promote(&self, by: &Operator) -> Result<(), String> {
        match self.role.get() {
            Some(role) => role.promote(by).await,
            None => Err("this server is not one of several replicas: it always leads".to_owned()),
        }
    }

    /// Whether this replica is behind the one that leads, by proof of the API server. Another one is better then.
    pub(crate) fn is_behind(&self) -> bool {
        let status = self.role.get().and_then(|role| role.status());
        status.is_some_and(|(_, status)| status.is_behind)
    }

    /// The zones that have no version yet. Those of ServiceImports that are known to be away hold
    /// nobody up: the cluster's other zones go on. Nor do catalogs: they follow the zones.
    pub(crate) fn not_ready(&self) -> Vec<String> {
        let is_given_up = |apex: &Name| {
            self.sources().any(|(cluster, deployed)| {
                let mut zones = cluster.plan.dispensable_zones();
                let gauges = &deployed.handles.gauges;
                let is_away = gauges.imports_stale_since_ms.load(Ordering::Relaxed) > 0;
                is_away && zones.any(|zone| zone.name == *apex)
            })
        };
        let Deployment { plan, zones, .. } = &*self.deployment;
        let missing = zones
            .all()
            .iter()
            .filter(|zone| zone.current().is_none() && !is_given_up(zone.apex()))
            .filter(|zone| plan.catalog(zone.apex()).is_none());
        let missing = missing.map(|zone| zone.apex().to_string());
        let behind = self.is_behind().then(|| BEHIND.to_owned());
        missing.chain(behind).collect()
    }

    /// The clusters, each with its handles.
    fn sources(&self) -> impl Iterator<Item = (&PlannedCluster, &DeployedCluster)> {
        let clusters = self.deployment.plan.clusters.iter();
        clusters.map(|cluster| (cluster, self.deployment.cluster(cluster)))
    }

    /// What is known of the secondaries.
    pub(crate) const fn secondary_table(&self) -> &Arc<SecondaryTable> {
        &self.common.secondaries
    }

    /// The distance of a secondary to the current version. One that never asked for a catalog is not behind: not every
    /// server uses catalogs.
    fn lag_of(&self, secondary: &SecondaryStatus) -> Option<Lag> {
        let Deployment { plan, zones, .. } = &*self.deployment;
        let has_asked = secondary.request.is_some() || secondary.serial.is_some();
        if !has_asked && plan.catalog(&secondary.zone).is_some() {
            return None;
        }
        let version = zones.get(&secondary.zone)?.current()?;
        Some(secondary.lag(&version))
    }

    /// All secondaries.
    fn secondaries(&self) -> Vec<SecondaryStatus> {
        self.common.secondaries.snapshot()
    }
}

/// How the source of a cluster stands.
fn source_line((cluster, deployed): (&PlannedCluster, &DeployedCluster)) -> SourceLine {
    let gauges = &deployed.handles.gauges;
    let stale_since_ms = gauges.stale_since_ms.load(Ordering::Relaxed);
    let objects = gauges.counts();
    SourceLine {
        source: cluster.plan.source.clone(),
        synced: gauges.synced.load(Ordering::Relaxed) == 1,
        stale_since_ms: Some(stale_since_ms).filter(|since| *since > 0),
        objects: objects
            .map(|(kind, count)| (kind.to_string(), count))
            .collect(),
    }
}

/// How things stand.
pub(crate) fn status(observed: &Observed) -> Status {
    let now_ms = millis(observed.clock.wall());
    let secondary_line = |secondary: SecondaryStatus| {
        let lag = observed.lag_of(&secondary);
        let asked = secondary.request.map(|(_, time)| millis(time));
        let denied = secondary.denied.as_ref().map(|(_, time)| millis(*time));
        SecondaryLine {
            asked_seconds: asked.map(|asked| now_ms.saturating_sub(asked) / 1000),
            asked_with: secondary.request_key.as_ref().map(ToString::to_string),
            denied_seconds: denied.map(|at| now_ms.saturating_sub(at) / 1000),
            zone: secondary.zone.to_string(),
            secondary: secondary.target.to_string(),
            told: secondary.notified.map(|(serial, _)| serial.encode()),
            acknowledged: secondary.accepted().map(Serial::encode),
            refused: secondary
                .refused()
                .map(|(serial, rcode)| format!("{serial} ({rcode})")),
            took: secondary.serial.map(Serial::encode),
            by: secondary.transfer.map(|(kind, _)| kind.as_str().to_owned()),
            lag_versions: lag.and_then(|lag| lag.versions),
            lag_seconds: lag.map(|lag| lag.ms(now_ms) / 1000),
            denied: secondary.denied.map(|(reason, _)| reason),
        }
    };
    let Deployment { plan, zones, .. } = &*observed.deployment;
    let sources = observed.sources();
    let mut problems: Vec<String> = sources
        .flat_map(|(_, deployed)| deployed.stats.problems())
        .collect();
    problems.extend(observed.state.temporary.clone());
    problems.extend(observed.troubles.texts());
    let files = plan.files.iter();
    problems.extend(files.flat_map(|file| observed.deployment.file(file).stats.problems()));
    let peers = observed.troubles.peers.lock().clone();
    let archives = observed.archive_states();
    let zone_line_of = |zone: &Arc<Zone>| ZoneLine {
        archive: archives.get(zone.apex()).map(|state| state.line.clone()),
        ahead: peers
            .get(zone.apex())
            .and_then(|peer| ahead_line(zone, peer)),
        reset: reset_line(zone, &observed.common.secondaries, now_ms),
        ..zone_line(zone)
    };
    Status {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        sandbox: Some(observed.sandbox.clone()),
        replica: observed.role.get().and_then(|role| role.line()),
        listeners: observed.listening.load().to_vec(),
        zones: zones.all().iter().map(zone_line_of).collect(),
        sources: observed.sources().map(source_line).collect(),
        secondaries: observed
            .secondaries()
            .into_iter()
            .map(secondary_line)
            .collect(),
        problems,
        notes: observed.notes.lines(),
    }
}

/// A peer that has a later serial than a zone still.
fn ahead_line(zone: &Zone, peer: &PeerAhead) -> Option<AheadLine> {
    let version = zone.current();
    let is_past = version.is_some_and(|version| peer.serial <= version.serial);
    (!is_past).then(|| AheadLine {
        serial: peer.serial.encode(),
        peer: peer.peer.to_string(),
        is_followed: peer.is_followed,
    })
}

/// A reset of a zone's serial that keeps the next serial from taking the clock.
fn reset_line(zone: &Zone, secondaries: &SecondaryTable, now_ms: u64) -> Option<ResetLine> {
    let version = zone.current()?;
    let left = version.left_behind.filter(|left| !left.is_over(now_ms))?;
    let clock = Serial::from_wall(now_ms / 1000);
    let is_held_back = clock.is_after(version.serial) && !clock.is_after(left.serial);
    (is_held_back && !secondaries.have_followed(&version)).then(|| ResetLine {
        from: left.serial.encode(),
        to: left.reset.encode(),
        until_ms: left.until_ms,
    })
}

/// A whole number as a metric's value.
#[allow(
    clippy::cast_precision_loss,
    reason = "counters beyond 2^53 lose their last digits"
)]
const fn number(value: u64) -> f64 {
    value as f64
}

/// The values that are read at scrape.
pub(crate) fn samples(observed: &Observed) -> Vec<Sample> {
    let mut out = vec![Sample::new(
        m::BUILD_INFO,
        &[env!("CARGO_PKG_VERSION")],
        1.0,
    )];
    zone_samples(observed, &mut out);
    for (zone, state) in observed.archive_states() {
        let zone = zone.to_string();
        for (metric, value) in [
            (m::ARCHIVE_WAITING, state.line.waiting),
            (m::ARCHIVE_SEGMENTS, state.segments),
            (m::ARCHIVE_FAILURES, state.failures),
        ] {
            out.push(Sample::new(metric, &[&zone], number(value)));
        }
    }
    source_samples(observed, &mut out);
    secondary_samples(observed, &mut out);
    server_samples(observed, &mut out);
    observed.notes.samples(&mut out);
    out.push(Sample::new(
        m::STORE_BYTES,
        &[],
        number(folder_octets(&observed.state.path)),
    ));
    let is_temporary = u64::from(observed.state.temporary.is_some());
    out.push(Sample::new(m::STATE_TEMPORARY, &[], number(is_temporary)));
    out
}

/// The zones' values.
fn zone_samples(observed: &Observed, out: &mut Vec<Sample>) {
    for zone in observed.deployment.zones.all() {
        let name = zone.apex().to_string();
        let stale = if zone.stale_since_ms().is_some() {
            1.0
        } else {
            0.0
        };
        out.push(Sample::new(m::ZONE_STALE, &[&name], stale));
        let count = observed.troubles.warnings_of(zone.apex());
        out.push(Sample::new(
            m::ZONE_WARNINGS,
            &[&name],
            number(count as u64),
        ));
        let held = zone.held();
        let (lost, namespaces) = match held.as_deref().map(|held| &held.why) {
            Some(Why::Shrinks { lost, before: _ }) => (*lost as u64, 0),
            Some(Why::SharesShrink(shares)) => {
                let lost: usize = shares.iter().map(|it| it.loss.lost).sum();
                (lost as u64, shares.len() as u64)
            }
            Some(Why::Unsound { .. } | Why::OnHold { .. }) | None => (0, 0),
        };
        out.push(Sample::new(m::ZONE_HELD_RECORDS, &[&name], number(lost)));
        let namespaces = number(namespaces);
        out.push(Sample::new(m::ZONE_HELD_NAMESPACES, &[&name], namespaces));
        for (label, is_so) in [
            (
                "frozen",
                zone.hold().is_some_and(|hold| hold.rollback.is_none()),
            ),
            (
                "rolled_back",
                zone.hold().is_some_and(|hold| hold.rollback.is_some()),
            ),
        ] {
            let is_so = u64::from(is_so);
            out.push(Sample::new(m::ZONE_ORDERED, &[&name, label], number(is_so)));
        }
        // What an operator ordered to wait is no alarm: `zonewright_zone_ordered` says it.
        let held = held.is_some_and(|held| !matches!(held.why, Why::OnHold { .. }));
        let held = u64::from(held);
        out.push(Sample::new(m::ZONE_HELD, &[&name], number(held)));
        let Some(version) = zone.current() else {
            continue;
        };
        let contents = &version.contents;
        for (metric, value) in [
            (m::ZONE_SERIAL, u64::from(version.serial.encode())),
            (m::ZONE_VERSION_SECONDS, version.time_ms / 1000),
            (m::ZONE_RECORDS, contents.record_count() as u64),
            (m::ZONE_OWNERS, contents.owner_count() as u64),
            (m::ZONE_BYTES, contents.wire_octets() as u64),
            (m::ZONE_HISTORY_STEPS, version.history.len() as u64),
            (m::ZONE_HISTORY_BYTES, version.history_octets() as u64),
        ] {
            out.push(Sample::new(metric, &[&name], number(value)));
        }
        if let Some(end) = version.signatures_end() {
            let end = number(u64::from(end));
            out.push(Sample::new(m::ZONE_SIGNATURES_END, &[&name], end));
        }
    }
}

/// The sources' values.
fn source_samples(observed: &Observed, out: &mut Vec<Sample>) {
    let now_ms = millis(observed.clock.wall());
    for (cluster, DeployedCluster { stats, handles }) in observed.sources() {
        let (name, gauges) = (cluster.plan.source.as_str(), &handles.gauges);
        let synced = gauges.synced.load(Ordering::Relaxed);
        out.push(Sample::new(m::SOURCE_SYNCED, &[name], number(synced)));
        let problems = number(stats.problem_count() as u64);
        out.push(Sample::new(m::SOURCE_PROBLEMS, &[name], problems));
        let since_ms = gauges.stale_since_ms.load(Ordering::Relaxed);
        let away_ms = if since_ms == 0 {
            0
        } else {
            now_ms.saturating_sub(since_ms).max(1)
        };
        out.push(Sample::new(
            m::SOURCE_STALE_SECONDS,
            &[name],
            number(away_ms) / 1000.0,
        ));
        for (kind, count) in gauges.counts() {
            let of_kind = stats.kind(kind);
            let errors: u64 = ErrorClass::ALL
                .iter()
                .map(|class| of_kind.errors(*class))
                .sum();
            for (metric, value) in [
                (m::SOURCE_OBJECTS, count),
                (m::SOURCE_EVENTS, of_kind.events()),
                (m::SOURCE_LISTS, of_kind.lists()),
                (m::SOURCE_ERRORS, errors),
                (m::SOURCE_MALFORMED, of_kind.left_out()),
            ] {
                out.push(Sample::new(metric, &[name, kind.as_str()], number(value)));
            }
        }
    }
}

/// The secondaries' values.
fn secondary_samples(observed: &Observed, out: &mut Vec<Sample>) {
    let now_ms = millis(observed.clock.wall());
    for secondary in observed.secondaries() {
        let zone = secondary.zone.to_string();
        let target = secondary.target.to_string();
        let labels = [zone.as_str(), target.as_str()];
        if let Some(serial) = secondary.serial {
            let serial = number(u64::from(serial.encode()));
            out.push(Sample::new(m::SECONDARY_SERIAL, &labels, serial));
        }
        let Some(lag) = observed.lag_of(&secondary) else {
            continue;
        };
        let heard = millis(secondary.request.map_or(secondary.since, |(_, time)| time));
        let silent = number(now_ms.saturating_sub(heard)) / 1000.0;
        out.push(Sample::new(m::SECONDARY_SILENT_SECONDS, &labels, silent));
        if let Some(versions) = lag.versions {
            let versions = number(versions);
            out.push(Sample::new(m::SECONDARY_LAG_VERSIONS, &labels, versions));
        }
        let seconds = number(lag.ms(now_ms)) / 1000.0;
        out.push(Sample::new(m::SECONDARY_LAG_SECONDS, &labels, seconds));
    }
}

/// The servers' values, summed over all.
fn server_samples(observed: &Observed, out: &mut Vec<Sample>) {
    let sum = |of: &dyn Fn(&Stats) -> u64| number(of(&observed.common.stats));
    for (proto, name) in Proto::ALL {
        for rcode in (0..RCODES).map(Rcode) {
            let value = sum(&|stats| stats.replies(proto, rcode).get());
            if value > 0.0 {
                out.push(Sample::new(m::QUERIES, &[name, &rcode.to_string()], value));
            }
        }
    }
    for kind in TransferKind::ALL {
        for (outcome, name) in [
            (TransferOutcome::Done, "complete"),
            (TransferOutcome::Broken, "broken"),
            (TransferOutcome::Failed, "failed"),
        ] {
            let value = sum(&|stats| stats.transfers(kind, outcome).get());
            out.push(Sample::new(m::TRANSFERS, &[kind.as_str(), name], value));
        }
    }
    counter_samples(&sum, out);
}

/// Adds one counter up over all servers.
type SumOf<'a> = &'a dyn Fn(&dyn Fn(&Stats) -> u64) -> f64;

/// A counter of the servers.
type CounterOf = fn(&Stats) -> u64;

/// The servers' plain counters with their labels.
const COUNTERS: &[(Metric, &[&str], CounterOf)] = &[
    (m::TRANSFERS, &["ixfr", "up_to_date"], |it| {
        it.transfers_up_to_date.get()
    }),
    (m::TRANSFERS, &["ixfr", "ahead"], |it| {
        it.transfers_ahead.get()
    }),
    (m::TRANSFERS, &["any", "denied"], |it| {
        it.transfers_denied.get()
    }),
    (m::TRANSFERS, &["any", "over_limit"], |it| {
        it.transfers_over_limit.get()
    }),
    (m::TRANSFER_RECORDS, &[], |it| it.transfer_records.get()),
    (m::TRANSFER_BYTES, &[], |it| it.transfer_octets.get()),
    (m::DROPPED, &["not_a_query"], |it| it.ignored.get()),
    (m::DROPPED, &["send_error"], |it| it.udp_send_errors.get()),
    (m::DROPPED, &["overload"], |it| it.udp_overload.get()),
    (m::DROPPED, &["rate_limit"], |it| it.rate_dropped.get()),
    (m::RATE_SLIPPED, &[], |it| it.rate_slipped.get()),
    (m::TRUNCATED, &[], |it| it.truncated.get()),
    (m::TSIG_FAILURES, &[], |it| it.tsig_refused.get()),
    (m::NOTIFY, &["sent"], |it| it.notify_sent.get()),
    (m::NOTIFY, &["acknowledged"], |it| {
        it.notify_acknowledged.get()
    }),
    (m::NOTIFY, &["refused"], |it| it.notify_refused.get()),
    (m::NOTIFY, &["given_up"], |it| it.notify_given_up.get()),
    (m::TCP_CONNECTIONS, &[], |it| it.tcp_open.get()),
    (m::TCP_ACCEPTED, &[], |it| it.tcp_accepted.get()),
    (m::QUIC_CONNECTIONS, &[], |it| it.quic_open.get()),
    (m::QUIC_ACCEPTED, &[], |it| it.quic_accepted.get()),
    (m::QUIC_CLOSED, &["limit"], |it| it.quic_refused.get()),
    (m::QUIC_CLOSED, &["timeout"], |it| it.quic_timed_out.get()),
    (m::TLS_FAILURES, &[], |it| it.tls_failed.get()),
    (m::TCP_CLOSED, &["limit"], |it| it.tcp_refused.get()),
    (m::TCP_CLOSED, &["timeout"], |it| it.tcp_timed_out.get()),
    (m::TCP_CLOSED, &["accept_error"], |it| {
        it.tcp_accept_errors.get()
    }),
];

/// Adds up the plain counters of all servers.
fn counter_samples(sum: SumOf<'_>, out: &mut Vec<Sample>) {
    for (metric, labels, counter) in COUNTERS {
        out.push(Sample::new(*metric, labels, sum(counter)));
    }
}

/// The octets of all files below a folder; what cannot be read counts nothing.
fn folder_octets(folder: &Path) -> u64 {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return 0;
    };
    entries
        .flatten()
        .map(|entry| match entry.metadata() {
            Ok(metadata) if metadata.is_dir() => folder_octets(&entry.path()),
            Ok(metadata) => metadata.len(),
            Err(_) => 0,
        })
        .sum()
}
