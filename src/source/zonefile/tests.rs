//! Master files in, records or places of faults out.

mod fuzz;

use std::collections::BTreeMap;
use std::io;

use proptest::prelude::*;

use super::*;
use crate::dns::{Rdata, Record, RecordText, Rtype, Ttl};

/// What every zone here begins with.
const TOP: &str = "$TTL 60\n@ SOA ns.z. h.z. 1 2 3 4 5\n@ NS ns.z.\nns.z. A 192.0.2.53\n";

/// Reads a zone `z.` from files in memory; the first is `d/main`.
fn read_files(files: &[(&str, &[u8])], role: Role) -> Reading {
    let files: BTreeMap<PathBuf, Vec<u8>> = files
        .iter()
        .map(|(name, text)| (Path::new("d").join(name), text.to_vec()))
        .collect();
    let mut open = |path: &Path| {
        let known = files.get(path).cloned();
        known.ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "no such file"))
    };
    read_with(Path::new("d/main"), &"z.".parse().unwrap(), role, &mut open)
}

/// The lines of a content, without those of [`TOP`].
fn lines(content: &ZoneFile) -> Vec<String> {
    let apex = "z.".parse().unwrap();
    let mut lines = Vec::new();
    for node in content.nodes() {
        let owner = node.owner_wire(&apex);
        lines.extend(node.records(&owner, 0).map(|rr| RecordText(rr).to_string()));
    }
    lines.retain(|line| line != "z. 60 IN NS ns.z." && line != "ns.z. 60 IN A 192.0.2.53");
    lines
}

/// What a zone says after [`TOP`], or what is wrong with it, by line and column.
fn said(text: &str) -> Vec<String> {
    let text = format!("{TOP}{text}");
    match read_files(&[("main", text.as_bytes())], Role::Zone).content {
        Ok(content) => lines(&content),
        Err(bad) => bad.problems.iter().map(ToString::to_string).collect(),
    }
}

/// A table of texts and what they say.
fn check(cases: &[(&str, &[&str])]) {
    for (text, want) in cases {
        assert_eq!(said(text), *want, "{text:?}");
    }
}

#[test]
fn names_are_relative_to_the_origin() {
    check(&[
        ("a A 192.0.2.1", &["a.z. 60 IN A 192.0.2.1"]),
        ("a.z. A 192.0.2.1", &["a.z. 60 IN A 192.0.2.1"]),
        ("$ORIGIN s.z.\na A 192.0.2.1", &["a.s.z. 60 IN A 192.0.2.1"]),
        // RFC 1035 section 5.1: a name that does not end in a dot is relative, that of $ORIGIN too.
        (
            "$ORIGIN s\n$ORIGIN t\na A 192.0.2.1",
            &["a.t.s.z. 60 IN A 192.0.2.1"],
        ),
        ("$ORIGIN s\n@ MX 5 @", &["s.z. 60 IN MX 5 s.z."]),
        ("$origin s\nA CNAME b", &["A.s.z. 60 IN CNAME b.s.z."]),
        ("a SRV 1 2 3 @", &["a.z. 60 IN SRV 1 2 3 z."]),
    ]);
}

#[test]
fn what_is_left_out_is_taken_from_above() {
    check(&[
        (
            "a A 192.0.2.1\n  A 192.0.2.2",
            &["a.z. 60 IN A 192.0.2.1", "a.z. 60 IN A 192.0.2.2"],
        ),
        ("a 5 IN A 192.0.2.1", &["a.z. 5 IN A 192.0.2.1"]),
        ("a IN 5 A 192.0.2.1", &["a.z. 5 IN A 192.0.2.1"]),
        ("a in a 192.0.2.1", &["a.z. 60 IN A 192.0.2.1"]),
        ("a CLASS1 TYPE1 192.0.2.1", &["a.z. 60 IN A 192.0.2.1"]),
        ("a 1h30m A 192.0.2.1", &["a.z. 5400 IN A 192.0.2.1"]),
        ("$TTL 2d\na A 192.0.2.1", &["a.z. 172800 IN A 192.0.2.1"]),
        // $TTL goes before the TTL of the record above (RFC 2308 section 4).
        (
            "a 5 A 192.0.2.1\nb A 192.0.2.1",
            &["a.z. 5 IN A 192.0.2.1", "b.z. 60 IN A 192.0.2.1"],
        ),
        // A class, a type and a TTL are owners where an owner stands.
        ("in 7 A 192.0.2.1", &["in.z. 7 IN A 192.0.2.1"]),
        (
            "a A 192.0.2.1\n5 A 192.0.2.2",
            &["5.z. 60 IN A 192.0.2.2", "a.z. 60 IN A 192.0.2.1"],
        ),
    ]);
}

