//! Access to zones by address, key and certificate. Nobody has access by default.

use std::net::SocketAddr;
use std::sync::Arc;

use dns::Name;
use ipnet::IpNet;
use rustls::pki_types::ServerName;
use zone::Zone;

use crate::{PeerAddress, TlsPeer};

/// The addresses of a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Peers {
    /// All addresses.
    Any,
    /// The addresses of a network.
    Net {
        /// The network; IPv4 is never mapped into IPv6.
        network: IpNet,
        /// The interface number that a link-local address must have; 0 for any.
        link: u32,
    },
}

/// One line of a zone's access list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// The addresses of the rule.
    pub peers: Vec<Peers>,
    /// The keys, one of which must sign the request; if there are none, it need not be signed.
    pub keys: Vec<Name>,
    /// Whether the request must come over TLS.
    pub tls: TlsDemand,
}

/// Whether requests must come over TLS.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum TlsDemand {
    /// TLS is optional.
    #[default]
    Free,
    /// TLS is required.
    Any,
    /// TLS with a client certificate of this name is required.
    Named(ServerName<'static>),
}

/// The peer that requests a zone.
#[derive(Debug, Clone, Copy)]
pub struct Requester<'a> {
    /// The address of the peer.
    pub address: SocketAddr,
    /// The key that signed the request.
    pub key: Option<&'a Name>,
    /// The TLS identity of the peer, if the request came over TLS.
    pub tls: Option<&'a TlsPeer>,
}

/// The access list of a zone. If it is empty, nobody has access.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Access {
    rules: Vec<Rule>,
}

/// The reason why a request was denied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Denial {
    /// No rule has the address.
    #[error("no rule for this address")]
    Address,
    /// The rules for the address require a signature, maybe by another key.
    #[error("not signed by a key of the rule for this address")]
    Key,
    /// The rule requires TLS.
    #[error("the rule for this address requires TLS")]
    Tls,
    /// The rule requires a certificate, maybe with another name.
    #[error("no certificate with the name in the rule for this address")]
    Certificate,
    /// The client did not offer DNS over TLS (RFC 9103 section 7.1).
    #[error("the client did not offer the ALPN token dot")]
    Alpn,
}

/// Proof that a peer may transfer a zone.
#[derive(Debug, Clone)]
pub struct Permit {
    zone: Arc<Zone>,
    /// `tls`, or the name of the peer's certificate, for the log.
    tls: Option<Box<str>>,
}

impl Permit {
    /// The zone.
    #[must_use]
    pub const fn zone(&self) -> &Arc<Zone> {
        &self.zone
    }

    /// `tls`, or the name of the peer's certificate, if the peer used TLS; for the log.
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

    /// The networks that the rules name. All addresses of a family are no name.
    pub fn networks(&self) -> impl Iterator<Item = IpNet> {
        let peers = self.rules.iter().flat_map(|rule| &rule.peers);
        peers.filter_map(|peers| match peers {
            Peers::Any => None,
            Peers::Net { network, .. } => (network.prefix_len() > 0).then_some(*network),
        })
    }

    /// Decides whether a peer may transfer the zone. The first rule that fits permits it.
    ///
    /// # Errors
    /// [`Denial`] by the rule for the address that came closest.
    pub fn permit(&self, zone: &Arc<Zone>, requester: Requester<'_>) -> Result<Permit, Denial> {
        // RFC 9103 section 7.1: over TLS a transfer needs the ALPN token `dot`.
        if requester.tls.is_some_and(|tls| !tls.has_dot) {
            return Err(Denial::Alpn);
        }
        let mut furthest: Option<(Fit, Denial)> = None;
        let peer = PeerAddress::from(requester.address);
        let of_address = |rule: &&Rule| rule.peers.iter().any(|peers| peers.contains(peer));
        for rule in self.rules.iter().filter(of_address) {
            let fit = rule.fit(requester);
            match fit.denial() {
                None => {
                    let tls = requester.tls.map(|_| match &rule.tls {
                        TlsDemand::Free | TlsDemand::Any => "tls".into(),
                        TlsDemand::Named(name) => name.to_str().into(),
                    });
                    let zone = Arc::clone(zone);
                    return Ok(Permit { zone, tls });
                }
                Some(denial) if furthest.is_none_or(|(best, _)| fit >= best) => {
                    furthest = Some((fit, denial));
                }
                Some(_) => {}
            }
        }
        Err(furthest.map_or(Denial::Address, |(_, denial)| denial))
    }
}

/// The degree to which a request fulfils a rule. The key counts more than TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Fit {
    /// 2: signed by a key of the rule, 1: the rule has no keys, 0: neither.
    key: u8,
    /// 2: all TLS demands of the rule are met, 1: TLS without the certificate, 0: no TLS.
    tls: u8,
}

impl Rule {
    fn fit(&self, requester: Requester<'_>) -> Fit {
        let key = match requester.key {
            Some(key) if self.keys.contains(key) => 2,
            Some(_) | None => u8::from(self.keys.is_empty()),
        };
        let tls = match (&self.tls, requester.tls) {
            (TlsDemand::Free, _) | (TlsDemand::Any, Some(_)) => 2,
            (TlsDemand::Any | TlsDemand::Named(_), None) => 0,
            (TlsDemand::Named(name), Some(tls)) => 1 + u8::from(tls.has_name(name)),
        };
        Fit { key, tls }
    }
}

impl Fit {
    /// The reason to deny the request, if there is one.
    const fn denial(self) -> Option<Denial> {
        match self {
            Self { tls: 0, .. } => Some(Denial::Tls),
            Self { tls: 1, .. } => Some(Denial::Certificate),
            Self { key: 0, .. } => Some(Denial::Key),
            Self { .. } => None,
        }
    }
}

impl Peers {
    fn contains(&self, peer: PeerAddress) -> bool {
        let Self::Net { network, link } = *self else {
            return true;
        };
        network.contains(&peer.ip) && (link == 0 || link == peer.link)
    }

    /// A single address, on its link if it has one.
    #[must_use]
    pub fn single(peer: PeerAddress) -> Self {
        Self::Net {
            network: peer.ip.into(),
            link: peer.link,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::peers;

    /// A port of an address, which may have a link.
    fn at(peer: &str) -> SocketAddr {
        let bracketed = format!("[{peer}]:4000");
        let plain = format!("{peer}:4000");
        bracketed.parse().or_else(|_| plain.parse()).unwrap()
    }

    /// Checks a peer's access under rules written as `peers[ key]`.
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
                Requester {
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
                let denied = access.permit(&zone, Requester { address, key, tls });
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
