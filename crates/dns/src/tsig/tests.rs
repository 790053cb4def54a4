//! Tests by rule of RFC 8945. hickory's signer and verifier are the other side.

mod fuzz;

use hickory_proto::rr::TSigner;
use hickory_proto::rr::rdata::tsig::TsigAlgorithm;
use ops::testing::NOW;

use super::*;
use crate::testing::{key, name, query};
use crate::tsig_place;

/// The test key, and one key of each other algorithm.
fn keys() -> Keys {
    Keys::new([
        key("k."),
        Key::new(&name("sha1."), Algorithm::Sha1, b"x"),
        Key::new(&name("half."), Algorithm::Sha256Half, b"x"),
        Key::new(&name("long."), Algorithm::Sha512, &[7; 200]),
    ])
}

fn signed(key: &Key, time: u64) -> (Vec<u8>, Vec<u8>) {
    let mut octets = query(7, "z.", Rtype::SOA);
    let mac = sign_request(key, &mut octets, time);
    (octets, mac)
}

/// The verdict as a word.
fn word(raw: &[u8], now: u64) -> String {
    let at = tsig_place(raw).expect("the last record is a TSIG");
    match verify(&keys(), raw, at, now) {
        Verdict::Valid(session) => format!("valid {}", session.key().name()),
        Verdict::Malformed => "malformed".to_owned(),
        Verdict::Refused(refusal) => format!("{:?}", refusal.error),
    }
}

/// Replaces the MAC of a request that key `k.` signed. The new one may have any length.
fn with_mac(raw: &[u8], mac: &[u8]) -> Vec<u8> {
    let at = tsig_place(raw).unwrap();
    let rr = RawRecord::parse(raw, at).unwrap();
    let data_at = rr.end - rr.data.len();
    let mac_at = data_at + 13 + 8;
    let old = usize::from(u16::from_be_bytes([raw[mac_at], raw[mac_at + 1]]));
    let mut octets = raw[..mac_at].to_vec();
    push_sized(&mut octets, mac);
    octets.extend_from_slice(&raw[mac_at + 2 + old..]);
    let length = u16::try_from(rr.data.len() - old + mac.len()).unwrap();
    octets[data_at - 2..data_at].copy_from_slice(&length.to_be_bytes());
    octets
}

#[test]
fn e01_each_algorithm_verifies_what_it_signed() {
    for algorithm in Algorithm::ALL {
        for secret in [&b"short"[..], &[9; 300]] {
            let key = Key::new(&name("K.Example."), algorithm, secret);
            let (raw, _) = signed(&key, NOW);
            let keys = Keys::new([Key::new(&name("k.example."), algorithm, secret)]);
            let verdict = verify(&keys, &raw, tsig_place(&raw).unwrap(), NOW);
            assert!(
                matches!(verdict, Verdict::Valid(_)),
                "{algorithm:?}: {verdict:?}"
            );
            // Our requests name the whole algorithm.
            let shorter = algorithm.wire().len() - algorithm.uncut().wire().len();
            assert_eq!(
                raw.len() + shorter,
                query(7, "z.", Rtype::SOA).len() + key.tsig_octets()
            );
        }
    }
}

#[test]
fn hickory_verifies_our_requests() {
    let (raw, _) = signed(&key("k."), NOW);
    let secret = b"a secret of thirty-two octets...".to_vec();
    let name = hickory_proto::rr::Name::from_ascii("k.").unwrap();
    let signer = TSigner::new(secret, TsigAlgorithm::HmacSha256, name, 300).unwrap();
    let (_, time, _) = signer.verify_message_byte(&raw, None, true).unwrap();
    assert_eq!(time, NOW);
}

/// RFC 8945 section 5.2.1: an unknown key, or another algorithm: BADKEY.
#[test]
fn requests_with_a_cut_mac_name_the_whole_algorithm_and_replies_may_name_either() {
    let half = Key::new(&name("half."), Algorithm::Sha256Half, b"x");
    let (raw, mac) = signed(&half, NOW);
    let at = tsig_place(&raw).unwrap();
    let tsig = Tsig::parse(&raw, at).unwrap();
    assert_eq!((tsig.algorithm, tsig.mac.len()), (name("hmac-sha256."), 16));
    for named in [Algorithm::Sha256, Algorithm::Sha256Half] {
        let Verdict::Valid(mut session) = verify(&keys(), &raw, at, NOW) else {
            panic!("it is signed rightly");
        };
        session.named = named;
        let mut reply = query(7, "z.", Rtype::SOA);
        session.sign(&mut reply, 0, NOW);
        let at = tsig_place(&reply).unwrap();
        assert!(is_reply_valid(&half, &mac, &reply, at, NOW), "{named:?}");
    }
}