#[test]
fn without_any_ttl_the_record_above_or_the_minimum_counts() {
    let main = b"@ SOA ns h 1 2 3 4 1h\n NS ns\nns 5 A 192.0.2.1\na A 192.0.2.2";
    let content = read_files(&[("main", main)], Role::Zone).content.unwrap();
    assert_eq!(
        lines(&content),
        [
            "z. 3600 IN NS ns.z.",
            "a.z. 3600 IN A 192.0.2.2",
            "ns.z. 5 IN A 192.0.2.1"
        ]
    );
    let (soa, serial) = content.soa.unwrap();
    assert_eq!(
        (soa.ttl.seconds(), soa.minimum.seconds(), serial.encode()),
        (3600, 3600, 1)
    );
    let main = b"a A 192.0.2.1\nb 5 A 192.0.2.1\nc A 192.0.2.1";
    let bad = read_files(&[("main", main)], Role::Overlay)
        .content
        .unwrap_err();
    assert_eq!(
        bad.to_string(),
        "d/main:1:1: this record has no TTL: write one, or $TTL above"
    );
}

#[test]
fn escapes_quotes_and_parentheses() {
    check(&[
        (r"a\.b\255 A 192.0.2.1", &[r"a\.b\255.z. 60 IN A 192.0.2.1"]),
        (r"a\@b\; A 192.0.2.1", &[r"a\@b\;.z. 60 IN A 192.0.2.1"]),
        (
            r#"a TXT "b\"c\\\001;" d\ e "" "#,
            &[r#"a.z. 60 IN TXT "b\"c\\\001;" "d e" """#],
        ),
        (
            "a TXT ( \"b\" ; c )\n\n  d )\ne TXT f",
            &["a.z. 60 IN TXT \"b\" \"d\"", "e.z. 60 IN TXT \"f\""],
        ),
        ("a ( 5\n IN ) A ( 192.0.2.1\n)", &["a.z. 5 IN A 192.0.2.1"]),
        (
            "a A 192.0.2.1\r\nb A 192.0.2.2",
            &["a.z. 60 IN A 192.0.2.1", "b.z. 60 IN A 192.0.2.2"],
        ),
        ("a TXT \"\u{e9}\"", &["a.z. 60 IN TXT \"\\195\\169\""]),
    ]);
}

#[test]
fn data_of_every_ordinary_type() {
    check(&[
        ("a AAAA 2001:db8::1", &["a.z. 60 IN AAAA 2001:db8::1"]),
        ("a PTR b", &["a.z. 60 IN PTR b.z."]),
        (
            "a CAA 0 issue \"ca.example\"",
            &["a.z. 60 IN CAA \\# 17 0005697373756563612e6578616d706c65"],
        ),
    ]);
    for (text, hex) in [
        (
            "NAPTR 1 2 \"u\" \"s\" \"!x!\" .",
            "\\# 13 0001000201750173032178 2100",
        ),
        ("SSHFP 1 1 0123 45", "\\# 5 0101012345"),
        ("TLSA 3 1 1 01 23", "\\# 5 0301010123"),
        ("DS 1 13 2 0123", "\\# 6 00010d020123"),
        ("DNSKEY 257 3 13 AQID", "\\# 7 0101030d010203"),
        ("CDS 0 0 0 00", "\\# 5 0000000000"),
        ("HINFO \"a b\" c", "\\# 6 03612062 0163"),
        ("RP b .", "\\# 6 0162017a00 00"),
        ("AFSDB 1 b", "\\# 7 0001 0162017a00"),
        ("KX 1 b", "\\# 7 0001 0162017a00"),
        ("SPF \"a\" b", "\\# 4 0161 0162"),
        ("URI 1 2 \"ftp://x\"", "\\# 11 00010002 6674703a2f2f78"),
        ("OPENPGPKEY AQID", "\\# 3 010203"),
        ("HTTPS 0 b", "\\# 7 0000 0162017a00"),
        ("SVCB 1 @ port=53", "\\# 11 0001 017a00 0003 0002 0035"),
        (
            "HTTPS 1 . alpn=\"h2,h3\" ipv4hint=192.0.2.1",
            "\\# 21 000100 0001 0006 026832 026833 0004 0004 c0000201",
        ),
    ] {
        let rtype = text.split(' ').next().unwrap();
        assert_eq!(
            said(&format!("a {text}")),
            said(&format!("a {rtype} {hex}")),
            "{text}"
        );
        assert!(
            said(&format!("a {text}"))[0].starts_with("a.z. 60 IN"),
            "{text}"
        );
    }
}

/// RFC 3597 section 5.
#[test]
fn types_without_a_name_and_data_as_octets() {
    check(&[
        (
            "a TYPE65280 \\# 2 01 ff",
            &["a.z. 60 IN TYPE65280 \\# 2 01ff"],
        ),
        ("a CLASS1 TYPE65280 \\# 0", &["a.z. 60 IN TYPE65280 \\# 0"]),
        ("a A \\# 4 c0000201", &["a.z. 60 IN A 192.0.2.1"]),
        (
            "a A \\# 3 c00002",
            &["d/main:5:10: A: these octets are no data of A"],
        ),
        (
            "a MX \\# 4 0001c000",
            &["d/main:5:11: MX: these octets are no data of MX"],
        ),
        (
            "a TYPE65280 x",
            &[
                "d/main:5:13: TYPE65280: the data of TYPE65280 has no text form here: write it as \\# LENGTH HEX (RFC 3597)",
            ],
        ),
        (
            "a LOC 52 N 4 E 0m",
            &[
                "d/main:5:7: LOC: the data of LOC has no text form here: write it as \\# LENGTH HEX (RFC 3597)",
            ],
        ),
    ]);
}

#[test]
fn generate_makes_many_of_one_line() {
    check(&[
        (
            "$GENERATE 1-2 h$ A 192.0.2.$",
            &["h1.z. 60 IN A 192.0.2.1", "h2.z. 60 IN A 192.0.2.2"],
        ),
        (
            "$GENERATE 0-4/2 $ 9 IN CNAME h${1,3}",
            &[
                "0.z. 9 IN CNAME h001.z.",
                "2.z. 9 IN CNAME h003.z.",
                "4.z. 9 IN CNAME h005.z.",
            ],
        ),
        ("$GENERATE 1-1 h MX \"10 m$\"", &["h.z. 60 IN MX 10 m1.z."]),
        (
            "$GENERATE 1-1 h TXT \"a $ $$\"",
            &["h.z. 60 IN TXT \"a 1 $\""],
        ),
        (
            "$GENERATE 1-1 @ TXT a\n TXT b",
            &["z. 60 IN TXT \"a\"", "z. 60 IN TXT \"b\""],
        ),
        (
            "$GENERATE 1-1 h${9223372036854775807} A 192.0.2.1",
            &["d/main:5:15: \"${9223372036854775807}\" of 1 is no number from 0 to 4294967295"],
        ),
        (
            "$GENERATE 1-2",
            &["d/main:5:1: write: $GENERATE START-STOP[/STEP] OWNER [TTL] [CLASS] TYPE DATA"],
        ),
        (
            "$GENERATE 2-1 a A 192.0.2.$",
            &[
                "d/main:5:11: \"2-1\" is no range: START is at most STOP, STOP at most 2147483647, STEP at least 1",
            ],
        ),
        // One word for all that the line makes.
        (
            "$GENERATE 254-260 a$ A 192.0.2.$",
            &["d/main:5:24: A: expected IPv4 address"],
        ),
    ]);
}

#[test]
fn included_files_are_relative_to_the_one_that_includes() {
    let main = format!("{TOP}$INCLUDE sub/one s\nb A 192.0.2.2\n$INCLUDE sub/two\n A 192.0.2.3");
    let one = b"@ A 192.0.2.1\n$TTL 7\n$ORIGIN t\n$INCLUDE \"two\"\n";
    let two = b"deep A 192.0.2.9\n";
    let files: &[(&str, &[u8])] = &[
        ("main", main.as_bytes()),
        ("sub/one", one),
        ("sub/two", two),
    ];
    let reading = read_files(files, Role::Zone);
    assert_eq!(
        lines(&reading.content.unwrap()),
        [
            "b.z. 7 IN A 192.0.2.2",
            "b.z. 7 IN A 192.0.2.3",
            "deep.z. 7 IN A 192.0.2.9",
            "s.z. 60 IN A 192.0.2.1",
            "deep.t.s.z. 7 IN A 192.0.2.9",
        ]
    );
    assert_eq!(reading.files.len(), 4, "{:?}", reading.files);
}

#[test]
fn includes_that_are_missing_or_endless_are_said_at_their_line() {
    let text = format!("{TOP}$INCLUDE none\n$INCLUDE\n$INCLUDE a b c\n");
    let bad = read_files(&[("main", text.as_bytes())], Role::Zone)
        .content
        .unwrap_err();
    assert_eq!(
        bad.to_string(),
        "d/main:5:10: cannot read d/none: no such file\n\
         d/main:6:1: write: $INCLUDE FILE [ORIGIN]\n\
         d/main:7:14: \"c\" is too much; write: $INCLUDE FILE [ORIGIN]"
    );
    let reading = read_files(&[("main", b"$INCLUDE main\n")], Role::Overlay);
    let bad = reading.content.unwrap_err();
    assert_eq!(
        bad.to_string(),
        "d/main:1:10: not included: files may include each other 10 deep, and be 1000 in all"
    );
    assert_eq!(reading.files.len(), 11);
}

#[test]
fn every_fault_has_its_place_and_does_not_hide_the_next() {
    check(&[
        (
            "a A x\nb A y\nc A 192.0.2.1",
            &[
                "d/main:5:5: A: expected IPv4 address",
                "d/main:6:5: A: expected IPv4 address",
            ],
        ),
        (
            "a A 192.0.2.1 x",
            &["d/main:5:15: A: \"x\" is too much: the data is complete"],
        ),
        (
            "a MX 10",
            &["d/main:5:6: MX: something is missing after this"],
        ),
        (
            "a MX (\n 10\n b..c )",
            &["d/main:7:2: MX: \"b..c\" has an empty label"],
        ),
        ("a 5", &["d/main:5:3: a record type is missing after this"]),
        ("a", &["d/main:5:1: a record type is missing after this"]),
        ("a BOGUS x", &["d/main:5:3: unknown record type \"BOGUS\""]),
        ("a AXFR x", &["d/main:5:3: AXFR is no type of records"]),
        (
            "a CH A x",
            &["d/main:5:3: class CH is not served, IN alone is"],
        ),
        (
            "a 99999999999 A x",
            &["d/main:5:3: \"99999999999\" is longer than a TTL can be (2147483647 seconds)"],
        ),
        (
            "a\\256 A 192.0.2.1",
            &["d/main:5:1: \"a\\256\" has an escape that is neither \\DDD (000 to 255) nor \\X"],
        ),
        (
            "a TXT \"b\nc A x",
            &[
                "d/main:5:7: this quote is not closed on its line",
                "d/main:6:5: A: expected IPv4 address",
            ],
        ),
        ("a TXT ( b", &["d/main:5:7: this '(' is never closed"]),
        (
            "$BOGUS x",
            &[
                "d/main:5:1: unknown directive $BOGUS: there are $ORIGIN, $TTL, $INCLUDE and $GENERATE",
            ],
        ),
        (
            "b.y. A 192.0.2.1",
            &["d/main:5:1: b.y. is not in the zone z."],
        ),
        (
            "s SOA a b 1 2 3 4 5",
            &["d/main:5:1: the SOA of s.z. does not belong here: the zone is z."],
        ),
        (
            "@ SOA a b 1 2 3 4 5",
            &["d/main:5:1: a second SOA; the first is at d/main:2:1"],
        ),
        (
            "@ SOA a b x 2 3 4 5",
            &["d/main:5:11: SOA: \"x\" is no serial: write a number up to 4294967295"],
        ),
    ]);
}

#[test]
fn reading_ends_after_many_faults() {
    let many = "a A x\n".repeat(50);
    let text = format!("{TOP}{many}");
    let bad = read_files(&[("main", text.as_bytes())], Role::Zone)
        .content
        .unwrap_err();
    assert_eq!(bad.problems.len(), MOST_PROBLEMS);
    assert!(
        bad.to_string()
            .ends_with("and maybe more: reading ended after 20 problems")
    );
    let octets = [TOP.as_bytes(), b"\xff A 192.0.2.1"].concat();
    let bad = read_files(&[("main", &octets)], Role::Zone)
        .content
        .unwrap_err();
    assert_eq!(bad.problems[0].spot.line, 5);
}

#[test]
fn what_a_zone_may_not_hold() {
    check(&[
        (
            "a CNAME b\na A 192.0.2.1",
            &["d/main:6:1: a.z. has a CNAME at d/main:5:1 and A here: an alias stands alone"],
        ),
        (
            "a CNAME b\nA CNAME c",
            &["d/main:6:1: a.z. has a CNAME at d/main:5:1 and CNAME here: an alias stands alone"],
        ),
        ("a CNAME b\na CNAME b", &["a.z. 60 IN CNAME b.z."]),
        (
            "@ CNAME b",
            &["d/main:5:1: z. is the top of the zone: it cannot be an alias"],
        ),
        (
            "a DNAME b",
            &["d/main:5:1: DNAME is not supported: write the names below it one by one"],
        ),
        (
            "a NSEC b A",
            &[
                "d/main:5:1: NSEC would be void: the serial is zonewright's; sign the zone behind it",
            ],
        ),
        (
            "*.a NS b",
            &["d/main:5:1: *.a.z. is a wildcard: it cannot be delegated"],
        ),
        (
            "@ NS b",
            &["d/main:5:1: name server b.z. has no address in the zone: add A or AAAA"],
        ),
        (
            "@ NS b.w\n*.w A 192.0.2.1",
            &["z. 60 IN NS b.w.z.", "*.w.z. 60 IN A 192.0.2.1"],
        ),
        (
            // RFC 4592: a name below the wildcard's parent that exists hides the wildcard.
            "@ NS b.v.w\n*.w A 192.0.2.1\nv.w TXT x",
            &["d/main:5:1: name server b.v.w.z. has no address in the zone: add A or AAAA"],
        ),
        (
            "@ NS b.v.w\n*.w A 192.0.2.1\nx.b.v.w TXT x",
            &["d/main:5:1: name server b.v.w.z. has no address in the zone: add A or AAAA"],
        ),
        (
            "s NS ns.s\n*.s A 192.0.2.1",
            &["d/main:5:1: name server ns.s.z. lies within what it serves and has no address here"],
        ),
        (
            "@ NS b.y.\ns NS ns.s\ns NS b.y.",
            &["d/main:6:1: name server ns.s.z. lies within what it serves and has no address here"],
        ),
        (
            "s NS ns.s\nns.s A 192.0.2.1",
            &["s.z. 60 IN NS ns.s.z.", "ns.s.z. 60 IN A 192.0.2.1"],
        ),
    ]);
}

#[test]
fn a_zone_has_soa_and_ns_and_an_overlay_needs_neither() {
    let main: &[(&str, &[u8])] = &[("main", b"a 5 A 192.0.2.1")];
    let bad = read_files(main, Role::Zone).content.unwrap_err();
    assert_eq!(
        bad.to_string(),
        "d/main: the zone z. has no SOA\n\
         d/main: the zone z. has no NS at its top: secondaries refuse it"
    );
    let content = read_files(main, Role::Overlay).content.unwrap();
    assert_eq!(lines(&content), ["a.z. 5 IN A 192.0.2.1"]);
    assert!(content.soa.is_none());
    let missing = read_files(&[], Role::Zone).content.unwrap_err();
    assert_eq!(missing.to_string(), "d/main: cannot be read: no such file");
}

#[test]
fn owners_know_their_line() {
    let content = read_files(&[("main", TOP.as_bytes())], Role::Zone)
        .content
        .unwrap();
    let key = Name::parse("ns.z.").unwrap();
    let key = key.sort_key(&"z.".parse().unwrap()).unwrap();
    assert_eq!(
        content.spot(key.as_bytes()).unwrap().line_text(),
        "d/main:4"
    );
    assert!(content.get(key.as_bytes()).is_some());
    assert!(content.get(b"x\0").is_none());
}

/// Data of types with and without a text form of ours.
fn any_rdata() -> impl Strategy<Value = (Rtype, Rdata)> {
    let any_name = proptest::collection::vec(proptest::collection::vec(any::<u8>(), 1..9), 0..4);
    let any_name = any_name.prop_map(|labels| {
        labels.iter().fold(Name::root(), |name, label| {
            name.child_octets(label).unwrap()
        })
    });
    let octets = proptest::collection::vec(any::<u8>(), 0..40);
    let strings = proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..9), 1..4);
    let strings = strings.prop_map(|strings| {
        let wire: Vec<u8> = strings
            .iter()
            .flat_map(|string| [&[u8::try_from(string.len()).unwrap()][..], string].concat())
            .collect();
        Rdata::from_octets(&wire).unwrap()
    });
    prop_oneof![
        any::<[u8; 4]>().prop_map(|octets| Rdata::address(octets.into())),
        any::<[u8; 16]>().prop_map(|octets| Rdata::address(octets.into())),
        (
            any_name.clone(),
            prop_oneof![Just(Rtype::PTR), Just(Rtype(1000))]
        )
            .prop_map(|(name, rtype)| (rtype, Rdata::name(&name))),
        (any::<(u16, u16, u16)>(), any_name)
            .prop_map(|((a, b, c), name)| (Rtype::SRV, Rdata::srv(a, b, c, &name))),
        strings.prop_map(|rdata| (Rtype::TXT, rdata)),
        octets.prop_map(|octets| (Rtype(65280), Rdata::from_octets(&octets).unwrap())),
    ]
}

