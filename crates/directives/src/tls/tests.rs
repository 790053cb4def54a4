//! Tests of `tls://` keys, `tls`, `nsid`, and `tls` in `transfer`.

use transfer::TlsDemand;

use crate::config::tests::{block, check_problems, config, problems, warnings};
use crate::config::{ClientAuth, Nsid, Scheme, Tls, Transfer};

/// A block with keys of both schemes and these lines.
fn both(lines: &str) -> String {
    format!("z tls://z {{\n kubernetes\n{lines}\n}}\n")
}

#[test]
fn tls_keys_have_port_853_and_share_a_block() {
    let config = config(&both(" tls cert.pem key.pem"));
    let keys: Vec<_> = config.servers[0]
        .zones
        .iter()
        .map(|key| (key.scheme, key.port))
        .collect();
    assert_eq!(keys, [(Scheme::Dns, 53), (Scheme::Tls, 853)]);
    let tls = config.servers[0].get::<Tls>().unwrap();
    assert_eq!(tls.certificate.to_str(), Some("cert.pem"));
    assert_eq!(tls.key.to_str(), Some("key.pem"));
    assert_eq!((&tls.ca, tls.client_auth), (&None, ClientAuth::Never));
    assert_eq!(config.listeners().len(), 2);
}

#[test]
fn https_and_quic_keys_have_their_ports_and_take_no_port_of_others() {
    let keys = "https://z https3://z quic://z:8853 quic://y";
    let config = config(&format!("{keys} {{\n tls c k\n}}\n"));
    let keys = config.servers[0].zones.iter();
    let keys: Vec<_> = keys.map(|key| (key.scheme, key.port)).collect();
    let (https, https3, quic) = (Scheme::Https, Scheme::Https3, Scheme::Quic);
    assert_eq!(
        keys,
        [(https, 443), (https3, 443), (quic, 8853), (quic, 853)]
    );
    for (keys, want) in [
        (
            "tls://z:443 https://z",
            "https:// needs port 443, but tls:// uses it, see Corefile:1",
        ),
        (
            "https3://z quic://z:443",
            "quic:// needs port 443, but https3:// uses it, see Corefile:1",
        ),
        (
            "z:853 quic://z",
            "quic:// needs port 853, but dns:// uses it, see Corefile:1",
        ),
        (
            "z:443 https://z",
            "https:// needs port 443, but dns:// uses it, see Corefile:1",
        ),
    ] {
        let text = format!("{keys} {{\n tls c k\n}}\n");
        let at = keys.find(' ').unwrap() + 2;
        check_problems(
            &text,
            &[&format!(
                "Corefile:1:{at}: {want}; give one of the two another port"
            )],
        );
    }
    let text = "https://z {\n tls c k\n kubernetes\n transfer { to 192.0.2.1 }\n}\n";
    let text = text.replace("{ to 192.0.2.1 }", "{\n to 192.0.2.1\n }");
    assert_eq!(
        warnings(&text),
        [
            "Corefile:4:2: zones are transferred only over TCP and TLS, but no key of this block is for these; \
          write ZONE or tls://ZONE as a key too"
        ]
    );
}

#[test]
fn client_auth_has_the_words_of_coredns() {
    let auth = |word: &str| {
        let text = both(&format!(" tls c k ca {{\n client_auth {word}\n }}"));
        config(&text).servers[0].get::<Tls>().unwrap().client_auth
    };
    assert_eq!(auth("nocert"), ClientAuth::Never);
    assert_eq!(auth("request"), ClientAuth::Never);
    assert_eq!(auth("verify_if_given"), ClientAuth::IfGiven);
    assert_eq!(auth("require_and_verify"), ClientAuth::Always);
    for (lines, want) in [
        (
            " tls c k {\n client_auth require_and_verify\n }",
            "Corefile:3:2: client certificates cannot be verified without a CA; ",
        ),
        (
            " tls c k ca {\n client_auth require\n }",
            "Corefile:4:14: client_auth require: not supported: ",
        ),
        (
            " tls c k ca {\n client_auth x\n }",
            "Corefile:4:14: client_auth 'x': not a mode; ",
        ),
        (
            " tls c k {\n ca x\n }",
            "Corefile:4:2: tls has no option 'ca'; its options are client_auth and crl",
        ),
    ] {
        check_problems(&both(lines), &[want]);
    }
    let said = problems(&both(" tls c"));
    assert!(
        said[1].starts_with("Corefile:3:2: tls takes two or three arguments, there are 1; "),
        "{said:?}"
    );
}

