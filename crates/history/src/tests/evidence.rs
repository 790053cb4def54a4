//! Exported histories that are checked without a store.

use zone::journal::Damage;
use zone::{ContentTree, Contents, Hash, Link, Step};

use super::fake::{Fake, list, name, soa};
use crate::evidence::check_lines;
use crate::export::{version_json, zone_line};
use crate::{Anchors, FileVerdict, Output, check_history, write_file_verdict};

/// The steps of the fake past with their hashes.
fn linked() -> Vec<Step> {
    chained(
        Fake::new()
            .steps
            .iter()
            .map(|step| (**step).clone())
            .collect(),
    )
}

/// The steps with the hashes that they have in this order.
fn chained(mut steps: Vec<Step>) -> Vec<Step> {
    let zone = name("z.");
    let mut contents = Contents::empty(&zone, soa());
    let mut previous = Hash::ZERO;
    for step in &mut steps {
        contents = step.apply(&contents).expect("steps of tests fit");
        let content = ContentTree::of(&contents).content_hash(&contents);
        let link = Link::of(step, &zone, previous, content);
        previous = link.hash;
        step.link = Some(link);
    }
    steps
}

/// The lines of an exported history.
fn lines(steps: &[Step]) -> Vec<String> {
    let zone = name("z.");
    let versions = steps
        .iter()
        .map(|step| version_json(&zone, step).to_string());
    std::iter::once(zone_line(&zone, 0, 0))
        .chain(versions)
        .collect()
}

fn text(lines: &[String]) -> String {
    lines.iter().map(|line| format!("{line}\n")).collect()
}

fn check(text: &[u8], anchors: &[Hash]) -> FileVerdict {
    let mut input = text;
    check_history(&mut input, anchors).expect("memory can be read")
}

/// Which damage there is.
fn damage(lines: &[String]) -> Vec<Damage> {
    let verdict = check(text(lines).as_bytes(), &[]).verdict;
    verdict.faults.iter().map(|fault| fault.damage).collect()
}

#[test]
fn an_export_that_was_not_touched_is_good() {
    let steps = linked();
    let file = check(text(&lines(&steps)).as_bytes(), &[]);
    assert_eq!(file.verdict.faults, []);
    assert_eq!(file.zone, Some(name("z.")));
    assert_eq!(file.verdict.versions, 3);
    assert_eq!(file.verdict.head, steps[2].link.map(|link| link.hash));
    // Versions from before there were hashes.
    let bare: Vec<Step> = Fake::new()
        .steps
        .iter()
        .map(|step| (**step).clone())
        .collect();
    let file = check(text(&lines(&bare)).as_bytes(), &[]);
    assert_eq!((file.verdict.unhashed, file.verdict.faults.len()), (3, 0));
}

#[test]
fn any_flipped_bit_of_an_exported_history_is_found() {
    let good = text(&lines(&linked())).into_bytes();
    for at in 0..good.len() {
        for bit in 0..8 {
            let mut flipped = good.clone();
            flipped[at] ^= 1 << bit;
            let faults = check(&flipped, &[]).verdict.faults;
            assert!(!faults.is_empty(), "byte {at}, bit {bit}");
        }
    }
}

#[test]
fn changed_lost_and_forged_lines_are_told_apart() {
    let good = lines(&linked());
    assert_eq!(damage(&good), []);
    let mut changed = good.clone();
    changed[2] = changed[2].replacen("\"place\":\"\"", "\"place\":\"x\"", 1);
    assert_eq!(damage(&changed), [Damage::Changed]);
    let mut lost = good.clone();
    lost.remove(2);
    assert_eq!(damage(&lost)[0], Damage::Lost);
    let mut headless = good.clone();
    headless.remove(0);
    assert_eq!(damage(&headless)[0], Damage::Lost);
    let mut first = good.clone();
    first.remove(1);
    assert_eq!(damage(&first)[0], Damage::Lost);
    // The second version is forged with its hash, the third is the old one.
    let mut steps = linked();
    steps[1].time_ms += 1;
    let forged = chained(steps.clone());
    let mut mixed = good.clone();
    mixed[2] = lines(&forged)[2].clone();
    assert_eq!(damage(&mixed), [Damage::Chain]);
    assert_eq!(
        damage(&good[..1]),
        [Damage::Lost],
        "nothing follows the first line"
    );
    assert_eq!(damage(&[]), [Damage::Lost]);
}

#[test]
fn a_forged_chain_is_good_but_has_not_the_hash_that_was_noted() {
    let mut steps = linked();
    let noted = steps[1].link.unwrap().hash;
    let found = |steps: &[Step]| {
        let verdict = check(text(&lines(steps)).as_bytes(), &[noted]).verdict;
        assert_eq!(verdict.faults, []);
        let found: Vec<u64> = verdict.anchored.iter().map(|found| found.seq).collect();
        found
    };
    assert_eq!(found(&steps), [2]);
    steps[0].added = list(&[("web.z.", 9, 0)]);
    steps[1].removed = list(&[]);
    let again = steps[..1].to_vec();
    assert_eq!(found(&chained(again)), [0; 0]);
}

#[test]
fn a_file_that_is_no_history_is_no_good_one() {
    for text in [
        "\n",
        "{}\n",
        "[]",
        "{\"type\":\"version\"}\n",
        "\0\u{1}\n\n",
    ] {
        let file = check(text.as_bytes(), &[]);
        assert_eq!(file.zone, None);
        assert_eq!(file.verdict.faults[0].damage, Damage::Changed, "{text:?}");
    }
}

#[test]
fn a_line_that_is_too_long_is_left_out_and_said() {
    let good = text(&lines(&linked()));
    let longest = good.lines().map(str::len).max().unwrap() + 1;
    let read = |most: usize| {
        let mut input = good.as_bytes();
        let most = u64::try_from(most).unwrap();
        check_lines(&mut input, &[], most).unwrap().verdict
    };
    assert_eq!(read(longest).faults, []);
    let verdict = read(longest - 1);
    let [fault, ..] = &verdict.faults[..] else {
        panic!("nothing is said");
    };
    let want = format!("it is longer than {} bytes", longest - 1);
    assert!(fault.what.contains(&want), "{fault:?}");
    assert_eq!(fault.damage, Damage::Changed);
    assert!(verdict.versions < 3);
    // The lines after it are read as lines.
    let broken = verdict.faults.iter().find(|it| it.what.contains("no line"));
    assert_eq!(broken, None);
}

#[test]
fn a_history_without_its_first_line_is_said_to_be_of_no_zone() {
    for all in [&[][..], &lines(&linked())[1..]] {
        let file = check(text(all).as_bytes(), &[]);
        let said = |output| {
            let mut out = Vec::new();
            let done = write_file_verdict("z.ndjson", &file, &Anchors::default(), output, &mut out);
            assert!(done.is_err());
            String::from_utf8(out).unwrap()
        };
        let words = said(Output::Text);
        let want = "z.ndjson: BROKEN at an unknown version, lost versions: line ";
        assert!(words.starts_with(want), "{words}");
        let json = said(Output::Json);
        assert!(json.contains("\"zone\":null"), "{json}");
    }
}

#[test]
fn numbers_at_the_end_of_their_range_are_faults() {
    let mut steps = linked();
    for step in &mut steps {
        step.seq = u64::MAX;
    }
    let mut all = lines(&chained(steps));
    all[0] = zone_line(&name("z."), u64::MAX, 0);
    assert!(damage(&all).contains(&Damage::Lost), "{:?}", damage(&all));
}
