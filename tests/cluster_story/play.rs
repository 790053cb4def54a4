//! The story itself: its people, and what they do in which order.

use std::time::Duration;

use serde_json::{Value, json};

use super::stage::{FORWARD, HOLD_MS, REVERSE, Selection, Stage, ZONES, identity};

/// The serials that the page of the story names.
#[derive(Clone, Copy, Debug)]
pub struct Serials {
    /// Alice has added `shop/web`.
    pub web: u32,
    /// Carol has changed it, after Bob.
    pub www: u32,
    /// Before the mistake of Bob.
    pub before_mistake: u32,
    /// After it was rolled back.
    pub rolled_back: u32,
}

/// A Service with an address, or headless, with one port.
fn service(namespace: &str, name: &str, address: Option<&str>, port: (&str, u16)) -> Value {
    let mut object = identity("Service", namespace, name);
    object["spec"] = ports(port);
    if let Some(address) = address {
        object["spec"]["clusterIP"] = address.into();
    }
    object
}

fn ports((name, number): (&str, u16)) -> Value {
    json!({ "ports": [{ "name": name, "port": number, "protocol": "TCP" }] })
}

/// The slice of `shop/db` with so many endpoints. The first is not in the zone of addresses: of a slice and a Service that are
/// listed together, a PTR names one or both, as the lists come.
fn slice(endpoints: u8) -> Value {
    let endpoint = |host| {
        let net = if host == 1 { "172.20" } else { "10.244" };
        json!({ "addresses": [format!("{net}.0.{host}")], "conditions": { "ready": true } })
    };
    let mut object = identity("EndpointSlice", "shop", "db-1");
    object["metadata"]["labels"] = json!({ "kubernetes.io/service-name": "db" });
    object["addressType"] = "IPv4".into();
    object["endpoints"] = (1..=endpoints).map(endpoint).collect();
    object["ports"] = json!([{ "name": "sql", "port": 5432, "protocol": "TCP" }]);
    object
}

/// The namespaces that are served at first. The others are those of the API server.
const NAMESPACES: [&str; 4] = ["shop", "staging", "billing", "partner"];

/// The cluster before zonewright starts.
fn make_cluster(stage: &mut Stage) {
    for name in NAMESPACES {
        stage.apply(&identity("Namespace", "", name), "dana");
    }
    for (namespace, name, address, person) in [
        ("shop", "old", "10.96.0.70", "alice"),
        ("staging", "api", "10.96.0.71", "bob"),
        ("shop", "cache", "10.96.0.72", "carol"),
        ("partner", "feed", "10.96.0.73", "erin"),
    ] {
        let object = service(namespace, name, Some(address), ("http", 80));
        stage.apply(&object, person);
    }
    for number in INVOICES {
        let (name, address) = (format!("invoice-{number}"), format!("10.96.0.9{number}"));
        let object = service("billing", &name, Some(&address), ("http", 80));
        stage.apply(&object, "erin");
    }
    stage.apply(&service("shop", "db", Some("None"), ("sql", 5432)), "alice");
    stage.apply(&slice(1), "scaler");
}

/// The Services of `billing`.
const INVOICES: std::ops::RangeInclusive<u8> = 1..=5;

/// Plays the story.
pub fn play() -> (Stage, Serials) {
    let mut stage = Stage::set(&Selection {
        ttl: None,
        namespaces: &NAMESPACES,
        at_least: 10,
    });
    stage.step("the cluster is made", &[], make_cluster);
    stage.step("zonewright starts", &ZONES, |it| {
        let kubeconfig = it.zonewright.folder().join("kubeconfig");
        it.configured_from(kubeconfig.display().to_string());
        it.start();
    });
    let [web, www] = people_change_a_service(&mut stage);
    objects_go(&mut stage);
    the_corefile_changes(&mut stage);
    the_zone_is_frozen(&mut stage);
    let before_mistake = serial(&stage);
    let rolled_back = the_zone_is_rolled_back(&mut stage, before_mistake);
    the_gate_holds_a_namespace(&mut stage);
    stage.expect_no_other_version("the end");
    let serials = Serials {
        web,
        www,
        before_mistake,
        rolled_back,
    };
    (stage, serials)
}

/// The serial that is served.
fn serial(stage: &Stage) -> u32 {
    stage.record.newest(FORWARD).content.serial
}

