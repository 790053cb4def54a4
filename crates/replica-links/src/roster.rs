//! The other replicas of an installation: whom a new leader asks.

use futures_util::FutureExt;
use futures_util::future::BoxFuture;

use std::fmt;
use std::io;

/// Knows the replicas that exist, leading or not, in sync or not: in a cluster the pods of a headless Service with
/// `publishNotReadyAddresses`. Its EndpointSlices have them. Its name is of no use to a cluster's own DNS.
pub trait Roster: fmt::Debug + Send + Sync {
    /// The addresses of all replicas. The own one may be among them.
    ///
    /// # Errors
    /// When the list is not known now. Then nobody can be sure that every replica was asked.
    fn addresses(&self) -> BoxFuture<'_, io::Result<Vec<String>>>;
}

/// A list that does not change, as with fixed roles.
#[derive(Debug, Clone, Default)]
pub struct FixedRoster(pub Vec<String>);

impl Roster for FixedRoster {
    fn addresses(&self) -> BoxFuture<'_, io::Result<Vec<String>>> {
        let addresses = self.0.clone();
        async move { Ok(addresses) }.boxed()
    }
}
