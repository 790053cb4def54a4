//! Versions that were announced and are not there any more: `verify` says so, for good.

use super::*;
use crate::laws::fixed_history;

/// The faults of the zone.
pub(super) fn faults(bench: &mut Bench) -> Vec<Fault> {
    bench
        .journal()
        .reader()
        .verify(&apex(), &[])
        .unwrap()
        .faults
}

/// A version of another zone.
fn of_other(previous: Option<&Version>, serial: u32) -> Candidate {
    let other: Name = "other.example.".parse().unwrap();
    let before = previous.map_or_else(
        || Contents::empty(&other, laws::soa(1)),
        |version| version.contents.clone(),
    );
    let mut edit = Edit::new(&before);
    let text = dns::Rdata::txt(&serial.to_string());
    let mut records = vec![(dns::Rtype::TXT, dns::Ttl::ZERO, text)];
    edit.set(Node::build(&other, &other, &mut records).unwrap(), 0);
    finished(previous, edit, Serial::decode(serial))
}

/// A store of many versions.
fn stored() -> (Bench, BTreeMap<u64, Version>) {
    let mut bench = Bench::new();
    let mut announced = BTreeMap::new();
    for plan in &fixed_history(60) {
        bench.commit(plan);
        if let Some(version) = &bench.version {
            announced.insert(version.seq, version.clone());
        }
    }
    bench.settle();
    bench.journal = None;
    (bench, announced)
}

#[test]
fn verify_finds_a_flipped_bit_of_the_file_or_nothing_that_was_published_differs() {
    let (mut bench, announced) = stored();
    let path = bench.dir.path().join("db/db");
    let octets = std::fs::read(&path).unwrap();
    let used = octets.iter().rposition(|octet| *octet != 0).unwrap() + 1;
    let places = 24;
    let mut found = 0;
    for place in 0..places {
        let whole = TempDir::new().unwrap();
        damage::copy(bench.dir.path(), whole.path());
        let mut flipped = octets.clone();
        flipped[used * place / places] ^= 1 << (place % 8);
        std::fs::write(whole.path().join("db/db"), flipped).unwrap();
        let (journal, _) = Journal::open(whole.path(), clock(&bench.now)).unwrap();
        let reader = journal.reader();
        if !reader.verify(&apex(), &[]).unwrap().faults.is_empty() {
            found += 1;
            continue;
        }
        let newest = reader.zone(&apex()).unwrap().newest;
        assert_eq!(Some(&newest), announced.keys().last(), "{place}");
        for (seq, version) in &announced {
            let contents = reader.contents_at(&apex(), *seq, None).unwrap();
            assert!(
                contents.same_as(&version.contents),
                "{place}: version {seq}"
            );
        }
    }
    assert!(found > places / 2, "{found} of {places}");
    bench.open();
    assert_eq!(faults(&mut bench), Vec::new());
}

#[test]
fn a_database_that_is_gone_is_a_fault_until_a_version_says_it_and_from_then_on_in_the_chain() {
    let (mut bench, announced) = stored();
    let newest = announced.values().last().unwrap().serial;
    std::fs::remove_dir_all(bench.dir.path().join("db")).unwrap();
    for _ in 0..2 {
        bench.open();
        let reader = bench.journal().reader();
        assert_eq!(reader.lost(), [apex()]);
        let what = format!("all versions up to serial {newest} are lost");
        let serial = Some(newest.encode());
        assert_eq!(
            faults(&mut bench),
            [Fault {
                seq: 0,
                serial,
                damage: Damage::Lost,
                what
            }]
        );
    }
    let lost = bench.journal().lost(&apex()).unwrap();
    let plans = fixed_history(60);
    let candidate = plans.iter().find_map(|plan| bench.candidate(plan));
    let candidate = candidate.unwrap();
    let step = candidate.step();
    let draft = Draft {
        contents: candidate.version().contents.clone(),
        removed: step.removed.clone(),
        added: step.added.clone(),
        soa_changed: false,
    };
    let mut causes = step.causes.clone();
    causes.push(vec![lost.cause()]);
    let (serial, time_ms) = (step.serial, step.time_ms);
    bench.put(Candidate::new(
        None, draft, serial, time_ms, causes, UNLIMITED,
    ));
    for _ in 0..2 {
        assert_eq!(bench.journal().lost(&apex()), None);
        let faults = faults(&mut bench);
        let [fault] = &faults[..] else {
            panic!("{faults:?}");
        };
        assert!(
            fault.what.contains("are lost: this version replaces them"),
            "{faults:?}"
        );
        bench.open();
    }
}

