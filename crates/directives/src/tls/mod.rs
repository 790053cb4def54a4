//! `tls CERT KEY [CA] { client_auth …; crl FILE }`: the certificate of a block's `tls://` listeners, and those of clients.
//!
//! As in CoreDNS, except that no client certificate is accepted without verification: `request` ignores certificates,
//! and `require` is not supported. The files are read when listeners are bound, and again when they change.

mod checks;

use std::path::PathBuf;

use corefile::parser::{Line, Statement};
use corefile::place::{Place, Report};
use dns::Name;

use crate::config::block::{Directive, ServerBlock};

/// The certificate of listeners.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tls {
    /// Its place in the Corefile.
    pub place: Place,
    /// The file of certificates, the server's own first.
    pub certificate: PathBuf,
    /// The file of the private key.
    pub key: PathBuf,
    /// The file of the authorities for clients' certificates.
    pub ca: Option<PathBuf>,
    /// Whether clients need a certificate.
    pub client_auth: ClientAuth,
    /// The file of the lists of clients' certificates that are revoked.
    pub crl: Option<PathBuf>,
}

/// Whether clients need a certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientAuth {
    /// They need none.
    Never,
    /// A certificate is verified if the client sends one.
    IfGiven,
    /// Each needs one, and it is verified.
    Always,
}

/// The words of `client_auth`.
const WORDS: &str = "nocert|request|verify_if_given|require_and_verify";

impl Tls {
    /// Whether two directives are equal, apart from their places.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        let Self {
            place: _,
            certificate,
            key,
            ca,
            client_auth,
            crl,
        } = self;
        *certificate == other.certificate
            && *key == other.key
            && *ca == other.ca
            && *client_auth == other.client_auth
            && *crl == other.crl
    }
}

impl Directive for Tls {
    const WORD: &'static str = "tls";
    const USAGE: &'static str = "tls CERT KEY [CA] { client_auth …; crl FILE }";
    const SUMMARY: &'static str = "the certificate for the keys with `tls://`, `https://`, `https3://` and `quic://`, in PEM files. They are read again when they change";
    const OPTIONS: &'static str = "client_auth and crl";

    fn read(directive: &Statement, _: &[Name], report: &mut Report) -> Option<Self> {
        let place = directive.name.place.clone();
        if let Some(line) = directive.lines.iter().find(|it| it.name.text == "acme") {
            let why = "certificates are not fetched: name the files that cert-manager or an ACME client writes; they are read again when they change";
            report.not_supported(&line.name.place, "tls acme", why);
            return None;
        }
        let (certificate, key, ca) = match directive.arguments.as_slice() {
            [certificate, key] => (certificate, key, None),
            [certificate, key, ca] => (certificate, key, Some(ca)),
            other => {
                let message = format!(
                    "tls takes two or three arguments, there are {}",
                    other.len()
                );
                report.error(&place, message, "write: tls CERT KEY [CA]");
                return None;
            }
        };
        let (mut client_auth, mut crl) = (None, None);
        for line in &directive.lines {
            match line.name.text.as_str() {
                "client_auth" => {
                    let value = read_client_auth(line, report);
                    line.set(&mut client_auth, value, report);
                }
                "crl" => {
                    let value = line.exactly_one("FILE", report).cloned();
                    line.set(&mut crl, value, report);
                }
                "keylog" => {
                    let why = "the secrets of connections are not written to a file: see the queries with `log`";
                    report.not_supported(&line.name.place, "tls keylog", why);
                }
                _ => directive.unknown_option(line, Self::OPTIONS, report),
            }
        }
        let client_auth = client_auth.unwrap_or(ClientAuth::Never);
        match (client_auth, ca) {
            (ClientAuth::Never, None) | (ClientAuth::IfGiven | ClientAuth::Always, Some(_)) => {}
            (ClientAuth::IfGiven | ClientAuth::Always, None) => {
                let message = "client certificates cannot be verified without a CA";
                report.error(&place, message, "write: tls CERT KEY CA");
            }
            (ClientAuth::Never, Some(ca)) => {
                let message =
                    "the CA is for certificates of clients, but no client is asked for one";
                report.warn(&ca.place, message, "write: client_auth verify_if_given");
            }
        }
        if let Some(crl) = &crl
            && client_auth == ClientAuth::Never
        {
            let message =
                "the list is of revoked client certificates, but no client is asked for one";
            report.warn(&crl.place, message, "write: client_auth verify_if_given");
        }
        Some(Tls {
            place,
            certificate: directive.path(&certificate.text),
            key: directive.path(&key.text),
            ca: ca.map(|ca| directive.path(&ca.text)),
            client_auth,
            crl: crl.map(|crl| directive.path(&crl.text)),
        })
    }

    fn check(blocks: &[ServerBlock], report: &mut Report) {
        checks::check(blocks, report);
    }
}

/// Reads `client_auth WORD`.
fn read_client_auth(line: &Line, report: &mut Report) -> Option<ClientAuth> {
    let token = line.exactly_one(WORDS, report)?;
    match token.text.as_str() {
        "nocert" => Some(ClientAuth::Never),
        "request" => {
            let message = "client_auth request: certificates of clients are not verified";
            report.warn(&token.place, message, "write verify_if_given, or nocert");
            Some(ClientAuth::Never)
        }
        "require" => {
            let why = "an unverified certificate proves nothing; write require_and_verify";
            report.not_supported(&token.place, "client_auth require", why);
            None
        }
        "verify_if_given" => Some(ClientAuth::IfGiven),
        "require_and_verify" => Some(ClientAuth::Always),
        _ => {
            let message = format!("client_auth {}: not a mode", token.shown());
            report.error(&token.place, message, format!("write: client_auth {WORDS}"));
            None
        }
    }
}

#[cfg(test)]
mod tests;
