//! Tests of faults, each with its place.

use super::*;

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
         d/main:7:14: \"c\" is one word too many; write: $INCLUDE FILE [ORIGIN]"
    );
    let names: Vec<String> = (0..12).map(|at| format!("f{at}")).collect();
    let texts: Vec<String> = (1..=12).map(|at| format!("$INCLUDE f{at}\n")).collect();
    let pairs = names.iter().zip(&texts);
    let mut files: Vec<(&str, &[u8])> = pairs
        .map(|(name, text)| (name.as_str(), text.as_bytes()))
        .collect();
    files.push(("main", b"$INCLUDE f0\n"));
    let reading = read_files(&files, Role::Overlay);
    assert_eq!(
        reading.content.unwrap_err().to_string(),
        "d/f9:1:10: not included: the limits are 10 levels of files, and 1000 files in all"
    );
    assert_eq!(reading.opened, 11);
}

#[test]
fn a_file_that_includes_itself_is_said_once() {
    let text = format!("{TOP}$INCLUDE ./main\n$INCLUDE other\n$INCLUDE twice\n$INCLUDE twice\n");
    let files: [(&str, &[u8]); 3] = [
        ("main", text.as_bytes()),
        ("other", b"$INCLUDE main\n"),
        ("twice", b"a A 192.0.2.1\n"),
    ];
    let bad = read_files(&files, Role::Zone).content.unwrap_err();
    assert_eq!(
        bad.to_string(),
        "d/main:5:10: d/./main includes itself\nd/other:1:10: d/main includes itself"
    );
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
            &["d/main:5:15: A: \"x\" is one word too many: the data is complete"],
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
        (
            "a AXFR x",
            &["d/main:5:3: a zone cannot hold records of type AXFR"],
        ),
        (
            "a CH A x",
            &["d/main:5:3: class CH is not supported: only IN is"],
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
            &["d/main:5:11: SOA: \"x\" is not a serial: write a number up to 4294967295"],
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
            &[
                "d/main:6:1: a.z. has a CNAME at d/main:5:1 and A here: an alias has no other records",
            ],
        ),
        (
            "a CNAME b\nA CNAME c",
            &[
                "d/main:6:1: a.z. has a CNAME at d/main:5:1 and CNAME here: an alias has no other records",
            ],
        ),
        ("a CNAME b\na CNAME b", &["a.z. 60 IN CNAME b.z."]),
        (
            "@ CNAME b",
            &["d/main:5:1: z. is the apex of the zone: it cannot be an alias"],
        ),
        (
            "a NSEC b A",
            &[
                "d/main:3:1: z. is signed and has no DNSKEY that signs zones at its apex",
                "d/main:3:1: z. has no NSEC",
                "d/main:5:1: the NSEC of a.z. leads to b.z., and the next name is ns.z.",
                "d/main:4:1: ns.z. has no NSEC",
            ],
        ),
        (
            "*.a NS b",
            &["d/main:5:1: *.a.z. is a wildcard: it cannot be delegated"],
        ),
        (
            "@ NS b.w\n*.w A 192.0.2.1",
            &["z. 60 IN NS b.w.z.", "*.w.z. 60 IN A 192.0.2.1"],
        ),
        (
            "s NS ns.s\n*.s A 192.0.2.1",
            &["d/main:5:1: name server ns.s.z. is below the delegation and has no address here"],
        ),
        (
            "@ NS b.y.\ns NS ns.s\ns NS b.y.",
            &["d/main:6:1: name server ns.s.z. is below the delegation and has no address here"],
        ),
        (
            "s NS ns.s\nns.s A 192.0.2.1",
            &["s.z. 60 IN NS ns.s.z.", "ns.s.z. 60 IN A 192.0.2.1"],
        ),
    ]);
}

/// RFC 6672 section 2.4.
#[test]
fn a_dname_is_alone_among_aliases_and_has_no_names_below_it() {
    check(&[
        ("a DNAME b\na DNAME b", &["a.z. 60 IN DNAME b.z."]),
        (
            "a DNAME b\nA DNAME c",
            &["d/main:6:1: a.z. has a DNAME at d/main:5:1 and another one here"],
        ),
        (
            "a DNAME b\na NS c",
            &["d/main:6:1: a.z. has a DNAME at d/main:5:1 and NS here: remove one of them"],
        ),
        (
            "a CNAME b\na DNAME b",
            &[
                "d/main:6:1: a.z. has a CNAME at d/main:5:1 and DNAME here: an alias has no other records",
            ],
        ),
        (
            "x.y.a A 192.0.2.1\na DNAME b\na A 192.0.2.1\nb.a TXT x\nb.a TXT y\nab TXT z",
            &[
                "d/main:5:1: x.y.a.z. is below the DNAME of a.z. at d/main:6:1, which redirects it: remove one of them",
                "d/main:8:1: b.a.z. is below the DNAME of a.z. at d/main:6:1, which redirects it: remove one of them",
            ],
        ),
        (
            "@ DNAME y.\nb TXT x",
            &[
                "d/main:4:1: ns.z. is below the DNAME of z. at d/main:5:1, which redirects it: remove one of them",
                "d/main:6:1: b.z. is below the DNAME of z. at d/main:5:1, which redirects it: remove one of them",
            ],
        ),
    ]);
}
