//! Hashes, indexes and `verify`: what is altered is found, what is not is not accused.

use super::*;
use crate::journal::codec::{BY_NAME, BY_OBJECT, BY_RECORD, FORMAT_BEFORE, LARGE, META_KEY};
use crate::journal::verify::Walk;
use crate::{ContentTree, Hash};

/// What `verify` says.
fn verdict(bench: &mut Bench) -> Verdict {
    bench.journal().reader().verify(&apex(), &[]).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn an_untouched_store_holds_and_the_index_finds_what_a_walk_finds(
        runs in prop::collection::vec(any_history(8), 1..4),
        keep in 3..30_u64,
    ) {
        let mut bench = Bench::new();
        for history in runs {
            let retention = Retention { versions: keep, ..Retention::DEFAULT };
            bench.journal().set_retention(&apex(), retention);
            for plan in &history {
                bench.commit(plan);
                bench.now.fetch_add(300, Ordering::Relaxed);
            }
            bench.settle();
            prop_assert_eq!(bench.open(), Vec::<String>::new());
        }
        let Some(version) = bench.version.clone() else { return Ok(()) };
        let verdict = verdict(&mut bench);
        prop_assert_eq!(&verdict.faults, &Vec::<Fault>::new());
        prop_assert_eq!(verdict.unhashed, 0);
        prop_assert_eq!(verdict.head, version.link.map(|link| link.hash));
        let whole = ContentTree::of(&version.contents).content_hash(&version.contents);
        prop_assert_eq!(version.content_hash(), whole);
        let links: Vec<_> = bench.steps.iter().map(|step| step.link.unwrap()).collect();
        for pair in links.windows(2) {
            prop_assert_eq!(pair[1].previous, pair[0].hash);
        }
        let reader = bench.journal().reader();
        let zone = reader.zone(&apex()).unwrap();
        let kept: Vec<_> = bench.steps.iter().filter(|step| step.seq >= zone.oldest).collect();
        for step in &kept {
            for rr in step.added.iter().chain(&step.removed) {
                let record = rr.to_record();
                let name_has = |step: &&&Arc<Step>| {
                    let at = |list: &dns::RrList| {
                        list.iter().any(|rr| rr.owner.eq_ignore_ascii_case(record.owner.as_wire()))
                    };
                    at(&step.added) || at(&step.removed)
                };
                let mut found = Vec::new();
                reader
                    .find(&apex(), Topic::name(&record.owner), 0..=u64::MAX, |seq| {
                        found.push(seq);
                        Ok::<_, ReadError>(true)
                    })
                    .unwrap();
                let want: Vec<u64> = kept.iter().rev().filter(name_has).map(|step| step.seq).collect();
                prop_assert_eq!(&found, &want);
                let mut newest = None;
                reader
                    .find(&apex(), Topic::record(record.view()), 0..=step.seq, |seq| {
                        newest = Some(seq);
                        Ok::<_, ReadError>(false)
                    })
                    .unwrap();
                prop_assert_eq!(newest, Some(step.seq));
            }
        }
        // Index entries go with their steps.
        let reader_id = bench.journal().zones()[&apex()].id;
        let needed: usize = kept_in_store(&mut bench)
            .map(|step| index::keys_of(&step, reader_id).len())
            .sum();
        let there: usize = [BY_NAME, BY_RECORD, BY_OBJECT, LARGE]
            .into_iter()
            .map(|kind| entries(bench.journal(), kind))
            .sum();
        prop_assert_eq!(there, needed);
    }
}

/// The steps that stand in the store, also those only the base needs.
fn kept_in_store(bench: &mut Bench) -> impl Iterator<Item = Step> + use<> {
    let stored = bench.journal().zones()[&apex()].clone();
    let store = bench.journal().store.clone();
    (stored.head.first_needed()..=stored.head.seq)
        .map(move |seq| load::read_step(&store, &apex(), stored.id, seq).unwrap())
}

