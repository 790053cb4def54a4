//! What happened to objects while the server was away, or while its source was read anew: the next version names the
//! objects to which something was done, and no others.

use std::collections::HashSet;

use super::*;

/// A run of the writer over zones that have the versions of earlier runs.
struct Run {
    world: World,
    pipeline: Pipeline<NoStore>,
    beside: AllBeside,
    clock: Arc<HandClock>,
}

impl Run {
    fn start(world: &World, beside: &AllBeside) -> Self {
        let clock = HandClock::at(1_000);
        let store = NoStore {
            beside: Arc::clone(beside),
            ..NoStore::default()
        };
        let worlds = [world.clone()];
        let clock_of = Arc::clone(&clock);
        Self {
            pipeline: writer(&worlds, store, clock_of, Box::new(Deaf)),
            world: world.clone(),
            beside: Arc::clone(beside),
            clock,
        }
    }

    /// A first run that saw these objects.
    fn first(world: &World, objects: &Objects) -> Self {
        let mut run = Self::start(world, &AllBeside::default());
        run.see(objects);
        run
    }

    /// Lists all kinds, and commits.
    fn see(&mut self, objects: &Objects) {
        for kind in self.world.plan.kinds.iter() {
            feed(&mut self.pipeline, list(objects, kind));
        }
        assert!(self.pipeline.commit());
    }

    /// Ends as a process does that is asked to.
    fn end(mut self) -> (World, AllBeside) {
        self.pipeline.save_all_facts();
        (self.world, self.beside)
    }

    /// Ends, and starts again after this happened to the objects.
    fn again(self, objects: &Objects) -> Self {
        let (world, beside) = self.end();
        let mut run = Self::start(&world, &beside);
        run.see(objects);
        run
    }

    /// The causes of the last version of a zone, by record.
    fn named(&self, zone: &str) -> BTreeMap<String, Vec<String>> {
        named(self.world.zone(zone))
    }

    /// All that the last version of a zone names.
    fn all_named(&self, zone: &str) -> BTreeSet<String> {
        self.named(zone).into_values().flatten().collect()
    }
}

/// A cause in words.
fn text(cause: &Cause) -> String {
    let kind = cause.kind.map_or("", Kind::as_str);
    format!("{} {kind} {}", cause.verb.as_str(), cause.key)
}

/// The causes of the last version of a zone, by record; `-` stands before removed ones.
fn named(zone: &Zone) -> BTreeMap<String, Vec<String>> {
    let version = zone.current().unwrap();
    let step = version.history.back().expect("there is a step");
    let of = |rr: RrRef<'_>, sign: &str| {
        let group = &step.causes[usize::try_from(rr.tag).unwrap()];
        let record = format!("{sign}{}", RecordText(rr));
        (record, group.iter().map(text).collect())
    };
    let removed = step.removed.iter().map(|rr| of(rr, "-"));
    removed
        .chain(step.added.iter().map(|rr| of(rr, "+")))
        .collect()
}

fn with_origin(uid: &str, version: u32) -> Origin {
    Origin {
        uid: uid.into(),
        resource_version: version.to_string().into(),
        ..Origin::default()
    }
}

/// A Service without a cluster IP in namespace a.
fn headless(name: &str, version: u32) -> Fact {
    Fact::Service(Service {
        key: ObjectKey::new("a", name),
        form: ServiceForm::Headless,
        ports: [].into(),
        external: None,
        created_s: 1,
        origin: with_origin(name, version),
    })
}

/// One of its slices, with endpoints at 10.0.0.N.
fn slice(name: &str, service: &str, version: u32, ends: &[u8]) -> Fact {
    let endpoint = |last: &u8| Endpoint::at([IpAddr::from([10, 0, 0, *last])]);
    Fact::EndpointSlice(EndpointSlice {
        key: ObjectKey::new("a", name),
        service: Some(service.into()),
        import: None,
        form: SliceForm::Ipv4,
        ports: [].into(),
        endpoints: ends.iter().map(endpoint).collect(),
        created_s: 1,
        origin: with_origin(name, version),
    })
}

