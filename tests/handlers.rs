//! Handlers beside those of a real CoreDNS: the same words in the Corefile, the same upstreams, the same
//! questions. Every difference is one of the table of [`differences`], or the test fails.
//!
//! `HANDLERS_ONLY=TEXT` runs the cases whose names contain the text.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::support::certificates::Certificates;
use crate::support::upstream::Upstream;
use crate::support::{doh, needs};

pub mod ask;
pub mod case;
pub mod run;

pub mod acl;
pub mod cache;
pub mod chain;
pub mod dns64;
pub mod forward;
pub mod hosts;
pub mod lines;
pub mod log;
pub mod loops;
pub mod metrics;
pub mod rewrite;
pub mod secure;
pub mod template;

/// Runs a table of cases, unless there is no CoreDNS.
fn check_cases(cases: &[case::Case]) {
    if !needs::lacks(&["coredns"]) {
        run::run_all(cases);
    }
}

#[test]
fn forward_answers_as_coredns_does() {
    check_cases(forward::CASES);
}

#[test]
fn cache_answers_as_coredns_does() {
    check_cases(cache::CASES);
}

#[test]
fn hosts_answers_as_coredns_does() {
    check_cases(hosts::CASES);
}

#[test]
fn rewrite_answers_as_coredns_does() {
    check_cases(rewrite::CASES);
}

#[test]
fn template_answers_as_coredns_does() {
    check_cases(template::CASES);
}

#[test]
fn acl_answers_as_coredns_does() {
    check_cases(acl::CASES);
}

#[test]
fn dns64_answers_as_coredns_does() {
    check_cases(dns64::CASES);
}

#[test]
fn local_answers_as_coredns_does() {
    check_cases(dns64::LOCAL);
}

#[test]
fn lines_of_log_and_errors_are_coredns_s() {
    check_cases(log::CASES);
}

#[test]
fn chains_answer_as_coredns_s_do() {
    check_cases(chain::CASES);
}

#[test]
fn forward_over_tls_and_https_answers_as_coredns_does() {
    if needs::lacks(&["coredns"]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let certificates = Certificates::new(folder.path().to_owned());
    certificates.write("upstream.test");
    let upstream = Arc::new(Upstream::start(9, "ok"));
    let doh = doh::start(&certificates, "upstream.test", upstream);
    let words = [
        ("CERTS", folder.path().display().to_string()),
        ("DOH", doh.to_string()),
    ];
    run::run_all_with(secure::CASES, &words);
}

/// Tables of cases, which run with a real CoreDNS.
const TABLES: &[&[case::Case]] = &[
    forward::CASES,
    cache::CASES,
    hosts::CASES,
    rewrite::CASES,
    template::CASES,
    acl::CASES,
    dns64::CASES,
    dns64::LOCAL,
    log::CASES,
    chain::CASES,
    secure::CASES,
];

#[test]
fn more_than_three_hundred_configurations_are_compared() {
    let all = TABLES.iter().flat_map(|table| table.iter());
    let different: BTreeSet<_> = all
        .clone()
        .map(|case| (case.zones, case.lines, case.upstreams, case.script))
        .collect();
    assert_eq!(
        different.len(),
        all.clone().count(),
        "one stands there twice"
    );
    let mut names = BTreeSet::new();
    for case in all {
        assert!(names.insert(case.name), "two are called {}", case.name);
    }
    assert!(different.len() >= 300, "{}", different.len());
}

#[test]
fn loop_ends_the_process_as_coredns_does() {
    if !needs::lacks(&["coredns"]) {
        loops::check_loops();
        loops::check_no_loop();
    }
}

#[test]
fn the_counts_of_handlers_are_coredns_s() {
    if !needs::lacks(&["coredns"]) {
        metrics::check_metrics();
    }
}

#[test]
fn questions_that_the_server_asks_itself_and_transfers_are_no_lines_of_queries() {
    let lines = lines::lines_of_a_zone();
    let count = |text: &str| lines.iter().filter(|line| line.contains(text)).count();
    assert_eq!(count("alias.z.test. A"), 1, "{lines:#?}");
    assert_eq!(count("target.test. A"), 0, "{lines:#?}");
    assert_eq!(count("AXFR"), 0, "{lines:#?}");
    assert_eq!(count("transfer finished"), 1, "{lines:#?}");
}

/// Every difference that is shown by a case has one, and no case names another.
#[test]
fn cases_name_the_differences_that_they_show() {
    let all = TABLES.iter().flat_map(|table| table.iter());
    let lines = all.flat_map(|case| case.script.lines());
    let named = lines.filter_map(|line| line.split_once(" != ")?.1.split(':').next());
    let named: BTreeSet<&str> = named.collect();
    let declared = crate::differences::shown_by(crate::differences::Shown::Handlers);
    let clusters = crate::differences::shown_by(crate::differences::Shown::Clusters);
    assert_eq!(declared.difference(&named).collect::<Vec<_>>(), [&""; 0]);
    let unknown = named
        .iter()
        .find(|id| !declared.contains(*id) && !clusters.contains(*id));
    assert_eq!(unknown, None);
}

/// The oracle is tried: answers that differ in what is compared are not taken for one.
#[test]
fn answers_that_differ_are_seen() {
    let said = |text: &str, ttl| ask::Said {
        text: text.to_owned(),
        ttls: vec![ttl],
    };
    let base = said("rcode 0 ra | a. TTL 1 A 10.0.0.1", 60);
    assert!(base.same(&said("rcode 0 ra | a. TTL 1 A 10.0.0.1", 61)));
    for wrong in [
        said("rcode 0 ra | a. TTL 1 A 10.0.0.1", 62),
        said("rcode 0 aa ra | a. TTL 1 A 10.0.0.1", 60),
        said("rcode 0 ra | a. TTL 1 A 10.0.0.2", 60),
        said("rcode 2 ra | a. TTL 1 A 10.0.0.1", 60),
    ] {
        assert!(!base.same(&wrong), "{wrong}");
    }
}