/// The entries of steps and snapshots.
fn version_entries(journal: &Journal) -> Vec<(Vec<u8>, Vec<u8>)> {
    [STEP, SNAPSHOT]
        .into_iter()
        .flat_map(|kind| {
            journal
                .store
                .range(&[kind], &[kind + 1], usize::MAX)
                .unwrap()
        })
        .map(|(key, value)| (key.to_vec(), value.to_vec()))
        .collect()
}

/// Makes the checks of all parts of a stream right, as a forger would who knows them.
fn forge(parts: &mut [(Vec<u8>, Vec<u8>)]) {
    let mut chain = 0;
    for (key, value) in parts {
        let end = value.len() - 4;
        let mut hasher = crc32fast::Hasher::new_with_initial(chain);
        hasher.update(key);
        hasher.update(&value[..end]);
        chain = hasher.finalize();
        value[end..].copy_from_slice(&chain.to_be_bytes());
    }
}

/// Writes entries over what the store has.
fn overwrite(journal: &Journal, entries: &[(Vec<u8>, Vec<u8>)]) {
    let mut batch = Batch::default();
    for (key, value) in entries {
        batch.put(key, value.clone());
    }
    journal.store.write(batch).unwrap();
}

/// A store with a first version, many steps and a snapshot in the middle of them.
fn tamper_bench() -> Bench {
    let mut bench = bulky_bench(20, Retention::DEFAULT);
    for turn in 0..12 {
        let plans = laws::fixed_history(turn + 1);
        bench.commit(&plans[turn]);
    }
    bench.settle();
    assert!(entries(bench.journal(), SNAPSHOT) > 0);
    assert_eq!(verdict(&mut bench).faults, Vec::new());
    bench
}

/// Flips an octet of a version at many places, with our own checks made right or left as they are; sled's
/// own checksums are right, for sled writes it. Each is found.
fn flip(places: usize, forged: bool) {
    let mut bench = tamper_bench();
    let all = version_entries(bench.journal());
    let octets: usize = all.iter().map(|(_, value)| value.len()).sum();
    let mut random = fastrand::Rng::with_seed(::fuzz::seed());
    for round in 0..places {
        let mut at = random.usize(..octets);
        let place = all
            .iter()
            .position(|(_, value)| {
                let here = at < value.len();
                at -= if here { 0 } else { value.len() };
                here
            })
            .unwrap();
        let stream = &all[place].0[..13];
        let mut parts: Vec<_> = all
            .iter()
            .filter(|(key, _)| key.starts_with(stream))
            .cloned()
            .collect();
        let untouched = parts.clone();
        let value = &mut parts
            .iter_mut()
            .find(|(key, _)| *key == all[place].0)
            .unwrap()
            .1;
        value[at] ^= 1 << (round % 8);
        if forged {
            forge(&mut parts);
            if parts == untouched {
                // The flip was in the check itself: nothing differs once it is right.
                continue;
            }
        }
        overwrite(bench.journal(), &parts);
        let seq = codec::seq_of(stream).unwrap();
        let verdict = verdict(&mut bench);
        let found = verdict
            .faults
            .iter()
            .any(|fault| fault.seq.abs_diff(seq) <= 1);
        assert!(
            found,
            "round {round}, version {seq}, octet {at} of {:?}: {:?}",
            all[place].0, verdict.faults
        );
        overwrite(bench.journal(), &untouched);
    }
    assert_eq!(verdict(&mut bench).faults, Vec::new());
}

/// How many places are tried: a few, or as many as `ZW_FLIPS` says (`tools/run-tests` says 1000).
fn places(few: usize) -> usize {
    let said = std::env::var("ZW_FLIPS").ok();
    said.map_or(few, |number| number.parse().expect("ZW_FLIPS is a number"))
}

#[test]
fn any_flipped_octet_of_a_version_is_found() {
    flip(places(24), false);
}

#[test]
fn any_flipped_octet_is_found_when_all_checks_were_made_right() {
    flip(places(48), true);
}

