//! `tsig [ZONES...] { secret NAME BASE64 [ALGORITHM]; secrets FILE }`: the keys of a listener.
//!
//! `transfer` says which zones need a key. `require` and `require_opcode`, which demand signatures on queries in
//! CoreDNS, are refused. ZONES only matters to them. Messages from here repeat no word of a `secret` line.

mod keyfile;
pub(crate) mod secret;
pub(crate) mod shared_keys;

use std::fs;
use std::sync::Arc;

use corefile::argument::option_fix;
use corefile::lexer::Token;
use corefile::parser::{Line, Statement};
use corefile::place::{Place, Problem, Report};
use dns::Name;
use dns::tsig::Algorithm;

use crate::config::block::{Directive, ServerBlock};
use crate::config::zone;
use crate::tsig::secret::Secret;

/// A key for signing messages (RFC 8945).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TsigKey {
    /// Its place, in the Corefile or in a key file.
    pub place: Place,
    /// Its name, in lower case.
    pub name: Name,
    /// Its algorithm. No other is accepted with it.
    pub algorithm: Algorithm,
    /// The secret.
    pub secret: Secret,
}

impl TsigKey {
    /// Whether two keys are equal, apart from their places.
    pub(crate) fn same_key(&self, other: &Self) -> bool {
        let Self {
            place: _,
            name,
            algorithm,
            secret,
        } = self;
        *name == other.name && *algorithm == other.algorithm && *secret == other.secret
    }
}

/// A key file, which is read again when it changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyFile {
    /// The place that names it.
    pub place: Place,
    /// Its path, as in the places of its keys.
    pub path: Arc<str>,
}

/// The keys of a block. When all blocks are read, it also has the keys of the other blocks on its listeners.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Tsig {
    /// The keys. Their names differ.
    pub keys: Vec<TsigKey>,
    /// The files of some of the keys.
    pub files: Vec<KeyFile>,
}

/// The fix for a bad algorithm.
pub(crate) const ALGORITHMS: &str = "write hmac-sha256, or hmac-sha1, hmac-sha224, hmac-sha384, hmac-sha512, hmac-sha256-128, hmac-sha384-192, \
     hmac-sha512-256";

/// The fix for a bad secret.
pub(crate) const SECRET_MEND: &str =
    "write base64 as tsig-keygen or openssl rand -base64 32 gives it";

impl Directive for Tsig {
    const WORD: &'static str = "tsig";
    const USAGE: &'static str = "tsig { … }";
    const SUMMARY: &'static str = "TSIG keys";
    const OPTIONS: &'static str = "secret and secrets";

    fn read(directive: &Statement, _: &[Name], report: &mut Report) -> Option<Self> {
        // Read for their errors only, as zones matter to `require` alone.
        for token in &directive.arguments {
            zone::argument(token, report);
        }
        let mut tsig = Tsig::default();
        for line in &directive.lines {
            match line.name.text.as_str() {
                "secret" => {
                    let key = key(line, report);
                    tsig.keys.extend(key);
                }
                "secrets" => {
                    let Some(file) = key_file(line, report) else {
                        continue;
                    };
                    tsig.keys.extend(read_key_file(&file, report));
                    tsig.files.push(file);
                }
                option @ ("require" | "require_opcode") => {
                    let why = "the keys of transfers are named in transfer (`to ADDRESS key NAME`), and queries need no signature: limit them with acl, or by client certificates (`tls`)";
                    report.not_supported(&line.name.place, &format!("tsig {option}"), why);
                }
                _ => {
                    // The message does not repeat the word: it may be a secret that slipped onto the next line.
                    let message = "tsig has no such option";
                    let fix = option_fix(&line.name.text, Self::OPTIONS);
                    report.error(&line.name.place, message, fix);
                }
            }
        }
        for key in &tsig.keys {
            warn_of_short_secret(key, report);
        }
        if directive.lines.is_empty() {
            let fix = "write a block with secret NAME BASE64 or secrets FILE";
            report.error(&directive.name.place, "tsig has no key", fix);
        }
        Some(tsig)
    }

    fn check(blocks: &[ServerBlock], report: &mut Report) {
        for block in blocks {
            let keys = block.get::<Self>().map_or(&[][..], |tsig| &tsig.keys);
            shared_keys::check_names(block, keys, report);
        }
    }
}

/// Warns about a secret that is shorter than the hash: "less than L bytes is strongly discouraged as it would decrease
/// the security strength of the function" (RFC 2104 section 3).
fn warn_of_short_secret(key: &TsigKey, report: &mut Report) {
    let (octets, wanted) = (key.secret.expose().len(), key.algorithm.hash_octets());
    if octets < wanted {
        let (name, algorithm) = (&key.name, key.algorithm.as_str());
        let message = format!(
            "the secret of key {name} has {octets} bytes, fewer than the {wanted} of {algorithm}: it is easier to guess"
        );
        let fix = format!("openssl rand -base64 {wanted} gives a secret");
        report.warn(&key.place, message, fix);
    }
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
        None => Some(Algorithm::Sha256),
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

fn read_algorithm(token: &Token, report: &mut Report) -> Option<Algorithm> {
    let algorithm = token.text.parse().ok();
    if algorithm.is_none() {
        report.error(&token.place, "not an algorithm for a key", ALGORITHMS);
    }
    algorithm
}

/// Reads `secrets FILE`, relative to the working folder.
fn key_file(line: &Line, report: &mut Report) -> Option<KeyFile> {
    let file = line.exactly_one("FILE", report)?;
    Some(KeyFile {
        place: file.place.clone(),
        path: file.text.as_str().into(),
    })
}

/// The keys of a file.
fn read_key_file(file: &KeyFile, report: &mut Report) -> Vec<TsigKey> {
    match fs::read(&*file.path) {
        Ok(octets) => keyfile::parse(&file.path, &String::from_utf8_lossy(&octets), report),
        Err(error) => {
            let message = format!(
                "cannot read the key file '{}': {error}",
                file.path.escape_debug()
            );
            let fix = "paths are relative to the working folder: check path and permissions";
            report.error(&file.place, message, fix);
            Vec::new()
        }
    }
}

/// The current keys of blocks that share listeners, with their key files read again.
///
/// # Errors
/// All problems, at least one: an unusable file, two keys of one name, or a missing key that `transfer` names.
pub fn read_keys_again(blocks: &[&ServerBlock]) -> Result<Vec<TsigKey>, Vec<Problem>> {
    let mut report = Report::default();
    let tsigs = blocks.iter().flat_map(|block| block.all::<Tsig>());
    let mut files: Vec<&KeyFile> = Vec::new();
    for file in tsigs.clone().flat_map(|tsig| &tsig.files) {
        if !files.iter().any(|other| other.path == file.path) {
            files.push(file);
        }
    }
    let written = tsigs
        .flat_map(|tsig| &tsig.keys)
        .filter(|key| !files.iter().any(|file| file.path == key.place.file));
    let mut all: Vec<TsigKey> = written.cloned().collect();
    for file in files {
        all.extend(read_key_file(file, &mut report));
    }
    let mut keys: Vec<TsigKey> = Vec::new();
    for key in all {
        shared_keys::add_key(&mut keys, &key, &mut report);
    }
    for block in blocks {
        shared_keys::check_names(block, &keys, &mut report);
    }
    let (problems, _) = report.finish();
    if problems.is_empty() {
        Ok(keys)
    } else {
        Err(problems)
    }
}

#[cfg(test)]
mod tests;
