//! Who reads, and what they may read. Nobody may read by default.

use std::net::IpAddr;
use std::sync::Arc;

use dns::Name;
use http::{HeaderMap, header};
use kubernetes::source::api_server::reviews::Account;
use ring::digest::{SHA256, digest};
use rustls::pki_types::ServerName;
use transfer::TlsPeer;

use crate::counts::Counts;
use crate::limits::Rates;
use crate::refusal::Refusal;
use crate::reviewer::{Remembered, Reviewed, Reviewer, TokenDigest, object_name};

/// The longest token.
const TOKEN_OCTETS: usize = 8 << 10;
/// The reviews of unknown tokens of a source in a second, on average.
const UNKNOWN_PER_SECOND: u32 = 10;

/// Who may read. Without a reviewer and without rules for certificates nobody may.
#[derive(Debug)]
pub struct Access {
    reviewed: Option<Reviewed>,
    certificates: Option<CertificateRules>,
    /// Tokens that were not good lately, by source: each costs a review.
    unknown: Rates<IpAddr>,
}

/// What the clients with a verified certificate may read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CertificateRules {
    /// Each may read all zones.
    Any,
    /// Those with these names may.
    Named(Vec<AllowedName>),
}

/// A name of a certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AllowedName {
    /// The name among the certificate's alternative names.
    pub name: ServerName<'static>,
    /// The zones that may be read; all when it is empty.
    pub zones: Vec<Name>,
}

/// A reader that is known.
#[derive(Debug, Clone)]
pub(crate) enum Reader {
    /// An account of the cluster.
    Account {
        key: TokenDigest,
        account: Arc<Account>,
    },
    /// The holder of a certificate, by its name for people.
    Certificate { peer: TlsPeer, name: Arc<str> },
}

impl Reader {
    /// Its name, for the log and for limits.
    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Account { account, .. } => &account.name,
            Self::Certificate { name, .. } => name,
        }
    }
}

impl Access {
    /// Access for tokens that a reviewer accepts, and for certificates that these rules allow.
    #[must_use]
    pub fn new(
        reviewer: Option<Arc<dyn Reviewer>>,
        certificates: Option<CertificateRules>,
    ) -> Self {
        Self {
            reviewed: reviewer.map(Reviewed::new),
            certificates,
            unknown: Rates::default(),
        }
    }

    /// The reader of a request. A token counts before a certificate.
    pub(crate) async fn identify(
        &self,
        headers: &HeaderMap,
        peer: &TlsPeer,
        source: IpAddr,
        counts: &Counts,
    ) -> Result<Reader, Refusal> {
        if let Some(token) = token_of(headers)? {
            let reviewed = self.reviewed.as_ref();
            let reviewed = reviewed.ok_or(Refusal::Unauthenticated(
                "tokens are not accepted here: use a client certificate",
            ))?;
            let (key, known) = reviewed.remembered(token);
            let account = match known {
                Remembered::Good(account) => Some(account),
                Remembered::Bad => None,
                Remembered::WasGood => reviewed.account(token, (key, true), counts).await?,
                Remembered::Nothing => {
                    let may = self.unknown.take(&source, UNKNOWN_PER_SECOND);
                    if !may || !reviewed.takes_unknown() {
                        return Err(Refusal::TooMany);
                    }
                    reviewed.account(token, (key, false), counts).await?
                }
            };
            let account = account.ok_or(Refusal::Unauthenticated(
                "the API server does not accept the token",
            ))?;
            return Ok(Reader::Account { key, account });
        }
        match (&self.certificates, &peer.certificate) {
            (Some(_), Some(certificate)) => Ok(Reader::Certificate {
                peer: peer.clone(),
                name: certificate_name(peer, certificate).into(),
            }),
            (Some(_), None) if self.reviewed.is_some() => Err(Refusal::Unauthenticated(
                "send a bearer token, or use a client certificate",
            )),
            (Some(_), None) => Err(Refusal::Unauthenticated("use a client certificate")),
            (None, _) => Err(Refusal::Unauthenticated("send a bearer token")),
        }
    }

    /// Whether a reader may read a zone; all zones when `None`.
    pub(crate) async fn permit(
        &self,
        reader: &Reader,
        zone: Option<&Name>,
        counts: &Counts,
    ) -> Result<(), Refusal> {
        let may = match reader {
            Reader::Account { key, account } => match &self.reviewed {
                Some(reviewed) => reviewed.may_read((*key, account), zone, counts).await?,
                None => false,
            },
            Reader::Certificate { peer, .. } => match &self.certificates {
                Some(rules) => rules.permit(peer, zone),
                None => false,
            },
        };
        if may {
            return Ok(());
        }
        let what = match zone {
            Some(zone) => format!("the zone {}", object_name(zone)),
            None => "all zones".to_owned(),
        };
        let name = reader.name();
        Err(Refusal::Forbidden(match reader {
            Reader::Account { .. } => {
                format!("{name} may not read {what}: it needs `get` on zones.zonewright.dev")
            }
            Reader::Certificate { .. } => format!("{name} may not read {what}"),
        }))
    }
}

impl CertificateRules {
    fn permit(&self, peer: &TlsPeer, zone: Option<&Name>) -> bool {
        let Self::Named(allowed) = self else {
            return true;
        };
        let is_within = |it: &AllowedName| {
            it.zones.is_empty() || zone.is_some_and(|zone| it.zones.contains(zone))
        };
        let mut allowed = allowed.iter();
        allowed.any(|it| is_within(it) && peer.has_name(&it.name))
    }
}

/// The token of a request.
fn token_of(headers: &HeaderMap) -> Result<Option<&str>, Refusal> {
    let mut values = headers.get_all(header::AUTHORIZATION).iter();
    let Some(value) = values.next() else {
        return Ok(None);
    };
    let wrong = Refusal::Unauthenticated("write one header: Authorization: Bearer TOKEN");
    let text = value.to_str().ok().filter(|_| values.next().is_none());
    let token = text
        .and_then(|text| text.split_once(' '))
        .filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"))
        .map(|(_, token)| token.trim())
        .filter(|token| !token.is_empty() && token.len() <= TOKEN_OCTETS);
    token.map(Some).ok_or(wrong)
}

/// What people call the holder of a certificate: its names, or else its fingerprint.
fn certificate_name(peer: &TlsPeer, certificate: &[u8]) -> String {
    let names = peer.names();
    if !names.is_empty() {
        return format!("certificate {}", names.join(","));
    }
    let print = digest(&SHA256, certificate);
    let print: String = print
        .as_ref()
        .iter()
        .map(|it| format!("{it:02x}"))
        .collect();
    format!("certificate sha256:{print}")
}

#[cfg(test)]
mod tests;