/// The entries of a step, written anew with a change.
fn rewritten(
    journal: &Journal,
    seq: u64,
    change: impl FnOnce(&mut Step),
) -> Vec<(Vec<u8>, Vec<u8>)> {
    let id = journal.zones()[&apex()].id;
    let raw = step::read_raw_step(&journal.store, id, seq).unwrap();
    let contents = raw.clone().into_contents(&apex());
    let mut step = raw.into_step(&apex());
    let contents = contents.map_or(Contents::empty(&apex(), step.soa.clone()), |(it, ..)| it);
    change(&mut step);
    let mut parts = codec::PartWriter::new(STEP, id, seq);
    let mut out = Vec::new();
    step::write_step(&step, &contents, &mut parts, |parts, octets, begins| {
        if begins {
            parts.begin(octets.len(), &mut out);
        }
        parts.push(octets, &mut out);
    });
    parts.finish(&mut out);
    out.into_iter()
        .map(|(key, value)| (key.to_vec(), value))
        .collect()
}

#[test]
fn what_upkeep_takes_away_under_a_verification_is_no_fault() {
    let mut bench = tamper_bench();
    let reader = bench.journal().reader();
    let before = bench.journal().zones()[&apex()].clone();
    let seq = before.head.oldest + 1;
    let step = load::read_step(&*reader.store, &apex(), before.id, seq).unwrap();
    let contents = Contents::empty(&apex(), step.soa.clone());
    // The verification has read the step, and upkeep comes before it looks at the octets.
    bench.journal().set_retention(
        &apex(),
        Retention {
            versions: 4,
            ..Retention::DEFAULT
        },
    );
    let turn = before.head.serial.encode() + 1;
    let candidate = bulky(bench.version.as_ref(), turn);
    bench.put(candidate);
    bench.settle();
    let after = bench.journal().zones()[&apex()].clone();
    assert!(after.first_stored > seq, "{after:?}");
    let mut walk = Walk::new(&reader, &before, &[]);
    walk.exactness(&step, &contents).unwrap();
    let gone = walk.run().unwrap().verdict.faults;
    // The base moved too, for which a verification begins anew.
    let of_base = |fault: &Fault| fault.seq == before.head.base.seq;
    assert!(gone.iter().all(of_base), "{gone:?}");
    // The same while it stands is one.
    let newest = load::read_step(&*reader.store, &apex(), before.id, after.head.seq).unwrap();
    let mut other = newest;
    other.time_ms += 1;
    let mut walk = Walk::new(&reader, &after, &[]);
    walk.exactness(&other, &contents).unwrap();
    assert_eq!(walk.run().unwrap().verdict.faults.len(), 1);
}

#[test]
fn the_hashes_of_a_version_that_was_made_a_snapshot_are_known_at_the_start() {
    let mut bench = bulky_bench(3, Retention::DEFAULT);
    bench.settle();
    let version = bench.version.clone().unwrap();
    let stored = bench.journal().zones()[&apex()].clone();
    let mut job = upkeep::snapshot_job(stored.id, &version);
    job.since_base = stored.head.since_base;
    bench.journal().jobs.push_back(job);
    bench.settle();
    let base = bench.journal().zones()[&apex()].head.base;
    assert_eq!((base.seq, base.snapshot), (version.seq, true));
    let link = bench.version.clone().unwrap().link;
    assert!(link.is_some());
    bench.open();
    assert_eq!(bench.version.clone().unwrap().link, link);
}

#[test]
fn a_forged_step_with_its_own_hash_breaks_the_link_after_it() {
    let mut bench = tamper_bench();
    let seq = bench.journal().zones()[&apex()].head.seq - 3;
    let forged = rewritten(bench.journal(), seq, |step| {
        step.time_ms += 1;
        let link = step.link.unwrap();
        let again = crate::Link::of(step, &apex(), link.previous, link.content);
        step.link = Some(again);
    });
    overwrite(bench.journal(), &forged);
    let faults = verdict(&mut bench).faults;
    assert_eq!(faults.len(), 1, "{faults:?}");
    assert_eq!(faults[0].seq, seq + 1);
    assert!(faults[0].what.contains("names another hash"), "{faults:?}");
}

