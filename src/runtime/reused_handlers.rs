//! Reuses running handlers across a reload where their configuration is the same, so that caches and connections survive.

use std::sync::Arc;

use directives::config::Listener;
use dns::Name;
use server::{Block, BlockZones, Handler, Router};

/// The running blocks, by the listeners of their servers.
#[derive(Default)]
pub(crate) struct ReusableBlocks(Vec<(Vec<Listener>, Arc<Router>, Vec<bool>)>);

/// A running block, for the one new block that takes its place.
pub(crate) struct ReusableBlock {
    /// The router it is one of.
    router: Arc<Router>,
    /// Its place there.
    place: usize,
    /// Its handlers that are in no new block.
    unused: Vec<Arc<dyn Handler>>,
}

impl ReusableBlocks {
    /// The routers that answer on these listeners.
    pub(crate) fn new(servers: impl Iterator<Item = (Vec<Listener>, Arc<Router>)>) -> Self {
        let unused = |(listeners, router): (_, Arc<Router>)| {
            let used = vec![false; router.blocks().len()];
            (listeners, router, used)
        };
        Self(servers.map(unused).collect())
    }

    /// The block with these keys of a server that has one of these listeners; each is given once. Blocks
    /// with the same keys on other listeners have nothing to do with each other.
    pub(crate) fn take(&mut self, listeners: &[Listener], keys: &[Name]) -> Option<ReusableBlock> {
        let shares = |of: &[Listener]| of.iter().any(|it| listeners.contains(it));
        let servers = self.0.iter_mut().filter(|(of, ..)| shares(of));
        for (_, router, used) in servers {
            let places = router.keys().iter().zip(used.iter_mut()).enumerate();
            for (place, (of, used)) in places {
                if !*used && of == keys {
                    *used = true;
                    return Some(ReusableBlock {
                        router: Arc::clone(router),
                        place,
                        unused: router.blocks()[place].handlers().to_vec(),
                    });
                }
            }
        }
        None
    }
}

impl ReusableBlock {
    /// Puts the handlers of this block in the place of new ones, in front of the zones and behind them, that would do the
    /// same. One that keeps replies stays only if all behind it is as it was, for its replies are from there.
    pub(crate) fn reuse(
        mut self,
        built: [Vec<Arc<dyn Handler>>; 2],
        zones: &BlockZones,
    ) -> [Vec<Arc<dyn Handler>>; 2] {
        let mut reused = built.clone().map(|handlers| self.exchange(handlers));
        for place in 0..built[0].len() {
            let [before, after] = &reused;
            let behind = before[place + 1..].iter().chain(after);
            if before[place].keeps_replies() && !self.was_before(&before[place], behind, zones) {
                reused[0][place] = Arc::clone(&built[0][place]);
            }
        }
        reused
    }

    /// Puts handlers of this block in the place of new ones that would do the same; each once.
    fn exchange(&mut self, handlers: Vec<Arc<dyn Handler>>) -> Vec<Arc<dyn Handler>> {
        let reused =
            |new: Arc<dyn Handler>| match self.unused.iter().position(|old| old.same_as(&*new)) {
                Some(place) => self.unused.swap_remove(place),
                None => new,
            };
        handlers.into_iter().map(reused).collect()
    }

    /// Whether what was behind a handler is behind it now: these handlers, as they were used (not new ones that would
    /// do the same), and zones that answer alike.
    fn was_before<'h>(
        &self,
        handler: &Arc<dyn Handler>,
        behind: impl Iterator<Item = &'h Arc<dyn Handler>>,
        zones: &BlockZones,
    ) -> bool {
        let block: &Block = &self.router.blocks()[self.place];
        let [before, after] = block.around_zones();
        let mut old = before.iter().chain(after);
        if !old.any(|it| Arc::ptr_eq(it, handler)) {
            return false;
        }
        let old = old.filter(|it| !it.is_probe()).map(Arc::as_ptr);
        let new = behind.filter(|it| !it.is_probe()).map(Arc::as_ptr);
        old.map(<*const _>::cast::<()>)
            .eq(new.map(<*const _>::cast::<()>))
            && block.zones().is_same(zones)
    }
}

#[cfg(test)]
mod tests {
    use std::any::Any;

    use futures_util::future::BoxFuture;

    use super::*;
    use directives::config::{BindHost, Scheme};
    use server::{Next, Outcome, Question, Request, Shape};

    /// Holds a number, which is its configuration.
    struct Holder(u8);

    impl Handler for Holder {
        fn name(&self) -> &'static str {
            "holder"
        }

        fn passes(&self, _: &Question<'_>) -> bool {
            true
        }

        fn answer<'a>(&'a self, request: &'a mut Request, next: Next) -> BoxFuture<'a, Outcome> {
            next.run(request)
        }

        fn same_as(&self, new: &dyn Handler) -> bool {
            let new = (new as &dyn Any).downcast_ref::<Self>();
            new.is_some_and(|new| new.0 == self.0)
        }
    }

    fn name(text: &str) -> Vec<Name> {
        vec![text.parse().unwrap()]
    }

    fn handler(number: u8) -> Arc<dyn Handler> {
        Arc::new(Holder(number))
    }

    /// A listener on 127.0.0.`host`.
    fn listener(host: u8) -> Vec<Listener> {
        vec![Listener {
            scheme: Scheme::Dns,
            host: Some(BindHost::Address([127, 0, 0, host].into())),
            port: 53,
        }]
    }

    /// A server with one block.
    fn server(host: u8, key: &str, handlers: &[Arc<dyn Handler>]) -> (Vec<Listener>, Arc<Router>) {
        let zones = BlockZones::default();
        let block = Block::new(handlers.to_vec(), zones, Vec::new(), Shape::default());
        (
            listener(host),
            Arc::new(Router::new(vec![(name(key), block)])),
        )
    }

    #[test]
    fn a_handler_goes_on_where_its_block_and_its_configuration_stay() {
        let old = [handler(1), handler(1), handler(2)];
        let mut kept = ReusableBlocks::new([server(1, "a.", &old)].into_iter());
        assert!(kept.take(&listener(1), &name("b.")).is_none());
        let mut block = kept.take(&listener(1), &name("a.")).unwrap();
        let new = vec![handler(1), handler(3)];
        let taken = block.exchange(new.clone());
        assert!(Arc::ptr_eq(&taken[0], &old[0]));
        assert!(Arc::ptr_eq(&taken[1], &new[1]));
        // Each once.
        let again = block.exchange(vec![handler(1), handler(1)]);
        assert!(Arc::ptr_eq(&again[0], &old[1]));
        assert!(!Arc::ptr_eq(&again[1], &old[0]));
        assert!(kept.take(&listener(1), &name("a.")).is_none());
    }

    #[test]
    fn blocks_with_the_same_keys_on_other_listeners_keep_their_own() {
        let [first, second] = [handler(1), handler(1)];
        let both = || {
            let of = |host, it: &Arc<dyn Handler>| server(host, ".", std::slice::from_ref(it));
            ReusableBlocks::new([of(1, &first), of(2, &second)].into_iter())
        };
        for hosts in [[1, 2], [2, 1]] {
            let mut kept = both();
            for host in hosts {
                let mut block = kept.take(&listener(host), &name(".")).unwrap();
                let taken = block.exchange(vec![handler(1)]);
                let own = if host == 1 { &first } else { &second };
                assert!(Arc::ptr_eq(&taken[0], own));
            }
        }
        assert!(both().take(&listener(3), &name(".")).is_none());
    }
}