#[test]
fn e03_an_unknown_key_or_another_algorithm_is_badkey() {
    assert_eq!(word(&signed(&key("nobody."), NOW).0, NOW), "BadKey");
    let other = Key::new(
        &name("k."),
        Algorithm::Sha512,
        b"a secret of thirty-two octets...",
    );
    assert_eq!(word(&signed(&other, NOW).0, NOW), "BadKey");
}

/// RFC 8945 section 5.2.2: a MAC that does not match: BADSIG.
#[test]
fn e04_a_wrong_mac_is_badsig() {
    let wrong = Key::new(&name("k."), Algorithm::Sha256, b"another secret");
    assert_eq!(word(&signed(&wrong, NOW).0, NOW), "BadSig");
    let (raw, mac) = signed(&key("k."), NOW);
    for bit in 0..mac.len() * 8 {
        let mut flipped = mac.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        assert_eq!(word(&with_mac(&raw, &flipped), NOW), "BadSig", "bit {bit}");
    }
    assert_eq!(word(&with_mac(&raw, b""), NOW), "BadSig");
    let mut changed = raw;
    changed[13] ^= 0x20;
    assert_eq!(word(&changed, NOW), "BadSig");
}

/// RFC 8945 section 5.2.2.1: longer than the hash, or shorter than half of it or 10: FORMERR; else cut
/// below what we accept: BADTRUNC.
#[test]
fn e06_a_cut_mac_is_badtrunc_or_malformed() {
    let (raw, mac) = signed(&key("k."), NOW);
    let mut long = mac.clone();
    long.push(0);
    assert_eq!(word(&with_mac(&raw, &long), NOW), "malformed");
    assert_eq!(word(&with_mac(&raw, &mac), NOW), "valid k.");
    assert_eq!(word(&with_mac(&raw, &mac[..31]), NOW), "BadTrunc");
    assert_eq!(word(&with_mac(&raw, &mac[..16]), NOW), "BadTrunc");
    assert_eq!(word(&with_mac(&raw, &mac[..15]), NOW), "malformed");
    assert_eq!(word(&with_mac(&raw, &mac[..9]), NOW), "malformed");
    assert_eq!(word(&with_mac(&raw, &[0; 16]), NOW), "BadSig");
}

/// RFC 8945 section 5.2.3: outside of the fudge, equality being inside.
#[test]
fn e05_a_clock_that_is_off_is_badtime() {
    let at = |time| word(&signed(&key("k."), time).0, NOW);
    assert_eq!(at(NOW - 301), "BadTime");
    assert_eq!(at(NOW - 300), "valid k.");
    assert_eq!(at(NOW + 300), "valid k.");
    assert_eq!(at(NOW + 301), "BadTime");
    // The MAC is checked first: a wrong MAC says nothing about the time.
    let wrong = Key::new(&name("k."), Algorithm::Sha256, b"another secret");
    assert_eq!(word(&signed(&wrong, 0).0, NOW), "BadSig");
}

/// RFC 8945 section 4.2: the MAC is over the original ID; section 4.3.3: names in canonical form.
#[test]
fn e08_a_changed_id_and_upper_case_names_verify() {
    let (mut raw, _) = signed(&key("k."), NOW);
    raw[0] ^= 0xff;
    let at = tsig_place(&raw).unwrap();
    raw[at + 1] = b'K';
    let algorithm_at = at + 3 + 10 + 1;
    raw[algorithm_at..algorithm_at + 4].copy_from_slice(b"HMAC");
    assert_eq!(word(&raw, NOW), "valid k.");
}

#[test]
fn class_and_ttl_of_the_record_are_fixed() {
    let (raw, _) = signed(&key("k."), NOW);
    let at = tsig_place(&raw).unwrap() + 3;
    for place in [at + 2, at + 3, at + 4, at + 7] {
        let mut changed = raw.clone();
        changed[place] ^= 1;
        assert_eq!(word(&changed, NOW), "malformed", "octet {place}");
    }
}

