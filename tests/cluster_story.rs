//! A story with a real API server: who changed which record, as `log`, `blame`, `diff` and `why` print it.
//!
//! People change Services, the Corefile changes, operators freeze the zone and roll it back, and the gate holds a loss. The test
//! keeps a record of what it did and takes the zones by AXFR after each step. Each line of the commands, in text and in JSON,
//! with an audit log and without, has to be what the record says. Some of the output is a page of the manual.

use crate::support::needs;

mod blame;
mod diff;
mod log;
mod page;
mod play;
mod record;
mod stage;
mod told;
mod why;

use told::{Findings, Teller};

#[test]
fn every_line_of_the_history_tells_what_was_really_done() {
    if needs::lacks(&["apiserver"]) {
        return;
    }
    let (stage, serials) = play::play();
    let findings = Findings::default();
    let teller = |is_audited| Teller {
        stage: &stage,
        is_audited,
        findings: &findings,
    };
    let (teller, audited) = (teller(false), teller(true));
    log::check(&teller);
    log::check_parts(&teller);
    log::check_names(&teller);
    blame::check(&teller);
    blame::check_parts(&teller);
    diff::check(&teller);
    why::check(&teller);
    why::check_held(&teller);
    log::check(&audited);
    blame::check(&audited);
    diff::check_all(&audited);
    let faults = findings.faults.borrow();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    stage.expect_no_other_version("the last question");
    page::check(&stage, &serials);
}
