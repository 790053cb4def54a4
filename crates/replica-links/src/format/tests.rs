//! Tests of the format: everything that can be said comes back, and no bytes break the reader.

use dns::testing::name;
use dns::{Name, Serial};
use fuzz::Fuzz;
use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use replicas::chain::{Hash, ReplicaId, Tip};

use super::*;

fn names() -> impl Strategy<Value = Name> {
    let label = vec(any::<u8>(), 1..=20);
    let wire = vec(label, 0..=6).prop_map(|labels| {
        let mut wire = Vec::new();
        for label in labels {
            wire.push(u8::try_from(label.len()).expect("it is short"));
            wire.extend(label);
        }
        wire.push(0);
        Name::from_wire(&wire).expect("it is a name")
    });
    prop_oneof![9 => wire, 1 => Just(longest_name())]
}

/// A name of 255 octets.
fn longest_name() -> Name {
    let labels = [63, 63, 63, 61].map(|octets| "n".repeat(octets));
    let name = name(&(labels.join(".") + "."));
    assert_eq!(name.as_wire().len(), 255);
    name
}

fn epochs() -> impl Strategy<Value = Epoch> {
    any::<u64>().prop_map(Epoch)
}

fn serials() -> impl Strategy<Value = Serial> {
    any::<u32>().prop_map(Serial::decode)
}

fn tips() -> impl Strategy<Value = Tip> {
    let parts = (epochs(), any::<u64>(), serials(), any::<Hash>());
    parts.prop_map(|(epoch, seq, serial, hash)| Tip {
        epoch,
        seq,
        serial,
        hash,
    })
}

fn payloads() -> impl Strategy<Value = Arc<[u8]>> {
    vec(any::<u8>(), 0..300).prop_map(Into::into)
}

fn replicas() -> impl Strategy<Value = ReplicaId> {
    "\\PC{0,40}".prop_map(|text| ReplicaId::from(&*text))
}

fn ceilings() -> impl Strategy<Value = Ceiling> {
    let common = proptest::option::of(serials());
    let above = btree_map(names(), serials(), 0..4);
    (common, above).prop_map(|(common, above)| Ceiling { common, above })
}

fn vows() -> impl Strategy<Value = Vow> {
    (epochs(), epochs(), ceilings()).prop_map(|(epoch, branch, ceiling)| Vow {
        epoch,
        branch,
        ceiling,
    })
}

fn knowledge() -> impl Strategy<Value = Knowledge> {
    let versions = (tips(), tips()).prop_map(|(announced, newest)| Versions { announced, newest });
    let zones = btree_map(names(), versions, 0..5);
    let parts = (replicas(), vows(), zones, any::<bool>(), any::<bool>());
    parts.prop_map(|(replica, vow, zones, is_store_ok, is_leading)| Knowledge {
        replica,
        vow,
        zones,
        is_store_ok,
        is_leading,
    })
}

fn bodies() -> impl Strategy<Value = Body> {
    let hello = (
        any::<u64>(),
        btree_map(names(), vec(tips(), 0..4), 0..4),
        knowledge(),
    );
    let hello = hello.prop_map(|(digest, zones, knowledge)| {
        Body::Hello(Hello {
            digest,
            zones,
            knowledge,
        })
    });
    let step = (names(), tips(), any::<Hash>(), payloads());
    let step = step.prop_map(|(zone, tip, previous, payload)| {
        Body::Step(Step {
            zone,
            tip,
            previous,
            payload,
        })
    });
    let snapshot = (names(), tips(), payloads())
        .prop_map(|(zone, tip, payload)| Body::Snapshot(Snapshot { zone, tip, payload }));
    let part = (names(), tips(), any::<u32>(), payloads());
    let part = part.prop_map(|(zone, tip, number, payload)| {
        Body::Part(Part {
            zone,
            tip,
            number,
            payload,
        })
    });
    let version = || (names(), tips());
    prop_oneof![
        hello,
        version().prop_map(|(zone, tip)| Body::Stored(zone, tip)),
        version().prop_map(|(zone, tip)| Body::Shown(zone, tip)),
        any::<bool>().prop_map(|is_store_ok| Body::Alive { is_store_ok }),
        Just(Body::Aligned),
        ceilings().prop_map(Body::Refused),
        version().prop_map(|(zone, tip)| Body::Continue(zone, tip)),
        step,
        snapshot,
        part,
        (names(), tips(), any::<u32>())
            .prop_map(|(zone, tip, number)| Body::Staged(zone, tip, number)),
        Just(Body::Align),
        version().prop_map(|(zone, tip)| Body::Visible(zone, tip)),
        Just(Body::Ping),
    ]
}

