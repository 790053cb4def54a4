//! The other replicas of an installation: whom a new leader asks.

use futures_util::FutureExt;
use futures_util::future::BoxFuture;

use std::fmt;
use std::io;

/// Knows the replicas that exist, leading or not, in sync or not.
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

/// The addresses of a name: with a headless Service that has `publishNotReadyAddresses` they are those of all pods. It is asked each
/// time, by the system's resolver.
#[derive(Debug, Clone)]
pub struct ServiceRoster {
    /// The name of the Service.
    pub name: String,
    /// The port on which replicas listen.
    pub port: u16,
}

impl Roster for ServiceRoster {
    fn addresses(&self) -> BoxFuture<'_, io::Result<Vec<String>>> {
        async move {
            let found = tokio::net::lookup_host((&*self.name, self.port)).await?;
            Ok(found.map(|it| it.to_string()).collect())
        }
        .boxed()
    }
}
