//! Ranges of addresses, and the reverse zones that cover them.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use ipnet::IpNet;

use crate::Name;

/// A range of addresses: an address and the count of its significant leading bits. The other bits are zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Network(IpNet);

/// The text is no range of addresses.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not an address range such as 10.0.0.0/8 or 2001:db8::/32")]
pub struct NotANetwork;

impl Network {
    /// The range that holds this one address only.
    #[must_use]
    pub fn of(address: IpAddr) -> Self {
        Self(address.into())
    }

    /// The range of the addresses that share the first `prefix_bits` with `address`; `None` when the address has fewer
    /// bits.
    #[must_use]
    pub fn new(address: IpAddr, prefix_bits: u8) -> Option<Self> {
        let net = IpNet::new(address, prefix_bits).ok()?;
        Some(Self(net.trunc()))
    }

    /// The range with IPv4 addresses in place of those that are mapped into IPv6.
    #[must_use]
    pub fn to_canonical(self) -> Self {
        let address = Self::of(self.address().to_canonical());
        let bits_lost = self.0.max_prefix_len() - address.0.max_prefix_len();
        let prefix_bits = self.prefix_bits().checked_sub(bits_lost);
        prefix_bits
            .and_then(|prefix_bits| Self::new(address.address(), prefix_bits))
            .unwrap_or(self)
    }

    /// The first address.
    #[must_use]
    pub fn address(&self) -> IpAddr {
        self.0.addr()
    }

    /// The number of leading bits that count.
    #[must_use]
    pub fn prefix_bits(&self) -> u8 {
        self.0.prefix_len()
    }

    /// Whether the address is in the range. An IPv4 address that is mapped into IPv6, as sockets of both families
    /// report it, counts as the IPv4 address.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        self.0.contains(&address.to_canonical())
    }

    /// The reverse zones that cover exactly this range, at most 128. When the prefix ends at an octet (IPv4) or a
    /// nibble (IPv6), there is one. Else there is one for each value of the bits up to the next octet or nibble.
    #[must_use]
    pub fn reverse_zones(&self) -> Vec<Name> {
        let step: u8 = if self.address().is_ipv4() { 8 } else { 4 };
        let end = self.prefix_bits().div_ceil(step) * step;
        let labels_cut = (self.0.max_prefix_len() - end) / step;
        let parts = self.0.subnets(end);
        let parts = parts.expect("the end is not before the prefix and not after the address");
        parts
            .map(|part| {
                let owner = Name::reverse_of(part.addr());
                (0..labels_cut).fold(owner, |name, _| {
                    name.parent()
                        .expect("an address has more labels than its prefix cuts off")
                })
            })
            .collect()
    }
}

impl From<Network> for IpNet {
    fn from(network: Network) -> Self {
        network.0
    }
}

impl FromStr for Network {
    type Err = NotANetwork;

    fn from_str(text: &str) -> Result<Self, NotANetwork> {
        let (address, bits) = text.split_once('/').ok_or(NotANetwork)?;
        if bits.is_empty() || !bits.bytes().all(|octet| octet.is_ascii_digit()) {
            return Err(NotANetwork);
        }
        let address = address.parse().map_err(|_| NotANetwork)?;
        let bits = bits.parse().map_err(|_| NotANetwork)?;
        Self::new(address, bits).ok_or(NotANetwork)
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use proptest::prelude::*;

    use super::*;

    /// The reverse zones of a range, as text.
    fn zones(text: &str) -> Vec<String> {
        let network: Network = text.parse().unwrap();
        network
            .reverse_zones()
            .iter()
            .map(ToString::to_string)
            .collect()
    }

    #[test]
    fn ranges_become_the_zones_of_coredns() {
        for (text, want) in [
            ("10.0.0.0/8", vec!["10.in-addr.arpa."]),
            ("10.96.7.9/16", vec!["96.10.in-addr.arpa."]),
            (
                "10.0.0.0/15",
                vec!["0.10.in-addr.arpa.", "1.10.in-addr.arpa."],
            ),
            ("0.0.0.0/0", vec!["in-addr.arpa."]),
            ("192.0.2.1/32", vec!["1.2.0.192.in-addr.arpa."]),
            ("2001:db8::/32", vec!["8.b.d.0.1.0.0.2.ip6.arpa."]),
            (
                "2001:db8::/31",
                vec!["8.b.d.0.1.0.0.2.ip6.arpa.", "9.b.d.0.1.0.0.2.ip6.arpa."],
            ),
            ("2000::/3", vec!["2.ip6.arpa.", "3.ip6.arpa."]),
            ("2001:db8::/0", vec!["ip6.arpa."]),
        ] {
            assert_eq!(zones(text), want, "{text}");
        }
        assert_eq!(
            zones("2001:db8::1/128"),
            ["1.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.8.b.d.0.1.0.0.2.ip6.arpa."]
        );
    }

    #[test]
    fn odd_prefixes_expand_to_all_enclosed_zones() {
        let seventeen = zones("10.1.128.0/17");
        assert_eq!(seventeen.len(), 128);
        assert_eq!(seventeen[0], "128.1.10.in-addr.arpa.");
        assert_eq!(seventeen[127], "255.1.10.in-addr.arpa.");
        let twenty_seven = zones("10.1.2.0/27");
        assert_eq!(twenty_seven.len(), 32);
        assert_eq!(twenty_seven[31], "31.2.1.10.in-addr.arpa.");
        assert_eq!(zones("10.0.0.0/9").len(), 128);
        assert_eq!(zones("2001:db8::/33").len(), 8);
    }

    #[test]
    fn what_is_no_range_is_refused() {
        for text in [
            "10.0.0.0/33",
            "10.0.0.0",
            "10.0.0/8",
            "010.0.0.0/8",
            "::/129",
            "x/8",
            "1.2.3.4/+8",
        ] {
            assert_eq!(text.parse::<Network>(), Err(NotANetwork), "{text}");
        }
    }

    #[test]
    fn a_mapped_address_is_its_ipv4_address() {
        let network: Network = "10.0.0.0/8".parse().unwrap();
        assert!(network.contains("::ffff:10.1.2.3".parse().unwrap()));
        assert!(!network.contains("::ffff:11.1.2.3".parse().unwrap()));
        assert!(!network.contains("a00::".parse().unwrap()));
        assert!(
            "::/0"
                .parse::<Network>()
                .unwrap()
                .contains("2001:db8::1".parse().unwrap())
        );
    }

    proptest! {
        #[test]
        fn an_address_is_in_a_range_exactly_when_its_owner_is_in_a_zone(
            base: u32, bits in 0_u8..=32, other: u32, close: bool,
        ) {
            let network = Network::new(Ipv4Addr::from_bits(base).into(), bits).unwrap();
            let far = if close { base ^ (other & 0x1ff) } else { other };
            let address = IpAddr::V4(Ipv4Addr::from_bits(far));
            let owner = Name::reverse_of(address);
            let covered = network.reverse_zones().iter().any(|zone| owner.is_within(zone));
            prop_assert_eq!(network.contains(address), covered);
        }
    }
}
