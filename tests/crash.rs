//! Kills zonewright at bad moments, two hundred times, while a recorder asks its sockets: no serial ever has two
//! contents or goes back, and an answer that was given once is never forgotten.
//!
//! The moments come from a seed (`ZW_SEED`, printed), the interleaving from the machine.

use std::collections::BTreeSet;
use std::fs;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use fastrand::Rng;

use crate::support::process::{Process, let_pass};
use crate::support::product::{CHANGE, START, Site, ZONES, cluster_ip, copy_folder, headless};
use crate::support::recorder::{Recorder, Violation};
use crate::support::wire::{self, Record};
use rustix::process::Signal;

/// How often zonewright is killed.
const ROUNDS: u32 = 200;
/// Services that change all the time.
const SERVICES: u64 = 12;

/// A time below so many milliseconds.
fn any_time(random: &mut Rng, limit_ms: u64) -> Duration {
    Duration::from_micros(random.u64(..limit_ms * 1000))
}

/// A thread that repeats its work until it is stopped.
struct Worker<T> {
    stop: Sender<()>,
    thread: JoinHandle<T>,
}

impl<T: Send + 'static> Worker<T> {
    fn start(work: impl FnOnce(Receiver<()>) -> T + Send + 'static) -> Self {
        let (stop, stopped) = channel();
        let thread = std::thread::spawn(move || work(stopped));
        Self { stop, thread }
    }

    fn end(self) -> T {
        self.stop.send(()).expect("the worker is there until told");
        self.thread.join().expect("the worker ends well")
    }
}

/// Waits for a time, or for the stop: then it is false.
fn goes_on(stopped: &Receiver<()>, rest: Duration) -> bool {
    matches!(stopped.recv_timeout(rest), Err(RecvTimeoutError::Timeout))
}

/// Services that never change, so that an increment is smaller than its zone.
fn write_base(site: &Site) {
    let base: Vec<String> = (100..140)
        .map(|number| cluster_ip(&format!("base-{number}"), number, 80))
        .chain((100..110).map(|number| headless(&format!("set-{number}"), number, &[1, 2, 3])))
        .collect();
    site.manifest("base.yaml", &base.join("---\n"));
}

/// One random change of the manifests.
fn change(site: &Site, random: &mut Rng) {
    let number = u8::try_from(random.u64(..SERVICES)).expect("few Services");
    let (file, name) = (format!("s{number}.yaml"), format!("s{number}"));
    match random.u64(..8) {
        0 => {
            // It may be gone already.
            let _was_there = fs::remove_file(site.path("manifests").join(file)).is_ok();
        }
        1..4 => {
            let port = 1000 + u16::from(random.u8(..50));
            site.manifest(&file, &cluster_ip(&name, number, port));
        }
        _ => {
            let hosts: BTreeSet<u8> = (0..random.u64(..4)).map(|_| 1 + random.u8(..6)).collect();
            let hosts: Vec<u8> = hosts.into_iter().collect();
            site.manifest(&file, &headless(&name, number, &hosts));
        }
    }
}

/// Changes the manifests all the time.
fn start_changes(site: &Arc<Site>, mut random: Rng) -> Worker<u64> {
    let site = Arc::clone(site);
    Worker::start(move |stopped| {
        let mut changes = 0;
        // In bursts: in between the folder is quiet, and is read.
        while goes_on(&stopped, any_time(&mut random, 120)) {
            for _ in 0..=random.u64(..6) {
                change(&site, &mut random);
                changes += 1;
            }
        }
        changes
    })
}