#[test]
fn steps_taken_out_of_the_store_or_its_index_are_missed() {
    let mut bench = tamper_bench();
    let stored = bench.journal().zones()[&apex()].clone();
    let seq = stored.head.seq - 5;
    for kind in [STEP, BY_NAME] {
        let at = |key: &[u8]| key.ends_with(&seq.to_be_bytes()) || codec::seq_of(key) == Some(seq);
        let gone: Vec<_> = bench
            .journal()
            .store
            .range(&[kind], &[kind + 1], usize::MAX)
            .unwrap()
            .into_iter()
            .map(|(key, value)| (key.to_vec(), value.to_vec()))
            .filter(|(key, _)| at(key))
            .collect();
        assert!(!gone.is_empty());
        let mut batch = Batch::default();
        for (key, _) in &gone {
            batch.delete(key);
        }
        bench.journal().store.write(batch).unwrap();
        let faults = verdict(&mut bench).faults;
        assert!(
            faults.iter().any(|fault| fault.seq == seq),
            "{kind}: {faults:?}"
        );
        overwrite(bench.journal(), &gone);
    }
    assert_eq!(verdict(&mut bench).faults, Vec::new());
}

#[test]
fn a_forged_record_is_said_when_the_zone_is_loaded() {
    let mut bench = tamper_bench();
    let stored = bench.journal().zones()[&apex()].clone();
    let changes = |step: &Step| !step.added.is_empty();
    let read = |seq| {
        load::read_step(
            &bench.journal.as_ref().unwrap().store,
            &apex(),
            stored.id,
            seq,
        )
    };
    let mut seqs = (stored.head.base.seq + 1..=stored.head.seq).rev();
    let seq = seqs.find(|seq| changes(&read(*seq).unwrap())).unwrap();
    let forged = rewritten(bench.journal(), seq, |step| {
        let mut added = dns::RrList::default();
        for rr in &step.added {
            let mut data = rr.data.to_vec();
            *data.last_mut().unwrap() ^= 1;
            added.push(dns::RrRef { data: &data, ..rr });
        }
        step.added = added;
    });
    overwrite(bench.journal(), &forged);
    let notes = bench.open();
    let said = notes
        .iter()
        .any(|note| note.contains("zonewright verify") || note.contains("are lost"));
    assert!(said, "{notes:?}");
}

/// Writes a store back as the layout before had it: steps without hashes and operations, a short head, no
/// index. Closes it.
fn into_layout_before(bench: &mut Bench) {
    let stored = bench.journal().zones()[&apex()].clone();
    let mut old = Vec::new();
    for seq in 1..=stored.head.seq {
        old.extend(rewritten(bench.journal(), seq, |step| step.link = None));
    }
    let key = codec::zone_key(HEAD, stored.id);
    let head = stored.head.encode(&key)[..53].to_vec();
    old.push((key.to_vec(), codec::seal(&key, head)));
    let meta = codec::seal(META_KEY, FORMAT_BEFORE.to_be_bytes().to_vec());
    old.push((META_KEY.to_vec(), meta));
    overwrite(bench.journal(), &old);
    for kind in [BY_NAME, BY_RECORD, BY_OBJECT, LARGE] {
        let (low, high) = ([kind], [kind + 1]);
        while bench.journal().remove_some(&low, &high, 100).unwrap() > 0 {}
    }
    bench.journal.take().unwrap().close().unwrap();
    std::fs::write(bench.dir.path().join("format"), "zonewright state 1\n").unwrap();
}