fn objects(facts: impl IntoIterator<Item = Fact>) -> Objects {
    let all = [namespace("a")].into_iter().chain(facts);
    all.map(|fact| (key_of(&fact), fact)).collect()
}

/// A Service with two slices, and another that nothing happens to.
fn database() -> Objects {
    objects([
        headless("db", 1),
        slice("db-1", "db", 1, &[1, 2]),
        slice("db-2", "db", 1, &[3]),
        headless("web", 1),
        slice("web-1", "web", 1, &[9]),
    ])
}

fn set(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|&name| name.to_owned()).collect()
}

const FORWARD: &str = "cluster.local.";
const REVERSE: &str = "10.in-addr.arpa.";

#[test]
fn causes_06_a_slice_deleted_meanwhile_is_named_and_no_other_object() {
    let first = Run::first(&plan(), &database());
    let mut left = database();
    left.remove(&Kind::EndpointSlice.of(&ObjectKey::new("a", "db-2")));
    let next = first.again(&left);
    for zone in [FORWARD, REVERSE] {
        let named = next.named(zone);
        assert!(!named.is_empty());
        assert!(
            named.keys().all(|record| record.starts_with('-')),
            "{named:?}"
        );
        assert_eq!(
            next.all_named(zone),
            set(&["vanished EndpointSlice a/db-2"])
        );
    }
}

#[test]
fn causes_07_a_slice_scaled_down_meanwhile_is_not_said_to_be_gone() {
    let first = Run::first(&plan(), &database());
    let mut scaled = database();
    scaled.extend(objects([slice("db-1", "db", 2, &[1])]));
    let next = first.again(&scaled);
    for zone in [FORWARD, REVERSE] {
        assert_eq!(next.all_named(zone), set(&["listed EndpointSlice a/db-1"]));
    }
}

#[test]
fn causes_09_a_service_that_is_not_seen_any_more_is_named_in_both_zones() {
    let first = Run::first(&plan(), &database());
    let mut left = database();
    left.remove(&Kind::Service.of(&ObjectKey::new("a", "db")));
    let next = first.again(&left);
    for zone in [FORWARD, REVERSE] {
        assert_eq!(next.all_named(zone), set(&["vanished Service a/db"]));
    }
}

#[test]
fn causes_10_a_restart_names_nothing_that_is_as_it_was() {
    let first = Run::first(&plan(), &database());
    let serial = first.world.zone(FORWARD).current().unwrap().serial;
    let mut next = first.again(&database());
    let zone = next.world.zone(FORWARD);
    assert_eq!(zone.current().unwrap().serial, serial);
    // A later change names its own object alone.
    feed(
        &mut next.pipeline,
        Change::Applied(slice("db-2", "db", 2, &[3, 4])),
    );
    assert!(next.pipeline.commit());
    assert_eq!(
        next.all_named(FORWARD),
        set(&["applied EndpointSlice a/db-2"])
    );
}

#[test]
fn without_facts_of_the_last_run_all_objects_of_a_service_are_named() {
    let first = Run::first(&plan(), &database());
    first.beside.lock().unwrap().clear();
    let mut scaled = database();
    scaled.extend(objects([slice("db-1", "db", 2, &[1])]));
    let world = first.world.clone();
    let mut next = Run::start(&world, &AllBeside::default());
    next.see(&scaled);
    let all = [
        "Service a/db",
        "EndpointSlice a/db-1",
        "EndpointSlice a/db-2",
    ];
    let all = all.map(|object| format!("listed {object}"));
    assert_eq!(next.all_named(FORWARD), all.into());
}