/// Asks all the time, whether the server is there or not.
fn start_recorder(
    site: &Arc<Site>,
    recorder: &Arc<Mutex<Recorder>>,
    mut random: Rng,
) -> Worker<()> {
    let (site, recorder) = (Arc::clone(site), Arc::clone(recorder));
    Worker::start(move |stopped| {
        while goes_on(&stopped, any_time(&mut random, 6)) {
            let mut recorder = recorder.lock().expect("no holder panics");
            let zone = ZONES[usize::try_from(random.u64(..3)).expect("three zones")];
            let known = recorder.serials(zone);
            match random.u64(..10) {
                0..3 => recorder.ask_serial(site.dns, zone),
                3..5 => recorder.take_full(site.dns, zone),
                _ if known.is_empty() => recorder.take_full(site.dns, zone),
                which => {
                    // Mostly from a version seen lately, sometimes from any.
                    let span = if which == 9 { 200 } else { 20 };
                    let back = 1 + usize::try_from(random.u64(..span)).expect("a small number");
                    let from = known[known.len().saturating_sub(back)];
                    recorder.take_increment(site.dns, zone, from)
                }
            };
        }
    })
}

/// Checks the violations that a recorder found, and whether a server ended by itself or panicked.
fn check(recorder: &Mutex<Recorder>, site: &Site, round: u32) {
    let recorder = recorder.lock().expect("no holder panics");
    assert!(
        recorder.violations.is_empty(),
        "round {round}: {:#?}",
        recorder.violations
    );
    let log = fs::read_to_string(site.path("log")).unwrap_or_default();
    assert!(
        !log.contains("panicked"),
        "round {round}: {}",
        log_tail(&log)
    );
}

/// The last lines of a log.
fn log_tail(log: &str) -> String {
    let lines: Vec<&str> = log.lines().collect();
    lines[lines.len().saturating_sub(60)..].join("\n")
}

/// The highest serials seen, zone by zone.
fn highest(recorder: &Mutex<Recorder>) -> Vec<u32> {
    let recorder = recorder.lock().expect("no holder panics");
    let of = |zone: &&str| recorder.highest(zone).unwrap_or_default();
    ZONES.iter().map(of).collect()
}

/// One life: start, a while, the end.
fn live_and_die(site: &Site, recorder: &Mutex<Recorder>, random: &mut Rng, round: u32) -> bool {
    let mut server = site.start();
    match random.u64(..10) {
        // While it starts.
        0..3 => let_pass(any_time(random, 250)),
        // While it ends.
        3 => {
            server.wait_for("an answer", START, || wire::serial(site.dns, ZONES[0]));
            let_pass(any_time(random, 150));
            server.signal(Signal::TERM);
            let_pass(any_time(random, 30));
        }
        // After it has published something new.
        _ => {
            let before = highest(recorder);
            server.wait_for("a version of this life", START, || {
                (highest(recorder) != before).then_some(())
            });
            let_pass(any_time(random, 350));
        }
    }
    let ended_before = server.ended().is_some();
    server.kill();
    check(recorder, site, round);
    ended_before
}

#[test]
fn two_hundred_kills_break_no_promise() {
    let seed = fuzz::seed();
    let site = Arc::new(Site::new());
    write_base(&site);
    let recorder = Arc::new(Mutex::new(Recorder::default()));
    let mut random = Rng::with_seed(seed);
    let changes = start_changes(&site, Rng::with_seed(seed ^ 1));
    let recording = start_recorder(&site, &recorder, Rng::with_seed(seed ^ 2));
    let started = crate::support::process::now();
    let mut ended_before = 0;
    for round in 0..ROUNDS {
        ended_before += u32::from(live_and_die(&site, &recorder, &mut random, round));
    }
    let changes = changes.end();
    recording.end();

    let mut recorder = recorder.lock().expect("no holder panics");
    let versions: Vec<usize> = ZONES.iter().map(|zone| recorder.versions(zone)).collect();
    println!(
        "{ROUNDS} lives in {:?} ({ended_before} ended by SIGTERM before the kill), {changes} changes, \
         versions seen {versions:?}, answers {:?}",
        started.elapsed(),
        recorder.counts
    );
    // A run without versions shows nothing.
    assert!(versions.iter().all(|count| *count > 100), "{versions:?}");
    let steps = recorder.counts.get("steps").copied().unwrap_or_default();
    assert!(steps > 300, "{:?}", recorder.counts);

    let mut server = site.start_answering();
    wait_until_rendered(&site, &mut server);
    every_recorded_version_is_reached(&site, &mut recorder);
    assert!(recorder.violations.is_empty(), "{:#?}", recorder.violations);
    assert!(server.terminate(START).success());
    the_stored_past_is_what_was_seen(&site, &recorder);
}

