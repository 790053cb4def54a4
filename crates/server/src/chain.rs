//! The chain of a server block: handlers in CoreDNS's order, around the zones.
//!
//! A query runs along the chain until a handler answers it; what is behind a handler is [`Next`], which it
//! may run, run again with another question, or leave. Most queries are for names of zones and no matter of
//! any handler in front of them: [`Handler::passes`] tells so, without allocation, and the server answers
//! them from the zone at once. All others are owned [`Request`]s; what can be answered from memory is
//! ready at the first poll.

use std::any::Any;
use std::sync::Arc;

use dns::{Name, Rcode, Rtype, SuffixMap};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use prometheus_client::metrics::counter::Counter;
use tokio_util::sync::CancellationToken;

use crate::message::{END_OF_CHAIN, Outcome, Question, Request};
use crate::resolve::{View, resolve};
use crate::zones::BlockZones;

/// How many times the server may ask itself on behalf of one query: for targets of aliases, as CoreDNS.
pub const MAX_DEPTH: usize = 8;

/// A part of a chain.
pub trait Handler: Any + Send + Sync {
    /// Its word in the Corefile.
    fn name(&self) -> &'static str;

    /// Whether a query goes by untouched, and so does its reply: what [`Handler::answer`] would do is only
    /// to run the next. Called for every query: it must be quick and must not allocate.
    fn passes(&self, question: &Question<'_>) -> bool;

    /// Whether what does not pass may have no transfer either.
    fn guards_transfers(&self) -> bool {
        false
    }

    /// What is said to a transfer that does not pass; `None` is for REFUSED.
    fn refusal(&self, _question: &Question<'_>) -> Option<Outcome> {
        None
    }

    /// Counts the queries that pass it on the way to the zones, if someone wants to know.
    fn passed(&self) -> Option<Counter> {
        None
    }

    /// Whether queries of classes other than IN come here.
    fn takes_all_classes(&self) -> bool {
        false
    }

    /// Answers, or runs the next.
    fn answer<'a>(&'a self, request: &'a mut Request, next: Next) -> BoxFuture<'a, Outcome>;

    /// Whether one that was made of a new configuration would do what this one does: then this one goes
    /// on in its place, with what it holds (answers, connections, what it knows of other servers). For
    /// handlers that hold something; `(new as &dyn Any).downcast_ref::<Self>()` says what the other is.
    fn same_as(&self, _new: &dyn Handler) -> bool {
        false
    }

    /// Whether it keeps replies from behind it. After a reload it stays only if all handlers behind it do.
    fn keeps_replies(&self) -> bool {
        false
    }

    /// Whether it changes neither questions nor replies, so that replies kept in front of it stay good without it.
    fn is_probe(&self) -> bool {
        false
    }

    /// What it does besides answering, until told to stop: files that are looked at, servers that are
    /// tried, answers that are refreshed.
    fn background(self: Arc<Self>, _cancel: CancellationToken) -> Option<BoxFuture<'static, ()>> {
        None
    }

    /// Why that ended before it was told to, which ends the process.
    fn fault(&self) -> Option<String> {
        None
    }
}

/// One server block: its handlers and its zones.
pub struct Block {
    /// In the order of the chain; the zones, if there are any, are one of them.
    handlers: Vec<Arc<dyn Handler>>,
    /// How many stand in front of the zones.
    before: usize,
    /// How many stand behind the zones.
    after: usize,
    /// The zones.
    zones: Arc<BlockZones>,
    /// What counts queries that go straight to the zones.
    passed: Vec<Counter>,
    /// What is done to every reply on its way out.
    pub shape: Shape,
}

/// What is done to every reply as it is written, whoever made it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Shape {
    /// `loadbalance`: addresses and mail exchangers in another order each time.
    pub shuffles: bool,
    /// `minimal`: authority and additional are left out where there is an answer.
    pub is_minimal: bool,
    /// `bufsize`: the largest datagram, if smaller than the client's.
    pub datagram_octets: Option<u16>,
}

