//! The chain of a server block: handlers in CoreDNS's order, around the zones.
//!
//! A query runs along the chain until a handler answers it. Each handler gets the rest of the chain as [`Next`]: it may
//! run it, run it again with another question, or ignore it.
//!
//! Most queries are for names of zones, and no handler before the zones changes them. [`Handler::passes`] finds that
//! out without allocation, and the server answers them from the zone directly. All others become owned [`Request`]s. An
//! answer from memory is ready at the first poll.

use std::any::Any;
use std::sync::Arc;

use dns::{Name, Rcode, Rtype, SuffixMap};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use prometheus_client::metrics::counter::Counter;
use tokio_util::sync::CancellationToken;

use crate::message::{END_OF_CHAIN, Outcome, Question, Request};
use crate::rate_limit::RateLimit;
use crate::resolve::{View, resolve};
use crate::zones::BlockZones;

/// The most questions that the server may ask itself for one query, as for targets of aliases. CoreDNS has the same
/// limit.
pub const MAX_DEPTH: usize = 8;

/// A handler of a chain.
pub trait Handler: Any + Send + Sync {
    /// Its word in the Corefile.
    fn name(&self) -> &'static str;

    /// Whether it leaves a query and its reply unchanged, so that [`Handler::answer`] would only run the next handler.
    /// It is called for every query: it must be quick and must not allocate.
    fn passes(&self, question: &Question<'_>) -> bool;

    /// Whether transfers that do not pass are refused too.
    fn guards_transfers(&self) -> bool {
        false
    }

    /// The reply to a transfer that does not pass; `None` means REFUSED.
    fn refusal(&self, _question: &Question<'_>) -> Option<Outcome> {
        None
    }

    /// The counter of queries that pass it before they reach the zones, if there is one.
    fn passed(&self) -> Option<Counter> {
        None
    }

    /// Whether it answers queries of classes other than IN.
    fn takes_all_classes(&self) -> bool {
        false
    }

    /// Answers, or runs the next handler.
    fn answer<'a>(&'a self, request: &'a mut Request, next: Next) -> BoxFuture<'a, Outcome>;

    /// Whether a handler made from a new configuration would do the same. Then this one stays in its place with its
    /// contents: answers, connections, the state of other servers. For handlers with such contents; `(new as &dyn
    /// Any).downcast_ref::<Self>()` is the new handler.
    fn same_as(&self, _new: &dyn Handler) -> bool {
        false
    }

    /// Whether it stores the replies of handlers after it. It survives a reload only if all of these do.
    fn keeps_replies(&self) -> bool {
        false
    }

    /// Whether it changes neither questions nor replies, so that replies stored before it stay good without it.
    fn is_probe(&self) -> bool {
        false
    }

    /// Its work besides answering, until cancelled: files to check, servers to probe, answers to refresh.
    fn background(self: Arc<Self>, _cancel: CancellationToken) -> Option<BoxFuture<'static, ()>> {
        None
    }

    /// The reason why that work ended before it was cancelled, which ends the process.
    fn fault(&self) -> Option<String> {
        None
    }
}

/// A server block: its handlers and its zones.
pub struct Block {
    /// The handlers in the order of the chain. The zones, if there are any, are one of them.
    handlers: Vec<Arc<dyn Handler>>,
    /// The number of handlers before the zones.
    before: usize,
    /// The number of handlers after the zones.
    after: usize,
    zones: Arc<BlockZones>,
    /// The counters of queries that the zones answer directly.
    passed: Vec<Counter>,
    /// The form of all its replies.
    pub shape: Shape,
    /// The limit on its replies to each network.
    pub rate_limit: RateLimit,
    /// Whether a query in a datagram needs a cookie of ours, or a signature.
    pub requires_cookie: bool,
}

/// The form of replies, applied as they are written, whichever handler made them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Shape {
    /// `loadbalance`: addresses and mail exchangers have a new order each time.
    pub shuffles: bool,
    /// `minimal`: a reply with an answer has no authority and no additional records.
    pub is_minimal: bool,
    /// `bufsize`: the largest datagram, if it is smaller than the client's.
    pub datagram_octets: Option<u16>,
}

