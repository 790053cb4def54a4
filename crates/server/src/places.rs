//! Places for connections, in all and for each client.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

/// Places for connections. How many there are is an argument each time: a reload may change it.
#[derive(Debug, Default)]
pub(crate) struct Places(Arc<Mutex<Taken>>);

/// Places that are taken.
#[derive(Debug, Default)]
struct Taken {
    /// In all.
    all: usize,
    /// By each address.
    clients: HashMap<IpAddr, usize>,
}

/// A place for one connection: held while it lives.
#[derive(Debug)]
pub(crate) struct Place {
    /// Where it is counted. Locked for one look and one write.
    taken: Arc<Mutex<Taken>>,
    /// The client.
    client: IpAddr,
}

impl Places {
    /// Whether fewer than half of so many are free.
    pub(crate) fn are_scarce(&self, most: usize) -> bool {
        let taken = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        taken.all > most / 2
    }

    /// One of so many places for a client, who may have so many, if there is one.
    pub(crate) fn take(&self, client: IpAddr, most: usize, most_of_client: usize) -> Option<Place> {
        let client = client.to_canonical();
        let mut taken = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if taken.all >= most {
            return None;
        }
        let of_client = taken.clients.entry(client).or_insert(0);
        if *of_client >= most_of_client {
            return None;
        }
        *of_client += 1;
        taken.all += 1;
        Some(Place {
            taken: Arc::clone(&self.0),
            client,
        })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        taken.all -= 1;
        if let Some(of_client) = taken.clients.get_mut(&self.client) {
            *of_client -= 1;
            if *of_client == 0 {
                taken.clients.remove(&self.client);
            }
        }
    }
}