#[test]
fn steps_from_before_the_index_go_a_portion_at_a_time() {
    let mut bench = bulky_bench(3, Retention::DEFAULT);
    into_layout_before(&mut bench);
    assert_eq!(bench.open(), Vec::<String>::new());
    let mut stored = bench.journal().zones()[&apex()].clone();
    assert!(stored.head.indexed > 3);
    stored.head.base.seq = 3;
    stored.head.oldest = 3;
    let there = entries(bench.journal(), STEP);
    assert_eq!(bench.journal().remove_steps(&stored, 1).unwrap(), 1);
    assert_eq!(entries(bench.journal(), STEP), there - 1);
}

#[test]
fn a_store_of_the_layout_before_goes_on_and_its_chain_begins_with_the_next_version() {
    let mut bench = Bench::new();
    for plan in &laws::fixed_history(20) {
        bench.commit(plan);
    }
    let written = bench.version.clone().unwrap();
    into_layout_before(&mut bench);

    assert_eq!(bench.open(), Vec::<String>::new());
    let format = std::fs::read_to_string(bench.dir.path().join("format")).unwrap();
    assert_eq!(format, "zonewright state 2\n");
    let before = bench.version.clone().unwrap();
    assert_eq!((before.seq, before.link), (written.seq, None));
    assert!(before.contents.same_as(&written.contents));
    let unhashed = before.seq;
    for plan in laws::fixed_history(30).iter().skip(20) {
        bench.commit(plan);
    }
    assert_eq!(bench.open(), Vec::<String>::new());
    let verdict = verdict(&mut bench);
    assert_eq!(verdict.faults, Vec::new());
    assert_eq!((verdict.unhashed, verdict.anchor), (unhashed, Hash::ZERO));
    assert!(verdict.versions > unhashed + 1 && verdict.head.is_some());
    // What the indexes do not know is gone through.
    let name = "n1.z.example.".parse().unwrap();
    let mut found = Vec::new();
    let reader = bench.journal().reader();
    reader
        .find(&apex(), Topic::name(&name), 0..=u64::MAX, |seq| {
            found.push(seq);
            Ok::<_, ReadError>(true)
        })
        .unwrap();
    let all = (1..=unhashed).rev().all(|seq| found.contains(&seq));
    assert!(all, "{found:?}");
    // Taking the hashes off later versions is seen.
    let seq = unhashed + 2;
    let stripped = rewritten(bench.journal(), seq, |step| step.link = None);
    overwrite(bench.journal(), &stripped);
    let faults = self::verdict(&mut bench).faults;
    let seen = faults.iter().any(|fault| fault.seq == seq);
    assert!(seen, "{faults:?}");
}

#[test]
fn older_snapshots_stay_while_their_history_does_and_give_what_was() {
    let mut bench = bulky_bench(60, Retention::DEFAULT);
    bench.settle();
    let head = bench.journal().zones()[&apex()].head.clone();
    assert!(head.older.len() > 1, "{head:?}");
    let reader = bench.journal().reader();
    let owner: Name = "n7.z.example.".parse().unwrap();
    for seq in [1, 2, 17, 33, 59, 60] {
        let all = reader.contents_at(&apex(), seq, None).unwrap();
        let wanted = all
            .get(owner.sort_key(&apex()).unwrap().as_bytes())
            .unwrap();
        for near in [None, bench.version.as_ref()] {
            let one = reader.contents_of(&apex(), seq, &owner, near).unwrap();
            let nodes: Vec<_> = one.nodes().map(Node::as_octets).collect();
            assert_eq!(nodes, [wanted.as_octets()], "{seq}");
        }
        let text = String::from_utf8_lossy(wanted.as_octets()).into_owned();
        assert!(text.contains(&format!("{seq} 7 xxx")), "{seq}: {text}");
    }
    assert_eq!(verdict(&mut bench).faults, Vec::new());
    assert_eq!(bench.open(), Vec::<String>::new());
    assert_eq!(bench.journal().zones()[&apex()].head, head);
    let retention = Retention {
        versions: 3,
        ..Retention::DEFAULT
    };
    bench.journal().set_retention(&apex(), retention);
    let candidate = bulky(bench.version.as_ref(), 61);
    bench.put(candidate);
    bench.settle();
    let head = bench.journal().zones()[&apex()].head.clone();
    assert_eq!(*head.older, []);
    assert!(entries(bench.journal(), SNAPSHOT) < 20, "one is left");
    assert_eq!(verdict(&mut bench).faults, Vec::new());
}

