//! Versions that are kept elsewhere: what is asked about them is answered as if the database had them.

use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::sync::Mutex;

use super::*;
use crate::Hash;
use crate::journal::codec;
use crate::journal::segment::Segment;
use crate::journal::store::Batch;
use dns::RrList;

/// Objects in memory.
#[derive(Default)]
struct Memory {
    objects: Mutex<BTreeMap<ObjectPlace, Vec<u8>>>,
    reads: AtomicU64,
    is_away: std::sync::atomic::AtomicBool,
}

impl Memory {
    fn reach(&self) -> io::Result<()> {
        match self.is_away.load(Ordering::Relaxed) {
            true => Err(io::ErrorKind::ConnectionRefused.into()),
            false => Ok(()),
        }
    }

    fn change(&self, change: impl FnOnce(&mut BTreeMap<ObjectPlace, Vec<u8>>)) {
        change(&mut self.objects.lock().unwrap());
    }
}

impl Objects for Memory {
    fn read(&self, place: &ObjectPlace, range: Range<u64>) -> io::Result<Vec<u8>> {
        self.reach()?;
        self.reads.fetch_add(1, Ordering::Relaxed);
        let objects = self.objects.lock().unwrap();
        let object = objects.get(place).ok_or(io::ErrorKind::NotFound)?;
        let at = |offset: u64| object.len().min(usize::try_from(offset).unwrap());
        Ok(object[at(range.start)..at(range.end)].to_vec())
    }

    fn write(&self, place: &ObjectPlace, octets: Vec<u8>) -> io::Result<()> {
        self.reach()?;
        self.objects.lock().unwrap().insert(place.clone(), octets);
        Ok(())
    }
}

const URL: &str = "memory://archive";

/// A history of so many versions, of which none goes that is in no segment.
const fn archived(versions: u64) -> Retention {
    Retention {
        versions,
        is_archived: true,
        ..Retention::DEFAULT
    }
}

impl Bench {
    /// A bench with an archive.
    fn archiving(versions: u64) -> (Self, Arc<Memory>) {
        let (mut bench, objects) = (Self::new(), Arc::new(Memory::default()));
        bench.attach(versions, &objects);
        (bench, objects)
    }

    /// Gives the journal its archive, as every start does.
    fn attach(&mut self, versions: u64, objects: &Arc<Memory>) {
        let objects: Arc<dyn Objects> = Arc::<Memory>::clone(objects);
        self.journal().set_objects(objects);
        self.journal().set_retention(&apex(), archived(versions));
    }

    /// Moves at most so many versions to the archive; says whether there were any.
    fn move_some(&mut self, versions: u64) -> bool {
        let limits = CutLimits {
            versions,
            octets: usize::MAX,
        };
        if self.version.is_none() {
            return false;
        }
        let Some(cut) = self.journal().reader().cut(&apex(), URL, limits).unwrap() else {
            return false;
        };
        let segment = self.journal().reader().put(cut).unwrap();
        assert!(self.journal().note_segment(&apex(), segment).unwrap());
        true
    }

