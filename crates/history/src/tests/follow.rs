//! Streams: each version once, in pages.

use super::*;
use crate::Follow;
use crate::answer::answer_follow;
use crate::follow::Cursor;
use crate::page::Room;

/// A past of these versions: number, serial; a second apart. Each changes one of two names, in turn.
fn past_of(versions: &[(u64, u32)]) -> Fake {
    let mut past = Fake::new();
    let from = past.steps[1].clone();
    let step = |(seq, serial): &(u64, u32)| {
        let owner = ["web.z.", "db.z."][usize::try_from(seq % 2).unwrap()];
        Arc::new(Step {
            seq: *seq,
            time_ms: THIRD_MS + 1000 * seq,
            serial: Serial::decode(*serial),
            added: list(&[(owner, 7, 0)]),
            removed: list(&[]),
            ..(*from).clone()
        })
    };
    past.steps = versions.iter().map(step).collect();
    past
}

/// A page: its lines, and where to go on.
fn page(past: &Fake, wanted: &Follow, room: Room) -> (Vec<String>, Cursor) {
    let mut text = Vec::new();
    answer_follow(past, wanted, room, Output::Text, &mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    let mut lines: Vec<String> = text.lines().map(ToOwned::to_owned).collect();
    let cursor = serde_json::from_str(&lines.pop().unwrap()).unwrap();
    let is_version = |line: &String| line.starts_with(['y', 'z']);
    (lines.into_iter().filter(is_version).collect(), cursor)
}

/// All there is now, page by page: the serials and what else is said of the zone, and where to go on.
fn pages(past: &Fake, wanted: &Follow, room: Room) -> (Vec<String>, Cursor) {
    let mut wanted = wanted.clone();
    let mut said = Vec::new();
    loop {
        let (lines, cursor) = page(past, &wanted, room);
        said.extend(lines.iter().map(|line| match line.strip_prefix("z. ") {
            Some(version) => version.split(' ').next().unwrap().to_owned(),
            None => line.clone(),
        }));
        if !cursor.is_more {
            return (said, cursor);
        }
        wanted.cursor = Some(cursor);
    }
}

/// A page of so many versions.
const fn room(versions: usize) -> Room {
    Room {
        versions,
        ..Room::PAGE
    }
}

fn since(time: &str) -> Follow {
    Follow {
        since: Some(time.into()),
        ..Follow::default()
    }
}

#[test]
fn a_stream_from_a_time_on_has_nothing_from_before_it_on_any_page() {
    let versions: Vec<(u64, u32)> = (1..=20).map(|seq: u32| (seq.into(), 100 + seq)).collect();
    let past = past_of(&versions);
    for (time, wanted) in [
        ("2026-11-21T14:00:13.5Z", 112..=120),
        ("2026-11-21T14:00:14Z", 112..=120),
        ("2026-11-21T13:00:00Z", 101..=120),
    ] {
        for size in [3, 100] {
            let (said, _) = pages(&past, &since(time), room(size));
            let wanted: Vec<String> = wanted.clone().map(|it: u32| it.to_string()).collect();
            assert_eq!(said, wanted, "{time} {size}");
        }
    }
    let none = page(&past, &since("now"), room(3));
    assert_eq!(none.0, Vec::<String>::new());
    assert_eq!(none.1.given["z."].seq, 20);
}

#[test]
fn a_page_ends_with_the_version_that_makes_it_too_long() {
    let past = past_of(&[(1, 101), (2, 102), (3, 103)]);
    let small = Room {
        octets: 1,
        ..Room::PAGE
    };
    let wanted = since("2026-11-21T13:00:00Z");
    let (lines, cursor) = page(&past, &wanted, small);
    assert_eq!((lines.len(), cursor.is_more), (1, true));
    assert_eq!(pages(&past, &wanted, small).0, ["101", "102", "103"]);
}

#[test]
fn a_stream_goes_on_by_serial_where_numbers_were_given_anew() {
    let first = past_of(&[(1, 101), (2, 102), (3, 103), (4, 104)]);
    let (_, cursor) = pages(&first, &since("2026-11-21T13:00:00Z"), room(2));
    assert_eq!(
        (cursor.given["z."].seq, cursor.given["z."].serial),
        (4, 104)
    );
    let wanted = Follow {
        cursor: Some(cursor),
        ..Follow::default()
    };
    let lost = "z.: part of its history was lost; versions may be missing here";
    for (versions, said) in [
        // Nothing happened; the oldest left; more than was given left.
        (&[(3, 103), (4, 104)][..], &[][..]),
        (&[(4, 104), (5, 105)], &["105"]),
        (&[(5, 105)], &["105"]),
        (&[(7, 107)], &["z.: 2 versions are no longer kept", "107"]),
        // The newest two were lost, and others took their numbers.
        (&[(1, 101), (2, 102)], &[lost]),
        (&[(1, 101), (2, 102), (3, 105)], &[lost, "105"]),
        (
            &[(2, 102), (3, 105), (4, 106), (5, 107)],
            &[lost, "105", "106", "107"],
        ),
        // All was lost.
        (&[(1, 105)], &[lost, "105"]),
    ] {
        let past = past_of(versions);
        let (lines, next) = pages(&past, &wanted, room(2));
        assert_eq!(lines, said, "{versions:?}");
        let again = Follow {
            cursor: Some(next),
            ..Follow::default()
        };
        let nothing = pages(&past, &again, room(2)).0;
        assert_eq!(nothing, Vec::<String>::new(), "{versions:?}");
    }
}

#[test]
fn a_stream_of_one_name_reads_only_what_the_index_names() {
    let versions: Vec<(u64, u32)> = (1..=9).map(|seq: u32| (seq.into(), 100 + seq)).collect();
    let past = past_of(&versions);
    let wanted = Follow {
        name: Some("web.z".into()),
        ..since("2026-11-21T14:00:04.5Z")
    };
    for size in [1, 100] {
        past.looked_at.borrow_mut().clear();
        let (said, cursor) = pages(&past, &wanted, room(size));
        assert_eq!(said, ["104", "106", "108"]);
        assert_eq!(*past.looked_at.borrow(), [4, 6, 8]);
        assert_eq!(cursor.given["z."].seq, 9);
    }
}

#[test]
fn a_page_of_one_name_searches_little_more_than_it_gives() {
    let versions: Vec<(u64, u32)> = (1..=600).map(|seq: u32| (seq.into(), 100 + seq)).collect();
    let past = past_of(&versions);
    let wanted = Follow {
        name: Some("web.z".into()),
        ..since("2026-11-21T13:00:00Z")
    };
    let (said, _) = pages(&past, &wanted, room(3));
    assert_eq!(said.len(), 300);
    // A hundred pages, each of at most two windows with fifteen versions.
    let found = past.found.get();
    assert!(found <= 100 * 2 * 15, "{found}");
}

#[test]
fn a_page_that_ends_with_a_zone_is_followed_by_one_of_the_next() {
    let mut past = past_of(&[(1, 101), (2, 102)]);
    past.zones = vec![name("y."), name("z.")];
    let mut wanted = since("2026-11-21T13:00:00Z");
    let mut given = Vec::new();
    for page_number in 1..=4 {
        let (lines, cursor) = page(&past, &wanted, room(1));
        let [line] = &lines[..] else {
            panic!("{page_number}: {lines:?}");
        };
        given.push(line.split(' ').take(2).collect::<Vec<_>>().join(" "));
        assert_eq!(cursor.is_more, page_number < 4, "{page_number}");
        wanted.cursor = Some(cursor);
    }
    assert_eq!(given, ["y. 101", "y. 102", "z. 101", "z. 102"]);
    let (lines, cursor) = page(&past, &wanted, room(1));
    assert_eq!((lines.len(), cursor.is_more), (0, false));
}

#[test]
fn a_stream_from_a_serial_that_is_not_kept_begins_with_a_gap() {
    // Each version of this past says that it follows serial 100.
    let past = past_of(&[(7, 107), (8, 108)]);
    let lost = "z.: part of its history was lost; versions may be missing here";
    for (serial, said) in [
        ("100", &["107", "108"][..]),
        ("99", &[lost, "107", "108"]),
        ("107", &["108"]),
        ("109", &[lost]),
    ] {
        let wanted = Follow {
            zone: Some("z".into()),
            ..since(serial)
        };
        assert_eq!(pages(&past, &wanted, room(1)).0, said, "{serial}");
    }
    let log = Request::Log {
        zone: Some("z".into()),
        since: Some("99".into()),
        until: None,
        name: None,
        object: None,
        count: None,
    };
    assert!(asked(&past, log, Output::Text).is_err());
}

#[test]
fn a_stream_from_a_time_before_the_history_begins_with_a_gap() {
    let lost = "z.: part of its history was lost; versions may be missing here";
    let before = since("2026-11-21T13:00:00Z");
    let past = past_of(&[(7, 107), (8, 108)]);
    assert_eq!(pages(&past, &before, room(1)).0, [lost, "107", "108"]);
    let whole = past_of(&[(1, 101), (2, 102)]);
    assert_eq!(pages(&whole, &before, room(1)).0, ["101", "102"]);
}

/// Where no zone is named, one that comes later may have the name.
#[test]
fn a_stream_of_one_zone_has_only_its_names_and_one_of_all_zones_any() {
    let past = Fake::new();
    let follow = |zone: Option<&str>, name: &str| {
        let followed = Follow {
            zone: zone.map(Into::into),
            name: Some(name.into()),
            ..Follow::default()
        };
        asked(&past, Request::Follow(followed), Output::Text)
    };
    assert!(follow(Some("z"), "web.z").is_ok());
    assert!(follow(None, "www.example.org").is_ok());
    let refusal = follow(Some("z"), "www.example.org").unwrap_err();
    assert_eq!(refusal, "www.example.org. is not a name of z.");
}
