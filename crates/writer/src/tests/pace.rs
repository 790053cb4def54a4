//! The pace of versions: what one tenant changes again and again takes neither the serials nor the history of others.

use zone::gate::GateSettings;

use super::gate::gated;
use super::*;

/// A writer of `cluster.local` that paces versions.
struct Subject {
    pipeline: Pipeline<NoStore>,
    plan: World,
    clock: Arc<HandClock>,
}

/// A Service of a tenant with this cluster IP.
fn service_at(tenant: &str, name: &str, address: [u8; 4]) -> Change {
    Change::Applied(Fact::Service(Service {
        key: ObjectKey::new(tenant, name),
        form: ServiceForm::ClusterIp([IpAddr::from(address)].into()),
        ports: Vec::new().into(),
        external: None,
        created_s: 0,
        origin: Origin::default(),
    }))
}

impl Subject {
    /// With the namespaces `evil` and `shop`, each with a Service.
    fn new() -> Self {
        let (plan, clock) = (plan(), HandClock::at(1_000));
        let pipeline = writer(
            std::slice::from_ref(&plan),
            NoStore::default(),
            clock.clone(),
            Box::new(Deaf),
        );
        let pipeline = pipeline.with_batch(BatchSettings::default());
        let mut subject = Self {
            pipeline,
            plan,
            clock,
        };
        let namespaces = ["evil", "shop"].map(namespace).into();
        feed(
            &mut subject.pipeline,
            Change::Listed(Kind::Namespace, namespaces),
        );
        for kind in [Kind::Service, Kind::EndpointSlice] {
            feed(&mut subject.pipeline, Change::Listed(kind, Vec::new()));
        }
        subject.change("shop", "web", [10, 0, 0, 1]);
        subject.clock.advance(60);
        subject
    }

    /// A change, in a batch of its own.
    fn change(&mut self, tenant: &str, name: &str, address: [u8; 4]) {
        feed(&mut self.pipeline, service_at(tenant, name, address));
        assert!(self.pipeline.commit());
    }

    fn version(&self) -> Arc<Version> {
        self.plan.zone("cluster.local.").current().unwrap()
    }

    /// The address of a Service in the zone that is served.
    fn address(&self, tenant: &str, name: &str) -> String {
        let lines = lines(&[self.version().contents.clone()]);
        let start = format!("{name}.{tenant}.svc.cluster.local. ");
        let found = lines.iter().find(|line| line.starts_with(&start));
        let found = found.and_then(|line| line.rsplit(' ').next());
        found.unwrap_or("none").to_owned()
    }

    /// How many seconds the serial is ahead of the clock.
    fn ahead_s(&self) -> u64 {
        let serial = u64::from(self.version().serial.encode());
        serial.saturating_sub(self.pipeline.now().ms / 1000)
    }
}

#[test]
fn security_07_a_name_that_flaps_causes_ten_versions_and_then_one_a_second() {
    let mut subject = Subject::new();
    let before = subject.version().seq;
    for second in 0..60_u8 {
        for change in 0..30 {
            subject.change("evil", "flap", [10, 1, second, change]);
        }
        subject.clock.advance(1);
    }
    assert!(subject.pipeline.commit());
    assert_eq!(subject.version().seq - before, 10 + 60);
    assert_eq!(subject.address("evil", "flap"), "10.1.59.29");
    assert_eq!(subject.ahead_s(), 9);
}

#[test]
fn security_07_a_change_of_a_quiet_name_waits_for_nothing_and_takes_what_waits_with_it() {
    let mut subject = Subject::new();
    for change in 0..100 {
        subject.change("evil", "flap", [10, 1, 0, change]);
    }
    let before = subject.version();
    assert_eq!(subject.address("evil", "flap"), "10.1.0.9");
    for (tenant, name) in [("shop", "api"), ("shop", "web"), ("evil", "other")] {
        subject.change(tenant, name, [10, 2, 0, 1]);
        assert_eq!(subject.address(tenant, name), "10.2.0.1");
    }
    assert_eq!(subject.version().seq, before.seq + 3);
    assert_eq!(subject.address("evil", "flap"), "10.1.0.99");
    // Each record has the cause that it had last.
    let step = Arc::clone(subject.version().history.iter().rev().nth(2).unwrap());
    let named: BTreeSet<String> = { step.causes.iter().flatten() }
        .map(|cause| cause.key.to_string())
        .collect();
    assert_eq!(named, ["evil/flap", "shop/api"].map(String::from).into());
}

