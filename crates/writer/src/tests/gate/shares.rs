//! Losses by namespace: a tenant neither hides another's loss nor holds another's changes.

use super::*;

/// Namespaces with so many Services, each with a cluster IP of its own.
type Tenants<'a> = &'a [(&'a str, std::ops::Range<u8>)];

/// A Service of a tenant. The address names both.
fn service_of(tenant: &str, number: u8) -> Fact {
    let place = tenant.bytes().fold(0_u8, u8::wrapping_add);
    Fact::Service(Service {
        key: ObjectKey::new(tenant, &format!("s{number}")),
        form: ServiceForm::ClusterIp([IpAddr::from([10, 1, place, number])].into()),
        ports: Vec::new().into(),
        external: None,
        created_s: 0,
        origin: Origin::default(),
    })
}

/// Lists everything anew.
fn list_tenants(subject: &mut Subject, tenants: Tenants<'_>) {
    let namespaces = tenants.iter().map(|(name, _)| namespace(name)).collect();
    let numbered = tenants.iter().flat_map(|(name, numbers)| {
        let numbers = numbers.clone();
        numbers.map(move |number| service_of(name, number))
    });
    let services = numbered.collect();
    feed(
        &mut subject.pipeline,
        Change::Listed(Kind::Namespace, namespaces),
    );
    feed(
        &mut subject.pipeline,
        Change::Listed(Kind::Service, services),
    );
    feed(
        &mut subject.pipeline,
        Change::Listed(Kind::EndpointSlice, Vec::new()),
    );
}

/// A writer with these tenants' records published.
fn subject_of(tenants: Tenants<'_>) -> Subject {
    let plan = ClusterPlan {
        publishes_namespaces: true,
        ..gated(plan().plan, GATE)
    };
    let mut subject = Subject::new(World::new(plan));
    list_tenants(&mut subject, tenants);
    assert!(subject.pipeline.commit());
    assert!(subject.heard().is_empty());
    subject
}

/// A restart: a new writer with the stored versions.
fn restarted(subject: Subject) -> Subject {
    let plan = subject.plan.plan.clone();
    Subject::new(subject.plan.replanned(plan))
}

/// How many names and PTRs a tenant has.
fn records_of(subject: &Subject, tenant: &str) -> (usize, usize) {
    let lines = lines(&contents(&subject.plan));
    let own = format!(".{tenant}.svc.cluster.local. ");
    let pointer = format!(".{tenant}.svc.cluster.local.");
    let names = lines.iter();
    let names = names.filter(|line| line.contains(&own) && line.contains(" A "));
    let pointers = lines.iter();
    let pointers = pointers.filter(|line| line.contains(" PTR ") && line.ends_with(&pointer));
    (names.count(), pointers.count())
}

#[test]
fn security_06_a_tenant_with_many_records_does_not_hide_the_loss_of_another() {
    let mut subject = subject_of(&[("shop", 0..10), ("evil", 0..200)]);
    // All of `shop`: less than five per cent of the zone.
    list_tenants(&mut subject, &[("shop", 0..0), ("evil", 0..200)]);
    assert!(subject.pipeline.commit());
    assert_eq!(records_of(&subject, "shop"), (10, 10));
    let heard = subject.heard();
    let want = "namespace shop would lose 10 of 10 records";
    assert_eq!(heard.len(), 2, "{heard:?}");
    assert!(heard.iter().all(|line| line.contains(want)), "{heard:?}");
}

#[test]
fn security_06_the_loss_of_a_tenant_holds_that_tenant_alone() {
    let tenants: Tenants<'_> = &[("shop", 0..10), ("evil", 0..200)];
    for starts_again in [false, true] {
        let mut subject = subject_of(tenants);
        if starts_again {
            subject = restarted(subject);
        }
        list_tenants(&mut subject, &[("shop", 0..11), ("evil", 0..0)]);
        assert!(subject.pipeline.commit());
        let now = |subject: &Subject| (records_of(subject, "shop"), records_of(subject, "evil"));
        assert_eq!(now(&subject), ((11, 11), (200, 200)), "{starts_again}");
        feed(
            &mut subject.pipeline,
            Change::Applied(service_of("shop", 11)),
        );
        assert!(subject.pipeline.commit());
        assert_eq!(now(&subject), ((12, 12), (200, 200)));
        feed(
            &mut subject.pipeline,
            Change::Applied(service_of("evil", 250)),
        );
        assert!(subject.pipeline.commit());
        assert_eq!(now(&subject), ((12, 12), (200, 200)));
        let heard = subject.heard();
        let want = "namespace evil would lose 200 of 200 records";
        assert_eq!(heard.len(), 2, "{heard:?}");
        assert!(heard.iter().all(|line| line.contains(want)), "{heard:?}");
        assert!(!subject.may_be_old("s1.shop.svc.cluster.local."));
        assert!(subject.may_be_old("s1.evil.svc.cluster.local."));
    }
}

#[test]
fn security_06_each_version_beside_a_held_tenant_names_its_own_causes() {
    let mut subject = subject_of(&[("shop", 0..10), ("evil", 0..20)]);
    list_tenants(&mut subject, &[("shop", 0..10), ("evil", 0..0)]);
    assert!(subject.pipeline.commit());
    let serial = subject.serial();
    feed(
        &mut subject.pipeline,
        Change::Applied(service_of("shop", 11)),
    );
    assert!(subject.pipeline.commit());
    let version = subject.zone().current().unwrap();
    let step = version.history.last().unwrap();
    assert_ne!(version.serial.encode(), serial);
    let named: Vec<String> = step
        .causes
        .iter()
        .flatten()
        .map(|it| it.key.to_string())
        .collect();
    assert_eq!(named, ["shop/s11"]);
    assert_eq!((step.added.len(), step.removed.len()), (1, 0));
}

#[test]
fn security_06_a_held_tenant_is_let_out_by_a_release_by_its_time_or_when_it_is_back() {
    let all: Tenants<'_> = &[("shop", 0..10), ("evil", 0..20)];
    let without: Tenants<'_> = &[("shop", 0..10), ("evil", 0..0)];
    let held = || {
        let mut subject = subject_of(all);
        list_tenants(&mut subject, without);
        assert!(subject.pipeline.commit());
        assert_eq!(records_of(&subject, "evil"), (20, 20));
        assert_eq!(subject.heard().len(), 2);
        subject
    };
    let mut released = held();
    let answer = released.release("cluster.local.");
    assert!(released.pipeline.commit());
    assert_eq!(records_of(&released, "evil"), (0, 20));
    assert_eq!(released.heard(), ["cluster.local. released"]);
    assert!(answer.blocking_recv().unwrap().is_ok());
    assert!(released.zone().held().is_none());

    let mut expired = held();
    expired.clock.advance(1800);
    feed(
        &mut expired.pipeline,
        Change::Applied(service_of("shop", 11)),
    );
    assert!(expired.pipeline.commit());
    let end = expired.deadline().unwrap();
    assert_eq!(end - expired.clock.now(), Duration::from_secs(1800));
    expired.clock.advance(1800);
    assert!(expired.pipeline.commit());
    assert_eq!(records_of(&expired, "evil"), (0, 0));
    let out = ["cluster.local. expired", "10.in-addr.arpa. expired"];
    assert_eq!(expired.heard(), out);
    assert_eq!(expired.deadline(), None);

    let mut back = held();
    let serial = back.serial();
    list_tenants(&mut back, all);
    assert!(back.pipeline.commit());
    assert_eq!(
        (records_of(&back, "evil"), back.serial()),
        ((20, 20), serial)
    );
    let out = ["cluster.local. recovered", "10.in-addr.arpa. recovered"];
    assert_eq!(back.heard(), out);
    assert!(back.zone().held().is_none());
}

#[test]
fn security_06_each_held_tenant_has_its_own_time() {
    let mut subject = subject_of(&[
        ("a", 0..10),
        ("b", 0..10),
        ("c", 0..10),
        ("d", 0..10),
        ("e", 0..10),
    ]);
    let lists = |a, b| {
        [
            ("a", 0..a),
            ("b", 0..b),
            ("c", 0..10),
            ("d", 0..10),
            ("e", 0..10),
        ]
    };
    list_tenants(&mut subject, &lists(0, 10));
    assert!(subject.pipeline.commit());
    assert_eq!(subject.heard().len(), 2);
    subject.clock.advance(1800);
    list_tenants(&mut subject, &lists(0, 0));
    assert!(subject.pipeline.commit());
    let heard = subject.heard();
    let want = "namespace b would lose 10 of 10 records";
    assert!(heard.len() == 2 && heard[0].ends_with(want), "{heard:?}");
    subject.clock.advance(1800);
    assert!(subject.pipeline.commit());
    assert_eq!(records_of(&subject, "a"), (0, 0));
    assert_eq!(records_of(&subject, "b"), (10, 10));
    let heard = subject.heard();
    assert!(
        heard.len() == 2 && heard[0].contains("namespace a expired"),
        "{heard:?}"
    );
    list_tenants(&mut subject, &lists(0, 9));
    assert!(subject.pipeline.commit());
    assert_eq!(records_of(&subject, "b"), (9, 9));
    assert_eq!(subject.heard().len(), 2);
    assert!(subject.zone().held().is_none());
}

#[test]
fn security_06_many_tenants_that_lose_hold_the_whole_zone() {
    let names = ["a", "b", "c", "d", "e", "f"];
    let lists = |lost: usize, big: u8| {
        let small = names.iter().enumerate();
        let small = small.map(|(place, name)| (*name, 0..if place < lost { 1 } else { 4 }));
        small.chain([("evil", 0..big)]).collect::<Vec<_>>()
    };
    // Each loses fewer than the gate's number, and together much less than its share of the zone.
    let mut subject = subject_of(&lists(0, 200));
    list_tenants(&mut subject, &lists(4, 201));
    assert!(subject.pipeline.commit());
    assert_eq!(records_of(&subject, "evil"), (200, 200));
    assert!(subject.heard()[0].contains("it would lose 12 of"));
    assert!(subject.may_be_old("s1.evil.svc.cluster.local."));
    // One tenant of seven that loses a few is no matter.
    let mut subject = subject_of(&lists(0, 200));
    list_tenants(&mut subject, &lists(1, 201));
    assert!(subject.pipeline.commit());
    assert_eq!(
        (records_of(&subject, "a"), records_of(&subject, "evil")),
        ((1, 1), (201, 201))
    );
    assert!(subject.heard().is_empty());
}

#[test]
fn security_06_losses_of_one_minute_count_together_for_each_tenant() {
    let mut subject = subject_of(&[("shop", 0..20), ("evil", 0..200)]);
    list_tenants(&mut subject, &[("shop", 0..15), ("evil", 0..200)]);
    assert!(subject.pipeline.commit());
    assert_eq!(records_of(&subject, "shop"), (15, 15));
    list_tenants(&mut subject, &[("shop", 0..11), ("evil", 0..210)]);
    assert!(subject.pipeline.commit());
    assert_eq!(records_of(&subject, "shop"), (15, 15));
    assert_eq!(records_of(&subject, "evil"), (210, 210));
    let heard = subject.heard();
    assert!(
        heard[0].ends_with("namespace shop would lose 9 of 20 records"),
        "{heard:?}"
    );
}

#[test]
fn security_06_a_freeze_over_a_held_tenant_holds_all_and_its_end_holds_the_tenant_again() {
    let mut subject = subject_of(&[("shop", 0..10), ("evil", 0..20)]);
    list_tenants(&mut subject, &[("shop", 0..10), ("evil", 0..0)]);
    assert!(subject.pipeline.commit());
    let (order, asked) = (
        HoldOrder {
            until_ms: None,
            by: "someone".into(),
            rollback: None,
        },
        oneshot::channel(),
    );
    let zone = "cluster.local.".parse().unwrap();
    let order = Box::new(order);
    subject.pipeline.take(Input::Hold {
        zone,
        order,
        asked: asked.0,
    });
    feed(
        &mut subject.pipeline,
        Change::Applied(service_of("shop", 11)),
    );
    assert!(subject.pipeline.commit());
    assert_eq!(records_of(&subject, "shop"), (10, 11));
    let _answer = subject.release("cluster.local.");
    assert!(subject.pipeline.commit());
    assert_eq!(records_of(&subject, "shop"), (11, 11));
    assert_eq!(records_of(&subject, "evil"), (20, 20));
    assert!(subject.zone().held().is_some());
}

#[test]
fn security_06_the_live_layer_follows_the_tenants_that_are_not_held() {
    let mut subject = subject_of(&[("shop", 0..10), ("evil", 0..20)]);
    let seen = Arc::clone(subject.plan.handles.live.seen.as_ref().unwrap());
    list_tenants(&mut subject, &[("shop", 0..10), ("new", 0..1)]);
    assert!(subject.pipeline.commit());
    let now = || ["shop", "evil", "new", "none"].map(|name| seen.contains(name).unwrap());
    assert_eq!(now(), [true, true, true, false]);
    let _answer = subject.release("cluster.local.");
    assert!(subject.pipeline.commit());
    assert_eq!(now(), [true, false, true, false]);
}