/// Waits until every zone equals the output of `render` for the manifests, apart from the SOA.
fn wait_until_rendered(site: &Site, server: &mut Process) {
    for zone in ZONES {
        let rendered = site.run(&["render", "--corefile", "Corefile", zone]);
        let want = String::from_utf8(rendered.stdout).expect("zones are UTF-8");
        let want: BTreeSet<String> = want
            .lines()
            .map(|line| Record::parse(line).text())
            .filter(|line| !line.contains(" IN SOA "))
            .collect();
        server.wait_for("the zone as rendered", CHANGE, || {
            let got = wire::axfr(site.dns, zone).ok()?;
            let got: BTreeSet<String> = got
                .iter()
                .map(Record::text)
                .filter(|line| !line.contains(" IN SOA "))
                .collect();
            (got == want).then_some(())
        });
    }
}

/// Increments from every version that is known in full.
fn every_recorded_version_is_reached(site: &Site, recorder: &mut Recorder) {
    for zone in ZONES {
        for from in recorder.serials(zone) {
            assert!(
                recorder.take_increment(site.dns, zone, from),
                "{zone} {from}"
            );
        }
    }
}

/// Checks that the output of `show` for a stopped server's versions equals the transfers of those versions.
fn the_stored_past_is_what_was_seen(site: &Site, recorder: &Recorder) {
    let mut compared = 0;
    for zone in ZONES {
        let serials = recorder.serials(zone);
        for serial in serials.iter().rev().step_by(25) {
            let name = format!("{zone}@{serial}");
            let shown = site.ask(&["show", &name]);
            let shown: BTreeSet<Record> = shown
                .lines()
                .filter(|line| !line.starts_with(';'))
                .map(Record::parse)
                .collect();
            let seen = recorder.content(zone, *serial).expect("it was listed");
            let seen: BTreeSet<Record> = seen.iter().cloned().collect();
            assert!(shown == seen, "{name} is shown otherwise than it was sent");
            compared += 1;
        }
    }
    assert!(compared >= 10, "only {compared} versions compared");
}

/// A zone of one record and its SOA.
fn tiny(serial: u32, address: &str) -> Vec<Record> {
    vec![
        Record::parse(&format!("z. 5 IN SOA ns. mbox. {serial} 300 30 86400 5")),
        Record::parse(&format!("a.z. 5 IN A {address}")),
    ]
}

#[test]
fn the_recorder_finds_planted_faults() {
    let zone = || "z.".to_owned();
    let mut recorder = Recorder::default();
    recorder.saw_content("z.", &tiny(7, "192.0.2.1"));
    recorder.saw_content("z.", &tiny(7, "192.0.2.1"));
    assert_eq!(recorder.violations, []);
    recorder.saw_content("z.", &tiny(7, "192.0.2.2"));
    recorder.saw_serial("z.", 6);
    recorder.saw_increment("z.", 7, &wire::Increment::Full(tiny(8, "192.0.2.3")));
    let step = wire::Step {
        from: 7,
        to: 9,
        removed: tiny(7, "192.0.2.9"),
        added: tiny(9, "192.0.2.3"),
    };
    recorder.saw_increment("z.", 7, &wire::Increment::Steps(vec![step]));
    let why = "removes what is not there: a.z. 5 IN A 192.0.2.9".to_owned();
    let want = [
        Violation::TwoContents {
            zone: zone(),
            serial: 7,
        },
        Violation::GoesBack {
            zone: zone(),
            highest: 7,
            seen: 6,
        },
        Violation::Forgotten {
            zone: zone(),
            from: 7,
        },
        Violation::DoesNotApply {
            zone: zone(),
            from: 7,
            why,
        },
    ];
    assert_eq!(recorder.violations, want);
}

