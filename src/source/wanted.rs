//! What of a cluster a source is asked for.

use crate::cluster::Kinds;

/// What is wanted of a cluster. Both sources keep to it, each in its way: an API server is not asked
/// for more, of manifests the rest is passed over.
#[derive(Debug, Clone, Default)]
pub struct Wanted {
    /// The kinds of objects.
    pub kinds: Kinds,
}
