//! Zone files in the writer: zones of their own, and the law of what lies under a cluster's zone.

mod signed;
mod stale;

use provenance::{ObjectKey, Verb};
use zonefile::{Role, ZoneFile, read_text};

use super::*;
use crate::files::Compared;

/// The content of a file for a zone.
pub(super) fn file(apex: &str, role: Role, text: &str) -> Arc<ZoneFile> {
    let apex = apex.parse().unwrap();
    match read_text("db", text, &apex, role) {
        Ok(content) => Arc::new(content),
        Err(bad) => panic!("{bad}"),
    }
}

/// Gives the writer the content of its file.
pub(super) fn give(pipeline: &mut Pipeline<NoStore>, place: usize, content: &Arc<ZoneFile>) {
    let seen = pipeline.clock.now();
    let content = Arc::clone(content);
    let source = SourceId(u64::try_from(place).unwrap());
    let event = FileEvent::Read { content, seen };
    pipeline.take(Input::File { source, event });
}

/// Files whose followers have the numbers from 0.
pub(super) fn numbered(
    files: impl IntoIterator<Item = FilePlan>,
) -> impl Iterator<Item = (SourceId, FilePlan)> {
    (0..).map(SourceId).zip(files)
}

/// A writer with files under the forward zone and under the first reverse zone.
fn over_files(plan: &World) -> Pipeline<NoStore> {
    let under = |zone: &ZonePlan| FilePlan::Overlay {
        zone: zone.name.clone(),
    };
    let files = plan.plan.zones().take(2).map(under);
    pipeline(plan.clone()).with_files(numbered(files))
}

/// The names that a file may have: some that the cluster may have, above them, below them, beside them.
const FORWARD: &[&str] = &[
    "@",
    "svc",
    "a.svc",
    "s.a.svc",
    "x.s.a.svc",
    "pod-0.s.a.svc",
    "_tcp.s.a.svc",
    "_http._tcp.s.a.svc",
    "t.b.svc",
    "y.x.t.b.svc",
    "ns.dns",
    "dns",
    "dns-version",
    "*.svc",
    "www",
    "*.www",
];

/// The same for the reverse zone.
const REVERSE: &[&str] = &["@", "0", "0.0", "1.0.0", "9.1.0.0", "2.0.0", "7.7.7"];

/// A file with some of these names.
fn any_file(
    apex: &'static str,
    names: &'static [&'static str],
) -> impl Strategy<Value = Arc<ZoneFile>> {
    prop::collection::vec((0..names.len(), 0u8..3), 0..12).prop_map(move |picked| {
        let lines = picked
            .iter()
            .map(|(name, last)| format!("{} 60 TXT \"{last}\"\n", names[*name]));
        file(apex, Role::Overlay, &lines.collect::<String>())
    })
}

#[derive(Debug, Clone)]
enum Happening {
    Cluster(Event),
    /// A file says something else.
    File(usize, Arc<ZoneFile>),
}

fn any_happening() -> impl Strategy<Value = Happening> {
    prop_oneof![
        4 => any_event().prop_map(Happening::Cluster),
        1 => any_file("cluster.local.", FORWARD).prop_map(|file| Happening::File(0, file)),
        1 => any_file("10.in-addr.arpa.", REVERSE).prop_map(|file| Happening::File(1, file)),
    ]
}

/// What a zone over a file must hold, said plainly: the cluster's names, and those of the file that the
/// cluster does not have.
fn layered(cluster: &Contents, file: &ZoneFile) -> Contents {
    let mut zone = cluster.clone();
    for node in file.nodes() {
        if !cluster.exists(node.key()) {
            zone.insert(node.clone());
        }
    }
    zone
}

/// Whether an event is about a kind that was listed, or lists one that the cluster is asked for.
fn is_told(plan: &World, told: Kinds, event: &Event) -> bool {
    match event {
        Event::Apply(fact) => told.contains(fact.kind()),
        Event::Delete(key) => told.contains(key.kind),
        Event::Relist(kind, _, _) => plan.kinds.contains(*kind),
        Event::Commit => true,
    }
}

