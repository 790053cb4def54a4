//! Who may have a zone: by address and by key, nobody unless named.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;
use std::sync::Arc;

use crate::dns::Name;
use crate::zone::Zone;

/// Which addresses a rule is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Peers {
    /// All.
    Any,
    /// Those that share the first `prefix` bits with `address`.
    Net {
        /// An address of the network; never IPv4 mapped into IPv6.
        address: IpAddr,
        /// How many bits count: at most 32 or 128.
        prefix: u8,
    },
}

/// The text is no address, network or `*`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("\"{0}\" is neither an IP address nor ADDRESS/BITS nor *")]
pub struct PeersError(String);

/// One line of a zone's access list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// The addresses it is for.
    pub peers: Vec<Peers>,
    /// The request must be signed by one of these; none: it need not be signed.
    pub keys: Vec<Name>,
}

/// A zone's access list. Empty: nobody.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Access {
    /// The first rule that fits permits.
    rules: Vec<Rule>,
}

/// Why a request was denied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Denial {
    /// No rule is for the address.
    Address,
    /// The rules for the address want a signature by another key, or any.
    Key,
}

/// Proof that a peer may have a zone.
#[derive(Debug, Clone)]
pub struct Permit(Arc<Zone>);

impl Permit {
    /// The zone.
    #[must_use]
    pub const fn zone(&self) -> &Arc<Zone> {
        &self.0
    }
}

impl Access {
    /// A list of rules.
    #[must_use]
    pub const fn new(rules: Vec<Rule>) -> Self {
        Self { rules }
    }

    /// Whether a peer, whose request was signed by `key` or not at all, may have the zone.
    ///
    /// # Errors
    /// [`Denial`], with the reason.
    pub fn permit(
        &self,
        zone: &Arc<Zone>,
        peer: IpAddr,
        key: Option<&Name>,
    ) -> Result<Permit, Denial> {
        let peer = peer.to_canonical();
        let mut denial = Denial::Address;
        for rule in &self.rules {
            if !rule.peers.iter().any(|peers| peers.contains(peer)) {
                continue;
            }
            if rule.keys.is_empty() || key.is_some_and(|key| rule.keys.contains(key)) {
                return Ok(Permit(Arc::clone(zone)));
            }
            denial = Denial::Key;
        }
        Err(denial)
    }
}

impl Peers {
    /// Whether an address, not mapped, is one of these.
    fn contains(&self, peer: IpAddr) -> bool {
        match (self, peer) {
            (Self::Any, _) => true,
            (
                Self::Net {
                    address: IpAddr::V4(net),
                    prefix,
                },
                IpAddr::V4(peer),
            ) => {
                let differing = net.to_bits() ^ peer.to_bits();
                differing.leading_zeros() >= u32::from(*prefix)
            }
            (
                Self::Net {
                    address: IpAddr::V6(net),
                    prefix,
                },
                IpAddr::V6(peer),
            ) => {
                let differing = net.to_bits() ^ peer.to_bits();
                differing.leading_zeros() >= u32::from(*prefix)
            }
            (
                Self::Net {
                    address: IpAddr::V4(_),
                    ..
                },
                IpAddr::V6(_),
            )
            | (
                Self::Net {
                    address: IpAddr::V6(_),
                    ..
                },
                IpAddr::V4(_),
            ) => false,
        }
    }
}

impl From<IpAddr> for Peers {
    fn from(address: IpAddr) -> Self {
        let address = address.to_canonical();
        let prefix = if address.is_ipv4() { 32 } else { 128 };
        Self::Net { address, prefix }
    }
}

impl FromStr for Peers {
    type Err = PeersError;

