//! `hosts`: files and lines, both ways.

use super::case::{Case, case};

/// Lines of most kinds.
const FILE: &str = "# comment
10.0.0.1 one.test One-Alias.test # behind
10.0.0.2\ttwo.test  \tone.test
10.0.0.1 again.test
2001:db8::1 one.test six.test
fe80::1%eth0 link.test
::ffff:10.0.0.9 mapped.test
10.0.0.3
nonsense name.test
10.0.0 short.test
10.0.0.4 other.example plain
10.0.0.5 *.wild.test
2001:db8::5 *.wild6.test
10.0.0.6 real.wild.test
10.0.0.7 dot.test.
";

/// Questions for it.
const ASKED: &str = "
    one.test A
    ONE.test A
    one-alias.test A
    one.test AAAA
    one.test TXT
    one.test MX
    one.test HTTPS
    one.test SOA
    one.test ANY
    two.test A
    two.test AAAA
    six.test A
    six.test AAAA
    link.test AAAA
    mapped.test A
    mapped.test AAAA
    name.test A
    short.test A
    none.test A
    none.test TXT
    other.example A
    plain A
    a.wild.test A
    a.wild.test AAAA
    b.a.wild.test A
    wild.test A
    *.wild.test A
    real.wild.test A
    real.wild.test AAAA
    a.wild6.test AAAA
    a.wild6.test A
    dot.test A
    test A
    . A
    1.0.0.10.in-addr.arpa PTR
    2.0.0.10.in-addr.arpa PTR
    3.0.0.10.in-addr.arpa PTR
    5.0.0.10.in-addr.arpa PTR
    9.0.0.10.in-addr.arpa PTR
    0.0.10.in-addr.arpa PTR
    1.0.0.10.in-addr.arpa A
    1.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.8.b.d.0.1.0.0.2.ip6.arpa PTR
    one.test PTR
    one.test A +tcp
    one.test A +do
    ";

/// A case with the file.
const fn of_file(name: &'static str, lines: &'static str) -> Case {
    case(name, lines, ASKED).files(&[("hosts", FILE)])
}

pub const CASES: &[Case] = &[
    of_file("a file", "hosts DIR/hosts"),
    of_file("falls through", "hosts DIR/hosts {\n fallthrough\n}\nforward . UP1"),
    of_file("falls through for a zone", "hosts DIR/hosts {\n fallthrough wild.test in-addr.arpa\n}\nforward . UP1"),
    of_file("falls through to nobody", "hosts DIR/hosts {\n fallthrough\n}"),
    of_file("without fallthrough", "hosts DIR/hosts\nforward . UP1"),
    of_file("other types fall through", "hosts DIR/hosts {\n fallthrough\n fallthrough_unsupported\n}\nforward . UP1"),
    of_file("other types of a zone fall through", "hosts DIR/hosts {\n fallthrough two.test\n fallthrough_unsupported\n}\nforward . UP1"),
    of_file("no reverse", "hosts DIR/hosts {\n no_reverse\n fallthrough\n}\nforward . UP1"),
    of_file("ttl", "hosts DIR/hosts {\n ttl 60\n}"),
    of_file("largest ttl", "hosts DIR/hosts {\n ttl 65535\n fallthrough\n}\nforward . UP1"),
    of_file("zones", "hosts DIR/hosts test\nforward . UP1"),
    of_file("several zones", "hosts DIR/hosts wild.test example\nforward . UP1"),
    of_file("hosts for the zones of the block", "hosts DIR/hosts").zones("test in-addr.arpa"),
    of_file("a zone outside of the block", "hosts DIR/hosts nowhere\nforward . UP1"),
    of_file("a reverse zone", "hosts DIR/hosts 10.0.0.0/8 test\nforward . UP1"),
    of_file("file and lines", "hosts DIR/hosts {\n 10.9.0.1 one.test new.test\n 2001:db8::9 two.test\n fallthrough\n}\nforward . UP1"),
    case(
        "lines alone",
        "hosts DIR/none {\n 10.9.0.1 a.test b.test\n 10.9.0.2 a.test\n 2001:db8::9 a.test\n 10.9.0.3 *.c.test\n fallthrough\n}\nforward . UP1",
        "a.test A\na.test AAAA\nb.test A\nb.test AAAA\nx.c.test A\ny.x.c.test A\nother.test A\n1.0.9.10.in-addr.arpa PTR\n3.0.9.10.in-addr.arpa PTR\nb.test TXT",
    ),
    case(
        "lines without an address or a name",
        "hosts DIR/none {\n nonsense c.test\n 10.9.0.1\n 10.9.0.2 a.test\n fallthrough\n}\nforward . UP1",
        "a.test A\nc.test A\n2.0.9.10.in-addr.arpa PTR\n1.0.9.10.in-addr.arpa PTR",
    ),
    case(
        "lines without reverse",
        "hosts DIR/none {\n 10.9.0.1 a.test\n no_reverse\n ttl 9\n}\nforward . UP1",
        "a.test A\n1.0.9.10.in-addr.arpa PTR\nb.test A",
    ),
    case(
        "a file that changes",
        "hosts DIR/hosts {\n reload 200ms\n}",
        "a.test A\nwrite hosts 10.0.0.2 a.test\\n10.0.0.3 b.test\\n\nwait 700\na.test A\nb.test A\n2.0.0.10.in-addr.arpa PTR\n1.0.0.10.in-addr.arpa PTR",
    )
    .files(&[("hosts", "10.0.0.1 a.test\n")]),
    case(
        "a file that comes later",
        "hosts DIR/hosts {\n reload 200ms\n}",
        "a.test A\nwrite hosts 10.0.0.2 a.test\\n\nwait 700\na.test A",
    ),
    case(
        "a file that is not looked at again",
        "hosts DIR/hosts {\n reload 0\n}",
        "a.test A\nwrite hosts 10.0.0.22 a.test\\n\nwait 700\na.test A",
    )
    .files(&[("hosts", "10.0.0.1 a.test\n")]),
    case("an empty file", "hosts DIR/hosts {\n fallthrough\n}\nforward . UP1", "a.test A\n1.0.0.10.in-addr.arpa PTR").files(&[("hosts", "")]),
    case("a folder", "hosts DIR {\n fallthrough\n}\nforward . UP1", "a.test A"),
    case("names of one label", "hosts DIR/none {\n 10.0.0.1 a b\n}", "a A\nb A\nc A\n1.0.0.10.in-addr.arpa PTR\na.b A"),
    case(
        "another class",
        "chaos v\nhosts DIR/none {\n 10.0.0.1 a.test\n}",
        "a.test A CH != class: rcode 2 rd ? a.test. A 3",
    ),
    case("beside chaos and any", "any\nchaos v\nhosts DIR/none {\n 10.0.0.1 a.test\n}", "a.test ANY\nversion.bind TXT CH\na.test A"),
];
