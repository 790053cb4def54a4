//! Places for connections, in all and for each client.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Places for connections: in all, and for each client.
#[derive(Debug)]
pub(crate) struct Places {
    /// In all.
    all: Arc<Semaphore>,
    /// How many that are.
    max_connections: usize,
    /// Taken by each address. Locked for one look and one write.
    clients: Arc<Mutex<HashMap<IpAddr, usize>>>,
    /// The most for one address.
    max_per_client: usize,
}

/// A place for one connection: held while it lives.
#[derive(Debug)]
pub(crate) struct Place {
    /// Of all.
    _permit: OwnedSemaphorePermit,
    /// Where the client's connections are counted.
    clients: Arc<Mutex<HashMap<IpAddr, usize>>>,
    /// The client.
    client: IpAddr,
}

impl Places {
    /// Places in all, and for each client.
    pub(crate) fn new(max_connections: usize, max_per_client: usize) -> Self {
        Self {
            all: Arc::new(Semaphore::new(max_connections)),
            max_connections,
            clients: Arc::default(),
            max_per_client,
        }
    }

    /// Whether fewer than half of them are free.
    pub(crate) fn are_scarce(&self) -> bool {
        self.all.available_permits() < self.max_connections.div_ceil(2)
    }

    /// A place for a client, if there is one.
    pub(crate) fn take(&self, client: IpAddr) -> Option<Place> {
        let client = client.to_canonical();
        let permit = Arc::clone(&self.all).try_acquire_owned().ok()?;
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        let taken = clients.entry(client).or_insert(0);
        if *taken >= self.max_per_client {
            return None;
        }
        *taken += 1;
        drop(clients);
        Some(Place {
            _permit: permit,
            clients: Arc::clone(&self.clients),
            client,
        })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(taken) = clients.get_mut(&self.client) {
            *taken -= 1;
            if *taken == 0 {
                clients.remove(&self.client);
            }
        }
    }
}