    fn from_str(text: &str) -> Result<Self, PeersError> {
        let wrong = || PeersError(text.to_owned());
        if text == "*" {
            return Ok(Self::Any);
        }
        let (address, prefix) = match text.split_once('/') {
            None => (text, None),
            Some((address, prefix)) => (address, Some(prefix)),
        };
        // A scope (fe80::1%eth0) says by which link, not who.
        let bare = address.split('%').next().unwrap_or(address);
        let address: IpAddr = bare.parse().map_err(|_| wrong())?;
        let Some(prefix) = prefix else {
            return Ok(address.into());
        };
        let bits: u8 = prefix.parse().map_err(|_| wrong())?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        if bits > most {
            return Err(wrong());
        }
        let canonical = address.to_canonical();
        let mapped = address.is_ipv6() && canonical.is_ipv4();
        let prefix = if mapped {
            bits.checked_sub(96).ok_or_else(wrong)?
        } else {
            bits
        };
        Ok(Self::Net {
            address: canonical,
            prefix,
        })
    }
}

impl fmt::Display for Denial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Address => "no rule for this address",
            Self::Key => "not signed by a key of the rule for this address",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether a peer may have a zone under rules written as `peers[ key]`.
    fn check(rules: &[&str], peer: &str, key: Option<&str>) -> Result<(), Denial> {
        let rules = rules.iter().map(|rule| {
            let mut words = rule.split(' ');
            Rule {
                peers: vec![words.next().unwrap().parse().unwrap()],
                keys: words.map(|word| word.parse().unwrap()).collect(),
            }
        });
        let zone = Arc::new(Zone::new(&"z.".parse().unwrap()));
        let key = key.map(|key| key.parse().unwrap());
        Access::new(rules.collect())
            .permit(&zone, peer.parse().unwrap(), key.as_ref())
            .map(|_| ())
    }

    #[test]
    fn nobody_is_permitted_by_default() {
        assert_eq!(check(&[], "127.0.0.1", None), Err(Denial::Address));
        assert_eq!(check(&[], "127.0.0.1", Some("k.")), Err(Denial::Address));
    }

    #[test]
    fn networks_hold_their_addresses_only() {
        for (rule, peer, fits) in [
            ("10.1.0.0/16", "10.1.255.255", true),
            ("10.1.0.0/16", "10.2.0.0", false),
            ("10.1.0.0/16", "::ffff:10.1.2.3", true),
            ("::ffff:10.1.0.0/112", "10.1.2.3", true),
            ("0.0.0.0/0", "192.0.2.1", true),
            ("0.0.0.0/0", "2001:db8::1", false),
            ("::/0", "192.0.2.1", false),
            ("2001:db8::/32", "2001:db8:ffff::1", true),
            ("2001:db8::/32", "2001:db9::1", false),
            ("2001:db8::1", "2001:db8::1", true),
            ("fe80::1%eth0", "fe80::1", true),
            ("10.0.0.1", "10.0.0.2", false),
            ("*", "2001:db8::1", true),
            ("*", "192.0.2.1", true),
        ] {
            let expected = if fits { Ok(()) } else { Err(Denial::Address) };
            assert_eq!(check(&[rule], peer, None), expected, "{rule} and {peer}");
        }
    }

    #[test]
    fn a_rule_with_keys_wants_one_of_them() {
        let rules = &["10.0.0.0/8 a. b."];
        assert_eq!(check(rules, "10.0.0.1", None), Err(Denial::Key));
        assert_eq!(check(rules, "10.0.0.1", Some("c.")), Err(Denial::Key));
        assert_eq!(check(rules, "10.0.0.1", Some("B.")), Ok(()));
        assert_eq!(check(rules, "11.0.0.1", Some("b.")), Err(Denial::Address));
    }

    #[test]
    fn a_signature_does_no_harm_where_none_is_wanted() {
        assert_eq!(check(&["10.0.0.1"], "10.0.0.1", Some("k.")), Ok(()));
        assert_eq!(
            check(&["10.0.0.1 a.", "10.0.0.1"], "10.0.0.1", None),
            Ok(())
        );
    }

    #[test]
    fn nonsense_is_no_address() {
        for text in [
            "",
            "10.0.0.1/33",
            "::1/129",
            "10.0.0.0/x",
            "host",
            "::ffff:10.0.0.1/95",
        ] {
            assert!(text.parse::<Peers>().is_err(), "{text}");
        }
    }
}