/// What `verify` says of the version that a change was made to.
fn damage_of(bench: &mut Bench, seq: u64) -> Vec<Damage> {
    let faults = verdict(bench).faults;
    let of_version = faults.iter().filter(|fault| fault.seq == seq);
    of_version.map(|fault| fault.damage).collect()
}

#[test]
fn changed_bytes_lost_versions_and_a_broken_chain_are_told_apart() {
    let mut bench = tamper_bench();
    let stored = bench.journal().zones()[&apex()].clone();
    let seq = stored.head.seq - 1;
    let first = codec::part_key(STEP, stored.id, seq, 0);
    let next = codec::part_key(STEP, stored.id, seq + 1, 0);
    let all = version_entries(bench.journal());
    let untouched: Vec<_> = all
        .into_iter()
        .filter(|(key, _)| (&first[..]..&next[..]).contains(&&key[..]))
        .collect();
    let mut flipped = untouched.clone();
    flipped[0].1[20] ^= 1;
    overwrite(bench.journal(), &flipped);
    assert_eq!(damage_of(&mut bench, seq), [Damage::Changed]);
    let mut batch = Batch::default();
    for (key, _) in &untouched {
        batch.delete(key);
    }
    bench.journal().store.write(batch).unwrap();
    assert_eq!(damage_of(&mut bench, seq), [Damage::Lost]);
    overwrite(bench.journal(), &untouched);
    // A version whose own hash is right, and that names another one before it.
    let forged = rewritten(bench.journal(), seq, |step| {
        let link = step.link.unwrap();
        let previous = Hash::from_octets([7; 32]);
        step.link = Some(crate::Link::of(step, &apex(), previous, link.content));
    });
    overwrite(bench.journal(), &forged);
    assert_eq!(damage_of(&mut bench, seq), [Damage::Chain]);
    assert_eq!(damage_of(&mut bench, seq + 1), [Damage::Chain]);
    overwrite(bench.journal(), &untouched);
    assert_eq!(verdict(&mut bench).faults, []);
}

#[test]
fn a_hash_that_was_noted_is_found_in_the_chain_or_just_before_it() {
    let mut bench = tamper_bench();
    let links: Vec<_> = bench.steps.iter().map(|step| step.link.unwrap()).collect();
    let retention = Retention {
        versions: 4,
        ..Retention::DEFAULT
    };
    bench.journal().set_retention(&apex(), retention);
    bench.settle();
    let reader = bench.journal().reader();
    let zone = reader.zone(&apex()).unwrap();
    assert!(zone.oldest > 2, "some versions are dropped");
    let noted: Vec<Hash> = links.iter().map(|link| link.hash).collect();
    let verdict = reader.verify(&apex(), &noted).unwrap();
    let found: Vec<u64> = verdict.anchored.iter().map(|found| found.seq).collect();
    let mut want: Vec<u64> = (zone.oldest - 1..=zone.newest).collect();
    let mut sorted = found.clone();
    sorted.sort_unstable();
    assert_eq!(sorted, want);
    want.retain(|seq| {
        let step = &bench.steps[usize::try_from(*seq).unwrap() - 1];
        let same = |it: &Anchored| {
            it.serial == step.serial && Some(it.hash) == step.link.map(|link| link.hash)
        };
        !verdict.anchored.iter().any(same)
    });
    assert_eq!(want, [0; 0], "serial and hash are those of the version");
    let none = reader.verify(&apex(), &[Hash::from_octets([9; 32])]);
    assert_eq!(none.unwrap().anchored, []);
}
