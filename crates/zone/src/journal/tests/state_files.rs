//! The files beside the database: what is changed or missing is named, and what is not known therefore is said.

use std::fs;

use super::lost::faults;
use super::*;

/// A store with a version after which the process was killed.
fn killed() -> Bench {
    let mut bench = Bench::new();
    bench.journal().begin().unwrap();
    let candidate = bulky(None, 1000);
    bench.put(candidate);
    bench.journal = None;
    bench
}

fn remove(bench: &Bench, file: &str) {
    fs::remove_file(bench.dir.path().join(file)).unwrap();
}

#[test]
fn without_the_file_newest_later_versions_are_not_known_as_far_as_serials_were_reserved() {
    for (file, why) in [(None, "is missing"), (Some(""), "is empty")] {
        let mut bench = killed();
        remove(&bench, "newest");
        if let Some(text) = file {
            fs::write(bench.dir.path().join("newest"), text).unwrap();
        }
        for _ in 0..2 {
            bench.open();
            let what = format!(
                "it is not known whether versions after serial 1000 were announced, with serials up to 1256 at most: the \
                 file newest {why}"
            );
            let fault = Fault {
                seq: 2,
                serial: None,
                damage: Damage::Unknown,
                what,
            };
            assert_eq!(faults(&mut bench), [fault]);
        }
    }
}

#[test]
fn after_a_clean_end_the_ceilings_are_exact_and_nothing_is_unknown() {
    let mut bench = killed();
    bench.open();
    let candidate = bulky(bench.version.as_ref(), 1001);
    bench.put(candidate);
    bench.journal.take().unwrap().close().unwrap();
    remove(&bench, "newest");
    bench.open();
    assert_eq!(faults(&mut bench), []);
    assert_eq!(check_files(bench.dir.path(), false).unwrap(), []);
}

#[test]
fn what_is_not_known_is_recorded_by_the_next_version_and_stays_unknown() {
    let mut bench = killed();
    remove(&bench, "newest");
    bench.open();
    let lost = bench.journal().lost(&apex()).unwrap();
    let cause = lost.cause();
    let previous = bench.version.clone().unwrap();
    let draft = Edit::new(&previous.contents).finish();
    let serial = Serial::decode(1300);
    let candidate = Candidate::new(
        Some(&previous),
        draft,
        serial,
        2_000_000,
        vec![vec![cause]],
        UNLIMITED,
    );
    bench.put(candidate);
    bench.open();
    let found = faults(&mut bench);
    let [fault] = &found[..] else {
        panic!("{found:?}");
    };
    assert_eq!((fault.seq, fault.damage), (2, Damage::Unknown));
    assert!(
        fault.what.contains("after serial 1000 may be lost"),
        "{fault:?}"
    );
}

#[test]
fn a_file_that_another_boot_wrote_and_that_agrees_leaves_nothing_open() {
    let mut bench = killed();
    power::start_machine_anew(bench.dir.path());
    bench.open();
    assert_eq!(faults(&mut bench), []);
}

#[test]
fn a_zone_of_which_no_file_says_what_was_announced_continues_as_in_a_copy() {
    let mut bench = killed();
    remove(&bench, "newest");
    remove(&bench, "serials");
    bench.open();
    let found = faults(&mut bench);
    let [fault] = &found[..] else {
        panic!("{found:?}");
    };
    assert_eq!(fault.damage, Damage::Unknown);
    assert!(fault.what.contains("neither the file serials"), "{fault:?}");
    bench.journal().begin().unwrap();
    let lost = bench.journal().lost(&apex()).unwrap();
    assert!(
        !lost.is_exact && lost.kept == Some(Serial::decode(1000)),
        "{lost}"
    );
    let floor = bench.journal().floor(&apex()).unwrap();
    assert!(floor.is_after(Serial::decode(4000)), "{floor}");
}

/// Whether a change of a file is named: by a refusal, by a fault of the file, or by one of the zone.
fn is_named(bench: &mut Bench, file: &str) -> Result<(), String> {
    let dir = bench.dir.path().to_owned();
    let found = check_files(&dir, false).unwrap();
    if found.iter().any(|it| it.file == file) {
        return Ok(());
    }
    match Journal::open(&dir, clock(&bench.now)) {
        Err(error) if error.to_string().contains(&format!("file {file}")) => return Ok(()),
        Err(error) => return Err(error.to_string()),
        Ok(_) => {}
    }
    bench.open();
    let faults = faults(bench);
    bench.journal = None;
    let names = |fault: &Fault| fault.what.contains(&format!("file {file}"));
    match faults.iter().any(names) {
        true => Ok(()),
        false => Err(format!("{found:?} {faults:?}")),
    }
}

#[test]
fn each_changed_octet_of_a_file_beside_the_database_is_found_and_the_file_named() {
    let mut bench = killed();
    let dir = bench.dir.path().to_owned();
    assert_eq!(check_files(&dir, false).unwrap(), []);
    for file in ["format", "serials", "newest", "mark", "incarnation"] {
        let path = dir.join(file);
        let sound = fs::read(&path).unwrap();
        for at in 0..sound.len() {
            for mask in [0x01, 0x10, 0x20, 0x80] {
                let mut changed = sound.clone();
                changed[at] ^= mask;
                // White space at the end says nothing, and "state 1" is the layout before, which is written anew.
                let is_end = at + 1 == sound.len() && char::from(changed[at]).is_whitespace();
                let text = String::from_utf8_lossy(&changed);
                if is_end || file == "format" && text.trim_end().ends_with(" 1") {
                    continue;
                }
                fs::write(&path, &changed).unwrap();
                let named = is_named(&mut bench, file);
                assert_eq!(named, Ok(()), "{file} {at} {mask:02x}: {text:?}");
            }
        }
        fs::write(&path, &sound).unwrap();
    }
}

#[test]
fn files_of_older_releases_without_checksums_are_read() {
    let bench = killed();
    let dir = bench.dir.path();
    let newest = fs::read_to_string(dir.join("newest")).unwrap();
    let (first, rest) = newest.split_once('\n').unwrap();
    let first = serial_files::without_sum(first).unwrap();
    fs::write(dir.join("newest"), format!("{first}\n{rest}")).unwrap();
    let incarnation = dir.join("incarnation");
    fs::write(&incarnation, "0123456789abcdef\n").unwrap();
    let found = check_files(dir, false).unwrap();
    let [mark] = &found[..] else {
        panic!("{found:?}");
    };
    assert_eq!((mark.file, mark.damage), ("mark", Some(Damage::Unknown)));
    assert!(Known::read(dir).unwrap().is_exact);
}
