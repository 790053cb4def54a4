//! A change of the configuration: a cause of what the first rendering after it changes, and of no more.

use provenance::Verb;
use zonefile::{Role, read_text};

use super::holds::{HOUR, causes_of};
use super::*;

/// What the configuration changed to.
const WHAT: &str = "the Corefile, digest 2…, before 1…";

/// The same as a cause.
fn cause() -> String {
    format!("configured {WHAT} by ")
}

/// The zones of a plan in a writer that a change of the configuration made, with this TTL and what `with` adds.
fn changed_from(
    plan: World,
    ttl: u32,
    with: impl FnOnce(Pipeline<NoStore>) -> Pipeline<NoStore>,
) -> Subject {
    let ttl = Ttl::decode(ttl);
    let new = ClusterPlan {
        ttl,
        ..plan.plan.clone()
    };
    let mut next = Subject::new(plan.replanned(new));
    next.pipeline = with(next.pipeline).with_change(Some(WHAT));
    next
}

/// The same zones with another TTL.
fn changed() -> Subject {
    changed_from(Subject::of_ten().plan, 11, |pipeline| pipeline)
}

/// The same zones with the TTL that they had.
fn unchanged() -> Subject {
    changed_from(Subject::of_ten().plan, 5, |pipeline| pipeline)
}

/// A file under `cluster.local` with this text.
fn file_under(pipeline: &mut Pipeline<NoStore>, text: &str) {
    let apex = "cluster.local.".parse().unwrap();
    let content = read_text("db", text, &apex, Role::Overlay).unwrap();
    let (content, seen) = (Arc::new(content), pipeline.clock.now());
    let source = SourceId(0);
    let event = FileEvent::Read { content, seen };
    pipeline.take(Input::File { source, event });
}

#[test]
fn a_change_of_the_corefile_is_a_cause_of_what_its_first_rendering_changes() {
    let mut next = changed();
    let serial = next.serial();
    next.relist(0..10);
    assert!(next.serial() > serial);
    let causes = next.causes();
    // Only the TTL changed: nothing was done to the objects that were listed again.
    assert_eq!(causes, [cause()].into());
    next.add(10);
    assert_eq!(next.causes(), ["applied a/s10 by ".to_owned()].into());
}

#[test]
fn a_first_rendering_that_the_gate_holds_names_the_corefile_when_it_is_let_out() {
    let mut next = changed();
    next.relist(0..0);
    next.add(10);
    assert_eq!(next.names(), 10);
    let _answer = next.release("cluster.local.");
    assert!(next.pipeline.commit());
    assert_eq!(next.names(), 1);
    let causes = next.causes();
    assert!(causes.contains(&cause()), "{causes:?}");
    next.add(11);
    assert_eq!(next.causes(), ["applied a/s11 by ".to_owned()].into());
}

#[test]
fn a_source_that_recovers_after_a_change_without_effect_leaves_the_corefile_unnamed() {
    let mut next = unchanged();
    let serial = next.serial();
    next.relist(0..0);
    next.relist(0..10);
    assert_eq!(next.serial(), serial);
    next.add(10);
    assert_eq!(next.causes(), ["applied a/s10 by ".to_owned()].into());
}

#[test]
fn a_zone_that_is_frozen_while_the_corefile_changes_names_it_at_the_end() {
    let mut next = changed();
    let _answer = next.order(None);
    next.relist(0..10);
    next.clock.advance(HOUR);
    let serial = next.serial();
    assert!(next.pipeline.commit());
    assert!(next.serial() > serial);
    let causes = next.causes();
    assert!(causes.contains(&cause()), "{causes:?}");
}

/// The same writer after the next change of the configuration: another TTL, and objects that are listed again.
fn changed_again(mut subject: Subject, ttl: u32) -> Subject {
    let ttl = Ttl::decode(ttl);
    let new = ClusterPlan {
        ttl,
        ..subject.plan.plan.clone()
    };
    subject.plan.plan = new.clone();
    let restart = PlanChange::RestartSource {
        cluster: new.home().clone(),
        plan: new,
    };
    configure(
        &mut subject.pipeline,
        &subject.plan,
        vec![restart],
        Some("the next Corefile"),
    );
    subject
}

#[test]
fn changes_of_the_corefile_while_a_zone_is_frozen_are_all_named_at_the_end() {
    let mut next = changed();
    let _answer = next.order(None);
    next.relist(0..10);
    // Of one writer nothing was rendered at all.
    let mut last = changed_again(changed_again(next, 12), 13);
    last.relist(0..10);
    let serial = last.serial();
    let _answer = last.release("cluster.local.");
    assert!(last.pipeline.commit());
    assert!(last.serial() > serial);
    let causes = last.causes();
    for cause in [&*cause(), "configured the next Corefile by "] {
        assert!(causes.contains(cause), "{causes:?}");
    }
    last.add(10);
    assert_eq!(last.causes(), ["applied a/s10 by ".to_owned()].into());
}