/// Another port of a Service.
fn with_port(namespace: &str, name: &str, port: (&str, u16)) -> Value {
    service(namespace, name, None, port)
}

fn people_change_a_service(stage: &mut Stage) -> [u32; 2] {
    stage.step("alice adds shop/web", &ZONES, |it| {
        let web = service("shop", "web", Some("10.96.0.80"), ("http", 80));
        it.apply(&web, "alice");
    });
    let web = serial(stage);
    stage.step("bob adds a port", &[FORWARD], |it| {
        it.apply(&with_port("shop", "web", ("https", 443)), "bob");
    });
    stage.step("carol renames a port", &[FORWARD], |it| {
        it.apply(&with_port("shop", "web", ("www", 80)), "carol");
    });
    let www = serial(stage);
    stage.step("shop/db is scaled up", &ZONES, |it| {
        it.apply(&slice(3), "scaler");
    });
    [web, www]
}

fn objects_go(stage: &mut Stage) {
    stage.step("dana deletes staging", &ZONES, |it| {
        it.delete("Namespace", "", "staging", "dana");
    });
    stage.step("shop/old goes while the API server is away", &ZONES, |it| {
        it.while_away(|it| it.delete("Service", "shop", "old", "bob"));
    });
    stage.step("objects change while zonewright is down", &ZONES, |it| {
        it.stop();
        it.delete("Service", "shop", "cache", "carol");
        it.apply(&slice(2), "scaler");
        it.start();
    });
}

fn the_corefile_changes(stage: &mut Stage) {
    let mut selection = Selection {
        ttl: Some(30),
        namespaces: &NAMESPACES,
        at_least: 10,
    };
    stage.step("the ttl changes", &ZONES, |it| it.reload(&selection));
    selection.namespaces = &NAMESPACES[..3];
    stage.step("partner is hidden", &ZONES, |it| it.reload(&selection));
    selection.namespaces = &NAMESPACES;
    stage.step("partner is shown again", &ZONES, |it| it.reload(&selection));
    selection.at_least = 9;
    stage.step("no record changes", &[], |it| it.reload(&selection));
}

fn the_zone_is_frozen(stage: &mut Stage) {
    stage.step("a freeze", &[], |it| it.freeze(true, "ticket 1"));
    stage.step("its end, without a change", &[], |it| {
        it.release("ticket 1 is done");
    });
    stage.step("another freeze", &[], |it| it.freeze(false, "ticket 2"));
    stage.step("changes wait for its end", &[REVERSE], |it| {
        it.apply(&with_port("shop", "web", ("admin", 8080)), "bob");
        let mail = service("shop", "mail", Some("10.96.0.81"), ("smtp", 25));
        it.apply(&mail, "alice");
    });
    stage.ask_why("mail", "10.96.0.81");
    stage.step("its end, with both changes", &[FORWARD], |it| {
        it.release("ticket 2 is done");
    });
}

fn the_zone_is_rolled_back(stage: &mut Stage, before_mistake: u32) -> u32 {
    stage.step("bob makes a mistake", &[FORWARD], |it| {
        it.apply(&with_port("shop", "mail", ("submission", 587)), "bob");
    });
    stage.step("a rollback", &[FORWARD], |it| {
        it.roll_back(before_mistake, "ticket 3");
    });
    let rolled_back = serial(stage);
    stage.step("changes wait for the end of it", &[REVERSE], |it| {
        it.apply(&with_port("shop", "web", ("metrics", 9090)), "dana");
        let news = service("shop", "news", Some("10.96.0.82"), ("http", 80));
        it.apply(&news, "alice");
    });
    stage.ask_why("news", "10.96.0.82");
    stage.step("the end of the rollback", &[FORWARD], |it| {
        it.release("ticket 3 is done");
    });
    stage.step("dana deletes shop/mail", &ZONES, |it| {
        it.delete("Service", "shop", "mail", "dana");
    });
    rolled_back
}

fn the_gate_holds_a_namespace(stage: &mut Stage) {
    let what = "all of billing goes while the API server is away";
    stage.step(what, &ZONES, |it| {
        it.expire("billing");
        it.while_away(|it| {
            for number in INVOICES {
                it.delete("Service", "billing", &format!("invoice-{number}"), "erin");
            }
        });
    });
    assert!(stage.since_return() >= Duration::from_millis(HOLD_MS));
    stage.wait_for_act("expired for all that was held");
}