#[test]
fn a_folder_in_which_nothing_was_stored_is_told_from_one_that_lost_it() {
    let dir = TempDir::new().unwrap();
    assert!(Journal::is_unused(dir.path()));
    let (bench, _) = stored();
    assert!(!Journal::is_unused(bench.dir.path()));
    std::fs::remove_dir_all(bench.dir.path().join("db")).unwrap();
    assert!(!Journal::is_unused(bench.dir.path()));
    std::fs::write(dir.path().join("other"), "x").unwrap();
    assert!(!Journal::is_unused(dir.path()));
}

#[test]
fn a_first_version_that_the_database_refused_is_not_lost() {
    let mut bench = Bench::new();
    let candidate = bulky(None, 7);
    bench.journal().store.refuse_next();
    assert!(bench.journal().commit(vec![candidate]).is_err());
    let serials = std::fs::read_to_string(bench.dir.path().join("serials")).unwrap();
    assert!(serials.contains("z.example. "), "{serials}");
    for _ in 0..2 {
        assert_eq!(bench.open(), Vec::<String>::new());
        assert_eq!(bench.journal().lost(&apex()), None);
        let reader = bench.journal().reader();
        assert_eq!(reader.lost(), Vec::new());
        bench.put(of_other(None, 5));
    }
    let candidate = bulky(None, 1000);
    bench.put(candidate);
    assert_eq!(faults(&mut bench), Vec::new());
}

#[test]
fn serials_that_a_loss_of_power_hid_are_passed_over_whatever_other_zones_do_meanwhile() {
    let mut bench = Bench::new();
    let candidate = bulky(None, 1000);
    bench.put(candidate);
    bench.journal = None;
    // Whatever came after it is lost with the power, here and in the file of what is newest.
    power::start_machine_anew(bench.dir.path());
    bench.open();
    let floor = bench.journal().floor(&apex());
    assert!(floor.is_some_and(|floor| floor.is_after(Serial::decode(1000))));
    let mut other = None;
    for serial in 1..4 {
        let next = of_other(other.as_ref(), serial);
        other = Some(next.version().clone());
        bench.journal().commit(vec![next]).unwrap();
        bench.open();
        assert_eq!(bench.journal().floor(&apex()), floor, "{serial}");
        assert_eq!(bench.journal().lost(&apex()), None);
    }
    // It is still known which version was there.
    std::fs::rename(bench.dir.path().join("db"), bench.dir.path().join("aside")).unwrap();
    bench.open();
    assert!(bench.journal().lost(&apex()).unwrap().is_exact);
    bench.journal = None;
    std::fs::remove_dir_all(bench.dir.path().join("db")).unwrap();
    std::fs::rename(bench.dir.path().join("aside"), bench.dir.path().join("db")).unwrap();
    bench.open();
    let serial = floor.unwrap().next(1).encode();
    let candidate = bulky(bench.version.as_ref(), serial);
    bench.put(candidate);
    bench.open();
    assert_eq!(bench.journal().floor(&apex()), None);
}

#[test]
fn what_may_be_lost_is_told_until_a_version_says_so_whatever_others_do() {
    let (mut bench, _) = stored();
    std::fs::remove_dir_all(bench.dir.path().join("db")).unwrap();
    std::fs::remove_file(bench.dir.path().join("newest")).unwrap();
    let mut other = None;
    for serial in 1..4 {
        bench.open();
        assert_eq!(bench.journal().reader().lost(), [apex()]);
        let lost = bench.journal().lost(&apex()).unwrap();
        assert!(lost.to_string().ends_with(" at most"), "{lost}");
        assert!(bench.journal().floor(&apex()).is_some());
        let next = of_other(other.as_ref(), serial);
        other = Some(next.version().clone());
        bench.journal().commit(vec![next]).unwrap();
    }
}
