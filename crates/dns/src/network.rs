//! Ranges of addresses, and the reverse zones that cover them.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use crate::Name;

/// A range of addresses: an address and how many of its leading bits count. The other bits are zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Network {
    /// The first address.
    address: IpAddr,
    /// How many leading bits count: at most 32 or 128.
    prefix_bits: u8,
}

/// The text is no range of addresses.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not an address range such as 10.0.0.0/8 or 2001:db8::/32")]
pub struct NotANetwork;

impl Network {
    /// The range of the one address.
    #[must_use]
    pub fn of(address: IpAddr) -> Self {
        Self {
            address,
            prefix_bits: width(address),
        }
    }

    /// The range of the addresses that share the first `prefix_bits` with `address`; `None` when that
    /// is more bits than it has.
    #[must_use]
    pub fn new(address: IpAddr, prefix_bits: u8) -> Option<Self> {
        (prefix_bits <= width(address)).then(|| Self {
            address: masked(address, prefix_bits),
            prefix_bits,
        })
    }

    /// The same addresses, those of IPv4 mapped into IPv6 as IPv4.
    #[must_use]
    pub fn to_canonical(self) -> Self {
        let address = self.address.to_canonical();
        let bits_lost = width(self.address) - width(address);
        match self.prefix_bits.checked_sub(bits_lost) {
            Some(prefix_bits) => Self {
                address,
                prefix_bits,
            },
            None => self,
        }
    }

    /// The first address.
    #[must_use]
    pub const fn address(&self) -> IpAddr {
        self.address
    }

    /// How many leading bits count.
    #[must_use]
    pub const fn prefix_bits(&self) -> u8 {
        self.prefix_bits
    }

    /// Whether the address is in the range. An IPv4 address is the same when it comes mapped into
    /// IPv6, as sockets of both families give it.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        width(address) == width(self.address) && masked(address, self.prefix_bits) == self.address
    }

    /// The reverse zones that cover exactly this range: one when the prefix ends at an octet (IPv4)
    /// or nibble (IPv6), else one for each value of the bits up to the next such end. At most 128.
    #[must_use]
    pub fn reverse_zones(&self) -> Vec<Name> {
        let step: u8 = if self.address.is_ipv4() { 8 } else { 4 };
        let end = self.prefix_bits.div_ceil(step) * step;
        let labels_cut = (width(self.address) - end) / step;
        let count = 1_u128 << (end - self.prefix_bits);
        (0..count)
            .map(|index| {
                let address = with_bits(self.address, index, end);
                let owner = Name::reverse_of(address);
                (0..labels_cut).fold(owner, |name, _| {
                    name.parent()
                        .expect("an address has more labels than its prefix cuts off")
                })
            })
            .collect()
    }
}

/// How many bits an address has.
fn width(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

/// The address with all but its first `bits` bits zero.
fn masked(address: IpAddr, bits: u8) -> IpAddr {
    match address {
        IpAddr::V4(v4) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(bits)).unwrap_or(0);
            IpAddr::V4(Ipv4Addr::from_bits(v4.to_bits() & mask))
        }
        IpAddr::V6(v6) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(bits)).unwrap_or(0);
            IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() & mask))
        }
    }
}

/// The address with `value` in the bits that end before bit `end`, counted from the left.
fn with_bits(address: IpAddr, value: u128, end: u8) -> IpAddr {
    match address {
        IpAddr::V4(v4) => {
            let value = u32::try_from(value).expect("an octet holds it");
            let value = value.checked_shl(32 - u32::from(end)).unwrap_or(0);
            IpAddr::V4(Ipv4Addr::from_bits(v4.to_bits() | value))
        }
        IpAddr::V6(v6) => {
            let value = value.checked_shl(128 - u32::from(end)).unwrap_or(0);
            IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() | value))
        }
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
        write!(f, "{}/{}", self.address, self.prefix_bits)
    }
}

#[cfg(test)]
mod tests {
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