/// Applies an event of the cluster to its objects and to the writer; whether it is a commit.
fn happen(pipeline: &mut Pipeline<NoStore>, objects: &mut Objects, event: Event) -> bool {
    match event {
        Event::Apply(fact) => {
            objects.insert(key_of(&fact), fact.clone());
            feed(pipeline, Change::Applied(fact));
        }
        Event::Delete(key) => {
            objects.remove(&key);
            feed(pipeline, Change::Deleted(key, Origin::default()));
        }
        Event::Relist(kind, applied, deleted) => {
            for key in deleted.iter().filter(|key| key.kind == kind) {
                objects.remove(key);
            }
            for fact in applied.into_iter().filter(|fact| fact.kind() == kind) {
                objects.insert(key_of(&fact), fact);
            }
            feed(pipeline, list(objects, kind));
        }
        Event::Commit => return true,
    }
    false
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    /// The law of layers: whatever the order of changes of cluster and files, and with refused commits
    /// between, the zone is the cluster's names and those of the file that the cluster does not have.
    #[test]
    fn a_zone_over_a_file_is_the_same_however_it_came_about(
        options in any_options(),
        happenings in prop::collection::vec(any_happening(), 1..40),
        refused in any::<bool>(),
    ) {
        let plan = same_options(&options);
        let mut pipeline = over_files(&plan);
        let mut objects = Objects::new();
        let mut files = [file("cluster.local.", Role::Overlay, ""), file("10.in-addr.arpa.", Role::Overlay, "")];
        for fact in ["a", "b"].map(namespace) {
            objects.insert(key_of(&fact), fact);
        }
        let mut told = plan.kinds.without(Kind::ServiceImport);
        for kind in told.iter() {
            feed(&mut pipeline, list(&objects, kind));
        }
        for (place, file) in files.iter().enumerate() {
            prop_assert!(pipeline.commit());
            let has_version = |name: &str| plan.zone(name).current().is_some();
            let begun = ["cluster.local.", "10.in-addr.arpa."].map(has_version);
            prop_assert_eq!(begun, [place > 0, false], "not before their files are read");
            give(&mut pipeline, place, file);
        }
        prop_assert!(pipeline.commit());
        for happening in happenings.into_iter().chain([Happening::Cluster(Event::Commit)]) {
            match happening {
                Happening::File(place, content) => {
                    give(&mut pipeline, place, &content);
                    files[place] = content;
                }
                // A source that is not asked for a kind says nothing of it.
                Happening::Cluster(event) if !is_told(&plan, told, &event) => {}
                Happening::Cluster(event) => {
                    if let Event::Relist(kind, ..) = event {
                        told = told.with(kind);
                    }
                    if !happen(&mut pipeline, &mut objects, event) {
                        continue;
                    }
                    if refused {
                        pipeline.store.refusals = 1;
                        pipeline.commit();
                        pipeline.store.refusals = 0;
                    }
                    prop_assert!(pipeline.commit());
                    let (mut want, _) = fresh(&plan, told, &objects);
                    want[0] = layered(&want[0], &files[0]);
                    want[1] = layered(&want[1], &files[1]);
                    prop_assert_eq!(lines(&contents(&plan)), lines(&want));
                    // A restart renders everything over what the store gave back.
                    let mut again = over_files(&plan);
                    let versions: Vec<u64> = plan.zones.all().iter().map(|zone| zone.current().map_or(0, |version| version.seq)).collect();
                    for kind in told.iter() {
                        feed(&mut again, list(&objects, kind));
                    }
                    give(&mut again, 0, &files[0]);
                    give(&mut again, 1, &files[1]);
                    prop_assert!(again.commit());
                    let after: Vec<u64> = plan.zones.all().iter().map(|zone| zone.current().map_or(0, |version| version.seq)).collect();
                    prop_assert_eq!(versions, after, "no change of content, no version");
                }
            }
        }
    }
}

/// What the first zone of a plan holds, and the causes of its last step.
fn last_causes(zone: &Zone) -> Vec<String> {
    let version = zone.current().unwrap();
    let step = version.history.back().expect("there is a step");
    let said = |rr: RrRef<'_>, sign: &str| {
        let causes = step.causes[rr.tag as usize].iter();
        let causes = causes.map(|cause| {
            format!(
                "{} {} {}",
                cause.verb.as_str(),
                cause.key.name,
                cause.origin.place
            )
        });
        format!(
            "{sign}{} | {}",
            RecordText(rr),
            causes.collect::<Vec<_>>().join(", ")
        )
    };
    let gone = step.removed.iter().map(|rr| said(rr, "-"));
    gone.chain(step.added.iter().map(|rr| said(rr, "+")))
        .collect()
}

/// A writer that has these zones and no cluster.
pub(super) fn without_clusters(zones: &[Arc<Zone>], store: NoStore) -> Pipeline<NoStore> {
    let zones = Arc::new(ZoneSet::new(zones.to_vec()));
    let clock = HandClock::at(1_000);
    Pipeline::new(zones, Vec::new(), store, clock, Box::new(Deaf))
}

/// A writer of one zone that is a file.
pub(super) fn of_file() -> (Arc<Zone>, Pipeline<NoStore>) {
    let zone = Arc::new(Zone::new(&"z.".parse().unwrap()));
    let pipeline = without_clusters(std::slice::from_ref(&zone), NoStore::default());
    let files = [FilePlan::Zone {
        zone: zone.apex().clone(),
        retention: RETENTION,
    }];
    (zone, pipeline.with_files(numbered(files)))
}

