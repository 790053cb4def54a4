//! zonewright beside a real CoreDNS: the same API server, the same generated clusters, the same words in
//! the Corefile, the same questions. Every difference is a row of `tests/differences`, or the test fails. So it does in a
//! full run that does not meet every row that such questions can show.
//!
//! - `COMPARE_CLUSTERS=N` compares on N clusters (24 unless given). From 200 on it is a full run, which has to meet each row: some
//!   are seldom met.
//! - `COMPARE_SETS=N` gives each cluster N of the option sets, in turn (2 unless given).
//! - `COMPARE_ONLY=NAME` gives each cluster this one.
//! - `COMPARE_SECONDS=N` takes clusters until the time is over, whatever their number.
//! - `COMPARE_SHOW=N` prints N of the differences that no row explains (12 unless given).
//! - `ZW_SEED=N` begins with this cluster. Without it each run begins with another one. A failure names its seed.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::resume_unwind;
use std::path::Path;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use crate::comparison::answer::{Answer, Asker, Question, Serials, TYPES};
use crate::comparison::cluster::{Cluster, generate};
use crate::comparison::names::names;
use crate::comparison::options::{OptionSet, SETS};
use crate::comparison::oracle::{Oracle, leads};
use crate::comparison::plants::PLANTS;
use crate::comparison::servers::{Pair, Servers, create, define_imports, remove};
use crate::differences::{Shown, shown_by};
use crate::support::apiserver::{Access, ApiServer};
use crate::support::needs;
use crate::support::process::now;
use crate::support::wire::{self, Message};

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
    fn add(&mut self, other: Self) {
        let Self {
            comparisons,
            equal,
            clusters,
            pairs,
            sets,
            used,
            unexplained,
        } = other;
        self.comparisons += comparisons;
        self.equal += equal;
        self.clusters += clusters;
        self.pairs += pairs;
        self.sets.extend(sets);
        for (difference, count) in used {
            *self.used.entry(difference).or_default() += count;
        }
        self.unexplained.extend(unexplained);
    }

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

/// The clusters of a full run.
const FULL: usize = 200;

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
    while !waiting.is_empty() {
        let questions = { waiting.iter() }.flat_map(|name| TYPES.map(|it| Question::new(name, it)));
        let questions: Vec<Question> = questions.collect();
        waiting.clear();
        let replies = asker.ask_all(&questions);
        for (question, reply) in questions.into_iter().zip(replies) {
            let answer = Answer::of(reply.as_ref(), &Serials::Any);
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

/// What the two servers of one option set say.
struct Heard<'a> {
    oracle: Oracle<'a>,
    serials: Serials,
    /// Questions, with what CoreDNS and we reply.
    replies: Vec<(Question, Answer, Option<Message>)>,
}

/// Asks the two servers of one option set.
fn hear<'a>(cluster: &'a Cluster, pair: &'a Pair) -> Heard<'a> {
    let set = &pair.set;
    let zones = set.zone_names();
    let mut all = names(cluster, set);
    let mut serials = BTreeMap::new();
    for zone in &zones {
        let records = wire::axfr(pair.ours, zone).unwrap_or_else(|error| panic!("{zone}: {error}"));
        let serial = records.iter().find_map(wire::Record::serial);
        serials.insert(zone.clone(), serial.expect("a zone has a SOA").to_string());
        all.extend(records.into_iter().map(|record| record.owner));
        // CoreDNS gives no zone when one of its records cannot be packed.
        let theirs = wire::axfr(pair.coredns, zone).unwrap_or_default();
        let owners = theirs.into_iter().map(|record| record.owner);
        all.extend(owners.filter(|name| name.parse::<f32>().is_err()));
    }
    let (mut coredns, mut ours) = (Asker::new(pair.coredns), Asker::new(pair.ours));
    let theirs = ask_all(&mut coredns, &mut all, &zones);
    let mut questions: Vec<Question> = theirs.keys().cloned().collect();
    let mut answers: Vec<Answer> = theirs.values().cloned().collect();
    let mixed: Vec<Question> = { all.iter().enumerate().step_by(5) }
        .map(|(number, name)| Question::new(&mixed(name), TYPES[number / 5 % TYPES.len()]))
        .filter(|question| question.name != question.lower())
        .collect();
    let replies = coredns.ask_all(&mixed);
    answers.extend(
        replies
            .iter()
            .map(|reply| Answer::of(reply.as_ref(), &Serials::Any)),
    );
    questions.extend(mixed);
    let replies = ours.ask_all(&questions);
    let replies = { questions.into_iter().zip(answers).zip(replies) }
        .map(|((question, theirs), ours)| (question, theirs, ours))
        .collect();
    Heard {
        oracle: Oracle::new(set, cluster, theirs),
        serials: Serials::Of(serials),
        replies,
    }
}

impl Heard<'_> {
    /// The differences that explain an answer of ours.
    ///
    /// # Errors
    /// When none does: what was expected.
    fn judge(
        &self,
        question: &Question,
        theirs: &Answer,
        ours: &Answer,
    ) -> Result<BTreeSet<&'static str>, String> {
        let expected = self.oracle.expect(question, theirs)?;
        if expected.answers.contains(ours) {
            return Ok(expected.because);
        }
        let texts: Vec<String> = expected.answers.iter().map(ToString::to_string).collect();
        Err(format!("expected of us\n{}", texts.join("  or\n")))
    }
}

