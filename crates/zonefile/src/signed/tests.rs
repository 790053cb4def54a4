//! Zones that `dnssec-signzone` signed, as they are and with one thing changed.

use dns::Name;

use crate::{BadFile, Role, ZoneFile, read_text, read_with};

/// The zone with NSEC, with NSEC3 (5 iterations, salt), and with NSEC3 that skips insecure delegations.
const NSEC: &str = crate::SIGNED_TEXT;
const NSEC3: &str = include_str!("tests/nsec3.zone");
const OPT_OUT: &str = include_str!("tests/optout.zone");
/// A zone during a change of keys: the signatures of one key end in 2027, those of the other begin in December 2026.
const TWO_KEYS: &str = include_str!("tests/two_keys.zone");

fn apex() -> Name {
    "signed.test.".parse().unwrap()
}

fn read(text: &str) -> Result<ZoneFile, BadFile> {
    read_text("db", text, &apex(), Role::Zone)
}

/// What is wrong with a text, without the places.
fn said(text: &str) -> Vec<String> {
    match read(text) {
        Ok(_) => Vec::new(),
        Err(bad) => bad.problems.into_iter().map(|it| it.message).collect(),
    }
}

/// The lines that begin so and have these words.
fn is_line(line: &str, owner: &str, words: &str) -> bool {
    let owner = match owner {
        "@" => "signed.test. ".to_owned(),
        owner => format!("{owner}.signed.test. "),
    };
    line.starts_with(&owner) && line.contains(&format!(" {words} "))
}

/// A text without these lines, of which there is at least one.
fn without(text: &str, owner: &str, words: &str) -> String {
    let lines = text.lines().filter(|line| !is_line(line, owner, words));
    let left: String = lines.map(|line| format!("{line}\n")).collect();
    assert!(left.len() < text.len(), "no {owner} {words}");
    left
}

/// A text with something else in a line.
fn with(text: &str, owner: &str, words: &str, old: &str, new: &str) -> String {
    let change = |line: &str| match is_line(line, owner, words) {
        true => line.replacen(old, new, 1) + "\n",
        false => format!("{line}\n"),
    };
    let changed: String = text.lines().map(change).collect();
    assert_ne!(changed, text, "no {old} in {owner} {words}");
    changed
}

#[test]
fn what_was_signed_well_is_taken_as_it_is() {
    for text in [NSEC, NSEC3, OPT_OUT] {
        let content = read(text).unwrap_or_else(|bad| panic!("{bad}"));
        assert_eq!(content.warnings, []);
        let signed = content.signed.clone().unwrap();
        assert_eq!(
            (signed.begins.0, signed.ends.0),
            (1_767_225_600, 2_777_068_800)
        );
        let records: usize = content.nodes().iter().map(zone::Node::record_count).sum();
        // The SOA is kept beside.
        assert_eq!(records, text.lines().count() - 1);
        // Each signature keeps the TTL of what it covers.
        let top = content.get(&[]).unwrap();
        let ttl = |rtype| top.signatures(rtype).unwrap().ttl.seconds();
        assert_eq!((ttl(dns::Rtype::SOA), ttl(dns::Rtype::NS)), (3600, 300));
    }
}

#[test]
fn a_zone_that_is_not_signed_is_not_checked() {
    let text = "@ 60 SOA a b 1 2 3 4 5\n@ 60 NS b.test.\n@ 60 DNSKEY 257 3 13 AQID\n";
    assert_eq!(read(text).unwrap().signed, None);
}

