//! `forward` over TLS and HTTPS: certificates, names in them, and upstreams that fail. `CERTS` is the folder of the
//! certificates, `DOH` a server of DNS over HTTPS.

use super::case::{Case, case, with};

/// A second block that answers over TLS.
macro_rules! over_tls {
    ($forward:literal, $tls:literal) => {
        concat!(
            $forward,
            "\n}\ntls://.:PORT1 {\n bind 127.0.0.1\n tls CERTS/upstream.test.pem CERTS/upstream.test.key ",
            $tls,
            "\n template IN ANY test {\n  match ^nx\n  rcode NXDOMAIN\n  fallthrough\n }\n \
             template IN A test {\n  answer \"{{ .Name }} 60 IN A 10.0.0.1\"\n }"
        )
    };
}

const SCRIPT: &str = "a.test A\na.test A +tcp\nnx.test A +e=1232\nb.test A +do\nA.b.test A";

pub const CASES: &[Case] = &[
    case(
        "tls with a CA and a name",
        over_tls!(
            "forward . tls://127.0.0.1:PORT1 {\n tls CERTS/ca.pem\n tls_servername upstream.test\n}",
            ""
        ),
        SCRIPT,
    ),
    case(
        "tls with the name in TO",
        over_tls!(
            "forward . tls://127.0.0.1%upstream.test:PORT1 {\n tls CERTS/ca.pem\n}",
            ""
        ),
        SCRIPT,
    ),
    case(
        "tls with another name",
        over_tls!(
            "forward . tls://127.0.0.1:PORT1 {\n tls CERTS/ca.pem\n tls_servername other.test\n max_connect_attempts 1\n}",
            ""
        ),
        SCRIPT,
    ),
    case(
        "tls without the name",
        over_tls!(
            "forward . tls://127.0.0.1:PORT1 {\n tls CERTS/ca.pem\n max_connect_attempts 1\n}",
            ""
        ),
        SCRIPT,
    ),
    case(
        "tls that the system does not trust",
        over_tls!(
            "forward . tls://127.0.0.1:PORT1 {\n tls_servername upstream.test\n max_connect_attempts 1\n}",
            ""
        ),
        SCRIPT,
    ),
    case(
        "tls with our certificate",
        over_tls!(
            "forward . tls://127.0.0.1:PORT1 {\n tls CERTS/upstream.test.pem CERTS/upstream.test.key CERTS/ca.pem\n tls_servername upstream.test\n}",
            "CERTS/ca.pem {\n  client_auth require_and_verify\n }"
        ),
        SCRIPT,
    ),
    case(
        "tls without our certificate",
        over_tls!(
            "forward . tls://127.0.0.1:PORT1 {\n tls CERTS/ca.pem\n tls_servername upstream.test\n max_connect_attempts 1\n}",
            "CERTS/ca.pem {\n  client_auth require_and_verify\n }"
        ),
        "a.test A\na.test A +tcp",
    ),
    case(
        "tls, connections expire",
        over_tls!(
            "forward . tls://127.0.0.1:PORT1 {\n tls CERTS/ca.pem\n tls_servername upstream.test\n expire 200ms\n max_idle_conns 1\n}",
            ""
        ),
        "a.test A\nwait 500\na.test A\nburst 4 b.test A\nc.test A",
    ),
    case(
        "tls, force_tcp and prefer_udp are nothing",
        over_tls!(
            "forward . tls://127.0.0.1:PORT1 {\n tls CERTS/ca.pem\n tls_servername upstream.test\n force_tcp\n prefer_udp\n}",
            ""
        ),
        SCRIPT,
    ),
    with(
        "tls to a server without",
        "ok ok",
        "forward . tls://UP1 UP2 {\n policy sequential\n tls CERTS/ca.pem\n}",
        "who.test A\nwho.test A +tcp\nseen 2",
    ),
    with(
        "tls is gone, another is asked",
        "dead ok",
        "forward . tls://UP1 UP2 {\n policy sequential\n tls CERTS/ca.pem\n max_fails 0\n}",
        "who.test A\nwho.test A +tcp\nseen 2",
    ),
    with(
        "tls is silent",
        "ok",
        "cache 30\nforward one.test tls://127.0.0.1:PORT1 {\n tls CERTS/ca.pem\n max_connect_attempts 1\n}\nforward . UP1",
        "a.one.test A\nwho.test A",
    ),
    case(
        "https",
        "forward . https://DOH {\n tls CERTS/ca.pem\n tls_servername upstream.test\n}",
        "a.test A\na.test AAAA +do\na.test TXT +tcp\nnx.test A\nnodata.test A +e=1232\nservfail.test A\nrefused.test A\ncname.test A\nrich.test MX +e=1232\na.test HTTPS\na.test A CH\n. NS\nA.TeSt A",
    ),
    case(
        "https by GET",
        "forward . https://DOH {\n tls CERTS/ca.pem\n tls_servername upstream.test\n doh_method GET\n}",
        "a.test A\na.test AAAA +do\nnx.test A\nrefused.test A\na.test TXT +tcp\nbig.test TXT != cut: rcode 0 tc rd ra ? big.test. TXT 1\nbig.test TXT +tcp",
    ),
    case(
        "https by POST, large replies",
        "forward . https://DOH {\n tls CERTS/ca.pem\n tls_servername upstream.test\n doh_method POST\n}",
        "big.test TXT != cut: rcode 0 tc rd ra ? big.test. TXT 1\nbig.test TXT +tcp\nfat.test TXT +e=1232 != cut: rcode 0 tc rd ra ? fat.test. TXT 1 opt rcode+0 do=false\ntcset.test A\nad.test A +ad",
    ),
    case(
        "https, connections are closed",
        "forward . https://DOH {\n tls CERTS/ca.pem\n tls_servername upstream.test\n max_connect_attempts 1\n}",
        "close.test A\na.test A\nclose.test A\nwait 200\na.test A\nburst 5 b.test A\na.test A",
    ),
    case(
        "https, other statuses",
        "forward . https://DOH {\n tls CERTS/ca.pem\n tls_servername upstream.test\n max_connect_attempts 1\n}",
        "drop.test A\na.test A\ngarbage.test A\nshort.test A\nwrongq.test A\na.test A",
    ),
    case(
        "https, too slow",
        "forward . https://DOH {\n tls CERTS/ca.pem\n tls_servername upstream.test\n max_connect_attempts 1\n}",
        "slow300.test A\nslow2600.test A\na.test A",
    ),
    case(
        "https with another name",
        "forward . https://DOH {\n tls CERTS/ca.pem\n tls_servername other.test\n max_connect_attempts 1\n}",
        "a.test A",
    ),
    case(
        "https that the system does not trust",
        "forward . https://DOH {\n tls_servername upstream.test\n max_connect_attempts 1\n}",
        "a.test A",
    ),
    with(
        "https is gone, another is asked",
        "dead ok",
        "forward . https://UP1 UP2 {\n policy sequential\n tls CERTS/ca.pem\n max_fails 0\n}",
        "who.test A\nwho.test A +tcp",
    ),
    with(
        "https and others in turn",
        "ok",
        "forward . https://DOH UP1 {\n policy round_robin\n tls CERTS/ca.pem\n tls_servername upstream.test\n}",
        "who.test A\nwho.test A\nwho.test A\nwho.test A\nseen 1",
    ),
    case(
        "https behind a cache",
        "cache 30\nforward . https://DOH {\n tls CERTS/ca.pem\n tls_servername upstream.test\n}",
        "a.test A\na.test A\nnx.test A\nnx.test A\nservfail.test A",
    ),
];
