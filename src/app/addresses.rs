//! The addresses of this machine, and of the servers of a block.

use std::net::IpAddr;

use crate::corefile::{BindHost, ServerBlock};

/// The addresses that a block's servers have: those it is bound to, else the machine's.
pub(super) fn own_addresses(
    block: &ServerBlock,
    local: &dyn Fn(Option<&str>) -> Vec<IpAddr>,
) -> Vec<IpAddr> {
    let addresses_of = |host: &BindHost| match host {
        BindHost::Address(address) => vec![*address],
        BindHost::Interface(name) => local(Some(name)),
    };
    let mut own: Vec<IpAddr> = if block.bind.hosts.is_empty() {
        local(None)
    } else {
        let except: Vec<IpAddr> = block.bind.except.iter().flat_map(addresses_of).collect();
        let mut bound: Vec<IpAddr> = block.bind.hosts.iter().flat_map(addresses_of).collect();
        bound.retain(|address| !except.contains(address) && !address.is_unspecified());
        if bound.is_empty() { local(None) } else { bound }
    };
    own.sort_unstable();
    own.dedup();
    own
}

/// The addresses of an interface, or of the machine for `None`: loopback only when there is nothing
/// else, link-local IPv6 never.
#[must_use]
pub fn interface_addresses(interface: Option<&str>) -> Vec<IpAddr> {
    let all = if_addrs::get_if_addrs().unwrap_or_default();
    let wanted: Vec<IpAddr> = all
        .iter()
        .filter(|entry| interface.is_none_or(|name| entry.name == name))
        .filter(|entry| !entry.is_link_local())
        .map(if_addrs::Interface::ip)
        .collect();
    let outer: Vec<IpAddr> = wanted
        .iter()
        .copied()
        .filter(|address| !address.is_loopback())
        .collect();
    if outer.is_empty() { wanted } else { outer }
}