/// Compares the two servers of one option set.
fn compare(seed: u64, cluster: &Cluster, pair: &Pair) -> Tally {
    let heard = hear(cluster, pair);
    let mut tally = Tally {
        pairs: 1,
        sets: BTreeSet::from([pair.set.name]),
        ..Tally::default()
    };
    for (question, theirs, ours) in &heard.replies {
        let ours = Answer::of(ours.as_ref(), &heard.serials);
        tally.comparisons += 1;
        match heard.judge(question, theirs, &ours) {
            Ok(because) if because.is_empty() => tally.equal += 1,
            Ok(because) => {
                for difference in because {
                    *tally.used.entry(difference).or_default() += 1;
                }
            }
            Err(why) => tally.unexplained.push(format!(
                "{question}, seed {seed}, options \"{}\"\n  CoreDNS\n{theirs}  zonewright\n{ours}  {why}",
                pair.set.name
            )),
        }
    }
    tally
}

/// The option sets that a cluster is given.
fn sets_of(seed: u64, each: usize) -> Vec<OptionSet> {
    if let Ok(only) = std::env::var("COMPARE_ONLY") {
        let wanted = SETS.iter().filter(|set| set.name == only);
        return wanted.copied().collect();
    }
    let count = SETS.len() as u64;
    let first = seed % count * each as u64;
    (first..first + each as u64)
        .map(|place| SETS[usize::try_from(place % count).unwrap()])
        .collect()
}

/// Compares on one cluster.
fn compare_cluster(
    seed: u64,
    sets: &[OptionSet],
    (server, kubeconfig): (&ApiServer, &Path),
) -> Tally {
    let mut cluster = generate(seed);
    create(server, &mut cluster);
    let cluster = cluster;
    let folder = tempfile::tempdir().unwrap();
    let servers = Servers::start(sets, kubeconfig, folder.path());
    let mut tally = Tally {
        clusters: 1,
        ..Tally::default()
    };
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        let work = || {
            let pairs = std::iter::from_fn(|| servers.pairs.get(next.fetch_add(1, Relaxed)));
            pairs
                .map(|pair| compare(seed, &cluster, pair))
                .collect::<Vec<_>>()
        };
        let other = scope.spawn(work);
        work().into_iter().for_each(|pair| tally.add(pair));
        let pairs = other.join().unwrap_or_else(|panic| resume_unwind(panic));
        pairs.into_iter().for_each(|pair| tally.add(pair));
    });
    drop(servers);
    remove(server, &cluster);
    tally
}

