//! `tsig [ZONES...] { secret NAME BASE64 [ALGORITHM]; secrets FILE }`: the keys of a listener.
//!
//! Which zones ask for a key is said in `transfer`. `require` and `require_opcode`, with which CoreDNS
//! asks for signatures on queries, are not supported yet; the zones are read for them. Messages from
//! here repeat no word of a `secret` line.

use std::fs;
use std::sync::Arc;

use super::keyfile;
use super::lexer::Token;
use super::parser::{Directive, Line};
use super::place::{Place, Report};
use super::secret::Secret;
use super::zone;
use crate::dns::Name;

/// A key for signing messages (RFC 8945).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TsigKey {
    /// Where it stands: in the Corefile or in a key file.
    pub place: Place,
    /// Its name, in lower case.
    pub name: Name,
    /// The algorithm it is for; no other is accepted with it.
    pub algorithm: Algorithm,
    /// The secret.
    pub secret: Secret,
}

impl TsigKey {
    /// Whether the two are one key, wherever they stand.
    pub(super) fn same_key(&self, other: &Self) -> bool {
        let Self {
            place: _,
            name,
            algorithm,
            secret,
        } = self;
        *name == other.name && *algorithm == other.algorithm && *secret == other.secret
    }
}

/// The algorithm of a key (RFC 8945 section 6).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Algorithm {
    /// `hmac-sha1`.
    HmacSha1,
    /// `hmac-sha224`.
    HmacSha224,
    /// `hmac-sha256`, the default.
    HmacSha256,
    /// `hmac-sha384`.
    HmacSha384,
    /// `hmac-sha512`.
    HmacSha512,
}

impl Algorithm {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::HmacSha1,
        Self::HmacSha224,
        Self::HmacSha256,
        Self::HmacSha384,
        Self::HmacSha512,
    ];

    /// The name in the IANA registry, without a last dot.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::HmacSha1 => "hmac-sha1",
            Self::HmacSha224 => "hmac-sha224",
            Self::HmacSha256 => "hmac-sha256",
            Self::HmacSha384 => "hmac-sha384",
            Self::HmacSha512 => "hmac-sha512",
        }
    }

    /// The algorithm of this name, whatever its case, with a last dot or without.
    pub(super) fn named(text: &str) -> Option<Self> {
        let text = text.strip_suffix('.').unwrap_or(text);
        Self::ALL
            .into_iter()
            .find(|algorithm| algorithm.as_str().eq_ignore_ascii_case(text))
    }
}

/// What to write for an algorithm.
pub(super) const ALGORITHMS: &str =
    "write hmac-sha256, or hmac-sha1, hmac-sha224, hmac-sha384, hmac-sha512";

/// What to write for a secret.
pub(super) const SECRET_MEND: &str =
    "write base64 as tsig-keygen or openssl rand -base64 32 gives it";

/// Reads the directive.
pub(super) fn parse(directive: &Directive, report: &mut Report) -> Vec<TsigKey> {
    // Read for their errors only: zones matter to `require` alone.
    for token in &directive.arguments {
        zone::argument(token, report);
    }
    let mut keys: Vec<TsigKey> = Vec::new();
    for line in &directive.lines {
        match line.name.text.as_str() {
            "secret" => {
                let key = key(line, report);
                keys.extend(key);
            }
            "secrets" => keys.extend(key_file(line, report)),
            option @ ("require" | "require_opcode") => {
                report.not_yet(&line.name.place, &format!("tsig {option}"));
            }
            _ => {
                // The word is not repeated: it may be a secret that slipped onto the next line.
                let message = "tsig has no such option";
                report.error(
                    &line.name.place,
                    message,
                    "its options are secret and secrets",
                );
            }
        }
    }
    if directive.lines.is_empty() {
        let mend = "write a block with secret NAME BASE64 or secrets FILE";
        report.error(&directive.name.place, "tsig names no key", mend);
    }
    keys
}

/// Reads `secret NAME BASE64 [ALGORITHM]`.
fn key(line: &Line, report: &mut Report) -> Option<TsigKey> {
    let (name, secret, algorithm) = match line.arguments.as_slice() {
        [name, secret] => (name, secret, None),
        [name, secret, algorithm] => (name, secret, Some(algorithm)),
        other => {
            let message = format!(
                "secret takes two or three arguments, there are {}",
                other.len()
            );
            report.error(
                &line.name.place,
                message,
                "write: secret NAME BASE64 [ALGORITHM]",
            );
            return None;
        }
    };
    let place = name.place.clone();
    let name = zone::domain_name(name, report);
    let algorithm = match algorithm {
        None => Some(Algorithm::HmacSha256),
        Some(token) => read_algorithm(token, report),
    };
    let secret = match Secret::parse(&secret.text) {
        Ok(secret) => Some(secret),
        Err(error) => {
            report.error(&secret.place, error.to_string(), SECRET_MEND);
            None
        }
    };
    Some(TsigKey {
        place,
        name: name?,
        algorithm: algorithm?,
        secret: secret?,
    })
}

/// Reads an algorithm.
fn read_algorithm(token: &Token, report: &mut Report) -> Option<Algorithm> {
    let algorithm = Algorithm::named(&token.text);
    if algorithm.is_none() {
        report.error(&token.place, "no such algorithm for a key", ALGORITHMS);
    }
    algorithm
}

/// Reads `secrets FILE`, relative to the working folder.
fn key_file(line: &Line, report: &mut Report) -> Vec<TsigKey> {
    let Some(file) = line.exactly_one("FILE", report) else {
        return Vec::new();
    };
    match fs::read(&file.text) {
        Ok(octets) => {
            let name: Arc<str> = file.text.as_str().into();
            keyfile::parse(&name, &String::from_utf8_lossy(&octets), report)
        }
        Err(error) => {
            let message = format!("cannot read the key file {}: {error}", file.shown());
            let mend = "paths are relative to the working folder: check path and permissions";
            report.error(&file.place, message, mend);
            Vec::new()
        }
    }
}
