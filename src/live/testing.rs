//! For tests of handlers: chains, questions as text, and what they say as text.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;

use crate::dns::{Name, RecordText, Rtype};
use crate::live::message::CLASS_IN;
use crate::live::{
    Block, BlockZones, Counts, Handler, Next, Origin, Outcome, Proto, Question, Reply, Request,
    Router, Shape,
};
use crate::ops::HandlerMetrics;
use crate::zone::{Zone, ZoneSet};

/// A server of one block for all names, without zones.
pub(crate) fn chain(before: Vec<Arc<dyn Handler>>, after: Vec<Arc<dyn Handler>>) -> Arc<Router> {
    chain_around(before, vec![], after)
}

/// A server of one block for all names; missing names of all zones fall through.
pub(crate) fn chain_around(
    before: Vec<Arc<dyn Handler>>,
    zones: Vec<Arc<Zone>>,
    after: Vec<Arc<dyn Handler>>,
) -> Arc<Router> {
    let below = |zone: &Arc<Zone>| (zone.apex().clone(), vec![Name::root()]);
    let fallthrough = zones.iter().map(below).collect();
    let zones = BlockZones::new(
        ZoneSet::new(zones),
        std::collections::HashMap::new(),
        fallthrough,
    );
    let block = Block::new(before, zones, after, Shape::default());
    Arc::new(Router::new(vec![(vec![Name::root()], block)]))
}

/// Where handlers of tests count.
pub(crate) const fn counts(metrics: &HandlerMetrics) -> Counts<'_> {
    Counts {
        metrics,
        server: "dns://:53",
    }
}

/// A request from `NAME TYPE [CLASS]`, as 192.0.2.1 sends it by UDP without EDNS.
pub(crate) fn request(text: &str) -> Request {
    let mut words = text.split(' ');
    let name: Name = words.next().unwrap().parse().unwrap();
    let qtype = words.next().map_or(Rtype::A, |word| match word {
        "ANY" => Rtype::ANY,
        word => word.parse().unwrap(),
    });
    Request {
        id: 1,
        flags: crate::dns::flags::RD,
        trail: vec![(name.to_lower(), qtype)],
        depth: 0,
        name,
        qtype,
        qclass: words
            .next()
            .map_or(CLASS_IN, |class| if class == "CH" { 3 } else { 255 }),
        edns: None,
        origin: Origin {
            client: ([192, 0, 2, 1], 4000).into(),
            local: ([192, 0, 2, 53], 53).into(),
            proto: Proto::Udp,
            octets: 40,
        },
        metadata: BTreeMap::new(),
    }
}

/// What a server says to a question, as text; it must not have to wait.
pub(crate) fn ask(router: &Arc<Router>, question: &str) -> String {
    ask_request(router, &mut request(question))
}

/// What a server says to a request, as text; it must not have to wait.
pub(crate) fn ask_request(router: &Arc<Router>, request: &mut Request) -> String {
    let class = request.qclass;
    let outcome = Arc::clone(router).answer(request).now_or_never();
    text(&outcome.expect("answered from memory"), class)
}

/// An outcome as `RCODE | answers; authority; additional`, parts without records left out.
pub(crate) fn text(outcome: &Outcome, class: u16) -> String {
    let class = if class == 3 { " CH " } else { " IN " };
    match outcome {
        Outcome::Dropped => "dropped".to_owned(),
        Outcome::Failed(failure) => {
            let error = failure.error.as_deref().unwrap_or("-");
            format!("{}: {error}", failure.rcode)
        }
        Outcome::Reply(reply) => {
            let mut text = reply.rcode.to_string();
            let sections = [
                (" | ", &reply.answers),
                (" ; ", &reply.authority),
                (" + ", &reply.additional),
            ];
            for (mark, records) in sections {
                for (place, record) in records.iter().enumerate() {
                    text.push_str(if place == 0 { mark } else { " " });
                    let line = RecordText(record.view()).to_string().replace('\t', " ");
                    text.push_str(&line.replacen(" IN ", class, 1));
                }
            }
            text
        }
    }
}

/// A handler that answers everything with one address, `10.0.0.N`, and N more with each question.
#[derive(Debug, Default)]
pub(crate) struct Counting(std::sync::atomic::AtomicU8);

impl Handler for Counting {
    fn name(&self) -> &'static str {
        "counting"
    }

    fn passes(&self, _question: &Question<'_>) -> bool {
        false
    }

    fn answer<'a>(&'a self, request: &'a mut Request, _next: Next) -> BoxFuture<'a, Outcome> {
        let number = 1 + self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let mut reply = Reply::empty("counting", crate::dns::Rcode::NOERROR, 0);
        let (rtype, rdata) = crate::dns::Rdata::address([10, 0, 0, number].into());
        reply.answers.push(crate::dns::Record {
            owner: request.name.clone(),
            rtype,
            ttl: crate::dns::Ttl::decode(300),
            rdata,
        });
        std::future::ready(Outcome::Reply(reply)).boxed()
    }
}