/// Prefix, head and payload of a whole message, if its lengths are those of the bytes.
fn split(bytes: &[u8]) -> Option<(&[u8], Arc<[u8]>)> {
    let (prefix, rest) = bytes.split_first_chunk()?;
    let prefix = Prefix::decode(*prefix).ok()?;
    let (head, payload) = rest.split_at_checked(prefix.head_bytes)?;
    (payload.len() == prefix.payload_bytes).then(|| (head, payload.into()))
}

/// The bytes of a message in one piece.
fn joined(encoded: &Encoded) -> Vec<u8> {
    [&encoded.start[..], &encoded.payload].concat()
}

proptest! {
    #[test]
    fn a_frame_is_read_as_it_was_written(epoch in epochs(), body in bodies()) {
        let frame = Frame { epoch, body };
        let bytes = joined(&encode_frame(&frame).expect("it is within the limits"));
        let (head, payload) = split(&bytes).expect("the lengths are right");
        prop_assert_eq!(epoch_of(head), Ok(epoch));
        prop_assert_eq!(decode_frame(head, payload), Ok(frame));
    }

    #[test]
    fn a_question_and_its_answer_are_read_as_they_were_written(
        token in any::<Token>(),
        epoch in epochs(),
        ceiling in ceilings(),
        knowledge in knowledge(),
    ) {
        let question = encode_question(token, epoch, &ceiling).expect("it is within the limits");
        let read = decode_question(&question.start[PREFIX_BYTES..]);
        prop_assert_eq!(read, Ok((token, epoch, ceiling)));
        let reply = encode_reply(token, &knowledge).expect("it is within the limits");
        prop_assert_eq!(decode_reply(&reply.start[PREFIX_BYTES..]), Ok((token, knowledge)));
    }

    #[test]
    fn a_frame_that_was_cut_is_an_error(epoch in epochs(), body in bodies(), cut in any::<prop::sample::Index>()) {
        let encoded = encode_frame(&Frame { epoch, body }).expect("it is within the limits");
        let head = &encoded.start[PREFIX_BYTES..];
        let cut = &head[..cut.index(head.len())];
        prop_assert!(decode_frame(cut, encoded.payload).is_err());
    }
}

/// Frames, a reply, and a frame with a byte after its end, which is an error: no few changes make one of the others.
fn examples() -> Vec<Vec<u8>> {
    use proptest::strategy::ValueTree;
    use proptest::test_runner::TestRunner;
    let mut runner = TestRunner::deterministic();
    let mut examples: Vec<Vec<u8>> = (0..60)
        .map(|_| {
            let body = bodies().new_tree(&mut runner).expect("there are bodies");
            let body = body.current();
            let epoch = Epoch(7);
            joined(&encode_frame(&Frame { epoch, body }).expect("it is within the limits"))
        })
        .collect();
    let known = knowledge()
        .new_tree(&mut runner)
        .expect("there is knowledge");
    let reply = encode_reply(1, &known.current()).expect("it is within the limits");
    examples.push(joined(&reply));
    let longer = [&[0, 0, 0, 10, 0, 0, 0, 0, 12][..], &[0; 9]].concat();
    let split = split(&longer).expect("the lengths are right");
    let error = decode_frame(split.0, split.1);
    assert_eq!(error, Err(FormatError::Trailing));
    examples.push(longer);
    examples
}

/// What came of bytes; an error when a message has two forms.
fn read(
    bytes: &[u8],
    decode: impl Fn(&[u8], Arc<[u8]>) -> Result<Frame, FormatError>,
) -> fuzz::Outcome {
    let Some((head, payload)) = split(bytes) else {
        return Ok("no message".to_owned());
    };
    // A peer that is broken may send a frame where a reply is due.
    if let Ok((token, knowledge)) = decode_reply(head) {
        let again = encode_reply(token, &knowledge).map_err(|it| it.to_string())?;
        if again.start[PREFIX_BYTES..] != *head {
            return Err(format!("{knowledge:?} has two forms"));
        }
    }
    match decode(head, payload) {
        Ok(frame) => {
            let again = encode_frame(&frame).map_err(|it| it.to_string())?;
            if joined(&again) != bytes {
                return Err(format!("{frame:?} has two forms"));
            }
            Ok(format!("frame {}", kind_of(&frame.body)))
        }
        Err(error) => Ok(error.to_string().chars().take(20).collect()),
    }
}