impl Block {
    /// A block: the handlers in front of the zones, the zones, the handlers behind them.
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
        }
    }

    /// The zones.
    #[must_use]
    pub fn zones(&self) -> &BlockZones {
        &self.zones
    }

    /// The view of its zones on a question, which may be signed by a key of ours.
    #[must_use]
    pub fn view(&self, question: &Question<'_>, is_signed: bool) -> View<'_> {
        View::new(&self.zones, question, self.after > 0, is_signed)
    }

    /// The handlers, in order.
    #[must_use]
    pub fn handlers(&self) -> &[Arc<dyn Handler>] {
        &self.handlers
    }

    /// The handlers in front of the zones, and those behind them.
    #[must_use]
    pub fn around_zones(&self) -> [&[Arc<dyn Handler>]; 2] {
        let after = self.handlers.len() - self.after;
        [&self.handlers[..self.before], &self.handlers[after..]]
    }

    /// Whether a query reaches the zones untouched.
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

    /// What a handler says to a transfer that it forbids; `None` is for REFUSED.
    #[must_use]
    pub fn refusal(&self, question: &Question<'_>) -> Option<Outcome> {
        let mut guards = self.handlers.iter().filter(|it| it.guards_transfers());
        guards.find(|it| !it.passes(question))?.refusal(question)
    }

    /// Counts a query that was answered from the zones at once.
    pub fn count_passed(&self) {
        for count in &self.passed {
            count.inc();
        }
    }

    /// Whether it has nothing but zones, if that.
    #[must_use]
    pub fn is_plain(&self) -> bool {
        self.before + self.after == 0
    }

    /// Whether queries of a class come here.
    #[must_use]
    pub fn takes_all_classes(&self) -> bool {
        self.handlers.iter().any(|it| it.takes_all_classes())
    }
}

/// The blocks of a listener: which one a query is for.
#[derive(Default)]
pub struct Router {
    /// The blocks, in the order of the file.
    blocks: Vec<Block>,
    /// The keys of each block.
    names: Vec<Vec<Name>>,
    /// Lower-case wire names of keys, with their blocks.
    keys: SuffixMap<Found>,
}

/// A key that holds a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Found {
    /// The place of its block.
    pub block: usize,
    /// Its own place among the keys of all blocks.
    pub key: usize,
}

impl Router {
    /// A router over blocks and the zones of their keys; of two with one name the first counts.
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

    /// The place of the block whose key is the longest that holds a lower-case wire name. A DS question goes to
    /// the shortest but the root, as in CoreDNS: DS stands above a cut (RFC 4035 section 3.1.4.1).
    #[must_use]
    pub fn find(&self, lower_wire: &[u8], qtype: Rtype) -> Option<usize> {
        self.find_key(lower_wire, qtype).map(|found| found.block)
    }

    /// The same, with the key.
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

    /// Whether an answer of a block's zones that ends with an alias is completed from another zone or from
    /// upstreams: where the block, or the one that the target (in wire form) belongs to, has more than zones.
    /// Allocates nothing.
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

    /// Runs a query through the block it is for.
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

/// EDE 20 (RFC 8914 section 5.2): the name is none of ours.
pub const NOT_AUTHORITATIVE: u16 = 20;

/// What stands behind a handler.
#[derive(Clone)]
pub struct Next {
    /// All blocks.
    router: Arc<Router>,
    /// The block.
    block: usize,
    /// The place in its chain.
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

    /// The zones of a block, and what stands behind them: for signed questions, whose answers are what a
    /// secondary holds.
    #[must_use]
    pub fn at_zones(router: Arc<Router>, block: usize) -> Self {
        let at = router.blocks[block].before;
        Self { router, block, at }
    }

    /// Runs the rest of the chain. At its end: a block of zones alone has nothing to do with the name
    /// (REFUSED), a handler that counted on another is an error (SERVFAIL, as CoreDNS).
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

    /// What the end of the chain says.
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

    /// Whether a zone says at once that it has no such name, and nothing else stands behind that has
    /// something to say to it.
    #[must_use]
    pub fn is_missing(&self, question: &Question<'_>) -> bool {
        let block = self.block();
        let Some(between) = block.handlers.get(self.at..block.before) else {
            return false;
        };
        between.iter().all(|handler| handler.passes(question))
            && resolve(&block.view(question, false), question, &mut Vec::new()).is_missing()
    }

    /// All blocks, and the place of this one.
    pub fn place(&self) -> (&Router, usize) {
        (&self.router, self.block)
    }

    /// Asks the whole server, as a client would: for the target of an alias, for one. What was asked for already on
    /// the way here would go the same way again.
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
        // Each once: what comes again is not asked again.
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
