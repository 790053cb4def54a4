//! Single reloads: what one keeps, what it answers, and what a refused one leaves alone.

use super::*;

#[test]
fn a_reload_whose_new_zone_cannot_be_read_changes_nothing() {
    let east = Setup::of(&[(1, &["e.test.", "x.test."])]);
    let mut running = Running::of(east);
    running.pipeline.store.unreadable = Some("z.test.".parse().unwrap());
    // Another source for two zones, before the zone that cannot be read.
    let next = Setup::of(&[(3, &["e.test.", "x.test.", "y.test.", "z.test."])]);
    let refused = running.change(next, None);
    assert_eq!(refused, Err("bad checksum".to_owned()));
    for name in ["e.test.", "x.test."] {
        assert_eq!(running.zone(name).stale_since_ms(), None, "{name}");
        let kept = running.pipeline.store.retentions[&name.parse().unwrap()];
        assert_eq!(kept, retention(1));
    }
    running.add(1, 5);
    assert_eq!(running.origins("x.test."), "s1 s5");
}

#[test]
fn new_tables_of_a_known_cluster_are_filled_before_handlers_read_them() {
    let mut running = Running::of(Setup::of(&[(1, &["e.test."])]));
    let mut next = Setup::of(&[(1, &["e.test."])]);
    next.clusters[0].0.namespaces = Some(["a".to_owned()].into());
    let live = LiveTables::new(&next.clusters[0].0);
    let mut handles = running.setup.clusters[0].1.clone();
    handles.live = live.clone();
    let (plan, _) = next.clusters.remove(0);
    let configure = Configure {
        changes: vec![PlanChange::SetCluster {
            cluster: plan.home().clone(),
            plan: plan.clone(),
        }],
        zones: Arc::clone(&running.pipeline.zones),
        unmoved: vec![plan.home().clone()],
        clusters: [(plan.home().clone(), handles)].into(),
        files: BTreeMap::new(),
        cause: None,
        awaits_secondaries: None,
        done: oneshot::channel().0,
    };
    // There is no commit between the answer and the first read.
    running.pipeline.take(Input::Configure(Box::new(configure)));
    let seen = live.seen.unwrap();
    assert_eq!(
        (seen.contains("a"), seen.contains("b")),
        (Some(true), Some(false))
    );
}

#[test]
fn a_hold_that_waits_when_its_zone_goes_is_answered() {
    let mut running = Running::of(Setup::of(&[(1, &["e.test.", "x.test."])]));
    let (asked, answer) = oneshot::channel();
    let order = Box::new(freeze());
    let zone = "x.test.".parse().unwrap();
    running.pipeline.take(Input::Hold { zone, order, asked });
    running
        .change(Setup::of(&[(1, &["e.test."])]), None)
        .unwrap();
    let answer = answer.blocking_recv().expect("an answer comes");
    let want = "the configuration of x.test. changed meanwhile; look at it and try again";
    assert_eq!(answer, Err(want.to_owned()));
}

#[test]
fn nothing_is_published_before_every_asking_of_secondaries_has_ended() {
    let mut running = Running::start();
    running.pipeline = running.pipeline.awaiting_secondaries(AskId(0));
    running.awaits = Some(AskId(1));
    running
        .change(Setup::of(&[(1, &["e.test."])]), None)
        .unwrap();
    running.deliver(1);
    for (ask, is_published) in [(1, false), (7, false), (0, true)] {
        let (ask, serials) = (AskId(ask), Vec::new());
        running.pipeline.take(Input::Secondaries { ask, serials });
        assert!(running.pipeline.commit());
        let version = running.zone("e.test.").current();
        assert_eq!(version.is_some(), is_published, "{ask:?}");
    }
}

#[test]
fn a_zone_that_leaves_the_corefile_and_one_that_comes_back_are_acts() {
    let both = || Setup::of(&[(1, &["e.test.", "x.test."])]);
    let mut running = Running::of(both());
    // A zone without a version has no history.
    assert_eq!(running.pipeline.store.acts, []);
    let served = running.zone("x.test.").current().unwrap();
    running
        .change(Setup::of(&[(1, &["e.test."])]), None)
        .unwrap();
    let (zone, act) = &running.pipeline.store.acts[0];
    assert_eq!(zone, served.contents.apex());
    let served = (served.serial.encode(), Some(served.seq));
    assert_eq!((act.serial, act.seq), served);
    running.change(both(), None).unwrap();
    let lines = [
        "x.test. removed from the Corefile ()",
        "x.test. returned to the Corefile ()",
    ];
    assert_eq!(act_lines(&running.pipeline.store.acts), lines);
}

#[test]
fn a_start_finds_zones_that_left_the_corefile_or_came_back_once() {
    let served = (Serial::decode(7), 3);
    let act = |is_here, last: Option<&Act>| act_of_start(is_here, last, served, 5);
    assert_eq!(act(true, None), None);
    let removed = act(false, None).unwrap();
    assert_eq!(
        (&*removed.what, &*removed.about),
        ("removed", "from the Corefile, as found at a start")
    );
    assert!(tells_presence(&removed));
    assert_eq!(act(false, Some(&removed)), None);
    let returned = act(true, Some(&removed)).unwrap();
    assert_eq!((&*returned.what, returned.seq), ("returned", Some(3)));
    assert!(tells_presence(&returned));
    assert_eq!(act(true, Some(&returned)), None);
    assert_eq!(act(false, Some(&returned)), act(false, None));
}