/// RFC 8945 section 5.3.1: the MAC of each message covers the one before; the first covers the request's.
#[test]
fn a_stream_of_messages_verifies_as_a_chain() {
    let key = key("k.");
    let (raw, request_mac) = signed(&key, NOW);
    let Verdict::Valid(mut session) = verify(&keys(), &raw, tsig_place(&raw).unwrap(), NOW) else {
        panic!("the request is signed")
    };
    let secret = b"a secret of thirty-two octets...".to_vec();
    let name = hickory_proto::rr::Name::from_ascii("k.").unwrap();
    let signer = TSigner::new(secret, TsigAlgorithm::HmacSha256, name, 300).unwrap();
    let mut previous = request_mac;
    for number in 0..5_u8 {
        let mut octets = vec![0, 0];
        octets.extend_from_slice(&query(7, "z.", Rtype::SOA));
        octets[4] |= 0x80;
        session.sign(&mut octets, 2, NOW + u64::from(number));
        let length = usize::from(u16::from_be_bytes([octets[0], octets[1]]));
        assert_eq!(length, octets.len() - 2);
        let (mac, time, _) = signer
            .verify_message_byte(&octets[2..], Some(&previous), number == 0)
            .unwrap();
        assert_eq!(time, NOW + u64::from(number));
        previous = mac;
    }
}

/// RFC 8945 section 5.3.2: replies to errors of key and MAC are not signed; section 5.2.3: BADTIME is,
/// with the request's time and the server's in other data.
#[test]
fn e03_e04_e05_refusals_say_what_they_must() {
    let reply_to = |raw: &[u8], now| {
        let Verdict::Refused(refusal) = verify(&keys(), raw, tsig_place(raw).unwrap(), now) else {
            panic!("the request is to be refused")
        };
        let mut octets = query(7, "z.", Rtype::SOA);
        octets[2] |= 0x80;
        refusal.sign(&mut octets, 0, now);
        assert!(octets.len() - query(7, "z.", Rtype::SOA).len() <= refusal.tsig_octets());
        octets
    };
    let parse = |octets: &[u8]| {
        let tsig = Tsig::parse(octets, tsig_place(octets).unwrap()).unwrap();
        (tsig.error, tsig.mac.len(), tsig.time, tsig.other.to_vec())
    };
    let bad_key = reply_to(&signed(&key("nobody."), NOW).0, NOW);
    assert_eq!(parse(&bad_key), (17, 0, NOW, vec![]));
    let wrong = Key::new(&name("k."), Algorithm::Sha256, b"another secret");
    assert_eq!(
        parse(&reply_to(&signed(&wrong, NOW).0, NOW)),
        (16, 0, NOW, vec![])
    );
    let (raw, mac) = signed(&key("k."), NOW - 400);
    let bad_time = reply_to(&raw, NOW);
    let clock = NOW.to_be_bytes()[2..].to_vec();
    assert_eq!(parse(&bad_time), (18, 32, NOW - 400, clock));
    let at = tsig_place(&bad_time).unwrap();
    assert!(is_reply_valid(&key("k."), &mac, &bad_time, at, NOW - 400));
    assert!(!is_reply_valid(&key("k."), &mac, &bad_time, at, NOW));
}

#[test]
fn e12_secrets_are_not_shown() {
    let shown = format!("{:?} {:?}", key("k."), Keys::new([key("k.")]));
    assert!(
        !shown.contains("secret") && !shown.contains("97, 32"),
        "{shown}"
    );
    assert!(shown.contains("k. (hmac-sha256)"));
}

#[test]
fn md5_is_no_algorithm_and_names_have_any_case() {
    assert!("hmac-md5.sig-alg.reg.int.".parse::<Algorithm>().is_err());
    assert_eq!("HMAC-SHA256.".parse::<Algorithm>(), Ok(Algorithm::Sha256));
}

/// RFC 4231 section 4.2, test case 1: the outputs of HMAC-SHA-224 and HMAC-SHA-256.
#[test]
fn e01_macs_are_those_of_rfc_4231() {
    let mac_of = |algorithm| {
        let key = Key::new(&name("k."), algorithm, &[0x0b; 20]);
        key.mac(&[b"Hi ", b"There"])
    };
    let sha224 = "896fb1128abbdf196832107cd49df33f47b4b1169912ba4f53684b22";
    let sha256 = "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7";
    for (algorithm, hex, octets) in [
        (Algorithm::Sha224, sha224, 28),
        (Algorithm::Sha256, sha256, 32),
        (Algorithm::Sha256Half, sha256, 16),
    ] {
        let mac: String = mac_of(algorithm)
            .iter()
            .map(|octet| format!("{octet:02x}"))
            .collect();
        assert_eq!(mac, hex[..2 * octets], "{algorithm:?}");
    }
}