    /// Everything that a reader says about all versions, where the database has the last ones only.
    fn expect_all(&mut self) {
        let steps = self.steps.clone();
        let Some(newest) = self.version.clone() else {
            return;
        };
        let reader = self.journal().reader();
        assert_eq!(reader.zone(&apex()).unwrap().oldest, 1);
        assert_eq!(reader.steps(&apex(), 0..=u64::MAX).unwrap(), steps);
        let mut contents = vec![laws::empty()];
        for step in &steps {
            assert_eq!(reader.step(&apex(), step.seq).unwrap(), **step);
            let moment = reader.moment(&apex(), step.seq).unwrap();
            assert_eq!(moment, (step.serial, step.time_ms));
            assert_eq!(reader.seq_of(&apex(), step.serial).unwrap(), Some(step.seq));
            let after = step.apply(contents.last().unwrap()).unwrap();
            for near in [None, Some(&newest)] {
                let read = reader.contents_at(&apex(), step.seq, near).unwrap();
                assert!(read.same_as(&after), "{}", step.seq);
            }
            contents.push(after);
        }
        for name in steps.iter().flat_map(|step| step.touched_names()) {
            let changing: Vec<u64> = { steps.iter().rev() }
                .filter(|step| step.touched_names().contains(&name))
                .map(|step| step.seq)
                .collect();
            assert_eq!(found(&reader, Topic::name(&name)), changing, "{name}");
            for (seq, whole) in contents.iter().enumerate().skip(1) {
                let part = reader
                    .contents_of(&apex(), seq as u64, &name, None)
                    .unwrap();
                let key = name.sort_key(&apex()).unwrap();
                assert_eq!(
                    part.get(key.as_bytes()),
                    whole.get(key.as_bytes()),
                    "{name} {seq}"
                );
            }
        }
        for (older, before) in contents.iter().enumerate().skip(1) {
            for (newer, after) in contents.iter().enumerate().skip(older + 1) {
                let range = (older as u64, newer as u64);
                let net = reader
                    .difference(&apex(), range, Some(&newest))
                    .unwrap()
                    .unwrap();
                assert_eq!(
                    (net.from.0, net.to.0),
                    (steps[older - 1].serial, steps[newer - 1].serial)
                );
                let step = net.into_step();
                assert!(
                    step.apply(before).unwrap().same_as(after),
                    "{older}..{newer}"
                );
            }
        }
        let first = steps[0].link.unwrap().hash;
        let verdict = reader.verify(&apex(), &[first]).unwrap();
        assert_eq!(verdict.faults, Vec::new());
        assert_eq!(verdict.versions, steps.len() as u64);
        assert_eq!((verdict.oldest.0, verdict.anchor), (1, Hash::ZERO));
        assert_eq!(verdict.anchored.len(), 1);
    }
}

trait Touched {
    fn touched_names(&self) -> Vec<Name>;
}

impl Touched for Arc<Step> {
    fn touched_names(&self) -> Vec<Name> {
        let all = |list: &RrList| -> Vec<Name> {
            list.iter()
                .map(|rr| rr.to_record().owner.to_lower())
                .collect()
        };
        let mut names = [all(&self.removed), all(&self.added)].concat();
        names.sort();
        names.dedup();
        names
    }
}

fn found(reader: &Reader, topic: Topic) -> Vec<u64> {
    let mut seqs = Vec::new();
    let mut note = |seq| -> Result<bool, ReadError> {
        seqs.push(seq);
        Ok(true)
    };
    reader
        .find(&apex(), topic, 0..=u64::MAX, &mut note)
        .unwrap();
    seqs
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// Wherever the versions are, in the database, in a segment, in both: every answer is the same.
    #[test]
    fn answers_are_the_same_wherever_the_versions_are(
        runs in prop::collection::vec((any_history(6), 0..8_u64, any::<bool>()), 1..8),
        versions in 1..6_u64,
    ) {
        let (mut bench, objects) = Bench::archiving(versions);
        for (history, moved, reopens) in runs {
            for plan in &history {
                bench.commit(plan);
                bench.now.fetch_add(300, Ordering::Relaxed);
            }
            if moved > 0 {
                bench.move_some(moved);
            }
            bench.settle();
            if reopens {
                prop_assert_eq!(bench.open(), Vec::<String>::new());
                bench.attach(versions, &objects);
            }
        }
        bench.expect_all();
    }
}

/// A store of which versions 1 to 12 are in three segments, and only the last two versions are in the database.
fn three_segments() -> (Bench, Arc<Memory>) {
    let (mut bench, objects) = Bench::archiving(2);
    for plan in &laws::fixed_history(40) {
        bench.commit(plan);
        bench.now.fetch_add(300, Ordering::Relaxed);
        if bench.steps.len() == 12 {
            break;
        }
    }
    while bench.move_some(4) {}
    bench.settle();
    let head = bench.journal().zones()[&apex()].head.clone();
    assert_eq!((head.oldest, head.seq), (11, 12));
    assert_eq!(objects.objects.lock().unwrap().len(), 3);
    bench.expect_all();
    (bench, objects)
}

#[test]
fn nothing_leaves_the_database_that_is_in_no_segment_and_all_that_is_may() {
    let (mut bench, objects) = Bench::archiving(2);
    objects.is_away.store(true, Ordering::Relaxed);
    for plan in &laws::fixed_history(40) {
        bench.commit(plan);
    }
    bench.settle();
    let head = bench.journal().zones()[&apex()].head.clone();
    assert_eq!(head.oldest, 1);
    objects.is_away.store(false, Ordering::Relaxed);
    while bench.move_some(5) {}
    bench.settle();
    let head = bench.journal().zones()[&apex()].head.clone();
    assert_eq!(head.oldest, head.seq - 1);
    assert_eq!(bench.journal().take_early(), []);
    bench.expect_all();
}

