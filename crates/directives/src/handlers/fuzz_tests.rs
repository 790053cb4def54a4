//! Requests of any octets: each gets no reply or one valid reply, also with handlers around the zones.

use std::cell::RefCell;
use std::sync::Arc;

use ::fuzz::Fuzz;
use dns::Rtype;
use dns::testing::{query, with_opt};
use ops::Clock;
use server::testing::Setup;
use server::testing::desk::{Desk, PARTS, given, requests};
use zone::testing::zone;

use crate::config::{Overrides, handler_metrics, handlers, parse_text};
use crate::handlers::testing::context;

/// A desk for one zone, with handlers around it from a Corefile.
fn handlers_desk() -> Desk {
    let text = ". {\n acl {\n  block type MX net *\n  allow net *\n }\n cache 30\n dns64\n loadbalance round_robin {\n  \
                prefer 10.0.0.0/8\n }\n rewrite name regex (.*)\\.old {1}.z answer auto\n rewrite edns0 local set 0xffee 0x01 revert\n \
                hosts {\n  10.0.0.1 host.z\n  fallthrough\n }\n \
                template IN A z {\n  match ^ip-(?P<a>[0-9]*)\\.z\\.$\n  answer \"{{ .Name }} 60 IN A 10.0.0.{{ .Group.a }}\"\n  \
                fallthrough\n }\n forward . 192.0.2.1\n}\n";
    let loaded = parse_text("Corefile", text, &Overrides::default(), &|_| None).unwrap();
    let on = &loaded.config.servers[0];
    let metrics = handler_metrics();
    let clock: Arc<dyn Clock> = ops::HandClock::at(0);
    let [before, _] = handlers(on, context(&clock, &metrics, &Default::default())).unwrap();
    assert_eq!(before.len(), 7);
    let mut setup = Setup::new(vec![zone("z.", 5, &["www A 10.0.0.1", "alias CNAME www"])]);
    setup.handlers = [before, vec![]];
    Desk::new(setup)
}

#[test]
fn requests_of_any_octets_get_nothing_or_a_message_from_handlers_too() {
    let desk = RefCell::new(handlers_desk());
    let mut seeds = requests();
    for (name, rtype) in [
        ("ip-7.z.", Rtype::A),
        ("host.z.", Rtype::AAAA),
        ("www.old.", Rtype::A),
        ("www.z.", Rtype::MX),
        ("1.0.0.10.in-addr.arpa.", Rtype::PTR),
    ] {
        let plain = query(7, name, rtype);
        seeds.push(with_opt(plain.clone(), 1232, 0, &[0, 8, 0, 4, 0, 1, 0, 0]));
        seeds.push(plain);
    }
    // Each handler is reached.
    for (name, rtype, want) in [
        ("ip-7.z.", Rtype::A, (0, 1)),
        ("host.z.", Rtype::A, (0, 1)),
        ("www.old.", Rtype::A, (0, 1)),
        ("www.z.", Rtype::MX, (5, 0)),
    ] {
        let message = desk.borrow_mut().ask(&query(1, name, rtype));
        let came = (message.metadata.response_code.low(), message.answers.len());
        assert_eq!(came, want, "{name}");
    }
    Fuzz::new(seeds, PARTS).run("chain", |input| given(&desk, input));
}