#[test]
fn every_answer_is_coredns_s_or_a_difference_that_is_meant() {
    if needs::lacks(&["apiserver", "coredns", "openssl"]) {
        return;
    }
    let first = fuzz::seed();
    let clusters = number("COMPARE_CLUSTERS", 24);
    let seconds = number("COMPARE_SECONDS", 0);
    let each = number("COMPARE_SETS", 2).min(SETS.len());
    let server = ApiServer::start();
    let kubeconfig = server.kubeconfig(Access::Admin);
    define_imports(&server);
    let mut tally = Tally::default();
    let start = now();
    let is_over = |done: usize| match seconds {
        0 => done >= clusters,
        seconds => now() - start > Duration::from_secs(seconds as u64),
    };
    for seed in first.. {
        let sets = sets_of(seed, each);
        let found = compare_cluster(seed, &sets, (&server, &kubeconfig));
        for unexplained in found.unexplained.iter().take(2) {
            eprintln!("{unexplained}");
        }
        tally.add(found);
        eprintln!(
            "seed {seed}: {} answers, {} unexplained, {:?}",
            tally.comparisons,
            tally.unexplained.len(),
            now() - start
        );
        if is_over(tally.clusters) || tally.unexplained.len() > 50 {
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
    assert!(tally.comparisons >= 20_000, "{}", tally.text());
    if tally.clusters >= FULL && tally.sets.len() == SETS.len() {
        let unmet: Vec<&str> = { shown_by(Shown::Clusters).into_iter() }
            .filter(|id| !tally.used.contains_key(id))
            .collect();
        assert!(
            unmet.is_empty(),
            "no answer needs the differences {unmet:?}"
        );
    }
}

/// Each planted fault is put into the answers of ours as they arrive, and each answer that it changes is reported.
#[test]
fn every_planted_fault_is_found() {
    if needs::lacks(&["apiserver", "coredns", "openssl"]) {
        return;
    }
    let seed = fuzz::seed();
    let server = ApiServer::start();
    let kubeconfig = server.kubeconfig(Access::Admin);
    define_imports(&server);
    let mut cluster = generate(seed);
    create(&server, &mut cluster);
    let cluster = cluster;
    let folder = tempfile::tempdir().unwrap();
    let wanted = ["plain", "k8s_external"];
    let sets: Vec<OptionSet> = SETS
        .iter()
        .filter(|it| wanted.contains(&it.name))
        .copied()
        .collect();
    let servers = Servers::start(&sets, &kubeconfig, folder.path());
    let heard: Vec<Heard<'_>> = servers
        .pairs
        .iter()
        .map(|pair| hear(&cluster, pair))
        .collect();
    let mut report = Vec::new();
    for plant in PLANTS {
        let (mut changed, mut missed) = (0, Vec::new());
        for heard in &heard {
            for (question, theirs, ours) in &heard.replies {
                let mut planted = ours.clone();
                (plant.change)(question, &mut planted);
                if planted == *ours {
                    continue;
                }
                changed += 1;
                let answer = Answer::of(planted.as_ref(), &heard.serials);
                if heard.judge(question, theirs, &answer).is_ok() {
                    missed.push(format!("{question}\n{answer}"));
                }
            }
        }
        eprintln!(
            "{}: {changed} answers changed, {} missed",
            plant.name,
            missed.len()
        );
        if changed == 0 || !missed.is_empty() {
            missed.truncate(2);
            report.push(format!(
                "{}: {changed} changed, missed {}",
                plant.name,
                missed.join("\n")
            ));
        }
    }
    assert!(report.is_empty(), "{}", report.join("\n"));
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
            let question = Question::new(owner, qtype);
            let answer = answer.to(&question);
            theirs.insert(question, answer);
        }
    }
    let oracle = Oracle::new(set, &cluster, theirs);
    let question = Question::new(name, wire::SRV);
    let expected = oracle.expect(&question, &oracle.theirs[&question]).unwrap();
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
    assert!(odd.expect(&question, &odd.theirs[&question]).is_err());
}