#[test]
fn a_freeze_that_ended_at_the_gate_is_named_by_the_writer_that_lets_the_change_out() {
    let mut next = Subject::of_ten();
    let _answer = next.order(None);
    next.relist(0..0);
    let _answer = next.release("cluster.local.");
    assert!(next.pipeline.commit());
    assert!(next.zone().hold().is_none() && next.names() == 10);
    let mut last = changed_again(next, 12);
    last.relist(0..0);
    let _answer = last.release("cluster.local.");
    assert!(last.pipeline.commit());
    assert_eq!(last.names(), 0);
    let causes = last.causes();
    let freeze = "resumed the freeze of someone since 1970-01-01T00:16:40.000Z by someone";
    for cause in [freeze, "configured the next Corefile by "] {
        assert!(causes.contains(cause), "{causes:?}");
    }
}

#[test]
fn what_a_version_named_is_not_left_to_the_next_writer() {
    let mut next = changed();
    next.relist(0..10);
    assert!(next.causes().contains(&cause()));
    let mut last = changed_again(next, 12);
    last.relist(0..10);
    let causes = last.causes();
    assert!(!causes.contains(&cause()), "{causes:?}");
    assert!(
        last.pipeline
            .guarded()
            .all(|(_, guard)| guard.notes.is_empty())
    );
}

#[test]
fn of_very_many_changes_that_wait_the_last_are_named() {
    use crate::notes::add_note;

    let numbered = |number: u32| Cause {
        verb: Verb::Configured,
        kind: None,
        key: ObjectKey::new("", &number.to_string()),
        origin: Origin::default(),
    };
    let mut notes = Vec::new();
    for number in (0..100).chain([99]) {
        add_note(&mut notes, numbered(number));
    }
    let want: Vec<Cause> = (36..100).map(numbered).collect();
    assert_eq!(notes, want);
}

#[test]
fn a_rollback_is_not_of_the_corefile_but_what_follows_it_is() {
    let mut next = changed();
    next.relist(0..8);
    let old = next.zone().current().unwrap();
    next.add(8);
    let mut last = changed_from(next.plan, 12, |pipeline| pipeline);
    let _answer = last.order(Some(&old));
    last.relist(0..9);
    let causes = last.causes();
    assert_eq!((last.names(), causes.len()), (8, 1), "{causes:?}");
    last.clock.advance(HOUR);
    assert!(last.pipeline.commit());
    let causes = last.causes();
    assert!(causes.contains(&cause()), "{causes:?}");
}

#[test]
fn the_first_reading_of_a_file_names_the_corefile_only_where_it_is_the_first_rendering() {
    let under = FilePlan::Overlay {
        zone: "cluster.local.".parse().unwrap(),
    };
    let mut next = changed_from(Subject::of_ten().plan, 11, |pipeline| {
        pipeline.with_files([(SourceId(0), under)])
    });
    let reverse = Arc::clone(next.plan.zone("10.in-addr.arpa."));
    next.relist(0..10);
    let serial = next.serial();
    // The reverse zone is rendered; the other waits for its file.
    assert!(causes_of(&reverse).contains(&cause()));
    feed(&mut next.pipeline, Change::Applied(service_number(10)));
    file_under(&mut next.pipeline, "www 60 TXT x\n");
    assert!(next.pipeline.commit());
    assert!(next.serial() > serial);
    let causes = next.causes();
    assert!(causes.contains(&cause()), "{causes:?}");
    let causes = causes_of(&reverse);
    assert!(!causes.contains(&cause()), "{causes:?}");
}

#[test]
fn a_release_that_waits_when_the_source_is_replaced_is_answered() {
    let mut subject = Subject::of_ten();
    subject.relist(0..0);
    let answer = subject.release("cluster.local.");
    let _changed = changed_again(subject, 12);
    let answer = answer.blocking_recv().expect("an answer comes");
    let want = "the configuration of cluster.local. changed meanwhile; look at it and try again";
    assert_eq!(answer, Err(want.to_owned()));
}

