//! Handlers that a new configuration leaves as they are go on, with what they hold.

use std::sync::Arc;

use crate::dns::Name;
use crate::live::Handler;

/// The keys of a block and its handlers.
pub(super) type OfBlock = (Vec<Name>, Vec<Arc<dyn Handler>>);

/// The handlers of now, by the keys of their blocks.
#[derive(Default)]
pub(super) struct Kept(Vec<OfBlock>);

impl Kept {
    /// The handlers of these blocks.
    pub(super) fn new(blocks: Vec<OfBlock>) -> Self {
        Self(blocks)
    }

    /// Puts those of now in the place of new ones that would do the same in the same block; each once.
    pub(super) fn exchange(
        &mut self,
        keys: &[Name],
        handlers: Vec<Arc<dyn Handler>>,
    ) -> Vec<Arc<dyn Handler>> {
        let mut kept = |new: Arc<dyn Handler>| {
            let blocks = self.0.iter_mut().filter(|(of, _)| of == keys);
            for (_, there) in blocks {
                if let Some(place) = there.iter().position(|old| old.same_as(&*new)) {
                    return there.swap_remove(place);
                }
            }
            new
        };
        handlers.into_iter().map(&mut kept).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::any::Any;

    use futures_util::future::BoxFuture;

    use super::*;
    use crate::live::{Next, Outcome, Question, Request};

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

    #[test]
    fn a_handler_goes_on_where_its_block_and_its_configuration_stay() {
        let name = |text: &str| vec![text.parse::<Name>().unwrap()];
        let handler = |number| -> Arc<dyn Handler> { Arc::new(Holder(number)) };
        let old = [handler(1), handler(1), handler(2)];
        let mut kept = Kept::new(vec![(name("a."), old.to_vec())]);
        let new = vec![handler(1), handler(3)];
        let taken = kept.exchange(&name("a."), new.clone());
        assert!(Arc::ptr_eq(&taken[0], &old[0]));
        assert!(Arc::ptr_eq(&taken[1], &new[1]));
        // Each once, and only in its block.
        let again = kept.exchange(&name("a."), vec![handler(1), handler(1)]);
        assert!(Arc::ptr_eq(&again[0], &old[1]));
        assert!(!Arc::ptr_eq(&again[1], &old[0]));
        let elsewhere = kept.exchange(&name("b."), vec![handler(2)]);
        assert!(!Arc::ptr_eq(&elsewhere[0], &old[2]));
    }
}
