//! Two clusters, a file and a catalog that come, go, and take zones over from each other while the writer runs.

mod causes;
mod law;
mod reload;

use zonefile::Role;

use super::gate::holds::causes_of;
use super::*;

/// A configuration of the whole writer, with the numbers of its sources.
#[derive(Debug, Clone, Default)]
pub(super) struct Setup {
    clusters: Vec<(ClusterPlan, ClusterHandles)>,
    files: Vec<(SourceId, FilePlan)>,
    catalogs: Vec<CatalogPlan>,
}

/// A store that keeps the newest version of each zone, as the journal does.
#[derive(Debug, Default)]
struct Newest {
    versions: BTreeMap<Name, Version>,
    retentions: BTreeMap<Name, Retention>,
    holds: BTreeSet<Name>,
    /// The zone that cannot be read.
    unreadable: Option<Name>,
    /// What was done.
    acts: Vec<(Name, Act)>,
}

impl Store for Newest {
    type Error = String;

    fn commit(&mut self, candidates: Vec<Candidate>) -> Result<Vec<Journaled>, String> {
        for candidate in &candidates {
            let version = candidate.version().clone();
            self.versions
                .insert(version.contents.apex().clone(), version);
        }
        Ok(candidates.into_iter().map(Candidate::journaled).collect())
    }

    fn floor(&self, apex: &Name) -> Option<Serial> {
        self.versions.get(apex).map(|version| version.serial)
    }

    fn save_hold(&mut self, apex: &Name, hold: Option<&Hold>) -> Result<(), String> {
        match hold {
            Some(_) => self.holds.insert(apex.clone()),
            None => self.holds.remove(apex),
        };
        Ok(())
    }

    fn note(&mut self, _: Option<&KeptCorefile>, acts: &[(Name, Act)]) -> Result<(), String> {
        self.acts.extend_from_slice(acts);
        Ok(())
    }

    fn set_retention(&mut self, apex: &Name, retention: Retention) {
        self.retentions.insert(apex.clone(), retention);
    }

    fn restore(&mut self, zone: &Zone, _: Retention, now_ms: u64) -> Result<(), String> {
        if self.unreadable.as_ref() == Some(zone.apex()) {
            return Err("bad checksum".to_owned());
        }
        if let Some(version) = self.versions.get(zone.apex()) {
            zone.restore(version.clone());
            zone.set_stale_since_ms(Some(now_ms));
        }
        Ok(())
    }

    fn idle(&mut self) -> bool {
        false
    }
}

/// A cluster that is seen through the source with this number and has these zones, its home first. The history of each has
/// as many versions as the number.
fn cluster(source: u64, zones: &[&str]) -> (ClusterPlan, ClusterHandles) {
    let plan = plan().plan;
    let like = &plan.forward[0];
    let zone_of = |name: &&str| ZonePlan {
        name: name.parse().unwrap(),
        retention: retention(source),
        ..like.clone()
    };
    let plan = ClusterPlan {
        source: format!("source {source}"),
        forward: zones.iter().map(zone_of).collect(),
        reverse: Vec::new(),
        external: Vec::new(),
        publishes_namespaces: true,
        ..plan
    };
    let handles = ClusterHandles::new(SourceId(source), &plan);
    (plan, handles)
}

/// A history of so many versions.
fn retention(versions: u64) -> Retention {
    Retention {
        versions,
        ..RETENTION
    }
}

/// A file that is the zone, or one under it.
fn file_of(source: u64, zone: &str, role: Role) -> (SourceId, FilePlan) {
    let zone = zone.parse().unwrap();
    let plan = match role {
        Role::Zone => FilePlan::Zone {
            zone,
            retention: retention(source),
        },
        Role::Overlay => FilePlan::Overlay { zone },
    };
    (SourceId(source), plan)
}

impl Setup {
    fn of(clusters: &[(u64, &[&str])]) -> Self {
        let clusters = clusters.iter();
        Self {
            clusters: clusters
                .map(|(source, zones)| cluster(*source, zones))
                .collect(),
            ..Self::default()
        }
    }

    fn with_file(mut self, source: u64, zone: &str, role: Role) -> Self {
        self.files.push(file_of(source, zone, role));
        self
    }

    /// The names of all zones.
    fn names(&self) -> BTreeSet<Name> {
        let of_clusters = self.clusters.iter().flat_map(|(plan, _)| plan.zones());
        let of_clusters = of_clusters.map(|zone| zone.name.clone());
        let of_files = self.files.iter().map(|(_, plan)| plan.zone().clone());
        let of_catalogs = self.catalogs.iter().map(|plan| plan.zone.clone());
        of_clusters.chain(of_files).chain(of_catalogs).collect()
    }