impl Block {
    /// A block with handlers before the zones, the zones, and handlers after them.
    #[must_use]
    pub fn new(
        before: Vec<Arc<dyn Handler>>,
        zones: BlockZones,
        after: Vec<Arc<dyn Handler>>,
        shape: Shape,
    ) -> Self {
        let zones = Arc::new(zones);
        let (fore, aft) = (before.len(), after.len());
        let passed = before.iter().filter_map(|it| it.passed()).collect();
        let mut handlers = before;
        if !zones.set().all().is_empty() {
            handlers.push(Arc::<BlockZones>::clone(&zones));
        }
        handlers.extend(after);
        Self {
            handlers,
            before: fore,
            after: aft,
            zones,
            passed,
            shape,
            rate_limit: RateLimit::default(),
            requires_cookie: false,
        }
    }

    /// The zones.
    #[must_use]
    pub fn zones(&self) -> &BlockZones {
        &self.zones
    }

    /// The view of its zones on a question. `is_signed` says whether one of our keys signed it.
    #[must_use]
    pub fn view(&self, question: &Question<'_>, is_signed: bool) -> View<'_> {
        View::new(&self.zones, question, self.after > 0, is_signed)
    }

    /// The handlers, in order.
    #[must_use]
    pub fn handlers(&self) -> &[Arc<dyn Handler>] {
        &self.handlers
    }

    /// The handlers before the zones, and those after them.
    #[must_use]
    pub fn around_zones(&self) -> [&[Arc<dyn Handler>]; 2] {
        let after = self.handlers.len() - self.after;
        [&self.handlers[..self.before], &self.handlers[after..]]
    }

    /// Whether a query reaches the zones unchanged.
    #[must_use]
    pub fn reaches_zones(&self, question: &Question<'_>) -> bool {
        let before = &self.handlers[..self.before];
        before.iter().all(|handler| handler.passes(question))
    }

    /// Whether a handler forbids a transfer.
    #[must_use]
    pub fn forbids(&self, question: &Question<'_>) -> bool {
        let mut guards = self.handlers.iter().filter(|it| it.guards_transfers());
        guards.any(|handler| !handler.passes(question))
    }

    /// The reply of a handler to a transfer that it forbids; `None` means REFUSED.
    #[must_use]
    pub fn refusal(&self, question: &Question<'_>) -> Option<Outcome> {
        let mut guards = self.handlers.iter().filter(|it| it.guards_transfers());
        guards.find(|it| !it.passes(question))?.refusal(question)
    }

    /// Counts a query that the zones answered directly.
    pub fn count_passed(&self) {
        for count in &self.passed {
            count.inc();
        }
    }

    /// Whether it has no handlers besides its zones.
    #[must_use]
    pub fn is_plain(&self) -> bool {
        self.before + self.after == 0
    }

    /// Whether some handler answers queries of classes other than IN.
    #[must_use]
    pub fn takes_all_classes(&self) -> bool {
        self.handlers.iter().any(|it| it.takes_all_classes())
    }
}

/// The blocks of a listener. It finds the block of a query.
#[derive(Default)]
pub struct Router {
    blocks: Vec<Block>,
    /// The keys of each block.
    names: Vec<Vec<Name>>,
    /// The keys, in wire form and lower case, with their blocks.
    keys: SuffixMap<Found>,
}

/// A key at or above a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Found {
    /// The index of its block.
    pub block: usize,
    /// Its index among the keys of all blocks.
    pub key: usize,
}

impl Router {
    /// A router over blocks and the zones of their keys. If two keys are equal, the first counts.
    #[must_use]
    pub fn new(blocks: Vec<(Vec<Name>, Block)>) -> Self {
        let mut router = Self::default();
        let mut count = 0;
        for (place, (keys, block)) in blocks.into_iter().enumerate() {
            for key in &keys {
                let found = Found {
                    block: place,
                    key: count,
                };
                router.keys.add(key.to_lower().as_wire(), found);
                count += 1;
            }
            router.blocks.push(block);
            router.names.push(keys);
        }
        router
    }

    /// The blocks, in the order of the file.
    #[must_use]
    pub fn blocks(&self) -> &[Block] {
        &self.blocks
    }

    /// The keys of each block, in the order of the file.
    #[must_use]
    pub fn keys(&self) -> &[Vec<Name>] {
        &self.names
    }

    /// The index of the block with the longest key at or above a name in lower case. A DS question goes to the shortest
    /// except the root, as in CoreDNS: DS is above a cut (RFC 4035 section 3.1.4.1).
    #[must_use]
    pub fn find(&self, lower_wire: &[u8], qtype: Rtype) -> Option<usize> {
        self.find_key(lower_wire, qtype).map(|found| found.block)
    }

