//! zonewright beside a real CoreDNS: the same API server, the same generated clusters, the same words in
//! the Corefile, the same questions. Every difference is one of the table of
//! [`differences`], or the test fails.
//!
//! - `COMPARE_CLUSTERS=N` compares on N clusters (24 unless given).
//! - `COMPARE_SETS=N` gives each cluster N of the option sets, in turn (2 unless given).
//! - `COMPARE_ONLY=NAME` gives each cluster this one.
//! - `ZW_SEED=N` begins with this cluster: a failure names its seed. It is 1 unless given: other clusters have a Service
//!   that is an alias of itself, which no difference explains yet.

use std::collections::{BTreeMap, BTreeSet};

use crate::comparison::answer::{Answer, Asker, Question, TYPES};
use crate::comparison::cluster::{Cluster, generate};
use crate::comparison::names::names;
use crate::comparison::options::{OptionSet, SETS};
use crate::comparison::oracle::{Oracle, leads};
use crate::comparison::servers::{Pair, Servers, create, define_imports, remove};
use crate::differences::Shown;
use crate::support::apiserver::{Access, ApiServer};
use crate::support::needs;
use crate::support::process::now;
use crate::support::wire;

/// What was compared.
#[derive(Default)]
struct Tally {
    comparisons: usize,
    equal: usize,
    clusters: usize,
    pairs: usize,
    sets: BTreeSet<&'static str>,
    /// How often each difference explained something.
    used: BTreeMap<&'static str, usize>,
    unexplained: Vec<String>,
}

impl Tally {
    fn text(&self) -> String {
        let Self {
            comparisons,
            equal,
            clusters,
            pairs,
            sets,
            used,
            unexplained,
        } = self;
        format!(
            "compared {comparisons} answers over {clusters} clusters, {} option sets, {pairs} pairs of servers: \
             {equal} equal, {} meant differences, {} unexplained\n{used:?}",
            sets.len(),
            comparisons - equal - unexplained.len(),
            unexplained.len()
        )
    }
}

fn number(variable: &str, default: usize) -> usize {
    std::env::var(variable).map_or(default, |text| {
        text.parse()
            .unwrap_or_else(|_| panic!("{variable}: not a number: {text}"))
    })
}

/// All that CoreDNS says to these names, and to the names it leads to.
fn ask_all(
    asker: &mut Asker,
    names: &mut BTreeSet<String>,
    zones: &[String],
) -> BTreeMap<Question, Answer> {
    let mut answers = BTreeMap::new();
    let mut waiting: Vec<String> = names.iter().cloned().collect();
    while let Some(name) = waiting.pop() {
        for qtype in TYPES {
            let question = Question::new(&name, qtype);
            let answer = asker.ask(&question);
            let targets = answer
                .answers
                .iter()
                .filter(|record| leads(record.rtype))
                .filter_map(|record| record.data.rsplit(' ').next());
            for target in targets {
                let known = crate::comparison::shape::zone_of(target, zones).is_some();
                if known && names.insert(target.to_owned()) {
                    waiting.push(target.to_owned());
                }
            }
            answers.insert(question, answer);
        }
    }
    answers
}

/// A name with every other letter in upper case.
fn mixed(name: &str) -> String {
    name.char_indices()
        .map(|(at, c)| {
            if at % 2 == 0 {
                c.to_ascii_uppercase()
            } else {
                c
            }
        })
        .collect()
}

/// Compares the two servers of one option set.
fn compare(seed: u64, cluster: &Cluster, pair: &Pair, tally: &mut Tally) {
    let set = &pair.set;
    let zones = set.zone_names();
    let mut all = names(cluster, set);
    for zone in &zones {
        let records = wire::axfr(pair.ours, zone).unwrap_or_else(|error| panic!("{zone}: {error}"));
        all.extend(records.into_iter().map(|record| record.owner));
        // CoreDNS gives no zone when one of its records cannot be packed.
        let theirs = wire::axfr(pair.coredns, zone).unwrap_or_default();
        let owners = theirs.into_iter().map(|record| record.owner);
        all.extend(owners.filter(|name| name.parse::<f32>().is_err()));
    }
    let (mut coredns, mut ours) = (Asker::new(pair.coredns), Asker::new(pair.ours));
    let theirs = ask_all(&mut coredns, &mut all, &zones);
    let oracle = Oracle::new(set, cluster, theirs);
    for (number, name) in all.iter().enumerate() {
        for qtype in TYPES {
            let question = Question::new(name, qtype);
            let theirs = &oracle.theirs[&question];
            check(seed, &oracle, &question, theirs, &mut ours, tally);
        }
        if number % 5 == 0 {
            let qtype = TYPES[number / 5 % TYPES.len()];
            let question = Question::new(&mixed(name), qtype);
            let theirs = coredns.ask(&question);
            check(seed, &oracle, &question, &theirs, &mut ours, tally);
        }
    }
    tally.pairs += 1;
    tally.sets.insert(set.name);
}