    /// The source of a zone's content, if that is a cluster or a file of its own.
    fn source_of(&self, zone: &Name) -> Option<SourceId> {
        let mut clusters = self.clusters.iter();
        let of_cluster = clusters.find(|(plan, _)| plan.zone(zone).is_some());
        let of_cluster = of_cluster.map(|(_, handles)| handles.source);
        of_cluster.or_else(|| {
            let mut files = self.files.iter();
            files
                .find(|(_, plan)| plan.zone() == zone)
                .map(|(source, _)| *source)
        })
    }

    /// The changes that lead to another setup, in the order of a reload.
    fn changes_to(&self, new: &Self) -> Vec<PlanChange> {
        let mut changes = Vec::new();
        // A cluster goes on with its source, or else with its home.
        let mut left: Vec<_> = self.clusters.iter().collect();
        let mut pairs: Vec<_> = new.clusters.iter().map(|new| (new, None)).collect();
        type Cluster = (ClusterPlan, ClusterHandles);
        let is_same: [fn(&Cluster, &Cluster) -> bool; 2] = [
            |old, new| old.1.source == new.1.source,
            |old, new| old.0.home() == new.0.home(),
        ];
        for is_same in is_same {
            for (new, old) in pairs.iter_mut().filter(|(_, old)| old.is_none()) {
                let place = left.iter().position(|old| is_same(old, new));
                *old = place.map(|place| left.remove(place));
            }
        }
        for (plan, _) in left {
            changes.push(PlanChange::RemoveCluster(plan.home().clone()));
        }
        let has_file = |(_, old): &&(SourceId, FilePlan)| {
            let mut files = new.files.iter();
            files.any(|(_, plan)| plan.zone() == old.zone())
        };
        let gone = self.files.iter().filter(|file| !has_file(file));
        changes.extend(gone.map(|(_, plan)| PlanChange::RemoveFile(plan.zone().clone())));
        let has_catalog = |old: &&CatalogPlan| new.catalogs.iter().any(|it| it.zone == old.zone);
        let gone = self.catalogs.iter().filter(|plan| !has_catalog(plan));
        changes.extend(gone.map(|plan| PlanChange::RemoveCatalog(plan.zone.clone())));
        for ((plan, handles), old) in pairs {
            let plan = plan.clone();
            let Some((before, old)) = old else {
                changes.push(PlanChange::AddCluster(plan));
                continue;
            };
            let cluster = before.home().clone();
            if old.source != handles.source {
                changes.push(PlanChange::RestartSource { cluster, plan });
            } else if *before != plan {
                changes.push(PlanChange::SetCluster { cluster, plan });
            }
        }
        let files = new.files.iter().filter(|file| !self.files.contains(file));
        changes.extend(files.map(|(_, plan)| PlanChange::SetFile(plan.clone())));
        let catalogs = new.catalogs.iter();
        let catalogs = catalogs.filter(|plan| !self.catalogs.contains(plan));
        changes.extend(catalogs.cloned().map(PlanChange::SetCatalog));
        changes
    }
}

/// A writer under a configuration.
pub(super) struct Running {
    pipeline: Pipeline<Newest>,
    setup: Setup,
    /// The asking of secondaries that the next reload waits for.
    awaits: Option<AskId>,
}

impl Running {
    /// A writer without any zone.
    fn start() -> Self {
        let clock = HandClock::at(1_000);
        let zones = Arc::new(ZoneSet::new(Vec::new()));
        let store = Newest::default();
        Self {
            pipeline: Pipeline::new(zones, Vec::new(), store, clock, Box::new(Deaf))
                .with_batch(unpaced()),
            setup: Setup::default(),
            awaits: None,
        }
    }

    /// A writer that follows a configuration and saw its sources.
    fn of(setup: Setup) -> Self {
        let mut running = Self::start();
        running.change(setup, None).unwrap();
        running.deliver_all();
        running
    }

    /// Reloads the configuration.
    fn change(&mut self, mut new: Setup, cause: Option<&str>) -> Result<(), String> {
        for (plan, handles) in &mut new.clusters {
            let mut old = self.setup.clusters.iter();
            let is_it = |(_, old): &&(_, ClusterHandles)| old.source == handles.source;
            match old.find(is_it) {
                Some((_, old)) => *handles = old.clone(),
                None => handles.live = LiveTables::new(plan),
            }
        }
        let known = |name: &Name| self.pipeline.zones.get(name).cloned();
        let zone_of = |name: &Name| known(name).unwrap_or_else(|| Arc::new(Zone::new(name)));
        let names = new.names();
        let zones = names.iter().map(zone_of).collect();
        let is_unmoved = |name: &&Name| self.setup.source_of(name) == new.source_of(name);
        let (done, mut result) = oneshot::channel();
        let clusters = new.clusters.iter();
        let files = new.files.iter();
        let configure = Configure {
            changes: self.setup.changes_to(&new),
            zones: Arc::new(ZoneSet::new(zones)),
            unmoved: names.iter().filter(is_unmoved).cloned().collect(),
            clusters: clusters
                .map(|(plan, handles)| (plan.home().clone(), handles.clone()))
                .collect(),
            files: files
                .map(|(source, plan)| (plan.zone().clone(), *source))
                .collect(),
            cause: cause.map(str::to_owned),
            awaits_secondaries: self.awaits,
            done,
        };
        self.pipeline.take(Input::Configure(Box::new(configure)));
        let result = result.try_recv().expect("the writer answers");
        if result.is_ok() {
            self.setup = new;
        }
        assert!(self.pipeline.commit());
        result
    }

