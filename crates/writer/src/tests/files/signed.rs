//! Zones that are signed in their file, which have the file's serial.

use super::*;

/// The serial of the file.
const SERIAL: u32 = 2_026_010_100;

/// A writer of a zone that is such a file. It was not read yet.
fn of_signed_file() -> (Arc<Zone>, Pipeline<NoStore>) {
    let zone = Arc::new(Zone::new(&"signed.test.".parse().unwrap()));
    let pipeline = without_clusters(std::slice::from_ref(&zone), NoStore::default());
    let files = [FilePlan::Zone {
        zone: zone.apex().clone(),
        retention: RETENTION,
    }];
    (zone, pipeline.with_files(numbered(files)))
}

fn read(pipeline: &mut Pipeline<NoStore>) {
    let content = file("signed.test.", Role::Zone, zonefile::SIGNED_TEXT);
    assert!(content.signed.is_some());
    give(pipeline, 0, &content);
    assert!(pipeline.commit());
}

fn serial(zone: &Zone) -> Option<u32> {
    zone.current().map(|version| version.serial.encode())
}

/// Why its version is held.
fn held(zone: &Zone) -> String {
    let held = zone.held();
    held.map(|held| held.why.to_string()).unwrap_or_default()
}

#[test]
fn an_order_for_a_later_serial_is_refused() {
    let (zone, mut pipeline) = of_signed_file();
    let order = |pipeline: &mut Pipeline<NoStore>| {
        let (asked, answer) = oneshot::channel();
        pipeline.take(Input::Advance {
            zone: zone.apex().clone(),
            serial: Serial::decode(SERIAL + 1000),
            by: "ann".into(),
            asked,
        });
        answer
    };
    // Before the first version, and after it.
    let mut answer = order(&mut pipeline);
    for _ in 0..2 {
        read(&mut pipeline);
        let refusal = answer.try_recv().unwrap().unwrap_err();
        assert_eq!(refusal, "signed.test. is signed: its serial is the file's");
        assert_eq!(serial(&zone), Some(SERIAL));
        answer = order(&mut pipeline);
    }
    let version = zone.current().unwrap();
    assert_eq!(version.seq, 1, "no version but the first");
}

/// After a lost store only the secondaries know what was published.
#[test]
fn a_serial_that_a_secondary_is_ahead_of_is_held_until_the_file_has_a_later_one() {
    for (theirs, is_held) in [
        (SERIAL - 1, false),
        (SERIAL, false),
        (SERIAL + 1, true),
        (SERIAL + 1000, true),
    ] {
        let (zone, pipeline) = of_signed_file();
        let mut pipeline = pipeline.awaiting_secondaries(AskId(1));
        let content = file("signed.test.", Role::Zone, zonefile::SIGNED_TEXT);
        give(&mut pipeline, 0, &content);
        assert!(pipeline.commit());
        assert_eq!(serial(&zone), None, "the secondaries are asked first");
        pipeline.take(Input::Secondaries {
            ask: AskId(1),
            serials: vec![reported(zone.apex(), theirs, Proof::Signature)],
        });
        // A held version stays held.
        for _ in 0..2 {
            assert!(pipeline.commit());
            assert_eq!(serial(&zone), (!is_held).then_some(SERIAL), "{theirs}");
            let wanted = format!("is signed with serial {SERIAL}, which is not after {theirs}");
            assert_eq!(held(&zone).contains(&wanted), is_held, "{}", held(&zone));
        }
    }
}

/// The next version has the serial of the file again, whatever a peer has.
#[test]
fn a_peer_that_is_ahead_does_not_move_a_serial_that_is_served() {
    let (zone, mut pipeline) = of_signed_file();
    read(&mut pipeline);
    let ahead = reported(zone.apex(), SERIAL + 5, Proof::Signature);
    pipeline.take(Input::Ahead(ahead));
    for _ in 0..2 {
        read(&mut pipeline);
        assert_eq!(serial(&zone), Some(SERIAL));
        assert_eq!(held(&zone), "");
    }
    assert_eq!(zone.current().unwrap().seq, 1);
}
