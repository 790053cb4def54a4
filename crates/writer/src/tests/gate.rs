//! The gate: what a list, a reload or a restart takes away is held, what is deleted before our eyes is not.

mod acts;
mod change;
mod checks;
pub(super) mod holds;
mod law;
mod shares;

use zone::gate::{GateSettings, Why};

use super::*;

/// Hears what the gate does.
#[derive(Clone, Default)]
struct Ears(Arc<Mutex<Vec<String>>>);

impl Observer for Ears {
    fn published(&self, _: &Version, _: usize, _: usize) {}
    fn committed(&self, _: Duration, _: &[Duration]) {}
    fn problems(&self, _: &mut dyn Iterator<Item = &Problem>, _: &[Problem]) {}
    fn synced(&self, _: &str) {}

    fn failed(&self, error: &str) {
        let said = format!("no version: {error}");
        self.0.lock().unwrap().push(said);
    }

    fn peer_is_ahead(&self, reported: &PeerSerial, counts: bool) {
        let PeerSerial { peer, serial, .. } = reported;
        let said = format!("{peer} has {serial}, followed: {counts}");
        self.0.lock().unwrap().push(said);
    }

    fn not_forgotten(&self, zone: &Name, error: &str) {
        let said = format!("{zone} not forgotten: {error}");
        self.0.lock().unwrap().push(said);
    }

    fn gate(&self, zone: &Name, event: &GateEvent) {
        let text = match event {
            GateEvent::Held(held) => format!("{zone} held: {}", held.why),
            GateEvent::OnHold(hold) => format!("{zone} {} by {}", hold.as_str(), hold.by),
            GateEvent::Resumed { hold: _, by } => format!("{zone} resumed by {by}"),
            GateEvent::ShareOut { share, .. } => format!("{zone} {share} {}", event.as_str()),
            GateEvent::Released { by: _ } | GateEvent::Recovered { .. } | GateEvent::Expired => {
                format!("{zone} {}", event.as_str())
            }
        };
        self.0.lock().unwrap().push(text);
    }

    fn not_noted(&self, what: &str, error: &str) {
        let said = format!("{what} not noted: {error}");
        self.0.lock().unwrap().push(said);
    }

    fn warnings(&self, zone: &Name, all: &[Warning], new: &[Warning]) {
        let mut heard = self.0.lock().unwrap();
        heard.extend(new.iter().map(|warning| format!("{zone} warns: {warning}")));
        heard.push(format!("{zone} has {} warnings", all.len()));
    }
}

/// A writer of `cluster.local` with a gate, its clock and what it says.
struct Subject {
    pipeline: Pipeline<NoStore>,
    plan: World,
    clock: Arc<HandClock>,
    heard: Ears,
}

/// From 8 records and above 30 per cent, for an hour.
const GATE: GateSettings = GateSettings {
    shrink_percent: 30,
    at_least: 8,
    hold: Some(Duration::from_secs(3600)),
};

/// The same plan with this gate for all zones.
pub(super) fn gated(mut plan: ClusterPlan, gate: GateSettings) -> ClusterPlan {
    let external = plan.external.iter_mut();
    let external = external.flat_map(|it| it.forward.iter_mut().chain(&mut it.reverse));
    let own = plan.forward.iter_mut().chain(&mut plan.reverse);
    for zone in own.chain(&mut plan.clusterset).chain(external) {
        zone.gate = Some(gate);
    }
    plan
}

impl Subject {
    /// A writer that saw nothing yet.
    fn new(plan: World) -> Self {
        let (clock, heard) = (HandClock::at(1_000), Ears::default());
        let observer = Box::new(heard.clone());
        let plans = [plan.clone()];
        let pipeline = writer(&plans, NoStore::default(), clock.clone(), observer);
        Self {
            pipeline,
            plan,
            clock,
            heard,
        }
    }

    /// A writer that saw `a/s0` to `a/s9`, each with a cluster IP: ten names, ten PTRs.
    fn of_ten() -> Self {
        let plan = ClusterPlan {
            publishes_namespaces: true,
            ..gated(plan().plan, GATE)
        };
        let mut subject = Self::new(World::new(plan));
        subject.list_all(0..10);
        assert!(subject.pipeline.commit());
        assert_eq!(subject.names(), 10);
        subject
    }