/// Compares one answer.
fn check(
    seed: u64,
    oracle: &Oracle<'_>,
    question: &Question,
    theirs: &Answer,
    ours: &mut Asker,
    tally: &mut Tally,
) {
    let answer = ours.ask(question);
    tally.comparisons += 1;
    let verdict = oracle.expect(question).and_then(|mut expected| {
        let folded = &oracle.theirs[&Question::new(&question.lower(), question.qtype)];
        if !folded.same(theirs) {
            expected.because.insert("case");
        }
        let right = expected.answers.contains(&answer);
        let texts: Vec<String> = expected.answers.iter().map(ToString::to_string).collect();
        right
            .then_some(expected.because)
            .ok_or_else(|| format!("expected of us\n{}", texts.join("  or\n")))
    });
    match verdict {
        Ok(because) if because.is_empty() => tally.equal += 1,
        Ok(because) => {
            for difference in because {
                *tally.used.entry(difference).or_default() += 1;
            }
        }
        Err(why) => tally.unexplained.push(format!(
            "{question}, seed {seed}, options \"{}\"\n  CoreDNS\n{theirs}  zonewright\n{answer}  {why}",
            oracle.set.name
        )),
    }
}

#[test]
fn every_answer_is_coredns_s_or_a_difference_that_is_meant() {
    if needs::lacks(&["apiserver", "coredns", "openssl"]) {
        return;
    }
    let (first, clusters) = (number("ZW_SEED", 1), number("COMPARE_CLUSTERS", 24));
    let each = number("COMPARE_SETS", 2).min(SETS.len());
    let server = ApiServer::start();
    let kubeconfig = server.kubeconfig(Access::Admin);
    define_imports(&server);
    let mut tally = Tally::default();
    let start = now();
    for seed in (first..).take(clusters).map(|seed| seed as u64) {
        let cluster = generate(seed);
        create(&server, &cluster);
        let folder = tempfile::tempdir().unwrap();
        let only = std::env::var("COMPARE_ONLY").ok();
        let sets: Vec<OptionSet> = if let Some(only) = &only {
            SETS.iter()
                .filter(|set| set.name == only)
                .copied()
                .collect()
        } else {
            (0..each)
                .map(|place| SETS[(usize::try_from(seed).unwrap() * each + place) % SETS.len()])
                .collect()
        };
        let servers = Servers::start(&sets, &kubeconfig, folder.path());
        for pair in &servers.pairs {
            compare(seed, &cluster, pair, &mut tally);
        }
        drop(servers);
        remove(&server, &cluster);
        tally.clusters += 1;
        eprintln!(
            "seed {seed}: {} answers, {} unexplained, {:?}",
            tally.comparisons,
            tally.unexplained.len(),
            now() - start
        );
        if tally.unexplained.len() > 50 {
            break;
        }
    }
    eprintln!("{}\n{:?}", tally.text(), now() - start);
    let shown: Vec<&str> = tally
        .unexplained
        .iter()
        .take(number("COMPARE_SHOW", 12))
        .map(String::as_str)
        .collect();
    assert!(
        shown.is_empty(),
        "{} unexplained:\n{}",
        tally.unexplained.len(),
        shown.join("\n")
    );
    if each >= 2 && clusters >= 20 {
        for difference in crate::differences::all().filter(|it| it.shown == Shown::Compared) {
            assert!(
                tally.used.contains_key(difference.id),
                "no answer needs the difference {}",
                difference.id
            );
        }
        assert!(
            tally.comparisons >= 20_000 && tally.sets.len() >= 12,
            "{}",
            tally.text()
        );
    }
}

/// The oracle is tried: what CoreDNS says of a Service, and answers of ours that would be wrong.
#[test]
fn an_answer_that_no_difference_gives_is_seen() {
    let (set, cluster) = (&SETS[0], Cluster::default());
    let name = "_http._tcp.web.blue.svc.cluster.local.";
    let base = "web.blue.svc.cluster.local.";
    let mut theirs = BTreeMap::new();
    for (owner, line) in [
        (name, format!("{name} 5 IN SRV 0 50 80 {base}")),
        (base, format!("{base} 5 IN A 10.96.0.1")),
    ] {
        let record = wire::Record::parse(&line);
        for qtype in TYPES {
            let mut answer = Answer {
                aa: true,
                ..Answer::default()
            };
            if qtype == record.rtype {
                answer.answers.insert(record.clone());
            }
            theirs.insert(Question::new(owner, qtype), answer);
        }
    }
    let oracle = Oracle::new(set, &cluster, theirs);
    let expected = oracle.expect(&Question::new(name, wire::SRV)).unwrap();
    assert!(expected.because.contains("weight"));
    let right = &expected.answers[0];
    let texts = wire::texts(&right.answers);
    assert_eq!(texts, [format!("{name} 5 IN SRV 0 100 80 {base}")]);
    let additional = wire::texts(&right.additional);
    assert_eq!(additional, [format!("{base} 5 IN A 10.96.0.1")]);
    // A TTL, a weight, a record too few and a lost authority are each another answer.
    let mut wrong = vec![right.clone(); 4];
    wrong[0].answers = right
        .answers
        .iter()
        .map(|one| wire::Record {
            ttl: 6,
            ..one.clone()
        })
        .collect();
    wrong[1].answers = BTreeSet::from([wire::Record::parse(&format!(
        "{name} 5 IN SRV 0 50 80 {base}"
    ))]);
    wrong[2].additional.clear();
    wrong[3].aa = false;
    for one in wrong {
        assert!(one != *right, "{one}");
    }
    // What no difference explains is said so: NODATA with records behind it.
    let question = Question::new(base, wire::AAAA);
    let mut odd = oracle.theirs.clone();
    odd.get_mut(&question).unwrap().rcode = 4;
    let odd = Oracle::new(set, &cluster, odd);
    assert!(odd.expect(&question).is_err());
}
