//! Tests of the answers that a client gets for the names of its search path.

use crate::config::handler_metrics;
use kubernetes::facts::{Client, PodAddress};
use server::testing::{ask_request, chain_around, request, text};
use zone::testing::zone;

use super::*;
use crate::handlers::testing::counts;

/// A handler that has an address for each of these names. It fails for `fail.`, and denies all other names.
struct Knows(&'static [&'static str]);

impl Handler for Knows {
    fn name(&self) -> &'static str {
        "knows"
    }

    fn passes(&self, _question: &Question<'_>) -> bool {
        false
    }

    fn answer<'a>(&'a self, request: &'a mut Request, _next: Next) -> BoxFuture<'a, Outcome> {
        let name = request.name.to_lower().to_string();
        let outcome = if name.starts_with("fail.") {
            Outcome::failed("knows", Rcode::SERVFAIL, "no upstream answers")
        } else {
            let mut reply = Reply::empty("knows", Rcode::NXDOMAIN, 0);
            if self.0.contains(&name.as_str()) {
                reply.rcode = Rcode::NOERROR;
                let (rtype, rdata) = Rdata::address([192, 0, 2, 7].into());
                reply.answers.push(Record {
                    owner: request.name.clone(),
                    rtype,
                    ttl: dns::Ttl::decode(9),
                    rdata,
                });
            }
            Outcome::Reply(reply)
        };
        std::future::ready(outcome).boxed()
    }
}

/// The handler for `z.`, with clients in the namespace `a`.
fn of_cluster() -> Arc<AutopathHandler> {
    let clients = Arc::new(ClientPods::default());
    let at = PodAddress {
        namespace: "a".into(),
        address: [192, 0, 2, 1].into(),
    };
    let pod = Client {
        namespace: "a".into(),
        name: "p".into(),
        labels: None,
    };
    clients.publish_all([(&at, pod)].into_iter());
    let zones = vec!["z.".parse().unwrap()];
    let path = vec!["host.test.".parse().unwrap()];
    handler(Some(Cluster { clients, zones }), path)
}

fn handler(cluster: Option<Cluster>, path: Vec<Name>) -> Arc<AutopathHandler> {
    Arc::new(AutopathHandler {
        zones: vec![Name::root()],
        cluster,
        path,
        successes: counts(&handler_metrics()).tally(SUCCESS),
    })
}

/// The zone of these tests.
fn cluster_zone() -> Arc<zone::Zone> {
    let lines = [
        "web.a.svc A 10.0.0.1",
        "web.b.svc A 10.0.0.2",
        "mixed.a.svc TXT x",
        "top A 10.0.0.3",
        "out.a.svc CNAME web.a.svc",
    ];
    zone("z.", 1, &lines)
}

/// The answer to a pod of `a`. The next handler answers names that are not in the zone.
fn ask(question: &str) -> String {
    let knows = Arc::new(Knows(&["api.test.", "far.host.test."]));
    let server = chain_around(vec![of_cluster()], vec![cluster_zone()], vec![knows]);
    ask_request(&server, &mut request(question))
}

#[test]
fn s95_the_third_element_answers_behind_an_alias_and_other_names_are_left_alone() {
    let names = ["one.test.", "two.test.", "three.test."];
    let autopath = handler(None, names.map(|name| name.parse().unwrap()).to_vec());
    let knows = Arc::new(Knows(&["www.three.test.", "x.other.test."]));
    let server = chain_around(vec![autopath.clone()], vec![], vec![knows]);
    for (question, want) in [
        (
            "Www.one.test. A",
            "NOERROR | Www.one.test. 9 IN CNAME Www.three.test. Www.three.test. 9 IN A 192.0.2.7",
        ),
        (
            "x.other.test. A",
            "NOERROR | x.other.test. 9 IN A 192.0.2.7",
        ),
        ("none.one.test. A", "NXDOMAIN"),
        ("fail.one.test. A", "SERVFAIL: no upstream answers"),
        ("one.test. A", "NXDOMAIN"),
    ] {
        assert_eq!(
            ask_request(&server, &mut request(question)),
            want,
            "{question}"
        );
    }
    assert_eq!(autopath.successes.get(&[]), 1);
}

