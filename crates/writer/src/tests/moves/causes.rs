//! The Corefile is a cause of what a reload changes, however late its sources are seen.

use super::*;

/// The cause of the reloads here.
const WHAT: &str = "the Corefile, digest 2…, before 1…";

fn cause() -> String {
    format!("configured {WHAT} by ")
}

#[test]
fn a_file_laid_under_a_zone_names_the_corefile_when_it_is_read() {
    let setup = Setup::of(&[(1, &["e.test."])]);
    let mut running = Running::of(setup.clone());
    let next = setup.with_file(9, "e.test.", Role::Overlay);
    running.change(next, Some(WHAT)).unwrap();
    assert_eq!(running.origins("e.test."), "s1");
    running.deliver(9);
    assert_eq!(running.origins("e.test."), "f9 s1");
    let causes = causes_of(running.zone("e.test."));
    assert!(causes.contains(&cause()), "{causes:?}");
    running.add(1, 5);
    let causes = causes_of(running.zone("e.test."));
    assert_eq!(causes, ["applied a/s5 by ".to_owned()].into());
}

#[test]
fn a_zone_that_moves_to_a_cluster_never_synced_names_the_corefile_when_that_is_listed() {
    let setup = Setup::of(&[(1, &["e.test.", "x.test."]), (2, &["w.test."])]);
    let mut running = Running::start();
    running.change(setup, None).unwrap();
    running.deliver(1);
    let next = Setup::of(&[(1, &["e.test."]), (2, &["w.test.", "x.test."])]);
    running.change(next, Some(WHAT)).unwrap();
    assert_eq!(running.origins("x.test."), "s1");
    running.deliver(2);
    assert_eq!(running.origins("x.test."), "s2");
    let causes = causes_of(running.zone("x.test."));
    assert!(causes.contains(&cause()), "{causes:?}");
    running.add(2, 5);
    let causes = causes_of(running.zone("x.test."));
    assert_eq!(causes, ["applied a/s5 by ".to_owned()].into());
}
