//! Tests with master files as input, and records or places of faults as output.

mod faults;
mod print;

mod fuzz;

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;

use dns::{Rdata, Record, RecordText, Rtype, Ttl};
use proptest::prelude::*;

use super::*;

/// The start of every zone here.
const TOP: &str = "$TTL 60\n@ SOA ns.z. h.z. 1 2 3 4 5\n@ NS ns.z.\nns.z. A 192.0.2.53\n";

/// The result of [`read_files`].
struct Reading {
    content: Result<ZoneFile, BadFile>,
    /// The number of files that were opened.
    opened: usize,
}

/// Reads a zone `z.` from files in memory; the first is `d/main`.
fn read_files(files: &[(&str, &[u8])], role: Role) -> Reading {
    let files: BTreeMap<PathBuf, Vec<u8>> = files
        .iter()
        .map(|(name, text)| (Path::new("d").join(name), text.to_vec()))
        .collect();
    let mut opened = 0;
    let mut open = |path: &Path| {
        opened += 1;
        let known = files.get(path).cloned();
        known.ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "no such file"))
    };
    let content = read_with(
        Path::new("d/main"),
        &"z.".parse().unwrap(),
        role,
        None,
        &mut open,
    );
    Reading { content, opened }
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

/// The lines of a zone after [`TOP`], or its problems by line and column.
fn said(text: &str) -> Vec<String> {
    let text = format!("{TOP}{text}");
    match read_files(&[("main", text.as_bytes())], Role::Zone).content {
        Ok(content) => lines(&content),
        Err(bad) => bad.problems.iter().map(ToString::to_string).collect(),
    }
}

/// Checks a table of texts and their results.
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
        // RFC 1035 section 5.1: a name without a last dot is relative, even $ORIGIN's.
        (
            "$ORIGIN s\n$ORIGIN t\na A 192.0.2.1",
            &["a.t.s.z. 60 IN A 192.0.2.1"],
        ),
        ("$ORIGIN s\n@ MX 5 @", &["s.z. 60 IN MX 5 s.z."]),
        ("$origin s\nA CNAME b", &["A.s.z. 60 IN CNAME b.s.z."]),
        ("a SRV 1 2 3 @", &["a.z. 60 IN SRV 1 2 3 z."]),
    ]);
}

/// transfer D4: the gate found it, at the start, and `check` did not.
#[test]
fn a_record_that_no_message_has_room_for_is_a_problem_with_its_place() {
    let txt =
        |strings: usize| format!("big TXT{}", format!(" {}", "x".repeat(255)).repeat(strings));
    assert_eq!(said(&txt(253)).len(), 1);
    let problems = said(&format!("a A 192.0.2.1\n{}", txt(255)));
    let want = "a TXT record of big.z. has 65297 bytes, but a message has room for 65141";
    assert_eq!(problems, [format!("d/main:6:1: {want}")]);
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
        // $TTL comes before the TTL of the previous record (RFC 2308 section 4).
        (
            "a 5 A 192.0.2.1\nb A 192.0.2.1",
            &["a.z. 5 IN A 192.0.2.1", "b.z. 60 IN A 192.0.2.1"],
        ),
        // A class, a type and a TTL are owners in the place of an owner.
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
            &["a.z. 60 IN CAA 0 issue \"ca.example\""],
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
        let shown = said(&format!("a {text}"));
        assert!(shown[0].starts_with("a.z. 60 IN"), "{text}");
        assert_eq!(said(&shown[0]), shown, "what is written is read again");
    }
}

/// People read this form in the output of `render` and `show`, and so do the secondaries' tools.
#[test]
fn data_of_types_that_people_write_is_shown_as_they_write_it() {
    for text in [
        "CAA 128 issuewild \"ca.example; account=\\\"7\\\"\"",
        "SSHFP 1 1 012345",
        "TLSA 3 1 1 0123",
        "DS 1 13 2 0123",
        "DNSKEY 257 3 13 AQID",
        "HINFO \"a b\" \"c\"",
    ] {
        let shown = said(&format!("a {text}"));
        assert_eq!(shown, [format!("a.z. 60 IN {text}")]);
        assert_eq!(said(&shown[0]), shown);
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
            &["d/main:5:10: A: these bytes are not the data of A"],
        ),
        (
            "a MX \\# 4 0001c000",
            &["d/main:5:11: MX: these bytes are not the data of MX"],
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
            &["d/main:5:15: \"${9223372036854775807}\" of 1 is not between 0 and 4294967295"],
        ),
        (
            "$GENERATE 1-2",
            &["d/main:5:1: write: $GENERATE START-STOP[/STEP] OWNER [TTL] [CLASS] TYPE DATA"],
        ),
        (
            "$GENERATE 2-1 a A 192.0.2.$",
            &[
                "d/main:5:11: \"2-1\" is not a range: START is at most STOP, STOP at most 2147483647, STEP at least 1",
            ],
        ),
        // One problem for all records of the line.
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
    assert_eq!(reading.opened, 4);
}

/// conformance 2, conformance 3
#[test]
fn a_zone_without_ns_or_without_its_address_is_used_with_a_warning() {
    let read = |text: &str| {
        let text = format!("$TTL 60\n@ 7 SOA ns h 1 2 3 4 5\n{text}\n");
        let file = read_text("db", &text, &Name::parse("z.").unwrap(), Role::Zone).unwrap();
        let warnings = file.warnings.iter().map(ToString::to_string);
        (lines(&file), warnings.collect::<Vec<_>>())
    };
    let (records, warnings) = read("a A 192.0.2.1");
    assert_eq!(records, ["z. 7 IN NS ns.dns.z.", "a.z. 60 IN A 192.0.2.1"]);
    assert_eq!(
        warnings,
        [
            "db:2:1: the zone z. has no NS at its apex and is served with ns.dns.z.: add an NS",
            "db:2:1: name server ns.dns.z. has no address in the zone: add A or AAAA"
        ]
    );
    let lost = |server: &str| {
        format!("db:3:1: name server {server} has no address in the zone: add A or AAAA")
    };
    for (text, warnings) in [
        ("@ NS b", vec![lost("b.z.")]),
        ("@ NS b\nb A 192.0.2.1", vec![]),
        ("@ NS b.elsewhere.", vec![]),
        ("@ NS b.w\n*.w A 192.0.2.1", vec![]),
        // RFC 4592: a name below the wildcard's parent that exists hides the wildcard.
        (
            "@ NS b.v.w\n*.w A 192.0.2.1\nv.w TXT x",
            vec![lost("b.v.w.z.")],
        ),
        (
            "@ NS b.v.w\n*.w A 192.0.2.1\nx.b.v.w TXT x",
            vec![lost("b.v.w.z.")],
        ),
    ] {
        assert_eq!(read(text).1, warnings, "{text}");
    }
}

#[test]
fn a_zone_has_a_soa_and_an_overlay_needs_none() {
    let main: &[(&str, &[u8])] = &[("main", b"a 5 A 192.0.2.1")];
    let bad = read_files(main, Role::Zone).content.unwrap_err();
    assert_eq!(bad.to_string(), "d/main: the zone z. has no SOA");
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
