//! `cache`: what is kept, for how long, and what is given after its end.

use super::case::{Case, case, with};

/// Twice what may or may not be kept.
const KINDS: &str = "
    n.test A
    n.test A
    N.tEsT A
    n.test AAAA
    n.test AAAA
    n.test A +do
    n.test A +do
    n.test A +cd
    n.test A +cd
    n.test A +do +cd
    n.test A +do +cd
    n.test A +nord
    n.test A +tcp
    n.test A +ad
    ttl0.test A
    ttl0.test A
    ttl3.test A
    ttl4000.test A
    ttl4000.test A
    cname.test A
    cname.test A
    rich.test MX +e=1232
    rich.test MX +e=1232
    ad.test A
    ad.test A
    ad.test A +ad
    ad.test A +do
    ad.test A +do
    aa.test A
    nx.test A
    nx.test A
    nx4000.test A
    nx4000.test A
    nx0.test A
    nodata.test A
    nodata.test A
    nodata9000.test AAAA
    nodata9000.test AAAA
    nxbare.test A
    nxbare.test A
    nodatabare.test A
    nodatabare.test A
    servfail.test A
    servfail.test A
    notimp.test A
    notimp.test A
    refused.test A
    refused.test A
    formerr.test A
    yxdomain.test A
    tcset.test A
    tcset.test A
    tcset.test A +tcp
    tcset.test A
    big.test TXT
    big.test TXT +tcp
    wrongq.test A +tcp
    wrongq.test A +tcp
    echo.test TXT
    echo.test TXT
    echo.test TXT +do
    a.test HINFO
    . NS
    a.test A CH
    a.test A CH
    seen 1
    ";

/// A question, then an upstream that says something else.
const LIFE: &str = "n.test A\nwait 1200\nn.test A\nn.test A\nseen 1";

