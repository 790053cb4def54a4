//! Handlers together, several blocks and ports, and what is done to replies on their way out.

use super::case::{Case, case, with};

/// Three addresses and a mail exchanger.
macro_rules! three {
    ($more:literal) => {
        concat!(
            $more,
            "\ntemplate IN A test {\n answer \"{{ .Name }} 60 IN A 10.0.0.1\" \"{{ .Name }} 60 IN A 10.0.1.2\" \"{{ .Name }} 60 IN A 10.0.2.3\"\n}\n\
             template IN MX test {\n answer \"{{ .Name }} 60 IN MX 5 m1.{{ .Name }}\" \"{{ .Name }} 60 IN MX 5 m2.{{ .Name }}\"\n}"
        )
    };
}

pub const CASES: &[Case] = &[
    case("loadbalance", three!("loadbalance"), "a.test A\na.test MX\nb.test A +tcp\nx.org A"),
    case("loadbalance by its word", three!("loadbalance round_robin"), "times 20 a.test A\na.test MX"),
    case("loadbalance weighted", three!("loadbalance weighted DIR/weights"), "times 10 a.test A\na.test MX\nb.test A")
        .files(&[("weights", "a.test\n10.0.0.1 200\n10.0.1.2 1\n")]),
    case(
        "loadbalance prefer",
        three!("loadbalance round_robin {\n prefer 10.0.2.0/24 10.0.1.0/24\n}"),
        "a.test A\nb.test A",
    ),
    with("loadbalance of forwarded replies", "ok", "loadbalance\nforward . UP1", "rich.test MX +e=1232\ncname.test A\nbig.test TXT +tcp"),
    with("minimal", "ok", "minimal\nforward . UP1", "rich.test MX +e=1232\ncname.test A\nnx.test A\nnodata.test A\na.test A +do\nservfail.test A"),
    with("minimal and cache", "ok", "minimal\ncache 30\nforward . UP1", "rich.test MX +e=1232\nrich.test MX +e=1232\nnx.test A\nnx.test A\nrich.test SRV +tcp"),
    with("any", "ok", "any\nforward . UP1", "a.test ANY\na.test ANY +tcp\na.test ANY +do\na.test A\nnx.test ANY"),
    with("any behind the chain", "ok", "any\ncache 30\nacl {\n block type ANY\n}\nforward . UP1", "a.test ANY\na.test A"),
    case("whoami", "whoami", "Www.test A\nwww.test TXT +tcp\n. NS\nwww.test ANY +do\nwww.test A +from=127.0.0.9\nversion.bind TXT CH\nwww.test A +nord"),
    with("whoami behind others", "ok", "cache 30\nrewrite name a.test b.test\nhosts DIR/none {\n 10.0.0.1 host.test\n fallthrough\n}\nforward up.test UP1\nwhoami", "a.test A\nhost.test A\nwho.up.test A\nc.test SRV +tcp"),
    with("whoami and minimal", "ok", "minimal\nloadbalance\nwhoami", "a.test A\na.test A +e=1232"),
    with("header of replies", "ok", "header {\n response set aa\n response clear ra rd\n}\nforward . UP1", "a.test A\nnx.test A +tcp\nrich.test MX +e=1232\nservfail.test A\na.test A +nord"),
    with("header sets RD and RA", "ok", "header {\n response set RD ra\n}\nforward . UP1", "a.test A +nord\nnodata.test A\na.test A +do +cd"),
    with("header of queries", "ok", "header {\n query set rd\n}\nforward . UP1", "a.test A +nord\na.test A\nnx.test A +nord"),
    with("header clears RD of queries", "ok", "header {\n query clear rd\n}\nforward . UP1", "a.test A\nnx.test A +nord\nservfail.test A"),
    with("header of both, the last counts", "ok", "header {\n query set rd\n QUERY clear rd\n response set aa aa\n response clear aa\n response set ra\n}\nforward . UP1", "a.test A\na.test A +nord"),
    with("header and cache", "ok", "cache 30\nheader {\n response set aa rd\n}\nforward . UP1", "a.test A +nord\na.test A +nord\na.test A\nnx.test A +nord\nnx.test A +nord"),
    case("header of made replies", "header {\n response set ra\n response clear aa\n}\ntemplate IN A test {\n answer \"{{ .Name }} 60 IN A 10.0.0.1\"\n}\nhosts DIR/none {\n 10.0.0.1 a.org\n}", "a.test A\na.org A\nb.org A +nord\nversion.bind TXT CH"),
    with("header twice", "ok", "header {\n response set aa\n}\nheader {\n response set rd\n}\nforward . UP1", "a.test A +nord\na.test A"),
    with("cancel", "ok", "cancel\nforward . UP1", "a.test A\nnx.test A +tcp\nservfail.test A"),
    with("cancel of an upstream that says nothing", "silent", "cancel 300ms\nforward . UP1", "a.test A\nb.test A +tcp +do"),
    with("cancel twice, the last counts", "silent ok", "cancel 1h\ncancel 300ms\nforward no.test UP1\nforward . UP2", "a.no.test A\na.test A"),
    case("chaos", "chaos one-2.3 \"who\" \"and who\"", "version.bind TXT CH\nversion.server TXT CH\nauthors.bind TXT CH\nversion.bind A CH\nother.bind TXT CH\na.test TXT\nversion.bind TXT"),
    case("chaos with a version", "chaos v9\nacl {\n block type TXT\n}", "version.bind TXT CH\nversion.server TXT CH +tcp\nversion.bind TXT CH +e=1232"),
    with("bufsize 512", "ok", "bufsize 512\nforward . UP1", "big.test TXT +e=4096\nbig.test TXT +e=1232\nbig.test TXT +tcp\nfat.test TXT +e=4096\necho.test TXT +e=4096\na.test A +e=100"),
    with("bufsize 700", "ok", "bufsize 700\nforward . UP1", "big.test TXT +e=4096\nfat.test TXT +e=512\necho.test TXT +e=4096 +do\nrich.test MX +e=4096"),
    with("bufsize and cache", "ok", "bufsize 700\ncache 30\nforward . UP1", "big.test TXT +e=4096\nbig.test TXT +e=4096\nbig.test TXT +tcp\nbig.test TXT +tcp\nbig.test TXT +e=512 != cut: rcode 0 tc rd ra ? big.test. TXT 1 opt rcode+0 do=false"),
    with("nsid", "ok", "nsid a name\nforward . UP1", "a.test A +opt=3:\na.test A\na.test A +e=1232\nnx.test A +opt=3: +tcp"),
    with("local in front of the forwarder", "ok", "local\nforward . UP1", "localhost A\na.localhost AAAA\nlocalhost.a.test A\n1.0.0.127.in-addr.arpa PTR\n127.in-addr.arpa SOA\na.test A\nlocalhost NS"),
    with("local, cache and hosts", "ok", "local\ncache 30\nhosts DIR/none {\n 10.0.0.9 localhost a.test\n fallthrough\n}\nforward . UP1", "localhost A\na.test A\na.test A\nb.test A"),
    with("acl in front of the cache", "ok", "acl no.test {\n block\n}\ncache 30\nforward . UP1", "a.no.test A +do\na.test A\na.test A\nno.test AAAA +do"),
    with("acl by address", "ok", "acl {\n allow net 127.0.0.2\n block net 127.0.0.0/30\n}\nforward . UP1", "a.test A +do\na.test A +do +from=127.0.0.2\na.test A +do +from=127.0.0.3\na.test A +do +from=127.0.0.9 +tcp\na.test A +from=127.0.0.5"),
    with("acl drops", "ok", "acl {\n drop net 127.0.0.7\n filter net 127.0.0.8 type A\n}\nforward . UP1", "a.test A\na.test A +do +from=127.0.0.8\na.test AAAA +from=127.0.0.8"),
    with("two blocks on a port", "ok ok", "forward . UP1\n}\none.test:PORT0 {\n bind 127.0.0.1\n forward . UP2", "who.test A\nwho.one.test A\none.test A\nxone.test A\nwho.a.one.test A\nWHO.ONE.test A"),
    with("three blocks, one inside the other", "ok ok", "forward . UP1\n}\none.test:PORT0 {\n bind 127.0.0.1\n template IN A {\n  rcode REFUSED\n }\n}\na.one.test:PORT0 {\n bind 127.0.0.1\n forward . UP2", "who.test A\nwho.one.test A\nwho.a.one.test A\na.one.test A"),
    with("DS goes to the shortest key but the root", "ok", "forward . UP1\n}\none.test:PORT0 {\n bind 127.0.0.1\n template ANY ANY {\n  rcode REFUSED\n }\n}\na.one.test:PORT0 {\n bind 127.0.0.1\n template ANY ANY {\n  rcode NXDOMAIN\n }", "one.test DS\na.one.test DS\nx.a.one.test DS\nx.a.one.test A\nx.one.test A\nother.test DS\ntest DS"),
    with("directives that stand twice", "ok", "bufsize 700\nbufsize 4096\nchaos one a\nchaos two\nany\nany\nminimal\nminimal\nforward . UP1", "big.test TXT +e=4096\nversion.bind TXT CH\nauthors.bind TXT CH\na.test ANY\nrich.test MX +e=1232"),
    case(
        "loadbalance twice",
        three!("loadbalance {\n prefer 10.0.2.0/24\n}\nloadbalance {\n prefer 10.0.1.0/24\n}"),
        "a.test A\nb.test A",
    ),
    with("two ports", "ok ok", "forward . UP1\n}\n.:PORT1 {\n bind 127.0.0.1\n forward . UP2", "who.test A\nwho.test A @1\nwho.test A @1 +tcp"),
    with("one block on two ports", "ok", "forward . UP1\n}\na.test:PORT1 b.test:PORT2 {\n bind 127.0.0.1\n cache 30\n forward . UP1", "n.a.test A @1\nn.a.test A @1\nn.b.test A @2\nn.b.test A @1\nn.a.test A @2\nn.c.test A @1"),
    with("zones in a block with a path of ports", "ok", "forward . UP1\n}\n10.0.0.0/24:PORT1 {\n bind 127.0.0.1\n hosts DIR/none {\n  10.0.0.1 a.test\n  fallthrough\n }\n forward . UP1", "1.0.0.10.in-addr.arpa PTR @1\n2.0.0.10.in-addr.arpa PTR @1\n1.1.0.10.in-addr.arpa PTR @1\na.test A @1"),
    with("a block without handlers", "ok", "forward . UP1\n}\nempty.test:PORT0 {\n bind 127.0.0.1", "a.empty.test A\na.test A\na.empty.test A +e=1232 +tcp"),
    with("rewrite in front of everything", "ok", "rewrite name a.test b.test\nhosts DIR/none {\n 10.0.0.7 b.test\n fallthrough\n}\ncache 30\nforward . UP1", "a.test A\na.test A\nb.test A\nc.test A"),
    with("rewrite, then acl", "ok", "rewrite name suffix .out.test .in.test answer auto\nacl in.test {\n block type TXT\n}\nforward . UP1", "a.out.test TXT +do\na.out.test A\na.in.test TXT +do"),
    with("template in front of hosts", "ok", "template IN A a.test {\n answer \"{{ .Name }} 60 IN A 10.0.0.1\"\n}\nhosts DIR/none {\n 10.0.0.2 a.test b.test\n fallthrough\n}\nforward . UP1", "a.test A\nb.test A\na.test AAAA\nc.test A"),
    with("dns64 in front of the cache", "ok", "dns64 {\n allow_ipv4\n}\ncache 30\nforward . UP1", "n.test AAAA\nnodata.test AAAA\ntxt.test AAAA\na.test A"),
    with("health and ready beside", "ok", "health 127.0.0.1:PORT1\nready 127.0.0.1:PORT2\nforward . UP1", "a.test A"),
    with("metadata and rewrite", "ok", "metadata\nrewrite edns0 local set 0xffee {forward/upstream}\nforward . UP1", "echo.test TXT\necho.test TXT +e=1232"),
    with("edns0 of the client and ours", "ok", "rewrite edns0 local append 0xffee abc\nrewrite edns0 nsid set\nforward . UP1", "echo.test TXT +opt=65518:616263\necho.test TXT +e=1232\necho.test TXT != opt-unasked: rcode 0 rd ra ? echo.test. TXT 1 | echo.test. 0 1 TXT \"echo.test. flags=0100 tcp=false opt=Some((4096, false))+7\""),
    with("edns0 subnet", "ok", "rewrite edns0 subnet set 24 56\nforward . UP1", "echo.test TXT != opt-unasked: rcode 0 rd ra ? echo.test. TXT 1 | echo.test. 0 1 TXT \"echo.test. flags=0100 tcp=false opt=Some((4096, false))+11\"\necho.test TXT +e=1232\necho.test TXT +opt=8:000118000a0000\necho.test TXT +tcp != opt-unasked: rcode 0 rd ra ? echo.test. TXT 1 | echo.test. 0 1 TXT \"echo.test. flags=0100 tcp=true opt=Some((4096, false))+11\""),
    with("edns0 replace and unset", "ok", "rewrite continue edns0 local replace 0xffee xyzxyz\nrewrite edns0 local unset 0xffed\nforward . UP1", "echo.test TXT +opt=65518:616263\necho.test TXT +opt=65517:616263\necho.test TXT != opt-unasked: rcode 0 rd ra ? echo.test. TXT 1 | echo.test. 0 1 TXT \"echo.test. flags=0100 tcp=false opt=Some((4096, false))+0\""),
    with("options of neighbours are not passed on", "ok", "forward . UP1", "echo.test TXT +opt=10:0102030405060708 != neighbours: rcode 0 rd ra ? echo.test. TXT 1 | echo.test. 0 1 TXT \"echo.test. flags=0100 tcp=false opt=Some((1232, false))+0\" opt rcode+0 do=false\necho.test TXT +opt=65001:01\necho.test TXT +opt=12:0000 != neighbours: rcode 0 rd ra ? echo.test. TXT 1 | echo.test. 0 1 TXT \"echo.test. flags=0100 tcp=false opt=Some((1232, false))+0\" opt rcode+0 do=false"),
    with("metrics of forward and cache", "ok", "prometheus 127.0.0.1:PORT1\ncache 30\nforward . UP1", "a.test A\na.test A\nnx.test A\nnx.test A +tcp\nservfail.test A\nmetrics 1 coredns_cache_ coredns_forward_ coredns_proxy_request_duration_seconds_count"),
    with("metrics of the server", "ok", "prometheus 127.0.0.1:PORT1\nforward . UP1", "a.test A\na.test AAAA\nnx.test A +tcp\na.test TXT +do\nmetrics 1 coredns_dns_requests_total coredns_dns_responses_total coredns_dns_do_requests_total coredns_dns_request_size_bytes_count coredns_dns_response_size_bytes_count coredns_dns_request_duration_seconds_count"),
    with("metrics of health", "dead", "prometheus 127.0.0.1:PORT1\nforward . UP1 {\n max_connect_attempts 1\n max_fails 1\n}", "a.test A\nmetrics 1 coredns_dns_responses_total coredns_panics"),
    with("metrics of refusals", "slow700", "prometheus 127.0.0.1:PORT1\nforward . UP1 {\n max_concurrent 1\n}", "burst 3 a.test A\nmetrics 1 coredns_dns_responses_total"),
    with("metrics of acl", "ok", "prometheus 127.0.0.1:PORT1\nacl {\n block type TXT\n filter type MX\n}\nforward . UP1", "a.test TXT +do\na.test MX +do\na.test A\na.test TXT +do\nmetrics 1 coredns_acl_ coredns_dns_responses_total"),
    with("metrics of dns64 and template", "ok", "prometheus 127.0.0.1:PORT1\ndns64 {\n allow_ipv4\n}\ntemplate IN A t.test {\n answer \"{{ .Name }} 60 IN A 10.0.0.1\"\n}\nforward . UP1", "n.t.test AAAA\nn.t.test A\na.test A\nmetrics 1 coredns_template_ coredns_dns64_"),
    with("autopath of a file", "ok", "autopath test DIR/resolv.conf\nhosts DIR/none {\n 10.0.0.1 a.svc.test\n 10.0.0.2 b.test\n fallthrough\n}\ntemplate IN ANY test {\n rcode NXDOMAIN\n authority \"test. 60 IN SOA ns.test. host.test. 1 2 3 4 60\"\n}\nforward . UP1", "a.ns.svc.test A\nb.ns.svc.test A\na.ns.svc.test AAAA\nn.org.ns.svc.test A\nx.svc.test A\na.org A\ncname.org.ns.svc.test A")
        .files(&[("resolv.conf", "search ns.svc.test svc.test test\nnameserver 127.0.0.1\noptions ndots:5\n")]),
    with("autopath, a domain and no search", "ok", "autopath DIR/resolv.conf\ntemplate IN ANY test {\n rcode NXDOMAIN\n}\nforward . UP1", "a.test A\na.org A\na.org.test A")
        .files(&[("resolv.conf", "domain test\nnameserver 127.0.0.1\n")]),
    with("autopath of another zone", "ok", "autopath other DIR/resolv.conf\ntemplate IN ANY test {\n rcode NXDOMAIN\n}\nforward . UP1", "a.test A\na.org A\na.org.test A\na.org.ns.test A")
        .files(&[("resolv.conf", "search ns.test test\n")]),
    with("autopath, the upstream fails", "servfail", "autopath test DIR/resolv.conf\ntemplate IN ANY test {\n rcode NXDOMAIN\n}\nforward . UP1", "a.org.ns.test A\na.ns.test A +tcp")
        .files(&[("resolv.conf", "search ns.test test\n")]),
    with("autopath and cache", "ok", "autopath test DIR/resolv.conf\ncache 30\ntemplate IN ANY test {\n rcode NXDOMAIN\n authority \"test. 60 IN SOA ns.test. host.test. 1 2 3 4 60\"\n}\nforward . UP1", "n.org.ns.test A\nn.org.ns.test A\nn.org A\nseen 1")
        .files(&[("resolv.conf", "search ns.test test\n")]),
];