#[test]
fn a_list_of_revoked_certificates_is_a_file_and_needs_clients_with_certificates() {
    let tls = |lines: &str| both(&format!(" tls c k ca {{\n{lines}\n }}"));
    let verified = tls(" client_auth verify_if_given\n crl revoked.pem");
    assert_eq!(warnings(&verified), [""; 0]);
    let config = config(&verified);
    let crl = &config.servers[0].get::<Tls>().unwrap().crl;
    assert_eq!(
        crl.as_deref().and_then(|crl| crl.to_str()),
        Some("revoked.pem")
    );
    let useless = warnings(&tls(" crl revoked.pem"));
    assert!(
        useless.iter().any(|it| it.starts_with(
            "Corefile:4:6: the list is of revoked client certificates, but no client is asked"
        )),
        "{useless:?}"
    );
    check_problems(&tls(" crl"), &["Corefile:4:2: crl needs an argument; "]);
}

#[test]
fn a_listener_has_one_certificate() {
    let text = |other: &str| {
        format!(
            "tls://a {{\n tls c k\n}}\ntls://b {{\n{other}\n}}\ntls://c:8853 {{\n tls x y\n}}\n"
        )
    };
    assert_eq!(problems(&text("")), [""; 0]);
    assert_eq!(problems(&text(" tls c k")), [""; 0]);
    check_problems(
        &text(" tls d k"),
        &["Corefile:5:2: this listener has another tls at Corefile:2:2; "],
    );
}

#[test]
fn transfers_demand_tls_line_by_line_or_as_a_whole() {
    let transfer = |lines: &str| {
        let tls = " tls c k ca {\n client_auth verify_if_given\n }\n";
        let text = both(&format!("{tls} transfer {{\n{lines}\n }}"));
        config(&text)
            .servers
            .remove(0)
            .all::<Transfer>()
            .cloned()
            .collect::<Vec<_>>()
            .remove(0)
    };
    let named = |name: &str| TlsDemand::Named(name.to_owned().try_into().unwrap());
    let line = transfer(" to 192.0.2.1 tls ns.example.\n allow 192.0.2.0/24 tls\n allow ::1");
    assert_eq!(line.secondaries[0].tls, named("ns.example"));
    assert_eq!(line.allow[0].tls, TlsDemand::Any);
    assert_eq!(line.allow[1].tls, TlsDemand::Free);
    let whole = transfer(" tls\n to 192.0.2.1 tls ns.example\n allow ::1");
    assert_eq!(whole.secondaries[0].tls, named("ns.example"));
    assert_eq!(whole.allow[0].tls, TlsDemand::Any);
}

#[test]
fn what_is_demanded_and_cannot_be_is_told() {
    let transfer = |line: &str| format!(" transfer {{\n {line}\n }}");
    check_problems(
        &both(&format!(
            " tls c k\n{}",
            transfer("allow ::1 tls ns.example")
        )),
        &["Corefile:5:8: no client is asked for a certificate, so none has this name; "],
    );
    let plain = format!(
        "z {{\n kubernetes\n tls c k\n{}\n}}\n",
        transfer("allow ::1 tls")
    );
    let said = warnings(&plain);
    assert_eq!(said.len(), 2, "{said:?}");
    assert!(
        said[0].contains("no key of this block begins with tls://"),
        "{said:?}"
    );
    assert!(said[1].contains("tls is required here"), "{said:?}");
}

#[test]
fn nsid_is_the_machine_or_a_text() {
    assert_eq!(block("nsid").get(), Some(&Nsid::Hostname));
    let text = block("nsid ns1 of example").get().cloned();
    assert_eq!(text, Some(Nsid::Text("ns1 of example".to_owned())));
    assert_eq!(block("errors").get::<Nsid>(), None);
    let long = format!(". {{\n nsid {}\n}}\n", "x".repeat(129));
    check_problems(&long, &["Corefile:2:2: nsid: the text has 129 octets; "]);
    let two = "a {\n nsid x\n}\nb {\n nsid y\n}\n";
    assert!(
        warnings(two)[0].contains("a different nsid"),
        "{:?}",
        warnings(two)
    );
}

#[test]
fn each_zone_that_is_to_go_over_tls_needs_a_key_for_that() {
    let of = |keys: &str| {
        let lines = "kubernetes a.example b.example\n tls c k\n transfer {\n allow ::1 tls\n }";
        warnings(&format!("{keys} {{\n {lines}\n}}\n"))
    };
    let plain = "Corefile:5:8: tls is required here, but no key with tls:// matches b.example.; write tls://b.example. as a key too";
    assert_eq!(of("tls://a.example a.example b.example"), [plain]);
    assert_eq!(of("tls://a.example a.example tls://b.example"), [""; 0]);
    assert_eq!(of("tls://example"), [""; 0]);
}