#[test]
fn any_flipped_octet_of_a_segment_is_found_and_its_object_named() {
    let (mut bench, objects) = three_segments();
    let places: Vec<_> = objects.objects.lock().unwrap().keys().cloned().collect();
    let place = &places[1];
    let len = objects.objects.lock().unwrap()[place].len();
    for at in (0..len).step_by(7).chain([len - 1]) {
        objects.change(|objects| objects.get_mut(place).unwrap()[at] ^= 1);
        bench.attach(2, &objects);
        let verdict = bench.journal().reader().verify(&apex(), &[]).unwrap();
        let is_named = |fault: &Fault| {
            fault.damage == Damage::Changed
                && fault
                    .what
                    .starts_with(&format!("the object {place} of the archive, with serials "))
                && fault.what.contains(" is damaged: ")
        };
        assert!(
            verdict.faults.iter().any(is_named),
            "{at}: {:?}",
            verdict.faults
        );
        // What is not damaged is read; what is, is an error, never another answer.
        let reader = bench.journal().reader();
        for step in &bench.steps {
            if let Ok(read) = reader.step(&apex(), step.seq) {
                assert_eq!(read, **step);
            }
        }
        for seq in [1, 4, 9, 12] {
            assert!(reader.step(&apex(), seq).is_ok(), "{at} {seq}");
        }
        objects.change(|objects| objects.get_mut(place).unwrap()[at] ^= 1);
    }
    bench.attach(2, &objects);
    bench.expect_all();
}

#[test]
fn a_lost_segment_is_named_and_the_rest_is_read() {
    let (mut bench, objects) = three_segments();
    let place = objects
        .objects
        .lock()
        .unwrap()
        .keys()
        .nth(1)
        .cloned()
        .unwrap();
    let kept = objects.objects.lock().unwrap().remove(&place).unwrap();
    bench.attach(2, &objects);
    let reader = bench.journal().reader();
    let verdict = reader.verify(&apex(), &[]).unwrap();
    assert!(
        matches!(&verdict.faults[..], [fault] if fault.damage == Damage::Lost
            && fault.what.contains(&*place.name)),
        "{:?}",
        verdict.faults
    );
    let error = reader.step(&apex(), 6).unwrap_err().to_string();
    assert!(
        error.contains(&place.to_string()) && error.contains("does not exist"),
        "{error}"
    );
    assert!(reader.step(&apex(), 2).is_ok() && reader.step(&apex(), 10).is_ok());
    // A copy under another name is nobody's, and one under its own name is the segment again.
    let double = ObjectPlace {
        name: "double".into(),
        ..place.clone()
    };
    objects.change(|objects| drop(objects.insert(double, kept.clone())));
    assert!(reader.step(&apex(), 6).is_err());
    objects.change(|objects| drop(objects.insert(place, kept)));
    bench.expect_all();
}

/// Nothing of a segment is needed for a version of another one.
#[test]
fn a_lost_segment_hides_no_version_of_another() {
    for lost in 0..3 {
        let (mut bench, objects) = three_segments();
        let places: Vec<_> = objects.objects.lock().unwrap().keys().cloned().collect();
        objects.change(|objects| drop(objects.remove(&places[lost])));
        bench.attach(2, &objects);
        let first = 1 + 4 * u64::try_from(lost).unwrap();
        let hidden = first..(first + 4).min(11);
        let mut before = laws::empty();
        for step in bench.steps.clone() {
            let (seq, serial) = (step.seq, step.serial);
            let after = step.apply(&before).unwrap();
            let reader = bench.journal().reader();
            let (place, contents) = (
                reader.seq_of(&apex(), serial),
                reader.contents_at(&apex(), seq, None),
            );
            if !hidden.contains(&seq) {
                assert_eq!(place.unwrap(), Some(seq), "{lost}: {seq}");
                assert!(contents.unwrap().same_as(&after), "{lost}: {seq}");
                let name = &step.touched_names()[0];
                let part = reader.contents_of(&apex(), seq, name, None).unwrap();
                let key = name.sort_key(&apex()).unwrap();
                assert_eq!(part.get(key.as_bytes()), after.get(key.as_bytes()));
                if seq % 4 != 1 {
                    let net = reader.difference(&apex(), (seq - 1, seq), None);
                    assert_eq!(net.unwrap().unwrap().to.0, serial);
                }
            } else if let Err(error) = place {
                let error = error.to_string();
                assert!(error.contains(&places[lost].to_string()), "{error}");
            }
            before = after;
        }
    }
}

