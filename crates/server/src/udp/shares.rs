//! Shares of the requests that may wait for an answer from elsewhere: one client cannot take the places of all others.
//!
//! A client is an IPv4 address or an IPv6 network of 64 bits, which is what one machine has. It may hold as many places as
//! are free, so the share of a client is half of all places while it is alone, and less the more clients want many.

use std::collections::HashMap;
use std::net::IpAddr;

use ops::source_of;

/// Who holds places.
#[derive(Debug)]
pub(super) struct Shares {
    /// Places that nobody holds.
    free: usize,
    /// Places that clients hold; those without any are not here.
    held: HashMap<IpAddr, usize>,
}

impl Shares {
    /// So many places.
    pub(super) fn new(most: usize) -> Self {
        Self {
            free: most,
            held: HashMap::new(),
        }
    }

    /// Takes a place for a client, if it may have one more.
    pub(super) fn take(&mut self, address: IpAddr) -> bool {
        let client = source_of(address);
        let held = self.held.get(&client).copied().unwrap_or(0);
        if held >= self.free {
            return false;
        }
        self.free -= 1;
        self.held.insert(client, held + 1);
        true
    }

    /// Gives back a place of a client.
    pub(super) fn give_back(&mut self, address: IpAddr) {
        let client = source_of(address);
        let Some(held) = self.held.get_mut(&client) else {
            return;
        };
        self.free += 1;
        *held -= 1;
        if *held == 0 {
            self.held.remove(&client);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many of so many places a client gets.
    fn taken(shares: &mut Shares, address: &str) -> usize {
        let address = address.parse().unwrap();
        (0..1000).take_while(|_| shares.take(address)).count()
    }

    #[test]
    fn security_14_a_client_holds_at_most_as_many_places_as_are_free() {
        let mut shares = Shares::new(16);
        for (address, want) in [
            ("192.0.2.1", 8),
            ("::ffff:192.0.2.1", 0),
            ("192.0.2.2", 4),
            ("2001:db8::1", 2),
            ("2001:db8::ffff:2", 0),
            ("2001:db8:0:1::1", 1),
            ("192.0.2.3", 1),
            ("192.0.2.4", 0),
        ] {
            assert_eq!(taken(&mut shares, address), want, "{address}");
        }
        for _ in 0..8 {
            shares.give_back("192.0.2.1".parse().unwrap());
        }
        assert_eq!(taken(&mut shares, "192.0.2.4"), 4);
        assert_eq!(shares.held.values().sum::<usize>() + shares.free, 16);
        assert!(!shares.held.contains_key(&"192.0.2.1".parse().unwrap()));
    }
}
