//! Damages the store of a stopped or killed zonewright: it starts, logs the loss, and its first new serial is above
//! every serial announced before.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use crate::support::product::{CHANGE, START, Site, ZONES, cluster_ip, copy_folder, headless};
use crate::support::recorder::{Recorder, Violation};
use crate::support::wire;

/// The way in which the server ended.
#[derive(Clone, Copy, Debug, PartialEq)]
enum End {
    Clean,
    Killed,
}

/// A site whose state folder `sound` has a dozen versions of each zone, with the announced serials.
fn announced(end: End) -> (Site, Recorder) {
    let site = Site::new();
    let mut recorder = Recorder::default();
    let base: Vec<String> = (50..80)
        .map(|number| cluster_ip(&format!("base-{number}"), number, 80))
        .collect();
    site.manifest("base.yaml", &base.join("---\n"));
    let mut server = site.start_answering();
    for round in 0..12 {
        let before: Vec<u32> = ZONES
            .iter()
            .map(|zone| wire::serial(site.dns, zone).expect("it answers"))
            .collect();
        let both = [
            cluster_ip("web", round, 80),
            headless("set", round, &[1, 2]),
        ];
        site.manifest("changing.yaml", &both.join("---\n"));
        for (zone, old) in ZONES.iter().zip(before) {
            site.new_serial(&mut server, zone, old);
            assert!(recorder.take_full(site.dns, zone));
        }
    }
    match end {
        End::Clean => assert!(server.terminate(START).success()),
        End::Killed => assert!(!server.kill().success()),
    }
    assert_eq!(recorder.violations, []);
    fs::rename(site.state(), site.path("sound")).expect("the state can be moved");
    (site, recorder)
}

/// The files of the database, the log first.
fn database_files(state: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(state.join("db")).expect("the database is there");
    let mut files: Vec<PathBuf> = entries
        .map(|entry| entry.expect("the folder can be read").path())
        .filter(|path| path.is_file())
        .collect();
    files.sort_by_key(|path| (!path.ends_with("db"), path.clone()));
    assert!(files[0].ends_with("db"), "{files:?}");
    files
}

/// How much of a file is written: it ends in zeros.
fn written(path: &Path) -> u64 {
    let octets = fs::read(path).expect("the file can be read");
    let last = octets.iter().rposition(|octet| *octet != 0);
    u64::try_from(last.map_or(0, |last| last + 1)).expect("files are short")
}

/// Cuts a file.
fn cut(path: &Path, len: u64) {
    let file = File::options()
        .write(true)
        .open(path)
        .expect("the file opens");
    file.set_len(len).expect("the file can be cut");
}

/// Turns some octets over.
fn flip(path: &Path, at: u64, count: usize) {
    let mut octets = fs::read(path).expect("the file can be read");
    let at = usize::try_from(at).expect("files are short");
    for octet in octets.iter_mut().skip(at).take(count) {
        *octet ^= 0xff;
    }
    fs::write(path, octets).expect("the file can be written");
}

/// A way to damage a state folder, with its name.
type Damage = (String, Box<dyn Fn(&Path)>);

/// All ways that are tried.
fn damages(sound: &Path) -> Vec<Damage> {
    let mut all: Vec<Damage> = Vec::new();
    for (place, file) in database_files(sound).into_iter().enumerate() {
        let name = file.file_name().expect("files have names").to_owned();
        let (end, samples) = (written(&file), if place == 0 { 8 } else { 2 });
        let mut add = |what: String, damage: Box<dyn Fn(&Path)>| {
            let (name, shown) = (name.clone(), name.to_string_lossy().into_owned());
            let damage = move |state: &Path| damage(&state.join("db").join(&name));
            all.push((format!("{shown} {what}"), Box::new(damage)));
        };
        for part in 0..samples {
            let len = end * part / samples;
            add(
                format!("cut to {len} of {end}"),
                Box::new(move |path| cut(path, len)),
            );
            let at = (end * part / samples + 40).min(end.saturating_sub(1));
            add(
                format!("flipped at {at}"),
                Box::new(move |path| flip(path, at, 1)),
            );
            add(
                format!("64 flipped at {at}"),
                Box::new(move |path| flip(path, at, 64)),
            );
        }
        let tail = end.saturating_sub(3);
        add(
            format!("cut to {tail} of {end}"),
            Box::new(move |path| cut(path, tail)),
        );
        add(
            format!("flipped at {tail}"),
            Box::new(move |path| flip(path, tail, 1)),
        );
    }
    let remove = |path: PathBuf| fs::remove_file(path).expect("the file is there");
    let mut add = |what: &str, damage: Box<dyn Fn(&Path)>| all.push((what.to_owned(), damage));
    add(
        "no database",
        Box::new(|state| fs::remove_dir_all(state.join("db")).expect("it is there")),
    );
    add(
        "no serials",
        Box::new(move |state| remove(state.join("serials"))),
    );
    add(
        "serials cut",
        Box::new(|state| cut(&state.join("serials"), 30)),
    );
    add(
        "serials flipped",
        Box::new(|state| flip(&state.join("serials"), 25, 4)),
    );
    add(
        "no newest",
        Box::new(move |state| remove(state.join("newest"))),
    );
    all
}