/// Segments are searched side by side: what is behind the last step that is wanted is no error.
#[test]
fn a_search_fails_where_the_lost_segment_begins() {
    let (mut bench, objects) = three_segments();
    objects.change(|objects| drop(objects.pop_first()));
    bench.attach(2, &objects);
    let reader = bench.journal().reader();
    let mut touched = bench.steps[4..8].iter().flat_map(Touched::touched_names);
    let topic = Topic::name(&touched.next().unwrap());
    let search = |last: u64| {
        let mut seqs = Vec::new();
        let mut note = |seq| -> Result<bool, ReadError> {
            seqs.push(seq);
            Ok(seq > last)
        };
        let ended = reader.find(&apex(), topic, 0..=u64::MAX, &mut note);
        (seqs, ended.map_err(|error| error.to_string()))
    };
    let (all, ended) = search(0);
    assert!(ended.unwrap_err().contains("does not exist"));
    let last = *all.last().unwrap();
    assert!((5..=8).contains(&last), "{all:?}");
    assert_eq!(search(last), (all, Ok(())));
}

#[test]
fn another_segment_in_the_place_of_one_is_no_answer() {
    let (mut bench, objects) = three_segments();
    objects.change(|objects| {
        let places: Vec<_> = objects.keys().cloned().collect();
        let other = objects[&places[2]].clone();
        objects.insert(places[1].clone(), other);
    });
    bench.attach(2, &objects);
    let reader = bench.journal().reader();
    assert!(reader.step(&apex(), 6).is_err());
    let verdict = reader.verify(&apex(), &[]).unwrap();
    assert!(!verdict.faults.is_empty());
}

/// A store of which versions 1 to 12 are in three segments, and in the database, too.
fn overlapping(skipped: usize) -> (Bench, Arc<Memory>) {
    let (mut bench, objects) = Bench::archiving(100);
    for plan in laws::fixed_history(40).iter().skip(skipped) {
        bench.commit(plan);
        bench.now.fetch_add(300, Ordering::Relaxed);
        if bench.steps.len() == 12 {
            break;
        }
    }
    while bench.move_some(4) {}
    bench.settle();
    let stored = bench.journal().zones()[&apex()].clone();
    assert_eq!((stored.head.oldest, stored.head.seq), (1, 12));
    assert_eq!(stored.segments.iter().count(), 3);
    (bench, objects)
}

#[test]
fn other_segments_than_the_database_knows_are_found_though_it_has_their_versions() {
    let (mut bench, objects) = overlapping(0);
    let newest = bench.version.as_ref().unwrap().link.unwrap().hash;
    let verdict = bench.journal().reader().verify(&apex(), &[newest]).unwrap();
    assert_eq!((verdict.faults, verdict.versions), (Vec::new(), 12));
    // A chain of its own, as one who can write both places makes it.
    let (mut other, others) = overlapping(1);
    let id = bench.journal().zones()[&apex()].id;
    let mut batch = Batch::default();
    for segment in other.journal().zones()[&apex()].segments.iter() {
        let key = Segment::key(id, segment.first);
        batch.put(&key, segment.encode(&key));
    }
    bench.journal().store.write(batch).unwrap();
    let forged = others.objects.lock().unwrap().clone();
    objects.change(|objects| objects.extend(forged));
    bench.open();
    bench.attach(100, &objects);
    let reader = bench.journal().reader();
    let parts = reader.segment_parts(&apex());
    let here = reader.verify_here(&apex(), &[newest]).unwrap();
    let mut segments = SegmentsVerdict::default();
    for part in &parts {
        let found = reader.verify_segment(&apex(), part.first, &[newest]);
        let found = found.unwrap();
        assert_eq!(found.verdict.faults, Vec::new(), "each is sound in itself");
        segments.add(part, found);
    }
    let whole = reader.verify(&apex(), &[newest]).unwrap();
    for verdict in [segments.join(here), whole] {
        let [fault] = &*verdict.faults else {
            panic!("one is found: {:?}", verdict.faults);
        };
        assert_eq!((fault.seq, fault.damage), (12, Damage::Chain));
        assert!(fault.what.contains("another version"), "{}", fault.what);
    }
}