    /// Lists everything anew: the namespace `a` and these of its Services.
    fn list_all(&mut self, services: std::ops::Range<u8>) {
        let services = services.map(service_number).collect();
        feed(
            &mut self.pipeline,
            Change::Listed(Kind::Namespace, vec![namespace("a")]),
        );
        feed(&mut self.pipeline, Change::Listed(Kind::Service, services));
        feed(
            &mut self.pipeline,
            Change::Listed(Kind::EndpointSlice, Vec::new()),
        );
    }

    fn relist(&mut self, services: std::ops::Range<u8>) {
        self.list_all(services);
        assert!(self.pipeline.commit());
    }

    /// How many names of Services the forward zone has.
    fn names(&self) -> usize {
        let lines = lines(&contents(&self.plan));
        lines
            .iter()
            .filter(|line| line.contains(".a.svc.cluster.local. ") && line.contains(" A "))
            .count()
    }

    /// What was done, of the zone of names.
    fn acts(&self) -> Vec<Act> {
        let acts = self.pipeline.store.acts.iter();
        let of_zone = acts.filter(|(zone, _)| zone == self.zone().apex());
        of_zone.map(|(_, act)| act.clone()).collect()
    }

    /// What was heard since the last time.
    fn heard(&self) -> Vec<String> {
        std::mem::take(&mut self.heard.0.lock().unwrap())
    }

    /// Asks to let a zone out.
    fn release(&mut self, zone: &str) -> oneshot::Receiver<Released> {
        let (asked, answer) = oneshot::channel();
        let zone = zone.parse().unwrap();
        let by = "someone".into();
        self.pipeline.take(Input::Release { zone, by, asked });
        answer
    }

    /// When the writer wakes by itself.
    fn deadline(&self) -> Option<Instant> {
        self.pipeline.deadline(self.pipeline.now())
    }

    /// The zone `cluster.local`.
    fn zone(&self) -> &Zone {
        self.plan.zone("cluster.local.")
    }

    /// Whether answers for a name may be outdated.
    fn may_be_old(&self, name: &str) -> bool {
        let name: Name = name.parse().unwrap();
        self.zone().may_be_old(name.as_wire())
    }

    fn serial(&self) -> u32 {
        self.zone().current().unwrap().serial.encode()
    }
}

/// The Service `a/sN` with the cluster IP `10.0.0.N`.
fn service_number(number: u8) -> Fact {
    Fact::Service(Service {
        key: ObjectKey::new("a", &format!("s{number}")),
        form: ServiceForm::ClusterIp([IpAddr::from([10, 0, 0, number])].into()),
        ports: Vec::new().into(),
        external: None,
        created_s: 0,
        origin: Origin::default(),
    })
}

/// The deletion of `a/sN`, seen by watch, or in a folder where there is a place.
fn deletion(number: u8, place: &str) -> Change {
    let key = Kind::Service.of(&ObjectKey::new("a", &format!("s{number}")));
    let place = place.into();
    Change::Deleted(
        key,
        Origin {
            place,
            ..Origin::default()
        },
    )
}

/// What is heard when all ten are lost.
const HELD: [&str; 2] = [
    "cluster.local. held: namespace a would lose 10 of 10 records",
    "10.in-addr.arpa. held: namespace a would lose 10 of 10 records",
];

#[test]
fn a_list_that_lacks_everything_is_held_and_said_once() {
    let mut subject = Subject::of_ten();
    let serial = subject.serial();
    subject.relist(0..0);
    assert_eq!((subject.names(), subject.serial()), (10, serial));
    assert_eq!(subject.heard(), HELD);
    let held = subject.zone().held().unwrap();
    assert_eq!((held.since_ms, held.until_ms), (1_000_000, Some(4_600_000)));
    assert!(subject.may_be_old("s0.a.svc.cluster.local."));
    assert!(!subject.may_be_old("ns.dns.cluster.local."));
    subject.relist(0..0);
    subject.relist(0..1);
    assert_eq!(subject.names(), 10);
    assert!(subject.heard().is_empty());
}

#[test]
fn a_small_zone_that_would_lose_everything_is_held_too() {
    let plan = || ClusterPlan {
        publishes_namespaces: true,
        ..gated(plan().plan, GATE)
    };
    let mut subject = Subject::new(World::new(plan()));
    subject.relist(0..3);
    // Two of three are fewer than the gate looks at.
    subject.relist(0..1);
    assert_eq!((subject.names(), subject.heard().len()), (1, 0));
    subject.relist(0..0);
    assert_eq!(subject.names(), 1);
    let [held, _] = <[String; 2]>::try_from(subject.heard()).unwrap();
    assert!(
        held.starts_with("cluster.local. held: namespace a would lose "),
        "{held}"
    );
    subject.relist(5..6);
    assert_eq!((subject.names(), subject.zone().held()), (1, None));
    // What is deleted before our eyes is not held.
    feed(&mut subject.pipeline, deletion(5, ""));
    assert!(subject.pipeline.commit());
    assert_eq!(subject.names(), 0);
}