    /// What the source with this number has: a Service with the number as its name, or a line with it.
    fn deliver(&mut self, source: u64) {
        let seen = self.pipeline.clock.now();
        let mut files = self.setup.files.iter();
        let id = SourceId(source);
        if let Some((_, plan)) = files.find(|(it, _)| *it == id) {
            let line = format!("f{source} 60 TXT x\n");
            let (text, role) = match plan {
                FilePlan::Zone { .. } => (format!("{FILE_TOP}{line}"), Role::Zone),
                FilePlan::Overlay { .. } => (line, Role::Overlay),
                FilePlan::Etcd(_) => unreachable!("no zone here is from etcd"),
            };
            let content = files::file(&plan.zone().to_string(), role, &text);
            let event = FileEvent::Read { content, seen };
            self.pipeline.take(Input::File { source: id, event });
        }
        let services = vec![service(source)];
        let lists = [
            Change::Listed(Kind::Namespace, vec![namespace("a")]),
            Change::Listed(Kind::Service, services),
            Change::Listed(Kind::EndpointSlice, Vec::new()),
        ];
        if self
            .setup
            .clusters
            .iter()
            .any(|(_, handles)| handles.source == id)
        {
            for list in lists {
                let (source, event) = (id, seen_at(list, seen));
                self.pipeline.take(Input::Source { source, event });
            }
            let (source, event) = (id, SourceEvent::Fresh(Part::Cluster));
            self.pipeline.take(Input::Source { source, event });
        }
        assert!(self.pipeline.commit());
    }

    /// All sources are seen.
    fn deliver_all(&mut self) {
        for source in self.sources() {
            self.deliver(source.0);
        }
    }

    fn sources(&self) -> BTreeSet<SourceId> {
        let clusters = self.setup.clusters.iter();
        let clusters = clusters.map(|(_, handles)| handles.source);
        let files = self.setup.files.iter().map(|(source, _)| *source);
        clusters.chain(files).collect()
    }

    /// Another Service of a source.
    fn add(&mut self, source: u64, number: u64) {
        let seen = self.pipeline.clock.now();
        let event = seen_at(Change::Applied(service(number)), seen);
        let source = SourceId(source);
        self.pipeline.take(Input::Source { source, event });
        assert!(self.pipeline.commit());
    }

    fn zone(&self, name: &str) -> &Zone {
        self.pipeline.zones.get(&name.parse().unwrap()).unwrap()
    }

    /// Which names of sources a zone has: `s1` of a cluster, `f1` of a file.
    fn origins(&self, name: &str) -> String {
        let Some(version) = self.zone(name).current() else {
            return "none".to_owned();
        };
        let lines = lines(std::slice::from_ref(&version.contents));
        let firsts = lines.iter().filter_map(|line| line.split('.').next());
        let is_origin = |label: &&str| label.len() == 2 && label.as_bytes()[1].is_ascii_digit();
        let origins: BTreeSet<&str> = firsts.filter(is_origin).collect();
        origins.into_iter().collect::<Vec<_>>().join(" ")
    }

    fn freeze(&mut self, zone: &str) -> oneshot::Receiver<Released> {
        let (asked, answer) = oneshot::channel();
        let order = Box::new(freeze());
        let zone = zone.parse().unwrap();
        self.pipeline.take(Input::Hold { zone, order, asked });
        assert!(self.pipeline.commit());
        answer
    }
}

/// A freeze without an end.
fn freeze() -> HoldOrder {
    HoldOrder {
        until_ms: None,
        by: "someone".into(),
        rollback: None,
    }
}

/// The top of a file that is a zone.
const FILE_TOP: &str = "$TTL 60\n@ SOA ns h 1 1h 2h 3h 4h\n@ NS ns\nns A 192.0.2.1\n";

/// The Service `a/sN`.
fn service(number: u64) -> Fact {
    let last = u8::try_from(number).unwrap();
    Fact::Service(Service {
        key: ObjectKey::new("a", &format!("s{number}")),
        form: ServiceForm::ClusterIp([IpAddr::from([10, 0, 0, last])].into()),
        ports: Vec::new().into(),
        external: None,
        created_s: 0,
        origin: Origin::default(),
    })
}
