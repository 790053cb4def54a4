//! Handlers that a new configuration leaves as they are go on, with what they hold.

use std::sync::Arc;

use crate::dns::Name;
use crate::live::Handler;

/// The handlers of now, by the keys of their blocks.
#[derive(Default)]
pub(super) struct Kept(Vec<(Vec<Name>, Vec<Arc<dyn Handler>>)>);

impl Kept {
    /// The handlers of these blocks.
    pub(super) fn new(blocks: Vec<(Vec<Name>, Vec<Arc<dyn Handler>>)>) -> Self {
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