#[test]
fn security_07_the_version_of_another_tenant_is_kept_through_any_churn_of_one() {
    let mut subject = Subject::new();
    subject.change("shop", "web", [10, 0, 0, 2]);
    let victims = subject.version().seq;
    // 3000 changes of 100 names: more than the hundred versions that are kept.
    for second in 0..30_u8 {
        for name in 0..100 {
            subject.change("evil", &format!("s{name}"), [10, 1, second, name]);
        }
        subject.clock.advance(1);
    }
    assert!(subject.pipeline.commit());
    let version = subject.version();
    assert_eq!(version.seq - victims, 50 + 30);
    assert!(version.history.iter().any(|step| step.seq == victims));
    assert_eq!(subject.address("evil", "s99"), "10.1.29.99");
}

#[test]
fn security_07_the_serial_is_within_a_minute_of_the_clock_under_any_churn_of_one_tenant() {
    let mut subject = Subject::new();
    let mut most = 0;
    for second in 0..600_u32 {
        let [_, _, high, low] = second.to_be_bytes();
        for name in 0..20_u8 {
            subject.change("evil", &format!("s{name}"), [10, 1 + name, high, low]);
        }
        if second % 3 == 0 {
            let serial = subject.version().serial;
            subject.change("shop", "web", [10, 0, high, low]);
            assert_ne!(subject.version().serial, serial, "{second}");
        }
        most = most.max(subject.ahead_s());
        subject.clock.advance(1);
    }
    assert!(most <= 60, "{most} seconds");
}

/// How far the serial gets ahead of the clock in ten minutes, in seconds. `evil` changes so many names each second, and
/// the other namespaces change a name a second, in turns. None of theirs waits, unless one of them changes as often.
fn most_ahead(evils: u8, others: &[&str]) -> u64 {
    let mut subject = Subject::new();
    for other in others {
        feed(&mut subject.pipeline, Change::Applied(namespace(other)));
    }
    let mut most = 0;
    for (second, other) in (0..600_u32).zip(others.iter().cycle()) {
        let [_, _, high, low] = second.to_be_bytes();
        for name in 0..evils {
            subject.change("evil", &format!("s{name}"), [10, 1 + name, high, low]);
        }
        subject.change(other, "web", [10, 0, high, low]);
        let address = format!("10.0.{high}.{low}");
        if evils > 1 || others.len() > 1 {
            assert_eq!(subject.address(other, "web"), address, "{other}, {second}");
        }
        most = most.max(subject.ahead_s());
        subject.clock.advance(1);
    }
    // What waited went out with the others.
    assert_eq!(subject.address("evil", "s0"), "10.1.2.87");
    most
}

#[test]
fn security_07_the_serial_is_within_a_minute_of_the_clock_while_others_change_once_a_second() {
    let many = ["n0", "n1", "n2", "n3", "n4", "n5", "n6", "n7", "n8", "n9"];
    for evils in [1, 4] {
        for others in [&["shop"][..], &many[..2], &many[..]] {
            let most = most_ahead(evils, others);
            assert!(
                most <= 60,
                "{most} s with {evils} names and {} others",
                others.len()
            );
        }
    }
}

#[test]
fn security_07_changes_that_cause_no_version_are_not_counted() {
    let mut subject = Subject::new();
    for change in 0..150 {
        let mut other = service_at("evil", "web", [10, 1, 0, 1]);
        if let Change::Applied(Fact::Service(service)) = &mut other {
            let port = Port {
                name: "http".into(),
                protocol: Protocol::Tcp,
                number: change,
            };
            service.ports = [port].into();
        }
        feed(&mut subject.pipeline, other);
        assert!(subject.pipeline.commit());
    }
    // No PTR has changed but the first: in the zone of PTRs nothing waits.
    let zone = Arc::clone(subject.plan.zone("10.in-addr.arpa."));
    for change in 0..20 {
        let before = zone.current().unwrap().seq;
        subject.change("shop", &format!("s{change}"), [10, 2, 0, change]);
        assert_eq!(zone.current().unwrap().seq, before + 1, "{change}");
    }
}

#[test]
fn security_07_a_name_that_changes_again_while_it_waits_waits_no_longer() {
    let mut subject = Subject::new();
    // Each namespace causes versions, so that the zone is far ahead.
    for number in 0..100 {
        subject.change(&format!("n{number}"), "web", [10, 3, 0, number]);
    }
    let mut flap = 0;
    let mut change = |subject: &mut Subject| {
        flap += 1;
        subject.change("evil", "flap", [10, 1, 0, flap]);
        format!("10.1.0.{flap}")
    };
    change(&mut subject);
    assert_eq!(subject.address("evil", "flap"), "10.1.0.1");
    for _ in 0..4 {
        change(&mut subject);
        subject.clock.advance(1);
    }
    subject.clock.advance(1);
    assert!(subject.pipeline.commit());
    assert_eq!(subject.address("evil", "flap"), "10.1.0.5");
}