pub const CASES: &[Case] = &[
    case("all kinds", "cache\nforward . UP1", KINDS),
    case("all kinds, 30 seconds", "cache 30\nforward . UP1", KINDS),
    case(
        "all kinds, short",
        "cache {\n success 100 20 1\n denial 100 10 0\n}\nforward . UP1",
        KINDS,
    ),
    case(
        "all kinds, ttl kept",
        "cache {\n keepttl\n}\nforward . UP1",
        KINDS,
    ),
    case(
        "all kinds, no failures",
        "cache {\n servfail 0\n}\nforward . UP1",
        KINDS,
    ),
    case(
        "all kinds, stale allowed",
        "cache {\n serve_stale\n}\nforward . UP1",
        KINDS,
    ),
    case("counts down", "cache\nforward . UP1", LIFE),
    case(
        "counts down from 30",
        "cache 30\nforward . UP1",
        "ttl300.test A\nwait 1200\nttl300.test A\nwait 1000\nttl300.test A",
    ),
    case(
        "ends after its second",
        "cache {\n success 1000 1 0\n}\nforward . UP1",
        "n.test A\nn.test A\nwait 1300\nn.test A\nseen 1",
    ),
    case(
        "ttl one",
        "cache 1\nforward . UP1",
        "n.test A\nwait 1300\nn.test A\nnx.test A\nseen 1",
    ),
    case(
        "least of nothing",
        "cache {\n success 1000 3600 0\n}\nforward . UP1",
        "ttl0.test A\nttl0.test A\nttl1.test A\nttl2.test A\nseen 1",
    ),
    case(
        "least of one minute",
        "cache {\n success 1000 3600 60\n denial 1000 1800 70\n}\nforward . UP1",
        "ttl0.test A\nttl59.test A\nttl61.test A\nnx1.test A\nnodata1.test A",
    ),
    case(
        "least above the most",
        "cache {\n success 1000 10 60\n}\nforward . UP1",
        "ttl0.test A\nttl30.test A\nttl90.test A",
    ),
    case(
        "keeps ttl",
        "cache {\n keepttl\n}\nforward . UP1",
        "ttl20.test A\nwait 2200\nttl20.test A\nnx.test A",
    ),
    case(
        "keeps ttl of 30",
        "cache 30 {\n keepttl\n}\nforward . UP1",
        "ttl300.test A\nwait 1200\nttl300.test A",
    ),
    case(
        "one zone",
        "cache one.test\nforward . UP1",
        "n.one.test A\nn.one.test A\nn.two.test A\nn.two.test A\none.test A\nxone.test A\nseen 1",
    ),
    case(
        "two zones with ttl",
        "cache 9 one.test two.test\nforward . UP1",
        "n.one.test A\nn.two.test A\nn.three.test A\nn.three.test A",
    ),
    case(
        "zones of the block",
        "cache\nforward . UP1",
        "n.one.test A\nn.one.test A\nn.two.test A\nn.two.test A",
    )
    .zones("one.test two.test"),
    case(
        "zone outside of the block",
        "cache other.test\nforward . UP1",
        "n.one.test A\nn.one.test A",
    )
    .zones("one.test"),
    case(
        "disable success",
        "cache {\n disable success\n}\nforward . UP1",
        "n.test A\nn.test A\nnx.test A\nnx.test A\nseen 1",
    ),
    case(
        "disable denial",
        "cache {\n disable denial\n}\nforward . UP1",
        "n.test A\nn.test A\nnx.test A\nnx.test A\nservfail.test A\nservfail.test A\nseen 1",
    ),
    case(
        "disable both",
        "cache {\n disable success\n disable denial\n}\nforward . UP1",
        KINDS,
    ),
    case(
        "disable success for a zone",
        "cache {\n disable success a.test b.test\n}\nforward . UP1",
        "n.a.test A\nn.a.test A\nn.b.test A\nn.b.test A\nn.c.test A\nn.c.test A\nn.c.a.test A\nn.c.a.test A\nseen 1",
    ),
    case(
        "disable denial for a zone",
        "cache {\n disable denial a.test\n}\nforward . UP1",
        "nx.a.test A\nnx.a.test A\nnx.c.test A\nnx.c.test A\nseen 1",
    ),
    case(
        "failures for three seconds",
        "cache {\n servfail 3s\n}\nforward . UP1",
        "servfail.test A\nservfail.test A\nwait 3300\nservfail.test A\nnotimp.test A\nnotimp.test A\nseen 1",
    ),
    case(
        "failures for half a second",
        "cache {\n servfail 500ms\n}\nforward . UP1",
        "servfail.test A\nwait 700\nservfail.test A\nseen 1",
    ),
    case(
        "failures for five minutes",
        "cache {\n servfail 5m\n}\nforward . UP1",
        "servfail.test A\nup 1 ok\nservfail.test A\nseen 1",
    ),
    with(
        "a failure that is over",
        "servfail",
        "cache\nforward . UP1",
        "n.test A\nup 1 ok\nn.test A\nwait 5300\nn.test A\nn.test A\nseen 1",
    ),
    with(
        "nobody answers",
        "dead",
        "cache\nforward . UP1 {\n max_connect_attempts 1\n}",
        "n.test A\nopen 1\nn.test A\nn.test A\nseen 1",
    ),
    with(
        "refused is not kept",
        "refused",
        "cache\nforward . UP1",
        "n.test A\nup 1 ok\nn.test A\nseen 1",
    ),
    with(
        "nxdomain is",
        "nx",
        "cache {\n denial 10\n}\nforward . UP1",
        "n.test A\nup 1 ok\nn.test A\nseen 1",
    ),
    with(
        "nodata is",
        "nodata",
        "cache\nforward . UP1",
        "n.test A\nup 1 ok\nn.test A\nn.test A +do\nseen 1",
    ),
    // Prefetch.
    case(
        "prefetch",
        "cache {\n success 1000 10 1\n prefetch 2 1m 90%\n}\nforward . UP1",
        "n.test A\nn.test A\nwait 1300\nn.test A\nwait 500\nn.test A\nseen 1",
    ),
    case(
        "prefetch of an answer asked for rarely",
        "cache {\n success 1000 10 1\n prefetch 9 1m 90%\n}\nforward . UP1",
        "n.test A\nn.test A\nwait 1300\nn.test A\nwait 300\nn.test A\nseen 1",
    ),
    case(
        "prefetch with pauses too long",
        "cache {\n success 1000 10 1\n prefetch 3 500ms 90%\n}\nforward . UP1",
        "n.test A\nn.test A\nwait 900\nn.test A\nwait 900\nn.test A\nwait 200\nseen 1",
    ),
    case(
        "prefetch of denials",
        "cache {\n denial 1000 10 1\n prefetch 2 1m 90%\n}\nforward . UP1",
        "nx.test A\nnx.test A\nwait 1300\nnx.test A\nwait 300\nseen 1",
    ),
    case(
        "prefetch off",
        "cache {\n success 1000 4 1\n prefetch 0\n}\nforward . UP1",
        "n.test A\nn.test A\nwait 3400\nn.test A\nwait 300\nseen 1",
    ),
    case(
        "prefetch keeps the count",
        "cache {\n success 1000 10 1\n prefetch 2 1m 90%\n}\nforward . UP1",
        "n.test A\nn.test A\nwait 1300\nn.test A\nwait 1600\nn.test A\nwait 300\nseen 1",
    ),
    // Stale.
    with(
        "stale while the source is silent",
        "ok",
        "cache 1 {\n success 1000 1 0\n serve_stale 1h\n}\nforward . UP1 {\n read_timeout 200ms\n max_connect_attempts 1\n}",
        "n.test A\nup 1 silent\nwait 1400\nn.test A\nwait 400\nn.test A\nwait 400\nup 1 ok\nn.test A\nwait 300\nn.test A",
    ),
    with(
        "stale and refreshed",
        "ok",
        "cache {\n success 1000 1 0\n serve_stale 1h immediate\n}\nforward . UP1",
        "n.test A\nwait 1400\nn.test A\nwait 300\nn.test A\nseen 1",
    ),
    with(
        "stale with a ttl",
        "ok",
        "cache {\n success 1000 1 0\n serve_stale 1h immediate 30s\n}\nforward . UP1",
        "n.test A\nwait 1400\nn.test A\nwait 300\nn.test A\nseen 1",
    ),
    with(
        "stale for two seconds",
        "ok",
        "cache {\n success 1000 1 0\n serve_stale 2s\n}\nforward . UP1 {\n read_timeout 100ms\n max_connect_attempts 1\n}",
        "n.test A\nup 1 silent\nwait 1500\nn.test A\nwait 2600\nn.test A",
    ),
    with(
        "stale, the source fails",
        "ok",
        "cache {\n success 1000 1 0\n serve_stale 1h\n servfail 0\n}\nforward . UP1",
        "n.test A\nup 1 servfail\nwait 1400\nn.test A\nwait 300\nn.test A\nwait 300\nseen 1",
    ),
    with(
        "stale with recheck",
        "ok",
        "cache {\n success 1000 1 0\n serve_stale 1h immediate 5s 1m\n}\nforward . UP1",
        "n.test A\nup 1 servfail\nwait 1400\nn.test A\nwait 300\nn.test A\nwait 300\nn.test A\nseen 1",
    ),
    with(
        "verify",
        "ok",
        "cache {\n success 1000 1 0\n serve_stale 1h verify\n}\nforward . UP1",
        "n.test A\nwait 1400\nn.test A\nn.test A\nseen 1",
    ),
    with(
        "verify, the source fails",
        "ok",
        "cache {\n success 1000 1 0\n serve_stale 1h verify\n servfail 0\n}\nforward . UP1",
        "n.test A\nup 1 servfail\nwait 1400\nn.test A\nn.test A\nup 1 refused\nn.test A\nup 1 ok\nn.test A\nseen 1",
    ),
    with(
        "verify, the source is silent",
        "ok",
        "cache {\n success 1000 1 0\n serve_stale 1h verify\n}\nforward . UP1 {\n read_timeout 200ms\n max_connect_attempts 1\n}",
        "n.test A\nup 1 silent\nwait 1400\nn.test A\nn.test A\nseen 1",
    ),
    with(
        "verify, the name is gone",
        "ok",
        "cache {\n success 1000 1 0\n serve_stale 1h verify\n}\nforward . UP1",
        "n.test A\nup 1 nx\nwait 1400\nn.test A\nn.test A\nseen 1",
    ),
    with(
        "verify within a time",
        "ok",
        "cache {\n success 1000 1 0\n serve_stale 1h verify 300ms\n}\nforward . UP1",
        "n.test A\nwait 1400\nn.test A\nn.test A\nseen 1",
    ),
    with(
        "verify takes too long",
        "ok",
        "cache {\n success 1000 1 0\n serve_stale 1h verify 200ms 7s\n}\nforward . UP1",
        "n.test A\nup 1 slow600\nwait 1400\nn.test A\nwait 900\nup 1 ok\nn.test A\nseen 1",
    ),
    with(
        "verify with recheck",
        "ok",
        "cache {\n success 1000 1 0\n serve_stale 1h verify 0s 7s 1m\n servfail 0\n}\nforward . UP1",
        "n.test A\nup 1 servfail\nwait 1400\nn.test A\nn.test A\nn.test A\nseen 1",
    ),
    with(
        "answers before denials",
        "ok",
        "cache {\n success 1000 1 0\n serve_stale 1h verify\n serve_stale_policy prefer_positive\n}\nforward . UP1",
        "n.test A\nup 1 nx\nwait 1400\nn.test A\nn.test A\nup 1 ok\nn.test A\nseen 1",
    ),
    with(
        "answers before denials, at once",
        "ok",
        "cache {\n success 1000 1 0\n serve_stale 1h immediate\n serve_stale_policy prefer_positive\n}\nforward . UP1",
        "n.test A\nup 1 nx\nwait 1400\nn.test A\nwait 300\nn.test A\nwait 300\nup 1 ok\nn.test A\nwait 300\nn.test A",
    ),
    with(
        "no stale",
        "ok",
        "cache {\n success 1000 1 0\n}\nforward . UP1 {\n read_timeout 100ms\n max_connect_attempts 1\n}",
        "n.test A\nup 1 silent\nwait 1400\nn.test A",
    ),
    // Beside other handlers.
    case(
        "hosts are kept",
        "cache 30\nhosts DIR/none {\n 10.0.0.1 a.test\n fallthrough\n}\nforward . UP1",
        "a.test A\na.test A\nb.test A\nb.test A\na.test AAAA\n1.0.0.10.in-addr.arpa PTR",
    ),
    case(
        "failures of hosts are not",
        "cache\nhosts DIR/none {\n 10.0.0.1 a.test\n}",
        "b.test A\nb.test A\na.test TXT\na.test TXT",
    ),
    case(
        "chaos is in front",
        "cache\nchaos one\nforward . UP1",
        "version.bind TXT CH\nversion.bind TXT CH\nn.test A",
    ),
    with(
        "next forward is kept",
        "nx ok",
        "cache\nforward . UP1 {\n next NXDOMAIN\n}\nforward . UP2",
        "n.test A\nn.test A\nseen 2",
    ),
];
