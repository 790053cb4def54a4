//! The addresses of this machine, and of the servers of a block.

use std::net::IpAddr;

use directives::config::ServerBlock;
use nix::ifaddrs::getifaddrs;
use nix::sys::socket::SockaddrStorage;

use crate::plan::hosts::hosts_of;

/// The addresses that a block's servers have: those it is bound to, else the machine's.
pub(crate) fn own_addresses(
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
    let all = getifaddrs().into_iter().flatten();
    usable(
        all.filter(|entry| interface.is_none_or(|name| entry.interface_name == name))
            .filter_map(|entry| address_of(&entry.address?)),
    )
}

/// The addresses that clients can use: not those of a link, and those of loopback only when there is nothing else.
fn usable(all: impl Iterator<Item = IpAddr>) -> Vec<IpAddr> {
    let wanted: Vec<IpAddr> = all.filter(|address| !is_of_a_link(address)).collect();
    let outer: Vec<IpAddr> = wanted
        .iter()
        .copied()
        .filter(|address| !address.is_loopback())
        .collect();
    if outer.is_empty() { wanted } else { outer }
}

/// Whether an address holds on one link alone.
const fn is_of_a_link(address: &IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => v4.is_link_local(),
        IpAddr::V6(v6) => v6.is_unicast_link_local(),
    }
}

/// The IP address of a socket address, if it has one.
fn address_of(address: &SockaddrStorage) -> Option<IpAddr> {
    let v4 = address.as_sockaddr_in().map(|it| it.ip().into());
    v4.or_else(|| address.as_sockaddr_in6().map(|it| it.ip().into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn link_local_addresses_are_left_out() {
        for (text, is_left_out) in [
            ("fe80::1", true),
            ("169.254.1.1", true),
            ("fd00::1", false),
            ("10.0.0.1", false),
        ] {
            assert_eq!(is_of_a_link(&text.parse().unwrap()), is_left_out, "{text}");
        }
        for (all, want) in [
            ("127.0.0.1 fe80::1 10.0.0.1 fd00::1", "10.0.0.1 fd00::1"),
            ("127.0.0.1 fe80::1 ::1", "127.0.0.1 ::1"),
            ("fe80::1", ""),
        ] {
            let [all, want] = [all, want].map(|text| -> Vec<IpAddr> {
                text.split_whitespace()
                    .map(|it| it.parse().unwrap())
                    .collect()
            });
            assert_eq!(usable(all.into_iter()), want);
        }
    }

    #[test]
    fn an_interface_has_its_addresses_and_no_interface_none() {
        let loopback = interface_addresses(Some("lo"));
        let of_loopback = |address: &IpAddr| address.is_loopback();
        assert!(loopback.contains(&[127, 0, 0, 1].into()), "{loopback:?}");
        assert!(loopback.iter().all(of_loopback), "{loopback:?}");
        let all = interface_addresses(None);
        let is_outer = all.iter().any(|address| !address.is_loopback());
        assert_eq!(all.iter().any(of_loopback), !is_outer, "{all:?}");
        assert_eq!(interface_addresses(Some("none-such")), Vec::<IpAddr>::new());
    }
}
