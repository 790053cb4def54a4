//! `rewrite`: every field, every kind of rule, with and without what is done to the reply.

use super::case::{Case, case};

/// Case and the chain behind the rules: what is asked comes back as text, and under `alias.test` aliases.
macro_rules! rules {
    ($($name:literal: $rules:literal => $script:literal;)*) => {
        &[$(case(
            concat!("rewrite ", $name),
            concat!(
                $rules,
                "\ntemplate IN A alias.test {\n answer \"{{ .Name }} 60 IN CNAME target.test.\"\n}",
                "\ntemplate IN A gone.test {\n rcode NXDOMAIN\n authority \"gone.test. 30 IN SOA a.gone.test. b.gone.test. 1 2 3 4 5\"\n}",
                "\ntemplate IN A refused.test {\n rcode REFUSED\n}",
                "\ntemplate IN A fail.test {\n rcode SERVFAIL\n}",
                "\ntemplate IN A {\n answer \"{{ .Name }} 60 IN A 10.0.0.1\"\n}",
                "\ntemplate IN TXT {\n answer \"{{ .Name }} 60 IN TXT \\\"{{ .Type }}\\\"\"\n}",
                "\ntemplate IN AAAA {\n answer \"{{ .Name }} 60 IN AAAA fd00::1\"\n}",
                "\ntemplate IN SRV {\n answer \"{{ .Name }} 60 IN SRV 1 2 3 srv.{{ .Name }}\"\n additional \"srv.{{ .Name }} 60 IN A 10.0.0.2\"\n}",
                "\ntemplate IN MX {\n answer \"{{ .Name }} 60 IN MX 10 mx.{{ .Name }}\"\n authority \"{{ .Name }} 60 IN NS ns.{{ .Name }}\"\n}",
                "\ntemplate IN CNAME {\n answer \"{{ .Name }} 60 IN CNAME c.{{ .Name }}\"\n}",
                "\ntemplate IN PTR {\n answer \"{{ .Name }} 60 IN PTR p.{{ .Name }}\"\n}",
                "\ntemplate IN NS {\n answer \"{{ .Name }} 60 IN NS n.{{ .Name }}\"\n}",
                "\ntemplate IN SOA {\n answer \"{{ .Name }} 60 IN SOA m.{{ .Name }} r.{{ .Name }} 1 2 3 4 5\"\n}"
            ),
            $script
        ),)*]
    };
}

