//! Who may have a zone: by address, by key and by certificate, nobody unless named.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;
use std::sync::Arc;

use rustls::pki_types::ServerName;

use crate::dns::Name;
use crate::transfer::TlsPeer;
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
        /// The link an IPv6 address must come by, as the system numbers it; 0 for any.
        link: u32,
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
    /// Whether the request must come over TLS.
    pub tls: TlsDemand,
}

/// Whether requests must come over TLS.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum TlsDemand {
    /// They may.
    #[default]
    Free,
    /// They must.
    Any,
    /// They must, from a client whose certificate has this name.
    Named(ServerName<'static>),
}

/// Who asks for a zone.
#[derive(Debug, Clone, Copy)]
pub struct Applicant<'a> {
    /// From where.
    pub address: SocketAddr,
    /// The key that signed the request.
    pub key: Option<&'a Name>,
    /// What TLS says of the peer, when the request came over it.
    pub tls: Option<&'a TlsPeer>,
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
    /// The rule wants TLS.
    Tls,
    /// The rule wants a certificate of another name, or any.
    Certificate,
    /// The client did not say that it speaks DNS over TLS (RFC 9103 section 7.1).
    Alpn,
}

/// Proof that a peer may have a zone.
#[derive(Debug, Clone)]
pub struct Permit {
    /// The zone.
    zone: Arc<Zone>,
    /// How the peer was protected, for the log: `tls`, or the name of its certificate.
    tls: Option<Box<str>>,
}

impl Permit {
    /// The zone.
    #[must_use]
    pub const fn zone(&self) -> &Arc<Zone> {
        &self.zone
    }

    /// How the peer was protected, for the log.
    pub(crate) fn tls(&self) -> Option<&str> {
        self.tls.as_deref()
    }
}

impl Access {
    /// A list of rules.
    #[must_use]
    pub const fn new(rules: Vec<Rule>) -> Self {
        Self { rules }
    }

    /// Whether someone may have the zone.
    ///
    /// # Errors
    /// [`Denial`], with what the last rule for the address lacks.
    pub fn permit(&self, zone: &Arc<Zone>, who: Applicant<'_>) -> Result<Permit, Denial> {
        // RFC 9103 section 7.1: over TLS a transfer needs the ALPN token `dot`, whoever asks.
        if who.tls.is_some_and(|tls| !tls.has_dot) {
            return Err(Denial::Alpn);
        }
        let mut denial = Denial::Address;
        let of_address = |rule: &&Rule| rule.peers.iter().any(|peers| peers.contains(who.address));
        for rule in self.rules.iter().filter(of_address) {
            match rule.lacks(who) {
                None => {
                    let tls = who.tls.map(|_| match &rule.tls {
                        TlsDemand::Free | TlsDemand::Any => "tls".into(),
                        TlsDemand::Named(name) => name.to_str().into(),
                    });
                    let zone = Arc::clone(zone);
                    return Ok(Permit { zone, tls });
                }
                Some(lack) => denial = lack,
            }
        }
        Err(denial)
    }
}

impl Rule {
    /// What someone from an address of the rule lacks, if anything.
    fn lacks(&self, who: Applicant<'_>) -> Option<Denial> {
        let lack = match (&self.tls, who.tls) {
            (TlsDemand::Free, _) | (TlsDemand::Any, Some(_)) => None,
            (TlsDemand::Any | TlsDemand::Named(_), None) => Some(Denial::Tls),
            (TlsDemand::Named(name), Some(tls)) => {
                (!tls.has_name(name)).then_some(Denial::Certificate)
            }
        };
        let is_signed = || who.key.is_some_and(|key| self.keys.contains(key));
        lack.or_else(|| (!self.keys.is_empty() && !is_signed()).then_some(Denial::Key))
    }
}

impl Peers {
    /// Whether a request from there comes from one of these. An IPv4 address is the same when it comes mapped into
    /// IPv6.
    fn contains(&self, peer: SocketAddr) -> bool {
        let Self::Net {
            address,
            prefix,
            link,
        } = *self
        else {
            return true;
        };
        let by = match peer {
            SocketAddr::V4(_) => 0,
            SocketAddr::V6(peer) => peer.scope_id(),
        };
        let is_near = match (address, peer.ip().to_canonical()) {
            (IpAddr::V4(net), IpAddr::V4(peer)) => {
                let differing = net.to_bits() ^ peer.to_bits();
                differing.leading_zeros() >= u32::from(prefix)
            }
            (IpAddr::V6(net), IpAddr::V6(peer)) => {
                let differing = net.to_bits() ^ peer.to_bits();
                differing.leading_zeros() >= u32::from(prefix)
            }
            (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => false,
        };
        is_near && (link == 0 || link == by)
    }

    /// The one address, by any link or by this.
    #[must_use]
    pub fn single(address: IpAddr, link: u32) -> Self {
        let address = address.to_canonical();
        let prefix = if address.is_ipv4() { 32 } else { 128 };
        Self::Net {
            address,
            prefix,
            link,
        }
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
        let (address, link) = match address.split_once('%') {
            None => (address, 0),
            Some((address, link)) => (address, link.parse().map_err(|_| wrong())?),
        };
        let address: IpAddr = address.parse().map_err(|_| wrong())?;
        let Some(prefix) = prefix else {
            return Ok(Self::single(address, link));
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
            link,
        })
    }
}

impl fmt::Display for Denial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Address => "no rule for this address",
            Self::Key => "not signed by a key of the rule for this address",
            Self::Tls => "the rule for this address wants tls",
            Self::Certificate => "no certificate with the name in the rule for this address",
            Self::Alpn => "the client did not offer the alpn token dot",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Some port of an address, which may say its link.
    fn at(peer: &str) -> SocketAddr {
        let bracketed = format!("[{peer}]:4000");
        let plain = format!("{peer}:4000");
        bracketed.parse().or_else(|_| plain.parse()).unwrap()
    }

    /// Whether a peer may have a zone under rules written as `peers[ key]`.
    fn check(rules: &[&str], peer: &str, key: Option<&str>) -> Result<(), Denial> {
        let rules = rules.iter().map(|rule| {
            let mut words = rule.split(' ');
            Rule {
                peers: vec![words.next().unwrap().parse().unwrap()],
                keys: words.map(|word| word.parse().unwrap()).collect(),
                tls: TlsDemand::Free,
            }
        });
        let zone = Arc::new(Zone::new(&"z.".parse().unwrap()));
        let key = key.map(|key| key.parse().unwrap());
        Access::new(rules.collect())
            .permit(
                &zone,
                Applicant {
                    address: at(peer),
                    key: key.as_ref(),
                    tls: None,
                },
            )
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
            ("fe80::1", "fe80::1%3", true),
            ("fe80::1%3", "fe80::1%3", true),
            ("fe80::1%3", "fe80::1%4", false),
            ("fe80::1%3", "fe80::2%3", false),
            ("fe80::/10", "fe80::2%3", true),
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