#[test]
fn signatures_that_do_not_fit_are_named() {
    let www = "the signature of www.signed.test. A by key ";
    let of_data = with(NSEC, "www", "IN A", "192.0.2.80", "192.0.2.82");
    let of_serial = with(NSEC, "@", "IN SOA", "2026010100", "2026010101");
    let of_other = with(NSEC, "www", "RRSIG A", " signed.test. ", " other.test. ");
    let of_labels = with(NSEC, "www", "RRSIG A", " A 13 3 ", " A 13 2 ");
    for (text, want) in [
        (of_data, www),
        (of_serial, "the signature of signed.test. SOA by key "),
        (
            of_other,
            "a signature of www.signed.test. A is by another zone",
        ),
        (
            of_labels,
            "a signature of www.signed.test. A is for a name of 2 labels",
        ),
        (
            without(NSEC, "www", "RRSIG A"),
            "www.signed.test. A has no signature (RRSIG)",
        ),
        (
            without(NSEC, "@", "RRSIG SOA"),
            "signed.test. SOA has no signature (RRSIG)",
        ),
        (
            without(NSEC3, "@", "RRSIG NSEC3PARAM"),
            "signed.test. NSEC3PARAM has no signature (RRSIG)",
        ),
        (
            without(NSEC, "www", "IN TXT"),
            "www.signed.test. has a signature of TXT: there is no such record",
        ),
        (
            without(NSEC, "@", "DNSKEY 256"),
            "the signature of signed.test. DNSKEY by key ",
        ),
        (
            without(NSEC, "@", "IN DNSKEY"),
            "signed.test. is signed and has no DNSKEY that signs zones at its apex",
        ),
        (
            with(NSEC, "ns.plain", "IN A", "ns.plain", "www.plain"),
            "name server ns.plain.signed.test. is below the delegation and has no address here",
        ),
    ] {
        let said = said(&text);
        assert!(
            said.iter().any(|it| it.starts_with(want)),
            "{want}: {said:#?}"
        );
    }
    let line = NSEC
        .lines()
        .find(|line| is_line(line, "ns1", "RRSIG A"))
        .unwrap();
    let glue = line.replacen("ns1.", "ns.plain.", 1);
    assert_eq!(
        said(&format!("{NSEC}{glue}\n")),
        ["ns.plain.signed.test. has a signature of A: it is below a delegation"]
    );
    let cut = line
        .replacen("ns1.", "plain.", 1)
        .replacen(" A 13", " NS 13", 1);
    assert_eq!(
        said(&format!("{NSEC}{cut}\n")),
        ["plain.signed.test. has a signature of NS: it is delegated"]
    );
}

/// Without one of the keys only its signatures fail.
#[test]
fn a_zone_without_the_key_of_its_signatures_is_refused() {
    let said = said(&without(NSEC, "@", "DNSKEY 256"));
    let want = "no signature of signed.test. NS can be verified: key 24090, algorithm 13, is not in the zone";
    assert_eq!(said[0], want);
}

#[test]
fn a_chain_that_is_open_or_lies_is_refused() {
    let types =
        "the NSEC of www.signed.test. lists the types A TXT RRSIG NSEC, and there are A RRSIG NSEC";
    let fewer = without(&without(NSEC, "www", "IN TXT"), "www", "RRSIG TXT");
    assert_eq!(said(&fewer), [types]);
    let open: String = (NSEC.lines())
        .filter(|line| !line.starts_with("www."))
        .map(|line| format!("{line}\n"))
        .collect();
    let said_open = said(&open);
    assert!(
        said_open.contains(&"the NSEC of tostar.signed.test. leads to www.signed.test., and the next name is signed.test.".to_owned()),
        "{said_open:#?}"
    );
    let lacks = without(&without(NSEC, "www", "IN NSEC"), "www", "RRSIG NSEC");
    assert_eq!(said(&lacks), ["www.signed.test. has no NSEC"]);
    let more = format!("{NSEC}new.signed.test. 300 IN A 192.0.2.1\n");
    let said_more = said(&more);
    for want in [
        "new.signed.test. A has no signature (RRSIG)",
        "new.signed.test. has no NSEC",
    ] {
        assert!(said_more.iter().any(|it| it == want), "{said_more:#?}");
    }
}