#[test]
fn half_of_a_list_missing_is_held_and_a_quarter_is_not() {
    let mut subject = Subject::of_ten();
    subject.relist(0..2);
    assert_eq!((subject.names(), subject.heard().len()), (10, 2));
    let mut subject = Subject::of_ten();
    subject.relist(0..8);
    assert_eq!((subject.names(), subject.heard().len()), (8, 0));
}

#[test]
fn losses_of_one_minute_count_together() {
    let mut subject = Subject::of_ten();
    subject.relist(0..5);
    assert_eq!((subject.names(), subject.heard().len()), (5, 0));
    subject.relist(0..2);
    assert_eq!((subject.names(), subject.heard().len()), (5, 2));
    // What is held stays held when the first loss is long ago.
    subject.clock.advance(120);
    assert!(subject.pipeline.commit());
    assert_eq!(subject.names(), 5);
    let mut subject = Subject::of_ten();
    subject.relist(0..5);
    subject.clock.advance(61);
    subject.relist(0..2);
    assert_eq!((subject.names(), subject.heard().len()), (2, 0));
}

#[test]
fn losses_that_others_made_up_for_do_not_count_on() {
    let mut subject = Subject::of_ten();
    // Half go, as many others come, again and again: the zone never shrinks by more than a half.
    for round in 0..4 {
        let low = round * 5;
        subject.relist(low..low + 5);
        subject.relist(low..low + 10);
        let names = lines(&contents(&subject.plan)).join("\n");
        assert_eq!((subject.names(), subject.heard().len()), (10, 0), "{names}");
        subject.relist(low + 5..low + 10);
        subject.relist(low + 5..low + 15);
    }
    assert!(subject.heard().is_empty());
}

#[test]
fn a_source_that_recovers_cancels_it() {
    let mut subject = Subject::of_ten();
    let serial = subject.serial();
    subject.relist(0..0);
    subject.heard();
    subject.relist(0..10);
    assert_eq!((subject.names(), subject.serial()), (10, serial));
    let recovered = ["cluster.local. recovered", "10.in-addr.arpa. recovered"];
    assert_eq!(subject.heard(), recovered);
    assert!(subject.zone().held().is_none() && !subject.may_be_old("s0.a.svc.cluster.local."));
    // One that is back but for a few loses these few.
    subject.relist(0..0);
    subject.relist(0..9);
    assert_eq!(subject.names(), 9);
}

#[test]
fn changes_while_something_is_held_are_published_with_it() {
    let mut subject = Subject::of_ten();
    subject.relist(0..0);
    feed(&mut subject.pipeline, Change::Applied(service_number(77)));
    assert!(subject.pipeline.commit());
    assert_eq!(subject.names(), 10);
    let answer = subject.release("cluster.local.");
    assert!(subject.pipeline.commit());
    assert_eq!(subject.names(), 1);
    let serial = answer.blocking_recv().unwrap().unwrap();
    assert_eq!(serial.encode(), subject.serial());
    let version = subject.zone().current().unwrap();
    let step = version.history.last().unwrap();
    assert_eq!(
        (step.added.iter().count(), step.removed.iter().count()),
        (1, 10)
    );
    let causes = |rr: RrRef<'_>| {
        let group = &step.causes[usize::try_from(rr.tag).unwrap()];
        group
            .iter()
            .map(|cause| format!("{} {}", cause.verb.as_str(), cause.key))
            .collect::<Vec<_>>()
    };
    let added: Vec<_> = step.added.iter().flat_map(causes).collect();
    assert_eq!(added, ["applied a/s77"]);
    let removed: BTreeSet<_> = step.removed.iter().flat_map(causes).collect();
    assert!(
        removed.contains("vanished a/s0") && removed.len() == 10,
        "{removed:?}"
    );
    // The reverse zone is held by its own rule.
    assert!(subject.plan.zone("10.in-addr.arpa.").held().is_some());
    assert!(subject.zone().held().is_none());
}