#[test]
fn an_archive_that_cannot_be_reached_is_an_error_for_what_it_has_alone() {
    let (mut bench, objects) = three_segments();
    objects.is_away.store(true, Ordering::Relaxed);
    bench.attach(2, &objects);
    let reader = bench.journal().reader();
    assert!(reader.step(&apex(), 12).is_ok());
    assert!(reader.step(&apex(), 1).is_err());
    let error = reader.step(&apex(), 1).unwrap_err();
    let is_away = |error: &ArchiveError| error.fault == ArchiveFault::Away;
    assert!(matches!(&error, ReadError::Store(StoreError::Archive(it)) if is_away(it)));
    let verdict = reader.verify(&apex(), &[]).unwrap();
    let [first, second, ..] = &verdict.faults[..] else {
        panic!("{:?}", verdict.faults);
    };
    assert!(verdict.faults.iter().all(|it| it.damage == Damage::Unknown));
    assert_eq!(first.what, error.to_string());
    assert!(second.what.contains("was not read"), "{second:?}");
    // The limits of its descriptions are known.
    assert_eq!(reader.moment(&apex(), 1).unwrap().0, bench.steps[0].serial);
    // The writer's reader asks the database alone.
    let name = bench.steps[11].touched_names()[0].clone();
    let seqs = found(&reader.clone().local(), Topic::name(&name));
    assert!(
        seqs.iter().all(|seq| *seq > 10) && !seqs.is_empty(),
        "{seqs:?}"
    );
}

#[test]
fn an_object_that_is_not_what_was_written_is_no_segment() {
    /// Changes the last octet of each object.
    struct Short(Memory);
    impl Objects for Short {
        fn read(&self, place: &ObjectPlace, range: Range<u64>) -> io::Result<Vec<u8>> {
            self.0.read(place, range)
        }

        fn write(&self, place: &ObjectPlace, mut octets: Vec<u8>) -> io::Result<()> {
            *octets.last_mut().unwrap() ^= 1;
            self.0.write(place, octets)
        }
    }
    let mut bench = Bench::new();
    let objects = Short(Memory::default());
    bench.journal().set_objects(Arc::new(objects));
    for plan in &laws::fixed_history(10) {
        bench.commit(plan);
    }
    let limits = CutLimits {
        versions: 1,
        octets: usize::MAX,
    };
    let reader = bench.journal().reader();
    let cut = reader.cut(&apex(), URL, limits).unwrap().unwrap();
    let error = reader.put(cut).unwrap_err().to_string();
    assert!(
        error.contains(URL) && error.contains("not what was written"),
        "{error}"
    );
}

#[test]
fn a_segment_that_does_not_continue_is_not_noted() {
    let (mut bench, objects) = Bench::archiving(100);
    for plan in &laws::fixed_history(20) {
        bench.commit(plan);
    }
    let limits = CutLimits {
        versions: 3,
        octets: usize::MAX,
    };
    let cut = bench
        .journal()
        .reader()
        .cut(&apex(), URL, limits)
        .unwrap()
        .unwrap();
    let forged = Segment {
        hash: Hash::ZERO,
        ..cut.segment.clone()
    };
    assert!(!bench.journal().note_segment(&apex(), forged).unwrap());
    let later = Segment {
        first: 2,
        ..cut.segment.clone()
    };
    assert!(!bench.journal().note_segment(&apex(), later).unwrap());
    objects.write(&cut.segment.place, cut.octets).unwrap();
    assert!(
        bench
            .journal()
            .note_segment(&apex(), cut.segment.clone())
            .unwrap()
    );
    assert!(
        !bench.journal().note_segment(&apex(), cut.segment).unwrap(),
        "it is noted once"
    );
    bench.expect_all();
}

#[test]
fn a_name_that_a_segment_does_not_have_costs_no_block_of_it() {
    let (mut bench, objects) = three_segments();
    bench.attach(2, &objects);
    let reader = bench.journal().reader();
    let absent: Name = "absent.z.example.".parse().unwrap();
    let before = objects.reads.load(Ordering::Relaxed);
    assert_eq!(found(&reader, Topic::name(&absent)), Vec::<u64>::new());
    let reads = objects.reads.load(Ordering::Relaxed) - before;
    assert_eq!(reads, 3, "one index for each segment");
    assert_eq!(found(&reader, Topic::name(&absent)), Vec::<u64>::new());
    assert_eq!(objects.reads.load(Ordering::Relaxed) - before, 3);
}

