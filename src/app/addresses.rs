//! The addresses of this machine, and of the servers of a block.

use std::net::IpAddr;

use directives::config::ServerBlock;

use crate::app::hosts::hosts_of;

/// The addresses that a block's servers have: those it is bound to, else the machine's.
pub(super) fn own_addresses(
    block: &ServerBlock,
    local: &dyn Fn(Option<&str>) -> Vec<IpAddr>,
) -> Vec<IpAddr> {
    let mut own = hosts_of(block, local);
    if own.is_empty() {
        own = local(None);
    }
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