#[test]
fn a_release_of_what_is_not_held_says_so() {
    let mut subject = Subject::of_ten();
    let answer = subject.release("cluster.local.").blocking_recv().unwrap();
    assert_eq!(answer.unwrap_err(), "no version of cluster.local. is held");
    let answer = subject.release("example.com.").blocking_recv().unwrap();
    assert_eq!(
        answer.unwrap_err(),
        "example.com. is not a zone of a cluster or a file"
    );
}

#[test]
fn what_nobody_releases_is_published_when_its_time_is_over() {
    let mut subject = Subject::of_ten();
    subject.relist(0..0);
    subject.heard();
    let end = subject.deadline().unwrap();
    assert_eq!(end - subject.clock.now(), Duration::from_secs(3600));
    subject.clock.advance(3599);
    assert!(subject.pipeline.commit());
    assert_eq!(subject.names(), 10);
    subject.clock.advance(1);
    assert!(subject.pipeline.commit());
    assert_eq!(subject.names(), 0);
    assert_eq!(
        subject.heard(),
        ["cluster.local. expired", "10.in-addr.arpa. expired"]
    );
    assert_eq!(subject.deadline(), None);
}

#[test]
fn what_is_deleted_before_our_eyes_passes() {
    let mut subject = Subject::of_ten();
    for number in 0..10 {
        feed(&mut subject.pipeline, deletion(number, ""));
    }
    assert!(subject.pipeline.commit());
    assert_eq!((subject.names(), subject.heard().len()), (0, 0));
    let mut subject = Subject::of_ten();
    let namespace = Kind::Namespace.of(&ObjectKey::new("", "a"));
    feed(
        &mut subject.pipeline,
        Change::Deleted(namespace, Origin::default()),
    );
    assert!(subject.pipeline.commit());
    assert_eq!((subject.names(), subject.heard().len()), (0, 0));
}

#[test]
fn a_folder_that_loses_its_files_is_held() {
    let mut subject = Subject::of_ten();
    for number in 0..10 {
        feed(&mut subject.pipeline, deletion(number, "all.yaml:1"));
    }
    assert!(subject.pipeline.commit());
    assert_eq!(subject.names(), 10);
    assert_eq!(subject.heard(), HELD);
}

#[test]
fn the_first_rendering_after_a_restart_is_held_against_the_stored_version() {
    let before = Subject::of_ten().plan;
    let plan = before.plan.clone();
    let mut subject = Subject::new(before.replanned(plan));
    assert_eq!(subject.names(), 10);
    subject.relist(0..0);
    assert_eq!((subject.names(), subject.heard().len()), (10, 2));
    // What is there is known to the live layer meanwhile, and of what is not held all.
    let seen = Arc::clone(subject.plan.handles.live.seen.as_ref().unwrap());
    assert_eq!(
        (seen.contains("a"), seen.contains("b")),
        (Some(true), Some(false))
    );
    subject.relist(0..10);
    assert_eq!(
        subject.heard(),
        ["cluster.local. recovered", "10.in-addr.arpa. recovered"]
    );
    assert_eq!(seen.contains("b"), Some(false));
    assert_eq!(subject.zone().current().unwrap().seq, 1);
}

#[test]
fn a_store_that_refuses_changes_nothing_of_what_is_held() {
    let mut subject = Subject::of_ten();
    subject.relist(0..0);
    subject.heard();
    let mut answer = subject.release("cluster.local.");
    subject.pipeline.store.refusals = 1;
    assert!(!subject.pipeline.commit());
    assert_eq!(subject.names(), 10);
    assert!(answer.try_recv().is_err());
    assert_eq!(subject.heard(), ["no version: disk full"]);
    assert!(subject.pipeline.commit());
    assert_eq!(
        (subject.names(), subject.heard()),
        (0, vec!["cluster.local. released".into()])
    );
    assert!(answer.try_recv().unwrap().is_ok());
}

#[test]
fn the_live_layer_keeps_what_is_served() {
    let mut subject = Subject::of_ten();
    let seen = Arc::clone(subject.plan.handles.live.seen.as_ref().unwrap());
    feed(
        &mut subject.pipeline,
        Change::Listed(Kind::Namespace, Vec::new()),
    );
    assert!(subject.pipeline.commit());
    assert_eq!(seen.contains("a"), Some(true));
    let _answer = subject.release("cluster.local.");
    assert!(subject.pipeline.commit());
    assert_eq!(seen.contains("a"), Some(false));
}

#[test]
fn a_gate_that_is_off_holds_nothing() {
    let mut subject = Subject::new(plan());
    subject.relist(0..10);
    subject.relist(0..0);
    assert_eq!((subject.names(), subject.heard().len()), (0, 0));
}
