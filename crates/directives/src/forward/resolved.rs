//! The addresses of upstreams that are written as names.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};

use crate::forward::target::{Target, TargetHost};

/// The name of an upstream, and the resolvers that are asked for its addresses.
pub(super) type Wanted = (String, Vec<SocketAddr>);

/// The addresses of upstreams that are written as names.
#[derive(Default)]
pub struct Resolved(pub(super) HashMap<Wanted, Vec<IpAddr>>);

impl Resolved {
    /// The addresses of a target.
    pub(super) fn addresses(&self, target: &Target, resolvers: &[SocketAddr]) -> Vec<SocketAddr> {
        let found = match &target.host {
            TargetHost::Address(address) => std::slice::from_ref(address),
            TargetHost::Name(name) => {
                let found = self.0.get(&(name.clone(), resolvers.to_vec()));
                found.map_or(&[][..], Vec::as_slice)
            }
        };
        let with_port = |address: &IpAddr| SocketAddr::new(*address, target.port);
        found.iter().map(with_port).collect()
    }
}