#[test]
fn facts_are_written_with_their_version_and_others_once_a_second() {
    let mut run = Run::first(&plan(), &database());
    let kept = |run: &Run| -> usize {
        let all = run.beside.lock().unwrap();
        all.values().map(BTreeMap::len).sum()
    };
    // Six objects and the header.
    assert_eq!(kept(&run), 7);
    let apply = |run: &mut Run, fact: Fact| {
        feed(&mut run.pipeline, Change::Applied(fact));
        run.pipeline.commit()
    };
    // A version, and its facts with it. A refused one has none.
    assert!(apply(&mut run, slice("db-3", "db", 1, &[7])));
    assert_eq!(kept(&run), 8);
    run.pipeline.store.refusals = 1;
    assert!(!apply(&mut run, slice("db-4", "db", 1, &[8])));
    assert_eq!(kept(&run), 8);
    assert!(run.pipeline.commit());
    assert_eq!(kept(&run), 9);
    // A Service without endpoints makes no version.
    assert!(apply(&mut run, headless("new", 1)));
    run.pipeline.save_facts();
    assert_eq!(kept(&run), 9);
    assert!(run.pipeline.facts_due().is_some());
    run.clock.advance(1);
    run.pipeline.save_facts();
    assert_eq!(kept(&run), 10);
    assert_eq!(run.pipeline.facts_due(), None);
    // A failure is made up for.
    run.clock.advance(1);
    assert!(apply(&mut run, headless("newer", 1)));
    run.pipeline.store.refusals = 1;
    run.pipeline.save_facts();
    assert_eq!(kept(&run), 10);
    run.pipeline.store.refusals = 0;
    run.clock.advance(1);
    run.pipeline.save_facts();
    assert_eq!(kept(&run), 11);
}

#[test]
fn many_facts_are_written_in_portions_after_their_version() {
    let many = (0..600).map(|number| headless(&format!("s{number}"), 1));
    let mut run = Run::first(&plan(), &objects(many));
    let kept = |run: &Run| -> usize {
        let all = run.beside.lock().unwrap();
        all.values().map(BTreeMap::len).sum()
    };
    assert_eq!(kept(&run), 0);
    let mut portions = vec![kept(&run)];
    while run.pipeline.save_facts() {
        portions.push(kept(&run));
    }
    portions.push(kept(&run));
    // The header comes last: without it they do not count.
    assert_eq!(portions, [0, 256, 512, 602]);
}

#[test]
fn of_very_many_objects_that_came_and_went_no_list_is_kept_and_all_facts_are_written_anew() {
    let mut run = Run::first(&plan(), &database());
    run.pipeline.save_all_facts();
    let many = (0..140_000).map(|number| headless(&format!("s{number}"), 1));
    let many: Objects = database().into_iter().chain(objects(many)).collect();
    feed(&mut run.pipeline, list(&many, Kind::Service));
    let mut scaled = database();
    scaled.extend(objects([slice("db-1", "db", 2, &[1])]));
    feed(&mut run.pipeline, list(&scaled, Kind::Service));
    let memory = &run.pipeline.clusters[0].memory;
    assert!(memory.is_overrun && memory.unsaved.is_empty());
    run.see(&scaled);
    run.clock.advance(1);
    while run.pipeline.save_facts() {}
    let kept: usize = run.beside.lock().unwrap().values().map(BTreeMap::len).sum();
    assert_eq!(kept, 7);
    // They are those of the last version.
    scaled.extend(objects([slice("db-2", "db", 2, &[3, 4])]));
    let next = run.again(&scaled);
    assert_eq!(
        next.all_named(FORWARD),
        set(&["listed EndpointSlice a/db-2"])
    );
}

#[test]
fn after_a_crash_what_was_published_before_it_is_no_news() {
    let mut run = Run::first(&plan(), &database());
    run.pipeline.save_facts();
    let mut scaled = database();
    scaled.extend(objects([slice("db-1", "db", 2, &[1])]));
    run.see(&scaled);
    // Nothing more is written; then another slice of the Service is scaled.
    let Run { world, beside, .. } = run;
    let mut next = Run::start(&world, &beside);
    scaled.extend(objects([slice("db-2", "db", 2, &[3, 4])]));
    next.see(&scaled);
    assert_eq!(
        next.all_named(FORWARD),
        set(&["listed EndpointSlice a/db-2"])
    );
}