/// Only a key that names SHA-1 takes SHA-1. A request that names it for another key is BADKEY.
#[test]
fn e03_sha1_is_accepted_for_keys_that_name_it_only() {
    let named = Key::new(&name("sha1."), Algorithm::Sha1, b"x");
    assert_eq!(word(&signed(&named, NOW).0, NOW), "valid sha1.");
    let other = Key::new(
        &name("k."),
        Algorithm::Sha1,
        b"a secret of thirty-two octets...",
    );
    assert_eq!(word(&signed(&other, NOW).0, NOW), "BadKey");
}

/// BIND writes "hmac-sha256-128" as hmac-sha256 with a MAC of 16 octets: RFC 8945 section 5.2.2.1 leaves
/// the length to local policy, and the key says 16.
#[test]
fn e06_a_key_of_a_cut_algorithm_takes_the_whole_ones_name_too() {
    let whole = Key::new(&name("half."), Algorithm::Sha256, b"x");
    let (raw, mac) = signed(&whole, NOW);
    for length in [16, 17, 32] {
        let cut = with_mac(&raw, &mac[..length]);
        let at = tsig_place(&cut).unwrap();
        let Verdict::Valid(mut session) = verify(&keys(), &cut, at, NOW) else {
            panic!("{length} octets")
        };
        let mut reply = query(7, "z.", Rtype::SOA);
        session.sign(&mut reply, 0, NOW);
        let tsig = Tsig::parse(&reply, tsig_place(&reply).unwrap()).unwrap();
        assert_eq!(tsig.algorithm.to_string(), "hmac-sha256.");
        assert_eq!(tsig.mac.len(), 16);
        let mut before = Vec::new();
        push_sized(&mut before, &mac[..length]);
        let (at, key) = (tsig_place(&reply).unwrap(), (&whole, Algorithm::Sha256));
        assert_eq!(check_mac(key, &tsig, &before, &reply, at), MacCheck::Right);
    }
    assert_eq!(word(&with_mac(&raw, &mac[..15]), NOW), "malformed");
}

/// Rotation: the answer to a request is signed with the key that the request came with.
#[test]
fn exchanged_keys_count_from_the_next_request() {
    let ring = KeyRing::new(Keys::new([key("old.")]));
    let is_known = |who: &str| {
        let (raw, _) = signed(&key(who), NOW);
        let at = tsig_place(&raw).unwrap();
        matches!(verify(&ring.current(), &raw, at, NOW), Verdict::Valid(_))
    };
    assert!(is_known("old.") && !is_known("new."));
    ring.replace(Keys::new([key("old."), key("new.")]));
    assert!(is_known("old.") && is_known("new."));
    ring.replace(Keys::new([key("new.")]));
    assert!(!is_known("old.") && is_known("new."));
}

proptest::proptest! {
    #[test]
    fn e12_a_request_with_one_octet_changed_is_valid_only_where_nothing_signed_differs(
        place in proptest::prelude::any::<proptest::sample::Index>(),
        octet in proptest::prelude::any::<u8>(),
    ) {
        let (raw, _) = signed(&key("k."), NOW);
        let (at, tsig_at) = (place.index(raw.len()), tsig_place(&raw).unwrap());
        let mut changed = raw.clone();
        changed[at] = octet;
        // RFC 8945 section 4.3: the original ID is signed in place of the message's, and names in lower case.
        let is_in_name = (tsig_at..tsig_at + 3).contains(&at) || (tsig_at + 13..tsig_at + 26).contains(&at);
        let is_same = changed == raw || at < 2 || (is_in_name && octet.eq_ignore_ascii_case(&raw[at]));
        let is_valid = tsig_place(&changed).is_some_and(|tsig_at| {
            matches!(verify(&keys(), &changed, tsig_at, NOW), Verdict::Valid(_))
        });
        proptest::prop_assert_eq!(is_valid, is_same, "octet {} of {:?} is {}", at, raw, octet);
    }

    #[test]
    fn e12_no_octets_make_the_check_panic(tail in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..90)) {
        let mut raw = query(7, "z.", Rtype::SOA);
        let at = raw.len();
        raw.extend_from_slice(b"\x01k\x00\x00\xfa\x00\xff\x00\x00\x00\x00");
        push_sized(&mut raw, &tail);
        let verdict = verify(&keys(), &raw, at, NOW);
        proptest::prop_assert!(!matches!(verdict, Verdict::Valid(_)));
    }
}