#[test]
fn a_chain_of_hashes_that_is_open_or_lies_is_refused() {
    let hashes = |text: &str| -> Vec<String> {
        let lines = text.lines().filter(|line| line.contains(" IN NSEC3 "));
        let mut all: Vec<_> = lines
            .filter_map(|it| Some(it.split_once('.')?.0.to_owned()))
            .collect();
        all.sort();
        all
    };
    let hash = &hashes(NSEC3)[3];
    let gone: String = (NSEC3.lines())
        .filter(|line| !line.starts_with(&**hash))
        .map(|line| format!("{line}\n"))
        .collect();
    let said_gone = said(&gone);
    assert!(
        said_gone.iter().any(|it| it.ends_with(" has no NSEC3")),
        "{said_gone:#?}"
    );
    let leads = |it: &&String| it.contains(" leads to ") && it.contains("and the next hash is");
    assert!(said_gone.iter().find(leads).is_some(), "{said_gone:#?}");
    // Delegations may be skipped where the chain says so, and nothing else.
    let secure = without(&without(OPT_OUT, "www", "IN A"), "www", "RRSIG A");
    let said_types = said(&secure);
    assert_eq!(
        said_types,
        ["the NSEC3 of www.signed.test. lists the types A TXT RRSIG, and there are TXT RRSIG"]
    );
    let params = with(NSEC3, "@", "IN NSEC3PARAM", "1 0 5 AABB", "1 0 6 AABB");
    let said_params = said(&params);
    assert!(
        said_params
            .iter()
            .any(|it| it.ends_with("differs from NSEC3PARAM in hash, iterations or salt")),
        "{said_params:#?}"
    );
    let many = with(NSEC3, "@", "IN NSEC3PARAM", "1 0 5 AABB", "1 0 151 AABB");
    assert!(
        said(&many)
            .iter()
            .any(|it| it.starts_with("NSEC3 with 151 iterations")),
        "{:#?}",
        said(&many)
    );
    let none = without(
        &without(NSEC3, "@", "IN NSEC3PARAM"),
        "@",
        "RRSIG NSEC3PARAM",
    );
    assert!(said(&none).contains(&"signed.test. needs one NSEC3PARAM for its NSEC3".to_owned()));
    let new = format!("{OPT_OUT}fresh.signed.test. 300 IN NS ns1.signed.test.\n");
    assert_eq!(said(&new), Vec::<String>::new());
    let new = format!("{NSEC3}fresh.signed.test. 300 IN NS ns1.signed.test.\n");
    assert_eq!(said(&new), ["fresh.signed.test. has no NSEC3"]);
}

#[test]
fn signatures_that_are_over_or_not_valid_yet_are_a_warning_with_the_time() {
    let signed = read(NSEC).unwrap().signed.unwrap();
    assert_eq!(signed.warning(1_800_000_000), None);
    let over = signed.warning(2_777_068_801).unwrap();
    assert!(over.contains("ended at 2058-01-01T00:00:00"), "{over}");
    let early = signed.warning(1_767_225_599).unwrap();
    assert!(early.contains("begins at 2026-01-01T00:00:00"), "{early}");
}

/// RFC 4035 section 5.3.3: a resolver takes any signature that is valid.
#[test]
fn a_signature_that_is_over_beside_one_that_is_valid_is_no_warning() {
    let signed = read(TWO_KEYS).unwrap().signed.unwrap();
    assert_eq!(
        (signed.begins.0, signed.ends.0),
        (1_577_836_800, 2_777_068_800)
    );
    for seconds in [1_580_000_000, 1_796_500_000, 2_700_000_000] {
        assert_eq!(signed.warning(seconds), None, "{seconds}");
    }
    let over = signed.warning(2_777_068_801).unwrap();
    assert!(over.contains("ended at 2058-01-01T00:00:00"), "{over}");
    // Without the newer signatures of one RRset.
    let newer = TWO_KEYS
        .lines()
        .filter(|line| is_line(line, "www", "RRSIG A"));
    let newer = newer.filter(|line| line.contains(" 20580101000000 "));
    let newer: Vec<&str> = newer.collect();
    let [newer] = newer[..] else {
        panic!("{newer:?}");
    };
    let older = TWO_KEYS.replace(&format!("{newer}\n"), "");
    let over = read(&older).unwrap().signed.unwrap().warning(2_700_000_000);
    let want = "the signature of www.signed.test. A ended at 2027-01-01T00:00:00";
    assert!(over.unwrap().starts_with(want));
}

/// A zone that was read before costs the signatures that are new.
#[test]
fn what_is_wrong_is_found_beside_what_is_known() {
    let known = read(NSEC).unwrap();
    let read = |text: &str| {
        let mut open = |_: &std::path::Path| Ok(text.as_bytes().to_vec());
        read_with(
            std::path::Path::new("db"),
            &apex(),
            Role::Zone,
            Some(&known),
            &mut open,
        )
    };
    assert!(read(NSEC).is_ok());
    assert!(read(NSEC3).is_ok());
    let wrong = with(NSEC, "www", "IN A", "192.0.2.80", "192.0.2.82");
    assert_eq!(read(&wrong).unwrap_err().problems.len(), 1);
    let wrong = with(NSEC, "@", "IN SOA", "2026010100", "2026010101");
    assert_eq!(read(&wrong).unwrap_err().problems.len(), 1);
}

#[test]
fn a_signed_file_under_a_cluster_is_refused() {
    let bad = read_text("db", NSEC, &apex(), Role::Overlay).unwrap_err();
    let message = &bad.problems[0].message;
    assert!(message.contains("which a cluster writes too"), "{message}");
}
