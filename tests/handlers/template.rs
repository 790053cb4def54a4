//! `template`: what is chosen, what is made of the question, what is not.

use super::case::{Case, case};

pub const CASES: &[Case] = &[
    case(
        "template name",
        "template IN A {\n answer \"{{ .Name }} 60 IN A 10.0.0.1\"\n}",
        "a.test A\na.test AAAA\nx.y.test A +tcp",
    ),
    case(
        "template no IPv6",
        "template ANY AAAA {\n rcode NXDOMAIN\n}\ntemplate IN A {\n answer \"{{ .Name }} 1 IN A 10.0.0.2\"\n}",
        "a.test AAAA\na.test A",
    ),
    case(
        "template groups",
        "template IN A test {\n match \"^ip-(?P<a>[0-9]*)-(?P<b>[0-9]*)-(?P<c>[0-9]*)-(?P<d>[0-9]*)[.]test[.]$\"\n \
         answer \"{{ .Name }} 60 IN A {{ .Group.a }}.{{ .Group.b }}.{{ .Group.c }}.{{ .Group.d }}\"\n}",
        "ip-10-95-12-8.test A\nip-300-1-1-1.test A\nno.test A",
    ),
    case(
        "template groups by number",
        "template IN A test {\n match ^([a-z]+)-([0-9]+)[.]test[.]$\n \
         answer \"{{ .Name }} 60 IN A 10.0.0.{{ index .Match 2 }}\"\n fallthrough\n}\n\
         template IN A {\n answer \"{{ .Name }} 5 IN A 192.0.2.1\"\n}",
        "a-7.test A\nb.test A",
    ),
    case(
        "template patterns in order",
        "template IN TXT {\n match ^a ^b\n match ^c\n answer \"{{ .Name }} 60 IN TXT \\\"{{ .Regex }}\\\"\"\n fallthrough\n}\n\
         template IN TXT {\n answer \"{{ .Name }} 60 IN TXT none\"\n}",
        "a.test TXT\nb.test TXT\nc.test TXT\nd.test TXT",
    ),
    case(
        "template fields",
        "template ANY ANY {\n answer \"{{ .Name }} 60 IN TXT \\\"{{ .Zone }} {{ .Class }} {{ .Type }} {{ .Remote }}\\\"\"\n}",
        "a.test TXT\na.test A\na.test SRV",
    ),
    case(
        "template question and message",
        "template IN ANY {\n answer \"{{ .Name }} 60 IN TXT \\\"{{ .Question.Name }} {{ .Question.Qtype }} {{ .Question.Qclass }} {{ .Message.RecursionDesired }} {{ .Message.CheckingDisabled }}\\\"\"\n}",
        "a.test TXT\na.test A +nord\na.test MX +cd != checking-disabled: rcode 0 aa rd ? a.test. MX 1 | a.test. 60 1 TXT \"a.test. 15 1 true true\"",
    ),
    case(
        "template no group",
        "template IN TXT {\n match ^(a)(x)?\n answer \"{{ .Name }} 60 IN TXT \\\"{{ .Group.none }}{{ index .Group `9` }}{{ index .Match 2 }}\\\"\"\n}",
        "a.test TXT\nax.test TXT",
    ),
    case(
        "template parseInt",
        "template IN A {\n match ^x([0-9a-f]{2})\n answer \"{{ .Name }} 60 IN A 10.0.0.{{ parseInt (index .Match 1) 16 8 }}\"\n}",
        "xff.test A\nx07.test A\nxzz.test A",
    ),
    case(
        "template if and variables",
        "template IN A {\n answer \"{{ $n := .Name }}{{ if eq $n `a.test.` }}{{ $n }} 1 IN A 10.0.0.1{{ else if eq .Type `A` }}{{ $n }} 2 IN A 10.0.0.2{{ end }}\"\n}",
        "a.test A\nb.test A",
    ),
    case(
        "template printf",
        "template IN TXT {\n answer \"{{ .Name }} 60 IN TXT {{ printf `%03d-%s-%x` (parseInt `7` 10 8) .Type 255 }}\"\n}",
        "a.test TXT",
    ),
    case(
        "template sections",
        "template IN MX test {\n answer \"{{ .Name }} 60 IN MX 10 mx.test.\"\n additional \"mx.test. 60 IN A 10.0.0.9\" \"mx.test. 60 IN AAAA fd00::9\"\n \
         authority \"{{ .Zone }} 60 IN NS ns.test.\"\n}",
        "a.test MX\na.test A",
    )
    .zones("test"),
    case(
        "template several answers",
        "template IN A {\n answer \"{{ .Name }} 60 IN A 10.0.0.1\" \"{{ .Name }} 60 IN A 10.0.0.2\"\n answer \"{{ .Name }} 60 IN A 10.0.0.3\"\n}",
        "a.test A",
    ),
    case(
        "template zones",
        "template IN A a.test b.test {\n answer \"{{ .Name }} 60 IN TXT \\\"{{ .Zone }}\\\"\"\n}\ntemplate IN A test {\n rcode NXDOMAIN\n}",
        "x.a.test A\nb.test A\nc.test A\nx.org A",
    ),
    case(
        "template no fallthrough",
        "template IN A test {\n match ^a\n answer \"{{ .Name }} 60 IN A 10.0.0.1\"\n}\ntemplate IN A {\n answer \"{{ .Name }} 60 IN A 10.0.0.2\"\n}",
        "a.test A\nb.test A\nb.org A",
    ),
    case(
        "template fallthrough of zones",
        "template IN A test {\n match ^a\n answer \"{{ .Name }} 60 IN A 10.0.0.1\"\n fallthrough x.test\n}\ntemplate IN A {\n answer \"{{ .Name }} 60 IN A 10.0.0.2\"\n}",
        "a.test A\nb.test A\nb.x.test A",
    ),
    case(
        "template codes",
        "template IN A a.test {\n rcode NXDOMAIN\n authority \"test. 60 IN SOA ns.test. hostmaster.test. (1 60 60 60 60)\"\n}\n\
         template IN A b.test {\n rcode SERVFAIL\n}\ntemplate IN A c.test {\n rcode REFUSED\n}\ntemplate IN A d.test {\n rcode NOTIMP\n}",
        "a.test A\nb.test A\nc.test A\nd.test A\ne.test A",
    ),
    case(
        "template alias followed",
        "template IN ANY a.test {\n answer \"{{ .Name }} 60 IN CNAME b.test.\"\n}\ntemplate IN A b.test {\n answer \"{{ .Name }} 60 IN A 10.0.0.1\"\n}",
        "a.test A\na.test AAAA\na.test TXT\na.test CNAME",
    ),
    case(
        "template alias in a circle",
        "template IN A {\n match ^a\n answer \"{{ .Name }} 60 IN CNAME x{{ .Name }}\"\n fallthrough\n}\ntemplate IN A {\n rcode NXDOMAIN\n}",
        "a.test A",
    ),
    case(
        "template default TTL and relative names",
        "template IN CNAME {\n answer \"{{ .Name }} CNAME other\"\n}",
        "a.test CNAME",
    ),
    case(
        "template ANY",
        "template IN TXT {\n answer \"{{ .Name }} 60 {{ .Class }} {{ .Type }} x\"\n}",
        "a.test TXT\na.test ANY",
    ),
    case(
        "template trims",
        "template IN A {\n answer \"{{- .Name -}}   {{/* nothing */}} 60 IN A 10.0.0.1\"\n}",
        "a.test A",
    ),
    case(
        "template ederror",
        "template IN A {\n rcode NXDOMAIN\n ederror 21 \"Blocked according to ICP2\"\n}",
        "a.test A +do",
    ),
];