#[test]
fn s96_names_as_a_pod_writes_them_are_found_at_their_place_of_the_path() {
    for (question, want) in [
        // A Service of its namespace, of another, with `svc`, in full, and an external name.
        ("web.a.svc.z. A", "NOERROR | web.a.svc.z. 60 IN A 10.0.0.1"),
        (
            "web.b.a.svc.z. A",
            "NOERROR | web.b.a.svc.z. 60 IN CNAME web.b.svc.z. web.b.svc.z. 60 IN A 10.0.0.2",
        ),
        (
            "web.b.svc.a.svc.z. A",
            "NOERROR | web.b.svc.a.svc.z. 60 IN CNAME web.b.svc.z. web.b.svc.z. 60 IN A 10.0.0.2",
        ),
        (
            "web.b.svc.z.a.svc.z. A",
            "NOERROR | web.b.svc.z.a.svc.z. 60 IN CNAME web.b.svc.z. web.b.svc.z. 60 IN A 10.0.0.2",
        ),
        (
            "api.test.a.svc.z. A",
            "NOERROR | api.test.a.svc.z. 9 IN CNAME api.test. api.test. 9 IN A 192.0.2.7",
        ),
        (
            "far.a.svc.z. A",
            "NOERROR | far.a.svc.z. 9 IN CNAME far.host.test. far.host.test. 9 IN A 192.0.2.7",
        ),
        (
            "top.a.svc.z. A",
            "NOERROR | top.a.svc.z. 60 IN CNAME top.z. top.z. 60 IN A 10.0.0.3",
        ),
    ] {
        assert_eq!(ask(question), want, "{question}");
    }
}

#[test]
fn no_data_and_aliases_win_as_they_are() {
    assert!(ask("mixed.a.svc.z. A").starts_with("NOERROR ; z. 7 IN SOA"));
    assert!(ask("web.b.a.svc.z. TXT").starts_with("NOERROR ; z. 7 IN SOA"));
    assert_eq!(
        ask("out.a.svc.z. A"),
        "NOERROR | out.a.svc.z. 60 IN CNAME web.a.svc.z. web.a.svc.z. 60 IN A 10.0.0.1"
    );
}

#[test]
fn unknown_clients_other_namespaces_and_the_path_itself_pass() {
    let autopath = of_cluster();
    let passes = |question: &str, client: [u8; 4]| {
        let mut request = request(question);
        request.origin.client = (client, 4000).into();
        let lower = request.name.to_lower();
        autopath.passes(&request.question(&lower))
    };
    let (known, unknown) = ([192, 0, 2, 1], [192, 0, 2, 2]);
    assert!(!passes("X.a.Svc.z. A", known));
    assert!(passes("x.a.svc.z. A", unknown));
    for question in [
        "x.b.svc.z. A",
        "a.svc.z. A",
        "x.a.pod.z. A",
        "svc.z.",
        "z.",
        "x.a.svc.y.",
    ] {
        assert!(passes(question, known), "{question}");
    }
}

#[test]
fn where_nothing_answers_the_last_name_the_first_reply_stands() {
    let knows_nothing = chain_around(vec![of_cluster()], vec![cluster_zone()], vec![]);
    let said = ask_request(&knows_nothing, &mut request("api.test.a.svc.z. A"));
    assert!(said.starts_with("NXDOMAIN ; z. 7 IN SOA"), "{said}");
}

#[test]
fn a_walk_through_the_zone_asks_the_chain_for_nothing_but_what_lies_elsewhere() {
    /// Logs the questions that reach it.
    #[derive(Default)]
    struct Log(std::sync::Mutex<Vec<String>>);
    impl Handler for Log {
        fn name(&self) -> &'static str {
            "log"
        }
        fn passes(&self, _question: &Question<'_>) -> bool {
            false
        }
        fn answer<'a>(&'a self, request: &'a mut Request, _next: Next) -> BoxFuture<'a, Outcome> {
            self.0.lock().unwrap().push(request.name.to_string());
            let reply = Reply::empty("log", Rcode::NXDOMAIN, 0);
            std::future::ready(Outcome::Reply(reply)).boxed()
        }
    }
    let log = Arc::new(Log::default());
    let zones = server::BlockZones::new(
        zone::ZoneSet::new(vec![cluster_zone()]),
        std::collections::HashMap::new(),
    );
    let block = server::Block::new(
        vec![of_cluster()],
        zones,
        vec![log.clone()],
        server::Shape::default(),
    );
    let router = Arc::new(server::Router::new(vec![(vec![Name::root()], block)]));
    let outcome = router.answer(&mut request("no.a.svc.z. A")).now_or_never();
    assert!(text(&outcome.unwrap(), 1).starts_with("NXDOMAIN ; z. 7 IN SOA"));
    assert_eq!(*log.0.lock().unwrap(), ["no.host.test.", "no."]);
}