/// Starts on a damaged folder and holds it to its promises; gives what is wrong.
fn starts_above(
    site: &Site,
    announced: &Recorder,
    port: u16,
    damage: &Damage,
) -> Result<bool, String> {
    if site.state().exists() {
        fs::remove_dir_all(site.state()).expect("the state can be removed");
    }
    copy_folder(&site.path("sound"), &site.state());
    damage.1(&site.state());
    fs::write(site.path("log"), "").expect("the log can be emptied");
    let new = [
        cluster_ip("after", 200, port),
        headless("later", 201, &[u8::try_from(port % 250).expect("small")]),
    ];
    site.manifest("after.yaml", &new.join("---\n"));
    let mut recorder = announced.clone();
    let mut server = site.start();
    for zone in ZONES {
        let highest = announced.highest(zone).expect("it was announced");
        let above = |serial: u32| serial != highest && serial.wrapping_sub(highest) < 1 << 31;
        server.wait_for("a serial above those announced", CHANGE, || {
            recorder.take_full(site.dns, zone);
            wire::serial(site.dns, zone).filter(|serial| above(*serial))
        });
        recorder.take_full(site.dns, zone);
    }
    let log = server.log();
    // Until the source is read, a zone of which nothing sound is left has no data: SERVFAIL. What is left of others is
    // answered under a serial above those announced.
    let broken = |violation: &&Violation| match violation {
        Violation::NoAnswer { zone, what } => {
            let zone = format!("zone={zone} ");
            let mut lines = log.lines();
            let is_restored = lines.any(|line| {
                line.contains("version restored from the store") && line.contains(&zone)
            });
            !what.starts_with("rcode 2,") || is_restored
        }
        Violation::GoesBack { .. }
        | Violation::TwoContents { .. }
        | Violation::DoesNotApply { .. }
        | Violation::Forgotten { .. } => true,
    };
    if let Some(violation) = recorder.violations.iter().find(broken) {
        return Err(format!("{violation:?}"));
    }
    // DNS is answered a moment before the control socket is there.
    let known = server.wait_for("its history", CHANGE, || {
        let said = site.run(&["log"]);
        let text = || String::from_utf8(said.stdout.clone()).expect("history is UTF-8");
        said.status.success().then(text)
    });
    let is_lost = ZONES.iter().any(|zone| {
        let highest = announced.highest(zone).expect("it was announced");
        !known.contains(&format!("{zone} {highest} "))
    });
    let warned = log
        .lines()
        .any(|line| line.contains(" WARN ") && line.contains("lost"));
    server.kill();
    if log.contains("panicked") {
        return Err(format!("a panic in the log:\n{log}"));
    }
    if is_lost && !warned {
        return Err(format!(
            "versions are lost and the log does not say so:\n{log}"
        ));
    }
    Ok(is_lost)
}

/// Tries every damage.
#[allow(
    clippy::print_stdout,
    reason = "how much was tried belongs into the test's output"
)]
fn damage_costs_no_promise(end: End) {
    let (site, recorder) = announced(end);
    let (mut lost, mut wrong) = (0, Vec::new());
    let damages = damages(&site.path("sound"));
    for (port, damage) in (1..).zip(&damages) {
        match starts_above(&site, &recorder, port, damage) {
            Ok(is_lost) => lost += u32::from(is_lost),
            Err(what) => wrong.push(format!("{}: {what}", damage.0)),
        }
    }
    println!("{end:?}: {} damages, {lost} lost versions", damages.len());
    assert!(
        wrong.is_empty(),
        "{} of {}:\n{}",
        wrong.len(),
        damages.len(),
        wrong.join("\n")
    );
    // A damage without a loss shows nothing.
    assert!(lost >= 4, "only {lost} lost anything");
}

#[test]
fn a_store_damaged_after_a_clean_end_starts_above_what_was_announced() {
    damage_costs_no_promise(End::Clean);
}

#[test]
fn a_store_damaged_after_a_kill_starts_above_what_was_announced() {
    damage_costs_no_promise(End::Killed);
}

#[test]
fn a_lost_tail_is_passed_over_when_the_cluster_is_as_the_sound_version() {
    let site = Site::new();
    let mut server = site.start_answering();
    let mut recorder = Recorder::default();
    assert!(recorder.take_full(site.dns, ZONES[0]));
    assert!(server.terminate(START).success());
    copy_folder(&site.state(), &site.path("sound"));

    let mut server = site.start_answering();
    site.manifest("lost.yaml", &cluster_ip("lost", 1, 80));
    let old = recorder.highest(ZONES[0]).expect("it was taken");
    let highest = site.new_serial(&mut server, ZONES[0], old);
    server.kill();

    // The database is as before the change, and so is the cluster: a secondary has the lost version.
    fs::remove_dir_all(site.state().join("db")).expect("it is there");
    copy_folder(&site.path("sound/db"), &site.state().join("db"));
    fs::remove_file(site.path("manifests/lost.yaml")).expect("it is there");
    let mut server = site.start();
    server.wait_for("a serial above the lost one", CHANGE, || {
        wire::serial(site.dns, ZONES[0])
            .filter(|serial| *serial != highest && serial.wrapping_sub(highest) < 1 << 31)
    });
    assert!(server.log().contains("are lost"), "{}", server.log());
}
