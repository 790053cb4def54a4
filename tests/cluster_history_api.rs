//! The history over HTTPS for accounts of a cluster: a real API server reviews tokens and rights.

use std::net::SocketAddr;
use std::time::Duration;

use crate::support::apiserver::{Access, ApiServer, object_path};
use crate::support::certificates::Certificates;
use crate::support::https::Https;
use crate::support::needs;
use crate::support::ports;
use crate::support::rbac;
use crate::support::zonewright::Zonewright;
use http::Method;
use serde_json::{Value, json};

/// The time limit of each wait.
const PATIENCE: Duration = Duration::from_secs(60);
/// The zones, one for names and one for addresses.
const ZONES: [&str; 2] = ["cluster.local", "10.in-addr.arpa"];
/// The audience of the tokens that are accepted.
const AUDIENCE: &str = "history.example";
const GROUP: &str = "rbac.authorization.k8s.io";

/// A service account, and the token that the API server gives it for an audience.
fn token(server: &ApiServer, name: &str, audience: &str) -> String {
    let account = json!({
        "apiVersion": "v1", "kind": "ServiceAccount", "metadata": { "namespace": "default", "name": name },
    });
    let path = object_path(&account);
    if server.get(&path).is_err() {
        server.create(&account);
    }
    let request = json!({
        "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
        "spec": { "audiences": [audience], "expirationSeconds": 3600 },
    });
    let body = Some(("application/json", &request));
    let given = server.request(Access::Admin, Method::POST, &format!("{path}/token"), body);
    let given = given.expect("the API server gives a token");
    given["status"]["token"].as_str().unwrap().to_owned()
}

/// Lets an account `get` these zones; all when there is none.
fn grant(server: &ApiServer, name: &str, zones: &[&str]) -> [Value; 2] {
    let mut rule =
        json!({ "apiGroups": ["zonewright.dev"], "resources": ["zones"], "verbs": ["get"] });
    if !zones.is_empty() {
        rule["resourceNames"] = json!(zones);
    }
    let role = json!({
        "apiVersion": format!("{GROUP}/v1"), "kind": "ClusterRole",
        "metadata": { "name": format!("read-{name}") }, "rules": [rule],
    });
    let binding = json!({
        "apiVersion": format!("{GROUP}/v1"), "kind": "ClusterRoleBinding",
        "metadata": { "name": format!("read-{name}") },
        "roleRef": { "apiGroup": GROUP, "kind": "ClusterRole", "name": format!("read-{name}") },
        "subjects": [{ "kind": "ServiceAccount", "namespace": "default", "name": name }],
    });
    [role, binding].map(|object| {
        server.create(&object);
        object
    })
}

/// A zonewright that follows the API server with the rights of `deploy/`, and serves its history.
fn start(server: &ApiServer, address: SocketAddr) -> (Zonewright, Certificates) {
    rbac::grant(server, &["history-api"]);
    let mut zonewright = Zonewright::prepare(&ZONES);
    let certificates = Certificates::new(zonewright.folder().to_owned());
    certificates.write("ns.example");
    zonewright.configure(&format!(
        "    kubernetes {{\n        kubeconfig {}\n    }}\n    history_api {address} {{\n        tls {} {}\n        \
         tokens {AUDIENCE}\n    }}\n",
        server.kubeconfig(Access::Limited).display(),
        certificates.file("ns.example", "pem").display(),
        certificates.file("ns.example", "key").display(),
    ));
    zonewright.start();
    (zonewright, certificates)
}

#[test]
fn a_service_account_reads_the_zones_that_its_role_names_and_no_other() {
    if needs::lacks(&["apiserver", "openssl"]) {
        return;
    }
    let mut server = ApiServer::start();
    let address = ports::free_address();
    let (mut zonewright, certificates) = start(&server, address);
    let client = Https::new(address, &certificates.folder.join("ca.pem"), None);
    let [auditor, shop, nobody] =
        ["auditor", "shop", "nobody"].map(|it| token(&server, it, AUDIENCE));
    let elsewhere = token(&server, "auditor", "https://kubernetes.default.svc");
    grant(&server, "auditor", &[]);
    let of_shop = grant(&server, "shop", &["cluster.local"]);
    let status = |target: &str, token: &str| client.get(target, Some(token)).status;
    let (own, other) = (
        "/v1/zones/cluster.local/log",
        "/v1/zones/10.in-addr.arpa/log",
    );
    // The API server takes a moment to know new roles.
    zonewright.wait_for("the rights of two accounts", PATIENCE, || {
        let may = status("/v1/status", &auditor) == 200 && status(own, &shop) == 200;
        may.then_some(())
    });
    for (target, token, want) in [
        (own, &auditor, 200),
        (other, &auditor, 200),
        ("/v1/log", &auditor, 200),
        (other, &shop, 403),
        ("/v1/log", &shop, 403),
        ("/v1/status", &shop, 403),
        ("/v1/zones/cluster.local/corefile", &shop, 403),
        ("/v1/zones/cluster.local/show", &shop, 200),
        ("/v1/zones/cluster.local/export", &shop, 200),
        (own, &nobody, 403),
        (own, &elsewhere, 401),
        (own, &"no-token".to_owned(), 401),
    ] {
        assert_eq!(status(target, token), want, "{target}");
    }
    assert_eq!(client.get(own, None).status, 401);
    let said = client.get(own, Some(&nobody));
    let needed = "system:serviceaccount:default:nobody may not read the zone cluster.local: it needs `get` on zones.zonewright.dev";
    assert_eq!(said.lines()[0]["error"], needed);
    // A right that is taken away counts no longer than half a minute.
    server.delete(&object_path(&of_shop[1]));
    zonewright.wait_for("the end of a right", PATIENCE, || {
        (status(own, &shop) == 403).then_some(())
    });
    server.kill();
    zonewright.wait_for("no verdict", PATIENCE, || {
        (status(own, &auditor) == 503).then_some(())
    });
    server.resume();
    zonewright.wait_for("a verdict", PATIENCE, || {
        (status(own, &auditor) == 200).then_some(())
    });
    let log = zonewright.log();
    assert!(
        log.contains("system:serviceaccount:default:auditor"),
        "{log}"
    );
    for token in [&auditor, &shop, &nobody, &elsewhere] {
        assert!(!log.contains(token.as_str()), "a token is in the log");
    }
    assert!(zonewright.metric("zonewright_history_api_reviews_total", "failed") >= Some(1.0));
}
