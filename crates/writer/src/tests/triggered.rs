//! How long after it happened a change of endpoints is published.

use zone::gate::GateSettings;

use super::*;

/// What was told, in words.
type Told = Arc<Mutex<Vec<String>>>;

/// Notes how long after what slices told a version came.
struct Hearing(Told);

impl Observer for Hearing {
    fn published(&self, _: &Version, _: usize, _: usize) {}
    fn committed(&self, _: Duration, _: &[Duration]) {}
    fn programmed(&self, service: ServiceKind, latency: Duration) {
        let told = format!("{} {latency:?}", service.as_str());
        self.0.lock().unwrap().push(told);
    }
    fn failed(&self, _: &str) {}
    fn problems(&self, _: &mut dyn Iterator<Item = &Problem>, _: &[Problem]) {}
    fn synced(&self, _: &str) {}
}

/// A Service of the namespace `a`.
fn service(name: &str, form: ServiceForm) -> Fact {
    Fact::Service(Service {
        key: ObjectKey::new("a", name),
        form,
        ports: [].into(),
        external: None,
        created_s: 0,
        origin: Origin::default(),
    })
}

/// The slice of a Service of the namespace `a` with an endpoint at `10.1.0.N`.
fn slice(service: &str, number: u8) -> Fact {
    let Fact::EndpointSlice(slice) = slice_of(1) else {
        panic!("a slice");
    };
    Fact::EndpointSlice(EndpointSlice {
        key: ObjectKey::new("a", &format!("{service}-1")),
        service: Some(service.into()),
        endpoints: [Endpoint::at([IpAddr::from([10, 1, 0, number])])].into(),
        ..slice
    })
}

/// A writer of the namespace `a` with a Service `s` and a headless one `h`, at the second 1000.
struct Subject {
    pipeline: Pipeline<NoStore>,
    clock: Arc<HandClock>,
    told: Told,
}

impl Subject {
    /// It saw everything and published it, unless a kind is still to be listed.
    fn new(plan: World, unlisted: Option<Kind>) -> Self {
        let (clock, told) = (HandClock::at(1_000), Told::default());
        let observer = Box::new(Hearing(Arc::clone(&told)));
        let store = NoStore::default();
        let mut pipeline = writer(&[plan], store, clock.clone(), observer);
        let own = ["10.9.9.9".parse().unwrap()];
        let services = vec![
            service("s", ServiceForm::ClusterIp(own.into())),
            service("h", ServiceForm::Headless),
        ];
        for (kind, facts) in [
            (Kind::Namespace, vec![namespace("a")]),
            (Kind::Service, services),
            (Kind::EndpointSlice, vec![slice("s", 1), slice("h", 2)]),
        ] {
            if Some(kind) != unlisted {
                feed(&mut pipeline, Change::Listed(kind, facts));
            }
        }
        assert!(pipeline.commit());
        Self {
            pipeline,
            clock,
            told,
        }
    }

    /// Sees a change of something that happened at a second.
    fn take(&mut self, change: Change, at: Option<u64>) {
        let seen = self.clock.now();
        let triggered = at.map(|at| UNIX_EPOCH + Duration::from_secs(at));
        self.pipeline.take(of_first(SourceEvent::Changed {
            change,
            seen,
            triggered,
        }));
    }

    /// What is told with the next commit.
    fn commit(&mut self) -> Vec<String> {
        let before = std::mem::take(&mut *self.told.lock().unwrap());
        assert!(
            before.is_empty(),
            "told before it was published: {before:?}"
        );
        assert!(self.pipeline.commit());
        std::mem::take(&mut *self.told.lock().unwrap())
    }
}

#[test]
fn s99_a_change_of_endpoints_counts_by_the_kind_of_its_service_where_it_says_when_it_happened() {
    let mut subject = Subject::new(plan(), None);
    subject.take(Change::Applied(slice("s", 3)), Some(998));
    subject.take(Change::Applied(slice("h", 4)), Some(995));
    subject.clock.advance(1);
    let told = subject.commit();
    assert_eq!(told, ["headless_with_selector 6s", "cluster_ip 3s"]);
    subject.take(Change::Applied(slice("s", 5)), None);
    subject.take(Change::Applied(slice("nobody", 6)), Some(999));
    assert!(subject.commit().is_empty());
    // The Service may come after its slice.
    subject.take(Change::Applied(slice("late", 7)), Some(1_000));
    let late = service("late", ServiceForm::Headless);
    subject.take(Change::Applied(late), None);
    assert_eq!(subject.commit(), ["headless_with_selector 1s"]);
    // Another machine's clock may be ahead.
    subject.take(Change::Applied(slice("s", 8)), Some(2_000));
    assert_eq!(subject.commit(), ["cluster_ip 0ns"]);
}

#[test]
fn s99_what_changes_nothing_or_is_deleted_does_not_count() {
    let mut subject = Subject::new(plan(), None);
    subject.take(Change::Applied(slice("s", 1)), Some(999));
    let gone = Kind::EndpointSlice.of(&ObjectKey::new("a", "h-1"));
    subject.take(Change::Deleted(gone, Origin::default()), Some(999));
    assert!(subject.commit().is_empty());
}

#[test]
fn a_change_counts_when_the_store_has_it() {
    let mut subject = Subject::new(plan(), None);
    subject.pipeline.store.refusals = 1;
    subject.take(Change::Applied(slice("s", 3)), Some(999));
    assert!(!subject.pipeline.commit());
    subject.clock.advance(5);
    assert_eq!(subject.commit(), ["cluster_ip 6s"]);
    assert!(subject.commit().is_empty());
}

#[test]
fn what_a_service_tells_again_and_again_while_the_store_refuses_counts_once_as_the_first() {
    let mut subject = Subject::new(plan(), None);
    for (number, at) in [(3, 997), (4, 995), (5, 999)] {
        subject.pipeline.store.refusals = 1;
        subject.take(Change::Applied(slice("s", number)), Some(at));
        assert!(!subject.pipeline.commit());
    }
    assert_eq!(subject.pipeline.clusters[0].triggered.len(), 1);
    assert_eq!(subject.commit(), ["cluster_ip 5s"]);
}

#[test]
fn what_is_seen_before_everything_was_listed_does_not_count() {
    let mut subject = Subject::new(plan(), Some(Kind::Namespace));
    subject.take(Change::Applied(slice("s", 3)), Some(999));
    let namespaces = Change::Listed(Kind::Namespace, vec![namespace("a")]);
    subject.take(namespaces, None);
    assert!(subject.commit().is_empty());
    subject.take(Change::Applied(slice("s", 4)), Some(999));
    assert_eq!(subject.commit(), ["cluster_ip 1s"]);
}

#[test]
fn what_the_gate_holds_does_not_count() {
    let mut plan = plan().plan;
    for zone in &mut plan.forward {
        zone.gate = Some(GateSettings {
            shrink_percent: 1,
            at_least: 1,
            hold: None,
        });
    }
    let mut subject = Subject::new(World::new(plan), None);
    let services = Change::Listed(Kind::Service, vec![service("h", ServiceForm::Headless)]);
    subject.take(services, None);
    subject.take(Change::Applied(slice("h", 3)), Some(999));
    assert!(subject.commit().is_empty());
    let is_held = |zone: &cluster::zone::ClusterZone| zone.guard.holds() != Holds::Nothing;
    let holds = |cluster: &Cluster| cluster.zones.iter().any(is_held);
    assert!(subject.pipeline.clusters.iter().any(holds));
}