    /// As [`Self::find`], with the key.
    #[must_use]
    pub fn find_key(&self, lower_wire: &[u8], qtype: Rtype) -> Option<Found> {
        let mut own = self.keys.find(lower_wire);
        if qtype == Rtype::DS {
            let mut rest = lower_wire;
            while let Some(length) = rest.first().filter(|length| **length > 0) {
                own = self.keys.get(rest).or(own);
                rest = rest.get(usize::from(*length) + 1..).unwrap_or_default();
            }
        }
        own.copied()
    }

    /// Whether an answer that ends with an alias is completed from another zone or from upstreams. That is so if this
    /// block, or the block of the target (in wire form), has more than zones. Allocates nothing.
    #[must_use]
    pub fn follows(&self, block: usize, target: &[u8], qtype: Rtype) -> bool {
        let is_more = |block: usize| !self.blocks()[block].is_plain();
        if is_more(block) {
            return true;
        }
        let mut room = [0; 255];
        let Some(lower) = room.get_mut(..target.len()) else {
            return false;
        };
        lower.copy_from_slice(target);
        lower.make_ascii_lowercase();
        self.find(lower, qtype).is_some_and(is_more)
    }

    /// Runs a query through its block.
    pub async fn answer(self: Arc<Self>, request: &mut Request) -> Outcome {
        let lower = request.name.to_lower();
        match self.find(lower.as_wire(), request.qtype) {
            None => Outcome::Failed(crate::message::Failure {
                rcode: Rcode::REFUSED,
                by: "",
                error: None,
                extended: Some(NOT_AUTHORITATIVE),
            }),
            Some(block) => {
                let next = Next {
                    router: self,
                    block,
                    at: 0,
                };
                next.run(request).await
            }
        }
    }
}

/// EDE 20 (RFC 8914 section 5.2): the server has no zone for the name.
pub const NOT_AUTHORITATIVE: u16 = 20;

/// The rest of a chain after a handler.
#[derive(Clone)]
pub struct Next {
    router: Arc<Router>,
    block: usize,
    /// The index of the next handler.
    at: usize,
}

impl Next {
    /// The start of a block's chain.
    #[must_use]
    pub const fn start(router: Arc<Router>, block: usize) -> Self {
        Self {
            router,
            block,
            at: 0,
        }
    }

    /// The zones of a block, and the handlers after them. For signed questions, which get the answers that a secondary
    /// has.
    #[must_use]
    pub fn at_zones(router: Arc<Router>, block: usize) -> Self {
        let at = router.blocks[block].before;
        Self { router, block, at }
    }