#[test]
fn fuzz_finds_no_bytes_that_break_the_reader_or_have_two_forms() {
    Fuzz::new(examples(), &[]).run("frame", |bytes| read(bytes, decode_frame));
}

#[test]
fn a_reader_that_ignores_the_end_is_found() {
    let planted = |head: &[u8], payload: Arc<[u8]>| {
        let frame = decode_frame(head, Arc::clone(&payload));
        let without_end = |it: &Frame| !matches!(it.body, Body::Step(_) | Body::Snapshot(_));
        let lenient = decode_frame(&head[..head.len().saturating_sub(1)], payload);
        lenient.ok().filter(without_end).map_or(frame, Ok)
    };
    Fuzz::new(examples(), &[]).finds("planted", |bytes| read(bytes, planted));
}

#[test]
fn what_is_above_a_limit_is_refused_before_it_is_allocated() {
    let mut prefix = [0; PREFIX_BYTES];
    prefix[..4].copy_from_slice(&u32::MAX.to_be_bytes());
    assert!(matches!(
        Prefix::decode(prefix),
        Err(FormatError::Count { .. })
    ));
    prefix[..4].copy_from_slice(&[0; 4]);
    prefix[4..].copy_from_slice(&u32::MAX.to_be_bytes());
    assert!(matches!(
        Prefix::decode(prefix),
        Err(FormatError::Count { .. })
    ));

    // A Hello that claims a million zones, and one whose single zone claims more versions than there are bytes.
    let hello = |rest: &[u8]| [&[1][..], &[0; 16], rest].concat();
    let million = hello(&1_000_000_u32.to_be_bytes());
    let error = decode_frame(&million, Arc::default());
    assert!(
        matches!(error, Err(FormatError::Count { max: ZONES_MAX, .. })),
        "{error:?}"
    );
    let versions = hello(&[0, 0, 0, 1, 1, 0, 0, 0, 0xff, 0xff]);
    assert_eq!(
        decode_frame(&versions, Arc::default()),
        Err(FormatError::Short)
    );

    let replica = ReplicaId::from(&*"r".repeat(256));
    let mut known = Knowledge {
        replica,
        vow: Vow::default(),
        zones: std::collections::BTreeMap::new(),
        is_store_ok: true,
        is_leading: false,
    };
    let too_long = encode_reply(1, &known);
    assert_eq!(
        too_long,
        Err(FormatError::Count {
            count: 256,
            max: 255
        })
    );
    known.replica = ReplicaId::from(&*"r".repeat(255));
    assert!(encode_reply(1, &known).is_ok());
}

#[test]
fn only_steps_and_snapshots_have_a_payload() {
    let ping = Frame {
        epoch: Epoch(1),
        body: Body::Ping,
    };
    let head = encode_frame(&ping).expect("it is short").start[PREFIX_BYTES..].to_vec();
    let payload = Arc::from([1_u8]);
    assert_eq!(decode_frame(&head, payload), Err(FormatError::Trailing));
}

#[test]
fn the_first_exchange_says_the_format_and_what_the_connection_is_for() {
    for purpose in [Purpose::Link, Purpose::Greeting] {
        let opening = Opening::of(purpose);
        assert_eq!(Opening::decode(opening.encode()), Ok(opening));
        let (answer, result) = opening.answer();
        assert_eq!((take_answer(answer), result), (Ok(()), Ok(())));
    }
    // A later program that knows ours, and one that does not.
    let later = Opening {
        lowest: FORMAT,
        highest: FORMAT + 3,
        purpose: Purpose::Link,
    };
    assert_eq!(later.answer().1, Ok(()));
    let latest = Opening {
        lowest: FORMAT + 1,
        ..later
    };
    let (answer, result) = latest.answer();
    let unknown = FormatError::Format {
        lowest: FORMAT + 1,
        highest: FORMAT + 3,
    };
    assert_eq!(result, Err(unknown));
    assert!(matches!(
        take_answer(answer),
        Err(FormatError::Format { .. })
    ));
    assert_eq!(Opening::decode(*b"GET / HTT"), Err(FormatError::Magic));
    assert_eq!(take_answer(*b"HTTP/1"), Err(FormatError::Magic));
}