pub const CASES: &[Case] = rules! {
    "two words": "rewrite name a.test b.test" => "a.test A\nb.test A\nx.a.test A\na.test SRV\na.test MX";
    "exact": "rewrite name exact a.test b.test" => "a.test A\na.test SRV\na.test MX\na.test CNAME\na.test PTR\na.test NS\na.test SOA";
    "exact without dot": "rewrite name exact a.test. b.test" => "a.test TXT\na.test A +tcp";
    "exact in capitals": "rewrite name exact A.Test B.Test" => "a.test TXT\na.test SRV";
    "exact to below": "rewrite name exact a.test x.a.test" => "a.test SRV\na.test MX\na.test A";
    "exact to above": "rewrite name exact x.a.test a.test" => "x.a.test SRV\nx.a.test MX";
    "exact with answer name": "rewrite name exact a.test b.test answer name (.*)b\\.test {1}c.test" => "a.test A\na.test SRV";
    "exact with answer value": "rewrite name exact a.test b.test answer value (.*)\\.b\\.test {1}.c.test" => "a.test SRV\na.test MX\na.test A";
    "exact with answer auto": "rewrite name exact a.test b.test answer auto" => "a.test A\na.test SRV";
    "prefix": "rewrite name prefix a. b." => "a.test A\na.test SRV\nab.test A\nx.a.test A";
    "prefix with answer auto": "rewrite name prefix a. b. answer auto" => "a.test A\na.test SRV\na.test MX";
    "prefix without dot": "rewrite name prefix pre- post-" => "pre-a.test A\npre-.test A";
    "prefix of labels": "rewrite name prefix a.b. c." => "a.b.test A\na.bc.test A\na.b.test SRV";
    "prefix to longer": "rewrite name prefix a. x.y.z. answer auto" => "a.test A\na.test SRV";
    "suffix": "rewrite name suffix .test .org" => "a.test A\nb.a.test SRV\ntest A\na.test MX";
    "suffix with answer auto": "rewrite name suffix .test .org answer auto" => "a.test A\na.test SRV\na.test MX\na.test CNAME\na.test SOA";
    "suffix within a label": "rewrite name suffix est.test oo.test" => "best.test A\nest.test A\nbest.test SRV";
    "suffix within a label, auto": "rewrite name suffix est.test oo.test answer auto" => "best.test A\nest.test SRV\nwest.test MX";
    "suffix with answer value": "rewrite name suffix .test .org answer value (.*)\\.org {1}.net" => "a.test SRV\na.test MX\na.test A";
    "suffix with both answers": "rewrite name suffix .test .org answer name (.*)\\.org {1}.test answer value (.*)\\.org {1}.net" => "a.test SRV\na.test MX\na.test PTR";
    "suffix auto with value": "rewrite name suffix .test .org answer auto answer value (.*)\\.test {1}.net" => "a.test SRV\na.test MX";
    "suffix of the root": "rewrite name suffix . .x. answer auto" => "a.test A\na.test SRV";
    "substring": "rewrite name substring mid. www." => "a.mid.test A\nmid.mid.test A\namid.test A\nmid.test SRV";
    "substring without dot": "rewrite name substring mid www" => "amidst.test A\na.mid.test A";
    "substring with answer auto": "rewrite name substring mid. www. answer auto" => "a.mid.test A\na.mid.test SRV\nmid.test MX";
    "substring with answer name": "rewrite name substring mid. www. answer name (.*)www\\.(.*)\\. {1}mid.{2}" => "a.mid.test A\na.mid.test SRV";
    "regex": "rewrite name regex (.*)\\.test {1}.org" => "a.test A\na.b.test SRV\ntest A";
    "regex unanchored": "rewrite name regex es found.org" => "a.test A\nx.org A";
    "regex anchored": "rewrite name regex ^([a-z]+)\\.test\\.$ {1}.org" => "a.test A\na.b.test A\na1.test A";
    "regex with groups turned": "rewrite name regex ([a-z]+)-([a-z]+)\\.test {2}.{1}.org" => "one-two.test A\none-two.test SRV";
    "regex with a group twice": "rewrite name regex ([a-z]+)\\.test {1}.{1}.org" => "a.test A";
    "regex with answer auto": "rewrite name regex (.*)\\.test {1}.org answer auto" => "a.test A\na.test SRV\na.test MX\nb.a.test CNAME";
    "regex with answer name": "rewrite name regex (.*)\\.test\\. {1}.org answer name (.*)\\.org {1}.test" => "a.test A\na.test SRV\na.test MX";
    "regex with answer value": "rewrite name regex (.*)\\.test\\. {1}.org answer value (.*)\\.org {1}.test" => "a.test SRV\na.test MX";
    "regex with both answers": "rewrite name regex (.*)\\.test\\. {1}.org answer name (.*)\\.org {1}.test answer value (.*)\\.org {1}.test" => "a.test SRV\na.test MX\na.test SOA";
    "regex with the word once": "rewrite name regex (.*)\\.test\\. {1}.org answer name (.*)\\.org {1}.test value (.*)\\.org {1}.test" => "a.test SRV\na.test MX";
    "regex with classes": "rewrite name regex ^(\\w+)\\.(\\d+)\\.test {2}.{1}.org" => "a.12.test A\na.b.test A";
    "regex with choice": "rewrite name regex ^(a|bb)\\.test w-{1}.org" => "a.test A\nbb.test A\nb.test A";
    "regex without case": "rewrite name regex (?i)^A\\.TEST b.org" => "a.test A";
    "regex not greedy": "rewrite name regex ^(.*?)\\.(.*)\\.test {2}.{1}" => "a.b.c.test A";
    "regex of an optional group": "rewrite name regex ^(a)(x)?\\.test {1}{2}.org" => "a.test A\nax.test A";
    "stop is the default": "rewrite name a.test b.test\nrewrite name b.test c.test" => "a.test A\nb.test A\na.test SRV";
    "stop": "rewrite stop name a.test b.test\nrewrite name b.test c.test" => "a.test A\na.test SRV";
    "continue": "rewrite continue name a.test b.test\nrewrite name b.test c.test" => "a.test A\na.test SRV\na.test MX";
    "continue three times": "rewrite continue name a.test b.test\nrewrite continue name b.test c.test\nrewrite continue name c.test d.test" => "a.test A\na.test SRV\nb.test A";
    "continue with answers": "rewrite continue name suffix .test .org answer auto\nrewrite name suffix .org .net answer auto" => "a.test A\na.test SRV\na.test MX";
    "continue that does not fit": "rewrite continue name x.test b.test\nrewrite name a.test c.test" => "a.test A\nx.test A";
    "block": "rewrite {\n name exact a.test b.test\n}" => "a.test A\na.test SRV";
    "block with stop": "rewrite stop {\n name suffix .test .org\n answer name (.*)\\.org {1}.test\n}" => "a.test A\na.test SRV";
    "block with answers": "rewrite continue {\n name regex (.*)\\.test\\. {1}.org\n answer name (.*)\\.org {1}.test\n answer value (.*)\\.org {1}.test\n}" => "a.test A\na.test SRV";
    "words in capitals": "rewrite CONTINUE NAME EXACT a.test b.test" => "a.test A";
    "type": "rewrite type AAAA A" => "a.test AAAA\na.test A";
    "type ANY": "rewrite type ANY TXT" => "a.test ANY\na.test TXT";
    "type in small letters": "rewrite type txt a" => "a.test TXT";
    "type, then name": "rewrite stop type TXT A\nrewrite name a.test b.test" => "a.test TXT\na.test A";
    "ttl exact": "rewrite ttl exact a.test 5" => "a.test A\nb.test A\na.test SRV\na.test MX";
    "ttl of two words": "rewrite ttl a.test 5" => "a.test A\nx.a.test A";
    "ttl prefix": "rewrite ttl prefix a. 5" => "a.test A\nb.a.test A";
    "ttl suffix": "rewrite ttl suffix .test 7" => "a.test A\ntest A\na.org A";
    "ttl substring": "rewrite ttl substring mid. 5" => "a.mid.test A\na.test A";
    "ttl regex": "rewrite ttl regex ^[a-c]\\. 5" => "a.test A\nd.test A";
    "ttl range": "rewrite ttl regex .* 10-30" => "a.test A\ngone.test A";
    "ttl range above": "rewrite ttl regex .* 100-300" => "a.test A";
    "ttl least": "rewrite ttl regex .* 90-" => "a.test A\ngone.test A";
    "ttl most": "rewrite ttl regex .* -20" => "a.test A\ngone.test A";
    "ttl zero": "rewrite ttl regex .* 0" => "a.test A";
    "ttl of a rewritten name": "rewrite continue name a.test b.test\nrewrite ttl b.test 5" => "a.test A\nb.test A";
    "two ttls": "rewrite continue ttl regex .* 5-10\nrewrite continue ttl regex .* 20-30" => "a.test A";
    "rcode by name": "rewrite rcode exact gone.test NXDOMAIN NOERROR" => "gone.test A\nx.gone.test A";
    "rcode by number": "rewrite rcode gone.test 3 0" => "gone.test A";
    "rcode suffix": "rewrite rcode suffix gone.test NXDOMAIN REFUSED" => "x.gone.test A\ngone.test A\na.test A";
    "rcode prefix": "rewrite rcode prefix x. NXDOMAIN NOERROR" => "x.gone.test A\ngone.test A";
    "rcode substring": "rewrite rcode substring gone. NXDOMAIN SERVFAIL" => "x.gone.test A";
    "rcode regex": "rewrite rcode regex .*gone.* nxdomain noerror" => "x.gone.test A\na.test A";
    "rcode of a failure": "rewrite rcode fail.test SERVFAIL NXDOMAIN" => "fail.test A";
    "rcode of a failure to none": "rewrite rcode fail.test SERVFAIL NOERROR" => "fail.test A";
    "rcode of a refusal": "rewrite rcode refused.test REFUSED NXDOMAIN" => "refused.test A";
    "rcode that leads on": "rewrite continue rcode gone.test NXDOMAIN SERVFAIL\nrewrite continue rcode gone.test SERVFAIL REFUSED" => "gone.test A";
    "rcode of what is no answer": "rewrite rcode regex .* SERVFAIL NXDOMAIN" => "a.test HINFO\na.test A";
    "cname exact": "rewrite cname exact target.test. other.test." => "alias.test A\na.test A";
    "cname of two words": "rewrite cname target.test other.test" => "alias.test A";
    "cname prefix": "rewrite cname prefix tar ot" => "alias.test A";
    "cname suffix": "rewrite cname suffix .test. .org." => "alias.test A";
    "cname substring": "rewrite cname substring arg orr" => "alias.test A";
    "cname regex": "rewrite cname regex ^t(.*)\\.test\\.$ x{1}.org." => "alias.test A";
    "cname of others": "rewrite cname exact x.test other.test" => "alias.test A";
    "cname to what is gone": "rewrite cname exact target.test gone.test" => "alias.test A";
    "cname to a failure": "rewrite cname exact target.test fail.test" => "alias.test A";
    "cname and name": "rewrite continue name a.test alias.test\nrewrite cname exact target.test. other.test." => "a.test A\nalias.test A";
    "edns0 local": "rewrite edns0 local set 0xffee 0x0102 revert" => "a.test A +e=1232\na.test A +do";
    "edns0 nsid and name": "rewrite continue edns0 nsid set revert\nrewrite name a.test b.test" => "a.test A +e=1232";
    "edns0 stops": "rewrite edns0 subnet set 24 56 revert\nrewrite name a.test b.test" => "a.test A +e=1232";
    "edns0 replace of nothing": "rewrite edns0 local replace 0xffee 1\nrewrite name a.test b.test" => "a.test A +e=1232";
    "edns0 unset": "rewrite continue edns0 nsid unset\nrewrite name a.test b.test" => "a.test A +e=1232";
    "invalid name": "rewrite name regex ^bad\\.(.*) ..{1}" => "bad.test A\na.test A";
    "too long a label": "rewrite name regex ^long\\.(.*) aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa.{1}" => "long.test A";
};
