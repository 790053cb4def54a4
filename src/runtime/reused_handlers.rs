//! Handlers that a new configuration leaves as they are go on, with what they hold.

use std::sync::Arc;

use directives::config::Listener;
use dns::Name;
use server::{Block, BlockZones, Handler, Router};

/// The blocks of now, by the listeners of their servers.
#[derive(Default)]
pub(crate) struct Kept(Vec<(Vec<Listener>, Arc<Router>, Vec<bool>)>);

/// A block of now, for the one new block that takes its place.
pub(crate) struct KeptBlock {
    /// The router it is one of.
    router: Arc<Router>,
    /// Its place there.
    place: usize,
    /// Those of its handlers that nobody has taken.
    left: Vec<Arc<dyn Handler>>,
}

impl Kept {
    /// What answers on these listeners now.
    pub(crate) fn new(servers: impl Iterator<Item = (Vec<Listener>, Arc<Router>)>) -> Self {
        let unused = |(listeners, router): (_, Arc<Router>)| {
            let used = vec![false; router.blocks().len()];
            (listeners, router, used)
        };
        Self(servers.map(unused).collect())
    }

    /// The block with these keys of a server that has one of these listeners; each is given once. Blocks
    /// with the same keys on other listeners have nothing to do with each other.
    pub(crate) fn take(&mut self, listeners: &[Listener], keys: &[Name]) -> Option<KeptBlock> {
        let shares = |of: &[Listener]| of.iter().any(|it| listeners.contains(it));
        let servers = self.0.iter_mut().filter(|(of, ..)| shares(of));
        for (_, router, used) in servers {
            let places = router.keys().iter().zip(used.iter_mut()).enumerate();
            for (place, (of, used)) in places {
                if !*used && of == keys {
                    *used = true;
                    return Some(KeptBlock {
                        router: Arc::clone(router),
                        place,
                        left: router.blocks()[place].handlers().to_vec(),
                    });
                }
            }
        }
        None
    }
}

impl KeptBlock {
    /// Puts those of now in the place of new ones that would do the same; each once.
    pub(crate) fn exchange(&mut self, handlers: Vec<Arc<dyn Handler>>) -> Vec<Arc<dyn Handler>> {
        let kept = |new: Arc<dyn Handler>| match self.left.iter().position(|old| old.same_as(&*new))
        {
            Some(place) => self.left.swap_remove(place),
            None => new,
        };
        handlers.into_iter().map(kept).collect()
    }

    /// Whether what stood behind a handler is what stands behind it now: these handlers, as they were used
    /// (not new ones that would do the same), and zones that answer alike. What looks for loops answers
    /// nothing and does not count.
    pub(crate) fn stood_before(
        &self,
        handler: &Arc<dyn Handler>,
        behind: &[Arc<dyn Handler>],
        zones: &BlockZones,
    ) -> bool {
        let block: &Block = &self.router.blocks()[self.place];
        let mut all = block.handlers().iter();
        if !all.any(|it| Arc::ptr_eq(it, handler)) {
            return false;
        }
        let answers = |it: &&Arc<dyn Handler>| ![block.zones().word(), "loop"].contains(&it.name());
        let mut old = all.filter(answers);
        let mut new = behind.iter().filter(answers);
        let same = loop {
            match (old.next(), new.next()) {
                (None, None) => break true,
                (Some(old), Some(new)) if Arc::ptr_eq(old, new) => {}
                (Some(_) | None, Some(_) | None) => break false,
            }
        };
        same && block.zones().is_same(zones)
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
        let mut kept = Kept::new([server(1, "a.", &old)].into_iter());
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
            Kept::new([of(1, &first), of(2, &second)].into_iter())
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