/// Takes a step out of the database.
fn lose(bench: &mut Bench, seq: u64) {
    let id = bench.journal().zones()[&apex()].id;
    let mut batch = Batch::default();
    batch.delete(&codec::part_key(STEP, id, seq, 0));
    bench.journal().store.write(batch).unwrap();
    bench.journal().store.sync().unwrap();
}

#[test]
fn versions_that_the_database_lost_are_not_taken_from_a_segment() {
    let (mut bench, objects) = three_segments();
    lose(&mut bench, 12);
    bench.open();
    bench.attach(2, &objects);
    assert_eq!(bench.version.as_ref().unwrap().seq, 11);
    bench.steps.truncate(11);
    for plan in laws::fixed_history(80).iter().skip(40) {
        bench.commit(plan);
        if bench.steps.len() == 16 {
            break;
        }
    }
    while bench.move_some(3) {}
    bench.settle();
    for _ in 0..2 {
        let reader = bench.journal().reader();
        assert_eq!(reader.clone().local().zone(&apex()).unwrap().oldest, 15);
        assert_eq!(reader.steps(&apex(), 0..=u64::MAX).unwrap(), bench.steps);
        for step in &bench.steps {
            assert_eq!(reader.step(&apex(), step.seq).unwrap(), **step);
            assert_eq!(reader.seq_of(&apex(), step.serial).unwrap(), Some(step.seq));
        }
        // Version 12 of the segment is another than that of the history.
        let net = reader.difference(&apex(), (9, 12), None).unwrap().unwrap();
        assert_eq!(net.to.0, bench.steps[11].serial);
        bench.open();
        bench.attach(2, &objects);
    }
}

#[test]
fn a_version_that_cannot_be_read_is_no_less_unreadable_in_a_segment() {
    for lost in [7, 8] {
        let (mut bench, _objects) = Bench::archiving(2);
        for plan in &laws::fixed_history(40) {
            bench.commit(plan);
        }
        let name = bench.steps[6].touched_names()[0].clone();
        lose(&mut bench, lost);
        assert!(bench.move_some(4) && bench.move_some(4));
        bench.settle();
        let reader = bench.journal().reader();
        for seq in (1..9).filter(|seq| *seq != lost) {
            assert!(reader.step(&apex(), seq).is_ok(), "{lost} {seq}");
        }
        assert!(reader.step(&apex(), lost).is_err());
        let mut reads = |seq| reader.step_of(&apex(), seq, &name).map(|_| true);
        let found = reader.find(&apex(), Topic::name(&name), 0..=8, &mut reads);
        assert!(found.is_err(), "a search does not pass over it");
    }
}

#[test]
fn an_archive_that_is_taken_away_leaves_no_gap_in_the_history() {
    let (mut bench, objects) = three_segments();
    bench.journal().set_retention(
        &apex(),
        Retention {
            versions: 2,
            ..Retention::DEFAULT
        },
    );
    for plan in laws::fixed_history(60).iter().skip(40) {
        bench.commit(plan);
    }
    bench.settle();
    let oldest = bench.journal().reader().zone(&apex()).unwrap().oldest;
    assert!(oldest > 12, "{oldest}");
    bench.attach(2, &objects);
    while bench.move_some(4) {}
    bench.settle();
    let first = bench.journal().reader().zone(&apex()).unwrap().oldest;
    assert_eq!(first, oldest);
    let newest = bench.version.as_ref().unwrap().seq;
    for _ in 0..2 {
        let reader = bench.journal().reader();
        for seq in first..=newest {
            assert!(reader.contents_at(&apex(), seq, None).is_ok(), "{seq}");
        }
        assert_eq!(reader.verify(&apex(), &[]).unwrap().faults, []);
        // What the limits dropped early is the old part of the history, without a gap before the rest.
        let old: Vec<u64> = reader.archived(&apex()).iter().map(|it| it.seq).collect();
        assert_eq!(old.last().copied(), Some(first - 1));
        assert_eq!(bench.open(), Vec::<String>::new());
        bench.attach(2, &objects);
    }
}