#[test]
fn the_recorder_finds_a_state_folder_put_back_from_a_copy() {
    let site = Site::new();
    write_base(&site);
    let mut recorder = Recorder::default();
    let mut server = site.start_answering();
    wait_until_rendered(&site, &mut server);
    assert!(recorder.take_full(site.dns, ZONES[0]));
    assert!(server.terminate(START).success());
    copy_folder(&site.state(), &site.path("copy"));

    let mut server = site.start_answering();
    site.manifest("new.yaml", &cluster_ip("new", 1, 80));
    let old = recorder.highest(ZONES[0]).expect("it was taken");
    site.new_serial(&mut server, ZONES[0], old);
    assert!(recorder.take_full(site.dns, ZONES[0]));
    server.kill();
    assert_eq!(recorder.violations, []);

    fs::remove_dir_all(site.state()).expect("the state can be removed");
    copy_folder(&site.path("copy"), &site.state());
    // As an older release left it: then nothing shows that it is a copy.
    fs::remove_file(site.state().join("mark")).expect("the mark can be removed");
    fs::remove_file(site.path("manifests/new.yaml")).expect("the manifest can be removed");
    let mut server = site.start_answering();
    assert!(recorder.ask_serial(site.dns, ZONES[0]));
    server.kill();
    assert!(
        matches!(recorder.violations[..], [Violation::GoesBack { .. }]),
        "{:?}",
        recorder.violations
    );
}

/// security 4: serials ran ahead of the clock, an old copy of the folder came back, and the same serials were given
/// other contents.
#[test]
fn a_serial_has_one_content_though_an_old_copy_of_the_state_folder_comes_back() {
    let site = Site::new();
    write_base(&site);
    let mut recorder = Recorder::default();
    let mut server = site.start_answering();
    wait_until_rendered(&site, &mut server);
    let mut churn = |server: &mut Process, numbers: std::ops::RangeInclusive<u8>| {
        for number in numbers {
            let old = wire::serial(site.dns, ZONES[0]).expect("it answers");
            site.manifest("flap.yaml", &cluster_ip("flap", number, 80));
            site.new_serial(server, ZONES[0], old);
            assert!(recorder.take_full(site.dns, ZONES[0]));
        }
        assert_eq!(recorder.violations, []);
        recorder.highest(ZONES[0]).expect("it was taken")
    };
    churn(&mut server, 1..=10);
    assert!(server.terminate(START).success());
    copy_folder(&site.state(), &site.path("copy"));
    let mut server = site.start_answering();
    let highest = churn(&mut server, 11..=40);
    assert!(server.terminate(START).success());

    fs::remove_dir_all(site.state()).expect("the state can be removed");
    copy_folder(&site.path("copy"), &site.state());
    let mut server = site.start_answering();
    assert!(server.log().contains("is a copy"), "{}", server.log());
    let after = churn(&mut server, 50..=90);
    assert!(after.wrapping_sub(highest) < 1 << 31, "{after} {highest}");
    // A restart of the same folder is none.
    assert!(server.terminate(START).success());
    fs::write(site.path("log"), "").expect("the log can be emptied");
    let mut server = site.start_answering();
    assert!(!server.log().contains("is a copy"), "{}", server.log());
    server.kill();
    fs::write(site.path("log"), "").expect("the log can be emptied");
    let mut server = site.start_answering();
    assert!(!server.log().contains("is a copy"), "{}", server.log());
    server.kill();
    let verified = site.run(&["verify", "--state", "state"]);
    let verified = String::from_utf8_lossy(&verified.stdout);
    assert!(verified.contains("may be lost"), "{verified}");
}