proptest! {
    /// Law: what we print is read as what it was.
    #[test]
    fn a_printed_record_reads_back(
        labels in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 1..20), 1..4),
        ttl in 0u32..=0x7fff_ffff,
        (rtype, rdata) in any_rdata(),
    ) {
        let owner = labels.iter().fold(Name::parse("z.").unwrap(), |name, label| {
            name.child_octets(label).unwrap()
        });
        let record = Record { owner, rtype, ttl: Ttl::decode(ttl), rdata };
        let text = RecordText(record.view()).to_string();
        let content = read_files(&[("main", text.as_bytes())], Role::Overlay).content;
        let content = content.map_err(|bad| TestCaseError::fail(format!("{text}\n{bad}")))?;
        prop_assert_eq!(lines(&content), vec![text]);
        let apex: Name = "z.".parse().unwrap();
        let node = &content.nodes()[0];
        let owner = node.owner_wire(&apex);
        let again = node.records(&owner, 0).next().unwrap().to_record();
        prop_assert_eq!(again.owner.as_wire(), record.owner.as_wire());
        prop_assert_eq!(again, record);
    }

    /// Whatever the octets: an answer, never a panic, and every problem has a place.
    #[test]
    fn any_text_is_read_or_refused_with_places(text in "([a-z@$.()\";\\\\ \n\t0-9#*]|IN|TXT|SOA|\\$GENERATE 1-2|\\$TTL){0,60}") {
        let reading = read_files(&[("main", text.as_bytes())], Role::Overlay);
        if let Err(bad) = reading.content {
            prop_assert!(bad.problems.iter().all(|problem| problem.spot.line > 0), "{}", bad);
        }
    }
}
