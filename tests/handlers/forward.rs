//! `forward`: upstreams that answer, fail, are slow, silent or gone.

use super::case::{Case, case, with};

/// Questions of all kinds to an upstream that is well.
const KINDS: &str = "
    a.test A
    a.test AAAA +do
    a.test TXT +cd
    a.test A +ad
    a.test A +nord
    a.test A +tcp
    a.test MX +e=1232
    A.TeSt A
    cname.test A
    rich.test MX +e=1232
    nx.test A
    nodata.test A +e=4096
    nxbare.test A
    servfail.test A
    refused.test A
    notimp.test A
    formerr.test A
    yxdomain.test A +e=512
    aa.test A
    ad.test A
    ad.test A +do
    echo.test TXT
    echo.test TXT +nord
    echo.test TXT +cd
    echo.test TXT +ad +tcp
    echo.test TXT +do
    EcHo.TeSt TXT
    a.test HINFO
    a.test HTTPS
    a.test DS +do
    . NS
    a.test A CH
    ";

pub const CASES: &[Case] = &[
    case("all kinds of answers", "forward . UP1", KINDS),
    case(
        "all kinds over tcp",
        "forward . UP1 {\n force_tcp\n}",
        KINDS,
    ),
    case(
        "all kinds preferring udp",
        "forward . UP1 {\n prefer_udp\n}",
        KINDS,
    ),
    case(
        "both, tcp wins",
        "forward . UP1 {\n prefer_udp\n force_tcp\n}",
        "echo.test TXT\necho.test TXT +tcp",
    ),
    case(
        "the size that is asked for",
        "forward . UP1",
        "echo.test TXT +e=4096 != datagram: rcode 0 rd ra ? echo.test. TXT 1 | echo.test. 0 1 TXT \"echo.test. flags=0100 tcp=false opt=Some((1232, false))+0\" opt rcode+0 do=false\necho.test TXT +e=1000\necho.test TXT +e=300\necho.test TXT +tcp +e=512",
    ),
    case(
        "the size that is asked for over tcp",
        "forward . UP1 {\n force_tcp\n}",
        "echo.test TXT +e=4096 != datagram: rcode 0 rd ra ? echo.test. TXT 1 | echo.test. 0 1 TXT \"echo.test. flags=0100 tcp=true opt=Some((1232, false))+0\" opt rcode+0 do=false\necho.test TXT +e=1000",
    ),
    case("dns scheme", "forward . dns://UP1", "a.test A\nwho.test A"),
    case(
        "truncation",
        "forward . UP1",
        "big.test TXT\nbig.test TXT +e=1232\nbig.test TXT +e=4096 != datagram: rcode 0 tc rd ra ? big.test. TXT 1 opt rcode+0 do=false\nbig.test TXT +tcp\nfat.test TXT\nfat.test TXT +e=1232\n\
         fat.test TXT +tcp\ntcset.test A\ntcset.test A +tcp\nseen 1",
    ),
    case(
        "truncation, preferring udp",
        "forward . UP1 {\n prefer_udp\n}",
        "tcset.test A\ntcset.test A +tcp\nbig.test TXT +e=4096 != datagram: rcode 0 tc rd ra ? big.test. TXT 1 opt rcode+0 do=false\nbig.test TXT +tcp\nseen 1 != datagram: [4, 4]",
    ),
    case(
        "replies that are wrong",
        "forward . UP1",
        "wrongq.test A != forged: rcode 2 rd ? wrongq.test. A 1\nwrongid.test A\nshort.test A +tcp\nwrongq.test A +tcp\nwrongid.test A +tcp\na.test A",
    ),
    case(
        "garbage",
        "forward . UP1",
        "garbage.test A\ngarbage.test A +tcp\na.test A",
    ),
    case(
        "one label is forwarded",
        "forward test UP1",
        "a.test A\na.other A\ntest A\nxtest A",
    ),
    case(
        "except",
        "forward . UP1 {\n except no.test other\n}",
        "a.test A\na.no.test A\nno.test A\nNO.test A\nano.test A\nx.other A\n. NS",
    ),
    case(
        "except the zone itself",
        "forward test UP1 {\n except test\n}",
        "test A\na.test A",
    ),
    case(
        "except twice",
        "forward . UP1 {\n except a\n except b c\n}",
        "x.a A\nx.b A\nx.c A\nx.d A",
    ),
    with(
        "sequential",
        "ok ok ok",
        "forward . UP1 UP2 UP3 {\n policy sequential\n}",
        "times 5 who.test A\nseen 1\nseen 2",
    ),
    with(
        "round robin",
        "ok ok ok",
        "forward . UP1 UP2 UP3 {\n policy round_robin\n}",
        "who.test A\nwho.test A\nwho.test A\nwho.test A\nwho.test A +tcp\nseen 1\nseen 2\nseen 3",
    ),
    with(
        "random",
        "ok ok",
        "forward . UP1 UP2 {\n policy random\n}",
        "times 24 who.test A",
    ),
    with(
        "random is the default",
        "ok ok ok",
        "forward . UP1 UP2 UP3",
        "times 40 who.test A",
    ),
    with(
        "one upstream twice",
        "ok ok",
        "forward . UP1 UP2 UP1 {\n policy round_robin\n}",
        "who.test A\nwho.test A\nwho.test A",
    ),
    with(
        "the first is gone",
        "dead ok",
        "forward . UP1 UP2 {\n policy sequential\n}",
        "who.test A\nwho.test A +tcp\nwait 1800\nwho.test A\nwho.test A",
    ),
    with(
        "the first is silent",
        "silent ok",
        "forward . UP1 UP2 {\n policy sequential\n read_timeout 300ms\n}",
        "who.test A\nwho.test A +tcp\nseen 1\nchecked 1",
    ),
    with(
        "the first comes back",
        "dead ok",
        "forward . UP1 UP2 {\n policy sequential\n health_check 100ms\n}",
        "who.test A\nwait 600\nwho.test A\nopen 1\nwait 600\nwho.test A",
    ),
    with(
        "all are gone",
        "dead dead",
        "forward . UP1 UP2",
        "who.test A\nwho.test A +tcp\nwho.test A +e=1232",
    ),
    with(
        "the only one is gone",
        "dead",
        "forward . UP1",
        "who.test A\nwho.test A",
    ),
    with(
        "the only one is silent",
        "silent",
        "forward . UP1 {\n read_timeout 200ms\n}",
        "who.test A\nwho.test A +tcp\nseen 1",
    ),
    with(
        "silent for longer than a query has",
        "silent",
        "forward . UP1 {\n read_timeout 2s\n max_connect_attempts 0\n}",
        "who.test A\nseen 1",
    ),
    with(
        "attempts are limited",
        "silent silent silent",
        "forward . UP1 UP2 UP3 {\n policy sequential\n read_timeout 100ms\n max_connect_attempts 1\n}",
        "who.test A\nseen 1\nseen 2",
    ),
    with(
        "attempts are not limited",
        "silent",
        "forward . UP1 {\n read_timeout 900ms\n max_connect_attempts 3\n}",
        "who.test A\nseen 1",
    ),
    with(
        "two attempts for each",
        "silent silent",
        "forward . UP1 UP2 {\n policy sequential\n read_timeout 150ms\n}",
        "who.test A\nseen 1\nseen 2",
    ),
    with(
        "down after failed checks",
        "silent ok",
        "forward . UP1 UP2 {\n policy sequential\n read_timeout 100ms\n health_check 50ms\n max_fails 1\n}",
        "who.test A\nwait 2600\nwho.test A\nseen 1",
    ),
    with(
        "never down",
        "dead ok",
        "forward . UP1 UP2 {\n policy sequential\n max_fails 0\n}",
        "who.test A\nwait 300\nwho.test A\nchecked 1",
    ),
    with(
        "failfast when all are down",
        "dead",
        "forward . UP1 {\n health_check 50ms\n max_fails 1\n failfast_all_unhealthy_upstreams\n}",
        "who.test A\nwait 600\nwho.test A\nopen 1\nwait 400\nwho.test A",
    ),
    with(
        "all are down and one is tried",
        "dead",
        "forward . UP1 {\n health_check 5s\n max_fails 1\n}",
        "who.test A\nwait 300\nopen 1\nwho.test A",
    ),
    with(
        "slow but in time",
        "slow300 ok",
        "forward . UP1 UP2 {\n policy sequential\n read_timeout 1s\n}",
        "who.test A\nwho.test A +tcp\nslow200.test A",
    ),
    with(
        "slower than the read timeout",
        "slow700 ok",
        "forward . UP1 UP2 {\n policy sequential\n read_timeout 400ms\n}",
        "who.test A\nseen 1\nseen 2",
    ),
    with(
        "failover",
        "servfail refused ok",
        "forward . UP1 UP2 UP3 {\n policy sequential\n failover SERVFAIL refused\n}",
        "who.test A\nnx.test A\nrefused.test A\nservfail.test A +tcp\nseen 1\nseen 3",
    ),
    with(
        "failover to the last that fails too",
        "servfail nx",
        "forward . UP1 UP2 {\n policy sequential\n failover SERVFAIL NXDOMAIN\n}",
        "who.test A\nseen 1\nseen 2",
    ),
    with(
        "failover with one upstream",
        "servfail",
        "forward . UP1 {\n failover SERVFAIL\n}",
        "who.test A\nseen 1",
    ),
    with(
        "next",
        "nx ok",
        "forward . UP1 {\n next NXDOMAIN\n}\nforward . UP2",
        "who.test A\nnx.test A\nseen 1\nseen 2",
    ),
    with(
        "next for several codes",
        "servfail refused nodata",
        "forward . UP1 {\n next REFUSED SERVFAIL\n}\nforward . UP2 {\n next refused\n}\nforward . UP3",
        "who.test A\nseen 1\nseen 2\nseen 3",
    ),
    with(
        "next without another",
        "nx",
        "forward . UP1 {\n next NXDOMAIN\n}",
        "who.test A\nseen 1",
    ),
    with(
        "next for nodata",
        "nodata ok",
        "forward . UP1 {\n next_on_nodata\n}\nforward . UP2",
        "who.test A\nnx.test A\nnodata.test A\nseen 1\nseen 2",
    ),
    with(
        "a code that is not next",
        "refused ok",
        "forward . UP1 {\n next NXDOMAIN\n}\nforward . UP2",
        "who.test A\nseen 2",
    ),
    with(
        "the next is for other names",
        "nx ok",
        "forward . UP1 {\n next NXDOMAIN\n}\nforward other UP2",
        "who.test A\nwho.other A",
    ),
    with(
        "two for two zones",
        "ok ok",
        "forward a.test UP1\nforward . UP2",
        "who.a.test A\nwho.b.test A\na.test A",
    ),
    with(
        "in the order of the file",
        "ok ok",
        "forward . UP1\nforward a.test UP2",
        "who.a.test A\nseen 2",
    ),
    with(
        "too many at once",
        "slow900",
        "forward . UP1 {\n max_concurrent 2\n}",
        "burst 5 a.test A\na.test A",
    ),
    with(
        "enough at once",
        "slow200",
        "forward . UP1 {\n max_concurrent 9\n}",
        "burst 5 a.test A",
    ),
    case(
        "no limit at once",
        "forward . UP1 {\n max_concurrent 0\n}",
        "burst 8 a.test A",
    ),
    case(
        "connections expire",
        "forward . UP1 {\n force_tcp\n expire 200ms\n max_age 1s\n max_idle_conns 1\n}",
        "who.test A\nwho.test A\nwait 500\nwho.test A\nburst 3 a.test A\nwho.test A",
    ),
    case(
        "the upstream closes a connection",
        "forward . UP1 {\n force_tcp\n}",
        "a.test A\nclose.test A\na.test A",
    ),
    case(
        "from an address",
        "forward . UP1 {\n source_address 127.0.0.1\n}",
        "a.test A\na.test A +tcp",
    ),
    case(
        "a file of servers",
        "forward . DIR/resolv.conf {\n max_connect_attempts 1\n}",
        "a.test A",
    )
    .files(&[(
        "resolv.conf",
        "search x\noptions ndots:5\nnameserver 127.0.0.9\n",
    )]),
    case(
        "a name by a resolver",
        "forward . a.test:UPORT1 {\n resolver UP1\n read_timeout 50ms\n max_connect_attempts 1\n}",
        "a.test A",
    ),
    case(
        "two zones of a block",
        "forward one.test UP1",
        "a.one.test A\na.two.test A\nthree.test A",
    )
    .zones("one.test two.test"),
    case(
        "health checks of another name",
        "forward . UP1 {\n health_check 1s no_rec domain up.test.\n doh_method GET\n}",
        "a.test A\ndrop.test A\nwait 200\nseen 1",
    ),
    with(
        "chained aliases and errors in one block",
        "ok",
        "any\nchaos v\nforward . UP1",
        "cname.test A\na.test ANY\nversion.bind TXT CH\na.test TXT CH",
    ),
];