    /// Runs the rest of the chain. At its end, a block with zones alone has no zone for the name (REFUSED). In other
    /// blocks a handler expected another one (SERVFAIL, as in CoreDNS).
    pub fn run(self, request: &mut Request) -> BoxFuture<'_, Outcome> {
        let block = &self.router.blocks[self.block];
        match block.handlers.get(self.at) {
            Some(handler) => {
                let handler = Arc::clone(handler);
                let next = Self {
                    at: self.at + 1,
                    ..self
                };
                async move { handler.answer(request, next).await }.boxed()
            }
            None => {
                let outcome = self.end();
                std::future::ready(outcome).boxed()
            }
        }
    }

    /// The outcome at the end of the chain.
    fn end(&self) -> Outcome {
        let block = &self.router.blocks[self.block];
        if block.is_plain() {
            return Outcome::Failed(crate::message::Failure {
                rcode: Rcode::REFUSED,
                by: "",
                error: None,
                extended: Some(NOT_AUTHORITATIVE),
            });
        }
        let last = block.handlers.last().map_or("", |handler| handler.name());
        let error = format!("plugin/{last}: {END_OF_CHAIN}");
        Outcome::failed(last, Rcode::SERVFAIL, error)
    }

    /// Whether a zone can tell without waiting that it lacks the name, and no handler after it answers for the name.
    #[must_use]
    pub fn is_missing(&self, question: &Question<'_>) -> bool {
        let block = self.block();
        let Some(between) = block.handlers.get(self.at..block.before) else {
            return false;
        };
        between.iter().all(|handler| handler.passes(question))
            && resolve(&block.view(question, false), question, &mut Vec::new()).is_missing()
    }

    /// All blocks, and the index of this one.
    pub fn place(&self) -> (&Router, usize) {
        (&self.router, self.block)
    }

    /// Asks the whole server, as a client would, for example for the target of an alias. A question that was asked
    /// before on behalf of the same query is not asked again, as it would go round.
    pub fn again(self, request: &mut Request) -> BoxFuture<'_, Outcome> {
        let asked = (request.name.to_lower(), request.qtype);
        if request.depth >= MAX_DEPTH || request.trail.contains(&asked) {
            let error = "too many aliases, or a loop of them";
            let outcome = Outcome::failed("", Rcode::SERVFAIL, error);
            return std::future::ready(outcome).boxed();
        }
        request.trail.push(asked);
        request.depth += 1;
        async move {
            let outcome = self.router.answer(request).await;
            request.depth -= 1;
            request.trail.pop();
            outcome
        }
        .boxed()
    }

    /// The block.
    #[must_use]
    pub fn block(&self) -> &Block {
        &self.router.blocks[self.block]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Counting, ask, chain_around};
    use zone::testing::zone;

    #[test]
    fn names_of_zones_stay_there_and_missing_ones_fall_through() {
        let lines = [
            "www A 10.1.0.1",
            "out CNAME www.elsewhere.",
            "gone CNAME no",
        ];
        let zones = vec![zone("z.", 1, &lines)];
        let server = chain_around(vec![], zones, vec![Arc::new(Counting::default())]);
        for (question, want) in [
            ("www.z. A", "NOERROR | www.z. 60 IN A 10.1.0.1"),
            ("other.z. A", "NOERROR | other.z. 300 IN A 10.0.0.1"),
            ("far.test. A", "NOERROR | far.test. 300 IN A 10.0.0.2"),
            (
                "out.z. A",
                "NOERROR | out.z. 60 IN CNAME www.elsewhere. www.elsewhere. 300 IN A 10.0.0.3",
            ),
            (
                "out.z. CNAME",
                "NOERROR | out.z. 60 IN CNAME www.elsewhere.",
            ),
        ] {
            assert_eq!(ask(&server, question), want, "{question}");
        }
        assert!(ask(&server, "gone.z. A").starts_with("NXDOMAIN | gone.z. 60 IN CNAME no.z. ; z."));
        assert!(ask(&server, "www.z. TXT").starts_with("NOERROR ; z. 7 IN SOA"));
    }

    #[test]
    fn an_alias_whose_target_nobody_knows_stands_alone() {
        let server = chain_around(vec![], vec![zone("z.", 1, &["out CNAME x.y."])], vec![]);
        assert_eq!(
            ask(&server, "out.z. A"),
            "NOERROR | out.z. 60 IN CNAME x.y."
        );
        assert_eq!(ask(&server, "x.y. A"), "REFUSED: -");
    }

    #[test]
    fn aliases_of_zones_that_lead_in_a_circle_end() {
        let zones = vec![
            zone("y.", 1, &["a CNAME a.z."]),
            zone("z.", 1, &["a CNAME a.y."]),
        ];
        let server = chain_around(vec![], zones, vec![Arc::new(Counting::default())]);
        let said = ask(&server, "a.y. A");
        // Each record once: a repeated question is not asked again.
        let want = "NOERROR | a.y. 60 IN CNAME a.z. a.z. 60 IN CNAME a.y.";
        assert_eq!(said, want);
    }

    #[test]
    fn the_longest_key_takes_a_query_but_ds_goes_to_the_shortest_that_is_not_the_root() {
        let block = || {
            let handlers: Vec<Arc<dyn Handler>> = vec![Arc::new(Counting::default())];
            Block::new(handlers, BlockZones::default(), vec![], Shape::default())
        };
        let name = |text: &str| text.parse::<Name>().unwrap();
        let keys = [vec![name("org.")], vec![name("Example.org."), name("two.")]];
        let router = Router::new(keys.into_iter().map(|keys| (keys, block())).collect());
        let find = |text: &str, qtype| router.find(name(text).as_wire(), qtype);
        assert_eq!(find("www.example.org.", Rtype::A), Some(1));
        assert_eq!(find("www.example.org.", Rtype::DS), Some(0));
        assert_eq!(find("example.org.", Rtype::A), Some(1));
        assert_eq!(find("example.org.", Rtype::DS), Some(0));
        assert_eq!(find("two.", Rtype::DS), Some(1));
        assert_eq!(find("foo.com.", Rtype::A), None);
        assert_eq!(find("foo.com.", Rtype::DS), None);
        let keys = [vec![name("corp.example.")], vec![Name::root()]];
        let router = Router::new(keys.into_iter().map(|keys| (keys, block())).collect());
        let find = |text: &str| router.find(name(text).as_wire(), Rtype::DS);
        assert_eq!(find("corp.example."), Some(0));
        assert_eq!(find("x.corp.example."), Some(0));
        assert_eq!(find("example."), Some(1));
        assert_eq!(find("."), Some(1));
    }
}