#[test]
fn what_waits_during_a_freeze_is_news_for_the_next_run() {
    let mut run = Run::first(&plan(), &database());
    run.pipeline.save_all_facts();
    let (asked, _answer) = oneshot::channel();
    let order = Box::new(HoldOrder {
        until_ms: None,
        by: "someone".into(),
        rollback: None,
    });
    let zone: Name = FORWARD.parse().unwrap();
    run.pipeline.take(Input::Hold { zone, order, asked });
    let mut scaled = database();
    scaled.extend(objects([slice("db-1", "db", 2, &[1])]));
    run.see(&scaled);
    // The writer does not wake up for what it may not write.
    run.clock.advance(2);
    assert!(!run.pipeline.save_facts());
    assert_eq!(run.pipeline.facts_due(), None);
    // The reverse zone is not frozen.
    assert_eq!(
        run.all_named(REVERSE),
        set(&["listed EndpointSlice a/db-1"])
    );
    // The freeze is not kept here: the next run publishes what waited.
    let next = run.again(&scaled);
    assert_eq!(
        next.all_named(FORWARD),
        set(&["listed EndpointSlice a/db-1"])
    );
}

#[test]
fn causes_10_of_two_slices_in_one_batch_each_is_named_for_its_own_endpoints() {
    let mut run = Run::first(&plan(), &database());
    for fact in [
        slice("db-1", "db", 2, &[2, 5]),
        slice("db-2", "db", 2, &[3, 6]),
    ] {
        feed(&mut run.pipeline, Change::Applied(fact));
    }
    assert!(run.pipeline.commit());
    for zone in [FORWARD, REVERSE] {
        let named = run.named(zone);
        let of = |last: u8| -> BTreeSet<String> {
            let parts = [
                format!("10-0-0-{last}."),
                format!("A 10.0.0.{last}"),
                format!("{last}.0.0.10."),
            ];
            let its = named
                .iter()
                .filter(|(record, _)| parts.iter().any(|part| record.contains(part)));
            its.flat_map(|(_, causes)| causes.clone()).collect()
        };
        for last in [1, 5] {
            assert_eq!(
                of(last),
                set(&["applied EndpointSlice a/db-1"]),
                "{named:?}"
            );
        }
        assert_eq!(of(6), set(&["applied EndpointSlice a/db-2"]), "{named:?}");
    }
}

#[test]
fn causes_10_a_slice_is_not_named_for_its_services_own_record() {
    for hides_empty_services in [false, true] {
        let world = World::new(ClusterPlan {
            hides_empty_services,
            ..plan().plan
        });
        let mut run = Run::first(&world, &database());
        let Fact::Service(shop) = headless("shop", 1) else {
            unreachable!("it makes a Service");
        };
        let shop = Service {
            form: ServiceForm::ClusterIp([IpAddr::from([10, 0, 0, 7])].into()),
            ..shop
        };
        feed(&mut run.pipeline, Change::Applied(Fact::Service(shop)));
        feed(
            &mut run.pipeline,
            Change::Applied(slice("shop-1", "shop", 1, &[8])),
        );
        assert!(run.pipeline.commit());
        for (record, causes) in run.named(FORWARD) {
            let slice = "applied EndpointSlice a/shop-1";
            let is_own = record.ends_with("A 10.0.0.7");
            // Where empty Services are hidden, the slice shows it.
            let want = match is_own && !hides_empty_services {
                true => vec!["applied Service a/shop"],
                false => vec!["applied Service a/shop", slice],
            };
            assert_eq!(causes, want, "{record}");
        }
    }
}

/// Restarts the source, which reads other objects then.
fn reselect(run: &mut Run, objects: &Objects) {
    let mut world = run.world.clone();
    world.plan.selection = "fewer".into();
    let restart = PlanChange::RestartSource {
        cluster: world.plan.home().clone(),
        plan: world.plan.clone(),
    };
    configure(
        &mut run.pipeline,
        &world,
        vec![restart],
        Some("the Corefile"),
    );
    run.world = world;
    run.see(objects);
}

#[test]
fn causes_02_what_the_corefile_hides_names_the_corefile_alone() {
    let mut run = Run::first(&plan(), &database());
    let mut fewer = database();
    fewer.retain(|key, _| !key.key.name.starts_with("db"));
    reselect(&mut run, &fewer);
    for zone in [FORWARD, REVERSE] {
        assert_eq!(run.all_named(zone), set(&["configured  the Corefile"]));
    }
    // And what it shows again.
    reselect(&mut run, &database());
    for zone in [FORWARD, REVERSE] {
        assert_eq!(run.all_named(zone), set(&["configured  the Corefile"]));
    }
}

