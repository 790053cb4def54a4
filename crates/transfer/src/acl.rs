//! Who may have a zone: by address, by key and by certificate, nobody unless named.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use dns::Name;
use ipnet::IpNet;
use rustls::pki_types::ServerName;
use zone::Zone;

use crate::{PeerAddress, TlsPeer};

/// Which addresses a rule is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Peers {
    /// All.
    Any,
    /// Those of a network.
    Net {
        /// The network; never one of IPv4 addresses mapped into IPv6.
        network: IpNet,
        /// The link an IPv6 address must come by, as the system numbers it; 0 for any.
        link: u32,
    },
}

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
    pub fn tls(&self) -> Option<&str> {
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
    /// [`Denial`], with what is lacking of the rule for the address of which most fits.
    pub fn permit(&self, zone: &Arc<Zone>, who: Applicant<'_>) -> Result<Permit, Denial> {
        // RFC 9103 section 7.1: over TLS a transfer needs the ALPN token `dot`, whoever asks.
        if who.tls.is_some_and(|tls| !tls.has_dot) {
            return Err(Denial::Alpn);
        }
        let mut furthest: Option<(Fit, Denial)> = None;
        let peer = PeerAddress::from(who.address);
        let of_address = |rule: &&Rule| rule.peers.iter().any(|peers| peers.contains(peer));
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
                Some(lack) => {
                    let fit = rule.fit(who);
                    if furthest.is_none_or(|(best, _)| fit >= best) {
                        furthest = Some((fit, lack));
                    }
                }
            }
        }
        Err(furthest.map_or(Denial::Address, |(_, lack)| lack))
    }
}

/// How much of a rule fits someone: its key first, then TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Fit {
    /// The request is signed by a key of the rule (2), the rule wants none (1), or neither.
    key: u8,
    /// What it asks of TLS is there (2), TLS without the certificate (1), or neither.
    tls: u8,
}

impl Rule {
    /// How much of the rule fits someone.
    fn fit(&self, who: Applicant<'_>) -> Fit {
        let key = match who.key {
            Some(key) if self.keys.contains(key) => 2,
            Some(_) | None => u8::from(self.keys.is_empty()),
        };
        let tls = match (&self.tls, who.tls) {
            (TlsDemand::Free, _) | (TlsDemand::Any, Some(_)) => 2,
            (TlsDemand::Any | TlsDemand::Named(_), None) => 0,
            (TlsDemand::Named(name), Some(tls)) => 1 + u8::from(tls.has_name(name)),
        };
        Fit { key, tls }
    }

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
    /// Whether a request from there comes from one of these.
    fn contains(&self, peer: PeerAddress) -> bool {
        let Self::Net { network, link } = *self else {
            return true;
        };
        network.contains(&peer.ip) && (link == 0 || link == peer.link)
    }

    /// The one address, by any link or by this.
    #[must_use]
    pub fn single(peer: PeerAddress) -> Self {
        Self::Net {
            network: peer.ip.into(),
            link: peer.link,
        }
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
    use crate::testing::peers;

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
                peers: vec![peers(words.next().unwrap())],
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
    fn the_reason_is_that_of_the_rule_of_which_most_fits() {
        let rule = |key: &str, tls| Rule {
            peers: vec![peers("10.0.0.1")],
            keys: vec![key.parse().unwrap()],
            tls,
        };
        let name = ServerName::try_from("friend.example").unwrap();
        let rules = [
            rule("a.", TlsDemand::Named(name)),
            rule("b.", TlsDemand::Free),
        ];
        let zone = Arc::new(Zone::new(&"z.".parse().unwrap()));
        let nobody = TlsPeer {
            has_dot: true,
            ..TlsPeer::default()
        };
        let turned = [rules[1].clone(), rules[0].clone()];
        for rules in [rules, turned] {
            let access = Access::new(rules.to_vec());
            let reason = |key: &str, tls| {
                let key = key.parse().unwrap();
                let (address, key) = (at("10.0.0.1"), Some(&key));
                let denied = access.permit(&zone, Applicant { address, key, tls });
                denied.unwrap_err()
            };
            assert_eq!(reason("a.", Some(&nobody)), Denial::Certificate);
            assert_eq!(reason("a.", None), Denial::Tls);
            assert_eq!(reason("c.", None), Denial::Key);
        }
    }

    #[test]
    fn a_signature_does_no_harm_where_none_is_wanted() {
        assert_eq!(check(&["10.0.0.1"], "10.0.0.1", Some("k.")), Ok(()));
        assert_eq!(
            check(&["10.0.0.1 a.", "10.0.0.1"], "10.0.0.1", None),
            Ok(())
        );
    }
}
