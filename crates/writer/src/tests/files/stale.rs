//! Files that turned bad.

use super::*;

#[test]
fn a_file_that_turned_bad_makes_its_zone_stale_and_changes_nothing() {
    let (zone, mut pipeline) = of_file();
    give(&mut pipeline, 0, &zone_text(1, ""));
    assert!(pipeline.commit());
    let seq = zone.current().unwrap().seq;
    let bad = |at| Input::File {
        source: SourceId(0),
        event: FileEvent::Bad {
            since: UNIX_EPOCH + Duration::from_secs(at),
        },
    };
    pipeline.take(bad(2_000));
    pipeline.take(bad(3_000));
    assert!(pipeline.commit());
    assert_eq!(zone.stale_since_ms(), Some(2_000_000));
    assert_eq!(zone.current().unwrap().seq, seq);
    give(&mut pipeline, 0, &zone_text(1, ""));
    assert!(pipeline.commit());
    assert_eq!(zone.stale_since_ms(), None);
}

/// Tells the writer that a file cannot be used.
fn spoil(pipeline: &mut Pipeline<NoStore>, file: u64, at: u64) {
    let since = UNIX_EPOCH + Duration::from_secs(at);
    let source = SourceId(file);
    let event = FileEvent::Bad { since };
    pipeline.take(Input::File { source, event });
}

/// Since when the zones of a plan are stale, those over the two files alone.
fn stale(plan: &World) -> [Option<u64>; 2] {
    ["cluster.local.", "10.in-addr.arpa."].map(|name| plan.zone(name).stale_since_ms())
}

#[test]
fn a_file_that_turned_bad_after_it_was_read_leaves_its_zone_stale() {
    let (zone, mut pipeline) = of_file();
    give(&mut pipeline, 0, &zone_text(1, ""));
    spoil(&mut pipeline, 0, 2_000);
    assert!(pipeline.commit());
    assert!(zone.current().is_some());
    assert_eq!(zone.stale_since_ms(), Some(2_000_000));
}

/// A writer of a cluster with nothing but the namespace `a`, and with both files.
fn with_both_files(plan: &World) -> Pipeline<NoStore> {
    let mut pipeline = over_files(plan);
    for kind in plan.kinds.iter() {
        feed(&mut pipeline, Change::Listed(kind, vec![]));
    }
    feed(&mut pipeline, Change::Applied(namespace("a")));
    give(
        &mut pipeline,
        0,
        &file("cluster.local.", Role::Overlay, "www 60 TXT x\n"),
    );
    give(
        &mut pipeline,
        1,
        &file("10.in-addr.arpa.", Role::Overlay, "7.7.7 60 TXT x\n"),
    );
    assert!(pipeline.commit());
    pipeline
}

#[test]
fn a_file_under_a_zone_that_turned_bad_makes_that_zone_stale_until_it_is_mended() {
    let plan = plan();
    let mut pipeline = with_both_files(&plan);
    assert_eq!(stale(&plan), [None; 2]);
    spoil(&mut pipeline, 0, 2_000);
    spoil(&mut pipeline, 0, 3_000);
    assert_eq!(stale(&plan), [Some(2_000_000), None]);
    // The source that comes back repairs no file.
    let since = UNIX_EPOCH + Duration::from_secs(4_000);
    pipeline.take(lost(Part::Cluster, since));
    pipeline.take(found(Part::Cluster));
    assert_eq!(stale(&plan), [Some(2_000_000), None]);
    give(
        &mut pipeline,
        0,
        &file("cluster.local.", Role::Overlay, "www 60 TXT x\n"),
    );
    assert_eq!(stale(&plan), [Some(2_000_000), None]);
    assert!(pipeline.commit());
    assert_eq!(stale(&plan), [None; 2]);
}

#[test]
fn a_file_that_turned_bad_before_a_restart_has_listed_says_nothing_of_other_zones() {
    let plan = plan();
    drop(with_both_files(&plan));
    for zone in plan.zones.all() {
        zone.set_stale_since_ms(Some(5));
    }
    let mut again = over_files(&plan);
    spoil(&mut again, 0, 2_000);
    for zone in plan.zones.all() {
        assert_eq!(zone.stale_since_ms(), Some(5), "{}", zone.apex());
    }
}

#[test]
fn a_file_that_cannot_be_used_at_a_restart_keeps_back_its_own_zone_alone() {
    let plan = plan();
    drop(with_both_files(&plan));
    for zone in plan.zones.all() {
        zone.set_stale_since_ms(Some(5));
    }
    let seq = |name: &str| plan.zone(name).current().unwrap().seq;
    let before = ["cluster.local.", "10.in-addr.arpa."].map(seq);
    let mut again = over_files(&plan);
    spoil(&mut again, 0, 2_000);
    let other = file("10.in-addr.arpa.", Role::Overlay, "7.7.8 60 TXT x\n");
    give(&mut again, 1, &other);
    for kind in plan.kinds.iter() {
        feed(&mut again, Change::Listed(kind, vec![]));
    }
    feed(&mut again, Change::Applied(namespace("a")));
    feed(&mut again, Change::Applied(at_address("10.9.9.9")));
    again.take(found(Part::Cluster));
    assert!(again.commit());
    let after = ["cluster.local.", "10.in-addr.arpa."].map(seq);
    assert_eq!(after, [before[0], before[1] + 1]);
    assert_eq!(stale(&plan), [Some(5), None]);
    assert_eq!(at(&plan, "9.9.9.10.in-addr.arpa.").len(), 1);
    // A change meanwhile is not lost.
    feed(
        &mut again,
        Change::Deleted(key_of(&at_address("10.9.9.9")), Origin::default()),
    );
    feed(&mut again, Change::Applied(at_address("10.9.9.8")));
    assert!(again.commit());
    let mended = file("cluster.local.", Role::Overlay, "web 60 TXT x\n");
    give(&mut again, 0, &mended);
    assert!(again.commit());
    assert_eq!(stale(&plan), [None; 2]);
    assert_eq!(
        at(&plan, "new.a.svc.cluster.local."),
        ["new.a.svc.cluster.local. 5 IN A 10.9.9.8"]
    );
    assert_eq!(
        (
            at(&plan, "web.cluster.local.").len(),
            at(&plan, "www.cluster.local.").len()
        ),
        (1, 0)
    );
}