#[test]
fn causes_02_an_object_that_changes_while_the_corefile_changes_is_named_for_itself() {
    let mut run = Run::first(&plan(), &database());
    let mut other = database();
    other.retain(|key, _| !key.key.name.starts_with("web"));
    other.extend(objects([slice("db-1", "db", 2, &[1])]));
    reselect(&mut run, &other);
    for (record, causes) in run.named(FORWARD) {
        let want = match record.contains("web.a.") {
            true => "configured  the Corefile",
            false => "listed EndpointSlice a/db-1",
        };
        assert_eq!(causes, [want], "{record}");
    }
}

#[test]
fn causes_02_what_is_hidden_by_a_list_of_namespaces_names_the_corefile_alone() {
    let mut run = Run::first(&plan(), &database());
    let mut world = run.world.clone();
    world.plan.namespaces = Some(BTreeSet::new());
    let change = PlanChange::SetCluster {
        cluster: world.plan.home().clone(),
        plan: world.plan.clone(),
    };
    configure(
        &mut run.pipeline,
        &world,
        vec![change],
        Some("the Corefile"),
    );
    run.world = world;
    assert!(run.pipeline.commit());
    for zone in [FORWARD, REVERSE] {
        assert_eq!(run.all_named(zone), set(&["configured  the Corefile"]));
    }
}

#[test]
fn a_corefile_that_was_changed_meanwhile_is_named_beside_what_is_missing() {
    let mut first = Run::first(&plan(), &database());
    use_corefile(&mut first.pipeline, "one", Operator::default());
    let (mut world, beside) = first.end();
    world.plan.selection = "fewer".into();
    let mut next = Run::start(&world, &beside);
    use_corefile(&mut next.pipeline, "two", Operator::default());
    let mut fewer = database();
    fewer.retain(|key, _| &*key.key.name != "db-2");
    next.see(&fewer);
    let change = format!("configured  {}", change_of_corefile("two", "one"));
    let want = [&*change, "vanished EndpointSlice a/db-2"];
    assert_eq!(next.all_named(FORWARD), set(&want));
}

#[test]
fn a_change_of_the_corefile_that_waited_over_a_restart_is_named_when_it_is_published() {
    let mut run = Run::first(&plan(), &database());
    use_corefile(&mut run.pipeline, "one", Operator::default());
    // It changes nothing, and is written all the same.
    use_corefile(&mut run.pipeline, "two", Operator::default());
    assert!(run.pipeline.facts_due().is_some());
    let (mut world, beside) = run.end();
    world.plan.ttl = Ttl::decode(77);
    // As far as the process knows the Corefile is that of the last run.
    let mut next = Run::start(&world, &beside);
    use_corefile(&mut next.pipeline, "three", Operator::default());
    next.see(&database());
    let change = change_of_corefile("three", "two");
    assert_eq!(
        next.all_named(FORWARD),
        [format!("configured  {change}")].into()
    );
    // It is named once.
    let mut scaled = database();
    scaled.extend(objects([slice("db-1", "db", 2, &[1])]));
    let mut last = {
        let (world, beside) = next.end();
        Run::start(&world, &beside)
    };
    use_corefile(&mut last.pipeline, "three", Operator::default());
    last.see(&scaled);
    assert_eq!(
        last.all_named(FORWARD),
        set(&["listed EndpointSlice a/db-1"])
    );
}

#[test]
fn facts_of_another_form_or_damaged_ones_count_for_nothing() {
    for damage in ["form", "fact", "header"] {
        let first = Run::first(&plan(), &database());
        let (world, beside) = first.end();
        {
            let mut all = beside.lock().unwrap();
            let kept = all.values_mut().next().unwrap();
            match damage {
                "form" => drop(kept.insert(Vec::new(), b"999  all".to_vec())),
                "header" => drop(kept.remove(&Vec::new())),
                _ => drop(kept.insert(b"\x01a\0web".to_vec(), b"?".to_vec())),
            }
        }
        let mut next = Run::start(&world, &beside);
        next.see(&database());
        // They are replaced by those of this run.
        next.pipeline.save_all_facts();
        let all = beside.lock().unwrap();
        let kept = all.values().next().unwrap();
        assert_eq!(kept.len(), 7, "{damage}");
        assert_eq!(kept[&Vec::new()], b"1  all", "{damage}");
    }
}

