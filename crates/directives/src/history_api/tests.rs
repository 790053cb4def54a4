//! Tests of `history_api`.

use crate::config::HistoryApi;
use crate::config::tests::{block, faults, problems, warnings};

fn read(options: &str) -> HistoryApi {
    let block = block(&format!("kubernetes\nhistory_api :8443 {{\n{options}\n}}"));
    block.get::<HistoryApi>().unwrap().clone()
}

#[test]
fn readers_have_tokens_or_certificates() {
    let api = read("tls c k\ntokens");
    assert_eq!(api.address.to_string(), ":8443");
    assert_eq!(
        (api.certificate.to_str(), api.key.to_str()),
        (Some("c"), Some("k"))
    );
    assert_eq!(api.tokens.as_deref(), Some(&[][..]));
    assert_eq!(
        (api.client_ca, api.max_connections, api.requests_per_second),
        (None, None, None)
    );
    let api = read(
        "tls c k\ntokens history\nclient_ca ca\ncrl list\nallow auditor.example\nallow shop.example Cluster.Local\n\
         max_connections 50\nrequests_per_second 5",
    );
    assert_eq!(api.tokens, Some(vec!["history".to_owned()]));
    assert_eq!(api.client_ca.unwrap().to_str(), Some("ca"));
    assert_eq!(api.crl.unwrap().to_str(), Some("list"));
    let allowed = api.allowed.iter().map(|it| {
        let zones: Vec<String> = it.zones.iter().map(ToString::to_string).collect();
        (it.name.to_str().into_owned(), zones)
    });
    let cluster = "cluster.local.".to_owned();
    assert_eq!(
        allowed.collect::<Vec<_>>(),
        [
            ("auditor.example".to_owned(), vec![]),
            ("shop.example".to_owned(), vec![cluster]),
        ]
    );
    let limits = (api.max_connections, api.requests_per_second);
    assert_eq!(limits, (Some(50), Some(5)));
}

#[test]
fn without_readers_or_a_certificate_there_is_no_api() {
    for (directive, want) in [
        ("history_api :1 {\ntls c k\n}", "nobody may read"),
        ("history_api :1 {\nclient_ca ca\n}", "served over TLS only"),
        (
            "history_api {\ntls c k\nclient_ca ca\n}",
            "history_api has no address",
        ),
        (
            "history_api :1 {\ntls c\nclient_ca ca\n}",
            "tls takes two arguments, there are 1",
        ),
        (
            "history_api :1 {\ntls c k\ntokens\n}",
            "no API server can check tokens",
        ),
        (
            "history_api :1 {\ntls c k\nclient_ca ca\nallow a_b/c\n}",
            "no name that a certificate can have",
        ),
        (
            "history_api :1 {\ntls c k\nclient_ca ca\nmax_connections 0\n}",
            "less than 1",
        ),
        (
            "history_api :1 {\ntls c k\nclient_ca ca\nwrite\n}",
            "history_api has no option",
        ),
    ] {
        let said = faults(directive);
        assert!(said.len() == 1 && said[0].contains(want), "{said:?}");
    }
    let about = faults("kubernetes\nhistory_api :1 {\ntls c k\ntokens\ncrl list\nallow a\n}");
    assert_eq!(about.len(), 2, "{about:?}");
    assert!(about[0].contains("none is accepted"), "{about:?}");
}

#[test]
fn one_api_serves_all_zones_on_a_port_of_its_own() {
    let api = "history_api :9153 {\ntls c k\nclient_ca ca\n}";
    let said = problems(&format!("a {{\n{api}\n}}\nb:1053 {{\n{api}\n}}\n"));
    assert!(
        said.len() == 1 && said[0].contains("already given in line 2"),
        "{said:?}"
    );
    let said = problems(&format!("a {{\nprometheus :9153\n{api}\n}}\n"));
    assert!(
        said.len() == 1 && said[0].contains(":9153 is already taken"),
        "{said:?}"
    );
    let said = warnings(
        "a {\nwhoami\nhistory_api :1 {\ntls c k\nclient_ca ca\nallow shop.example z\n}\n}\n",
    );
    assert!(
        said.len() == 1 && said[0].contains("z. is no zone of this Corefile"),
        "{said:?}"
    );
}