/// A zone file with this serial and these lines.
pub(super) fn zone_text(serial: u32, lines: &str) -> Arc<ZoneFile> {
    let top = format!("$TTL 60\n@ SOA ns h {serial} 1h 2h 3h 4h\n@ NS ns\nns A 192.0.2.1\n");
    file("z.", Role::Zone, &format!("{top}{lines}"))
}

#[test]
fn a_file_is_a_zone_with_serials_of_ours_and_its_lines_as_causes() {
    let (zone, mut pipeline) = of_file();
    give(&mut pipeline, 0, &zone_text(7, "a A 192.0.2.2\nb TXT x\n"));
    zone.set_stale_since_ms(Some(5));
    assert!(pipeline.commit());
    let version = zone.current().unwrap();
    assert_eq!(
        version.serial,
        Serial::decode(1_000),
        "the clock, for it is ahead of the file"
    );
    assert_eq!(version.contents.soa().refresh, Ttl::decode(3600));
    assert_eq!(zone.stale_since_ms(), None);
    give(&mut pipeline, 0, &zone_text(8, "a A 192.0.2.3\n"));
    assert!(pipeline.commit());
    assert_eq!(
        last_causes(&zone),
        [
            "-a.z. 60 IN A 192.0.2.2 | applied db db:5",
            "-b.z. 60 IN TXT \"x\" | deleted db ",
            "+a.z. 60 IN A 192.0.2.3 | applied db db:5",
        ]
    );
    assert_eq!(zone.current().unwrap().serial, Serial::decode(1_001));
}

#[test]
fn the_serial_of_a_file_alone_is_no_version_and_lifts_the_next() {
    let (zone, mut pipeline) = of_file();
    let serial = |zone: &Zone| zone.current().unwrap().serial;
    // RFC 1982: a file whose serial is a date is ahead of the clock; who moves here keeps secondaries.
    give(&mut pipeline, 0, &zone_text(2_026_112_101, ""));
    assert!(pipeline.commit());
    assert_eq!(serial(&zone), Serial::decode(2_026_112_101));
    let commits = pipeline.store.commits;
    give(&mut pipeline, 0, &zone_text(2_026_112_102, ""));
    assert!(pipeline.commit());
    assert_eq!(pipeline.store.commits, commits);
    give(
        &mut pipeline,
        0,
        &zone_text(2_026_112_105, "a A 192.0.2.2\n"),
    );
    assert!(pipeline.commit());
    assert_eq!(serial(&zone), Serial::decode(2_026_112_105));
    give(&mut pipeline, 0, &zone_text(1, ""));
    assert!(pipeline.commit());
    assert_eq!(serial(&zone), Serial::decode(2_026_112_106));
}

/// A zone whose file was reset from serial 3900000000 by the widest step, with its writer and clock.
fn reset_zone() -> (Arc<Zone>, Pipeline<NoStore>, Arc<HandClock>) {
    let (zone, mut pipeline) = of_file();
    let clock = HandClock::at(1_795_000_000);
    pipeline.clock = Arc::clone(&clock) as Arc<dyn Clock>;
    for (serial, line) in [
        (3_900_000_000, ""),
        (RESET, "a A 192.0.2.2\n"),
        (RESET, "a A 192.0.2.3\n"),
    ] {
        give(&mut pipeline, 0, &zone_text(serial, line));
        assert!(pipeline.commit());
    }
    (zone, pipeline, clock)
}

/// The farthest serial that a secondary with 3900000000 can follow.
const RESET: u32 = 1_752_516_351;

/// The serial of the next version.
fn next_of(zone: &Zone, pipeline: &mut Pipeline<NoStore>, last: u8) -> u32 {
    let text = zone_text(RESET, &format!("a A 192.0.2.{last}\n"));
    give(pipeline, 0, &text);
    assert!(pipeline.commit());
    zone.current().unwrap().serial.encode()
}

#[test]
fn serials_after_a_reset_rise_by_one_until_the_secondaries_have_followed() {
    let (zone, mut pipeline, clock) = reset_zone();
    assert_eq!(zone.current().unwrap().serial.encode(), RESET + 1);
    // RFC 1982 takes a secondary that is left behind for one that is ahead.
    let proof = Proof::Signature;
    pipeline.take(Input::Ahead(reported(zone.apex(), 3_899_999_000, proof)));
    clock.advance(3 * 3600 - 1);
    assert_eq!(next_of(&zone, &mut pipeline, 4), RESET + 2);
    let mut pipeline =
        pipeline.with_followed(Box::new(|version| !version.leaves_behind(version.serial)));
    let now = 1_795_000_000 + 3 * 3600 - 1;
    assert_eq!(next_of(&zone, &mut pipeline, 5), now);
    let left = zone.current().unwrap().left_behind.unwrap();
    assert_eq!(left.serial.encode(), RESET + 2, "the clock is a year ahead");
}