/// What a record of a zone says, the SOA left out.
fn records(contents: &[Contents]) -> HashSet<String> {
    lines(contents).into_iter().collect()
}

/// Facts whose origins say which ones changed.
fn numbered(objects: &mut Objects, version: u32) {
    for fact in objects.values_mut() {
        let origin = with_origin("u", version);
        match fact {
            Fact::Namespace(it) => it.origin = origin,
            Fact::Service(it) => it.origin = origin,
            Fact::EndpointSlice(it) => it.origin = origin,
            Fact::Pod(it) => it.origin = origin,
            Fact::ServiceImport(it) => it.origin = origin,
        }
    }
}

/// The objects named by the last version of a zone; `None` if it names anything else.
fn objects_of(causes: &[Cause]) -> Option<BTreeSet<FactKey>> {
    let object = |cause: &Cause| Some(cause.kind?.of(&cause.key));
    causes.iter().map(object).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3000, ..ProptestConfig::default() })]

    /// Any objects change in any way while the server is away. Then, of each record that comes or goes: only objects to which
    /// something was done are named, and if nothing had been done to them, the record would be as it was.
    #[test]
    fn the_objects_named_undone_undo_the_change(
        options in any_options(),
        before in prop::collection::vec(worlds::any_fact(), 0..14),
        changed in prop::collection::vec(worlds::any_fact(), 0..5),
        gone in prop::collection::vec(worlds::any_fact(), 0..5),
    ) {
        let options = ClusterPlan { limits: RecordLimits::DEFAULT, front: Front::default(), ..options };
        let world = same_options(&options);
        let kinds = world.plan.kinds;
        let told = |fact: &Fact| kinds.contains(fact.kind());
        let namespaces = ["a", "b"].map(namespace);
        let before = namespaces.into_iter().chain(before).filter(told);
        let mut old: Objects = before.map(|fact| (key_of(&fact), fact)).collect();
        numbered(&mut old, 1);
        let mut new = old.clone();
        for fact in gone {
            new.remove(&key_of(&fact));
        }
        let mut changed: Objects =
            changed.into_iter().filter(told).map(|fact| (key_of(&fact), fact)).collect();
        numbered(&mut changed, 2);
        new.extend(changed);
        let run = Run::first(&world, &old);
        let numbers = |world: &World| -> Vec<u64> {
            world.zones.all().iter().map(|zone| zone.current().map_or(0, |it| it.seq)).collect()
        };
        let seqs = numbers(&run.world);
        let run = run.again(&new);
        let (want, _) = fresh(&options, kinds, &new);
        prop_assert_eq!(lines(&contents(&run.world)), lines(&want));
        let zones = run.world.zones.all().iter().zip(seqs).enumerate();
        for (place, (zone, seq)) in zones {
            let version = zone.current().unwrap();
            if version.seq == seq {
                continue;
            }
            let step = version.history.back().unwrap();
            for (sign, rr) in step.removed.iter().map(|rr| ('-', rr)).chain(step.added.iter().map(|rr| ('+', rr))) {
                let group = &step.causes[usize::try_from(rr.tag).unwrap()];
                let named = objects_of(group);
                prop_assert!(named.is_some(), "{sign}{} {group:?}", RecordText(rr));
                let named = named.unwrap();
                prop_assert!(!named.is_empty());
                let mut undone = new.clone();
                for key in &named {
                    prop_assert_ne!(old.get(key), new.get(key), "{}{} names {:?}", sign, RecordText(rr), key);
                    match old.get(key) {
                        Some(fact) => undone.insert(key.clone(), fact.clone()),
                        None => undone.remove(key),
                    };
                }
                let (then, _) = fresh(&options, kinds, &undone);
                let is_there = records(&then[place..=place]).contains(&RecordText(rr).to_string());
                prop_assert_eq!(is_there, sign == '-', "{}{} names {:?}", sign, RecordText(rr), named);
            }
        }
    }
}