#[test]
fn security_07_what_flaps_back_while_it_waits_causes_no_version() {
    let mut subject = Subject::new();
    for change in 0..11 {
        subject.change("evil", "flap", [10, 1, 0, change]);
    }
    let version = subject.version();
    subject.change("evil", "flap", [10, 1, 0, 9]);
    subject.clock.advance(2);
    assert!(subject.pipeline.commit());
    assert_eq!(subject.version().seq, version.seq);
    assert_eq!(subject.pipeline.deadline(subject.pipeline.now()), None);
}

#[test]
fn security_07_what_waits_is_published_when_it_may_or_when_the_writer_ends() {
    let mut subject = Subject::new();
    for change in 0..20 {
        subject.change("evil", "flap", [10, 1, 0, change]);
    }
    let end = subject.pipeline.deadline(subject.pipeline.now()).unwrap();
    assert_eq!(end - subject.clock.now(), Duration::from_secs(1));
    assert_eq!(subject.address("evil", "flap"), "10.1.0.9");
    let zone = Arc::clone(subject.plan.zone("cluster.local."));
    assert!(zone.held().is_none() && !zone.may_be_old(zone.apex().as_wire()));
    let (sender, mut inputs) = mpsc::channel(1);
    drop(sender);
    let Subject {
        pipeline,
        plan,
        clock: _,
    } = subject;
    pipeline.run(&mut inputs);
    let lines = lines(&contents(&plan));
    let flap = lines.iter().find(|it| it.starts_with("flap.evil.svc."));
    assert!(flap.unwrap().ends_with(" 10.1.0.19"), "{flap:?}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    /// Whatever waits, or is held beside it, in the end the zones are what rendering all gives.
    #[test]
    fn what_waits_equals_full_rendering_once_it_is_out(
        options in any_options(),
        has_gate in any::<bool>(),
        events in prop::collection::vec(any_event(), 1..60),
    ) {
        let mut plan = same_options(&options);
        if has_gate {
            let hold = Some(Duration::from_secs(7));
            let gate = GateSettings { shrink_percent: 10, at_least: 2, hold };
            plan = World::new(gated(plan.plan, gate));
        }
        let clock = HandClock::at(1_000);
        let store = NoStore::default();
        let pipeline = writer(std::slice::from_ref(&plan), store, clock.clone(), Box::new(Deaf));
        let mut pipeline = pipeline.with_batch(BatchSettings { burst: 2, ..BatchSettings::default() });
        let mut objects: Objects =
            ["a", "b"].map(namespace).into_iter().map(|fact| (key_of(&fact), fact)).collect();
        let told = plan.kinds;
        for kind in told.iter() {
            feed(&mut pipeline, list(&objects, kind));
        }
        prop_assert!(pipeline.commit());
        for event in events {
            match event {
                Event::Apply(fact) if !told.contains(fact.kind()) => {}
                Event::Delete(key) if !told.contains(key.kind) => {}
                Event::Relist(kind, ..) if !told.contains(kind) => {}
                Event::Apply(fact) => {
                    objects.insert(key_of(&fact), fact.clone());
                    feed(&mut pipeline, Change::Applied(fact));
                }
                Event::Delete(key) => {
                    objects.remove(&key);
                    feed(&mut pipeline, Change::Deleted(key, Origin::default()));
                }
                Event::Relist(kind, applied, deleted) => {
                    objects.retain(|key, _| key.kind != kind || deleted.contains(key));
                    for fact in applied.into_iter().filter(|fact| fact.kind() == kind) {
                        objects.insert(key_of(&fact), fact);
                    }
                    feed(&mut pipeline, list(&objects, kind));
                }
                Event::Commit => clock.advance(1),
            }
            prop_assert!(pipeline.commit());
        }
        for _ in 0..2 {
            clock.advance(10);
            prop_assert!(pipeline.commit());
        }
        let (want, want_seen) = fresh(&options, told, &objects);
        prop_assert_eq!(lines(&contents(&plan)), lines(&want));
        prop_assert_eq!(seen(&plan), want_seen);
        prop_assert_eq!(pipeline.deadline(pipeline.now()), None);
    }
}