#[test]
fn a_version_that_a_secondary_alone_forces_does_not_name_the_corefile() {
    let mut next = unchanged();
    let apex: Name = "cluster.local.".parse().unwrap();
    let ahead = Serial::decode(next.serial() + 100);
    let ahead_by = reported(&apex, ahead.encode(), Proof::Exchange);
    next.pipeline.take(secondaries(vec![ahead_by]));
    next.relist(0..10);
    assert!(next.serial() > ahead.encode());
    assert_eq!(
        next.causes(),
        ["restored the secondaries by ".to_owned()].into()
    );
}

#[test]
fn a_zone_that_is_a_file_and_a_catalog_name_the_corefile() {
    use crate::tests::{catalog, files};

    let (zone, mut pipeline) = files::of_file();
    files::give(&mut pipeline, 0, &files::zone_text(1, ""));
    assert!(pipeline.commit());
    let list = catalog::catalog(&[&zone], None);
    catalog::written(&list);

    let other = catalog::there("b.");
    let wider = catalog::catalog(&[&zone, &other], Some(&list));
    let mut next = files::without_clusters(&wider.zones, NoStore::default())
        .with_files(files::numbered([FilePlan::Zone {
            zone: zone.apex().clone(),
            retention: RETENTION,
        }]))
        .with_catalogs(vec![wider.plan.clone()])
        .with_change(Some(WHAT));
    files::give(&mut next, 0, &files::zone_text(2, "a A 192.0.2.2\n"));
    assert!(next.commit());
    for zone in [&zone, &wider.zone] {
        let causes = causes_of(zone);
        assert!(causes.contains(&cause()), "{}: {causes:?}", zone.apex());
    }
    files::give(&mut next, 0, &files::zone_text(3, "a A 192.0.2.3\n"));
    assert!(next.commit());
    assert!(!causes_of(&zone).contains(&cause()));
}

/// Another TTL for the objects that are there.
fn set_ttl(subject: &mut Subject, ttl: u32) {
    let ttl = Ttl::decode(ttl);
    subject.plan.plan.ttl = ttl;
    let cluster = subject.plan.plan.home().clone();
    let change = PlanChange::SetTtl { cluster, ttl };
    configure(
        &mut subject.pipeline,
        &subject.plan,
        vec![change],
        Some("the next Corefile"),
    );
    assert!(subject.pipeline.commit());
}

/// The causes of the records of a name that the last version removed or added.
fn causes_at(subject: &Subject, name: &str) -> [BTreeSet<String>; 2] {
    let version = subject.zone().current().unwrap();
    let step = version.history.last().unwrap();
    let owner: Name = format!("{name}.a.svc.cluster.local.").parse().unwrap();
    [&step.removed, &step.added].map(|list| {
        let own = list.iter().filter(|rr| rr.owner == owner.as_wire());
        own.flat_map(|rr| &step.causes[rr.tag as usize])
            .map(|it| format!("{} {}", it.verb.as_str(), it.key))
            .collect()
    })
}

#[test]
fn a_change_that_waits_keeps_its_object_when_the_corefile_gives_it_another_ttl() {
    let mut subject = Subject::of_ten();
    let _answer = subject.order(None);
    subject.add(10);
    feed(&mut subject.pipeline, deletion(3, ""));
    assert!(subject.pipeline.commit());
    set_ttl(&mut subject, 12);
    set_ttl(&mut subject, 13);
    let _answer = subject.release("cluster.local.");
    assert!(subject.pipeline.commit());
    let corefile = "configured the next Corefile".to_owned();
    let [_, added] = causes_at(&subject, "s10");
    assert_eq!(added, [corefile.clone(), "applied a/s10".to_owned()].into());
    let [removed, _] = causes_at(&subject, "s3");
    assert_eq!(removed, ["deleted a/s3".to_owned()].into());
    let [removed, added] = causes_at(&subject, "s4");
    assert_eq!(
        (removed, added),
        ([corefile.clone()].into(), [corefile].into())
    );
}

#[test]
fn a_deletion_during_a_rollback_to_another_ttl_is_named_at_its_end() {
    let mut subject = Subject::of_ten();
    let old = subject.zone().current().unwrap();
    set_ttl(&mut subject, 12);
    let _answer = subject.order(Some(&old));
    assert!(subject.pipeline.commit());
    feed(&mut subject.pipeline, deletion(3, ""));
    assert!(subject.pipeline.commit());
    let _answer = subject.release("cluster.local.");
    assert!(subject.pipeline.commit());
    let [removed, _] = causes_at(&subject, "s3");
    assert!(removed.contains("deleted a/s3"), "{removed:?}");
    let [removed, added] = causes_at(&subject, "s4");
    for causes in [removed, added] {
        assert!(
            causes.iter().all(|it| it.starts_with("resumed ")),
            "{causes:?}"
        );
    }
}