#[test]
fn serials_after_a_reset_take_the_clock_again_when_old_copies_have_expired() {
    let (zone, mut pipeline, clock) = reset_zone();
    clock.advance(3 * 3600);
    assert_eq!(next_of(&zone, &mut pipeline, 4), 1_795_000_000 + 3 * 3600);
}

#[test]
fn an_operator_ends_a_reset_with_the_serial_of_the_file() {
    let (zone, mut pipeline, _) = reset_zone();
    give(
        &mut pipeline,
        0,
        &zone_text(2_026_112_401, "a A 192.0.2.9\n"),
    );
    assert!(pipeline.commit());
    assert_eq!(zone.current().unwrap().serial.encode(), 2_026_112_401);
}

/// With a large signed zone, comparing it at each commit would make each change of a cluster wait.
#[test]
fn a_file_is_compared_with_a_version_once() {
    let (zone, mut pipeline) = of_file();
    let mut version = |serial| {
        let text = zone_text(serial, &format!("a TXT {serial}\n"));
        give(&mut pipeline, 0, &text);
        assert!(pipeline.commit());
        (text, zone.current().unwrap())
    };
    let (first, second) = (version(7), version(8));
    let mut compared = Compared::default();
    let mut passes = 0;
    let mut ask = |file, version, answer| {
        compared.is_same(file, version, || {
            passes += 1;
            answer
        })
    };
    for (file, version, answer) in [
        (&first.0, &first.1, true),
        (&first.0, &second.1, false),
        (&second.0, &second.1, true),
    ] {
        assert_eq!(ask(file, version, answer), answer);
        assert_eq!(ask(file, version, !answer), answer, "it is remembered");
    }
    assert_eq!(passes, 3);
}

#[test]
fn other_timers_alone_are_a_version_with_its_cause() {
    let (zone, mut pipeline) = of_file();
    give(&mut pipeline, 0, &zone_text(1, ""));
    assert!(pipeline.commit());
    let text = "$TTL 60\n@ SOA ns h 1 9 2h 3h 4h\n@ NS ns\nns A 192.0.2.1\n";
    give(&mut pipeline, 0, &file("z.", Role::Zone, text));
    assert!(pipeline.commit());
    let version = zone.current().unwrap();
    let step = version.history.back().unwrap();
    assert!(step.added.is_empty() && step.removed.is_empty());
    assert_eq!(step.causes[0][0].verb, Verb::Applied);
    assert_eq!(version.contents.soa().refresh, Ttl::decode(9));
}

/// The Service `a/new` with this cluster IP.
pub(super) fn at_address(address: &str) -> Fact {
    Fact::Service(Service {
        key: ObjectKey::new("a", "new"),
        form: ServiceForm::ClusterIp([address.parse().unwrap()].into()),
        ports: [].into(),
        external: None,
        created_s: 0,
        origin: Origin::default(),
    })
}

#[test]
fn a_change_of_the_cluster_looks_at_few_names_of_a_large_file() {
    let plan = plan();
    let mut pipeline = over_files(&plan);
    for kind in plan.kinds.iter() {
        feed(&mut pipeline, Change::Listed(kind, vec![]));
    }
    feed(&mut pipeline, Change::Applied(namespace("a")));
    let many: String = (0..5000)
        .map(|n| format!("h{n} 60 A 192.0.2.1\n"))
        .collect();
    give(
        &mut pipeline,
        0,
        &file(
            "cluster.local.",
            Role::Overlay,
            &format!("{many}a.svc 60 TXT x\n"),
        ),
    );
    give(
        &mut pipeline,
        1,
        &file("10.in-addr.arpa.", Role::Overlay, ""),
    );
    assert!(pipeline.commit());
    feed(&mut pipeline, Change::Applied(at_address("10.9.9.9")));
    assert!(pipeline.commit());
    // The Service's namespace is a name of the cluster now: it hides the file's.
    assert_eq!(
        last_causes(plan.zone("cluster.local.")),
        [
            "-a.svc.cluster.local. 60 IN TXT \"x\" | applied new ",
            "+new.a.svc.cluster.local. 5 IN A 10.9.9.9 | applied new ",
        ]
    );
    // As it goes, the file's record shows again, for two reasons.
    let gone = Kind::Service.of(&ObjectKey::new("a", "new"));
    feed(&mut pipeline, Change::Deleted(gone, Origin::default()));
    assert!(pipeline.commit());
    assert_eq!(
        last_causes(plan.zone("cluster.local.")),
        [
            "-new.a.svc.cluster.local. 5 IN A 10.9.9.9 | deleted new ",
            "+a.svc.cluster.local. 60 IN TXT \"x\" | deleted new , applied db db:5001",
        ]
    );
}
