//! `cookies { secret FILE; require }`: secrets of DNS cookies that stay, and queries that must have one. Ours.

use std::fs;

use corefile::parser::Statement;
use corefile::place::{Place, Report};
use dns::{CookieSecrets, Name, Secret};

use crate::config::block::{Directive, ServerBlock};
use crate::config::listener::listeners;

/// The most secrets of a file: one to make cookies, and old ones.
const MOST_SECRETS: usize = 3;

/// The settings of a block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cookies {
    /// The path and the secrets of the file, unless each start makes a secret of its own.
    pub secrets: Option<(String, CookieSecrets)>,
    /// Whether a query in a datagram gets an answer only with a cookie of ours.
    pub are_required: bool,
}

impl Directive for Cookies {
    const WORD: &'static str = "cookies";
    const USAGE: &'static str = "cookies { … }";
    const SUMMARY: &'static str =
        "sets the secret of DNS cookies, and whether datagrams without one are answered";
    const OPTIONS: &'static str = "secret and require";

    fn read(directive: &Statement, _: &[Name], report: &mut Report) -> Option<Self> {
        directive.refuse_arguments(report);
        if directive.lines.is_empty() {
            let fix = format!("write a block with {}", Self::OPTIONS);
            report.error(&directive.name.place, "cookies has no options", fix);
        }
        let mut cookies = Self {
            secrets: None,
            are_required: false,
        };
        for line in &directive.lines {
            match line.name.text.as_str() {
                "secret" => {
                    let path = line.exactly_one("FILE", report);
                    let secrets = path.and_then(|path| {
                        let secrets = read_file(&path.text, &path.place, report)?;
                        Some((path.text.clone(), secrets))
                    });
                    line.set(&mut cookies.secrets, secrets, report);
                }
                "require" => {
                    line.refuse_arguments(report);
                    cookies.are_required = true;
                }
                _ => directive.unknown_option(line, Self::OPTIONS, report),
            }
        }
        Some(cookies)
    }

    fn check(blocks: &[ServerBlock], report: &mut Report) {
        for (_, blocks) in listeners(blocks) {
            let own = |block: &&ServerBlock| Some(block.get::<Self>()?.secrets.clone()?.0);
            let mut files = blocks
                .iter()
                .filter_map(|block| Some((*block, own(block)?)));
            let Some((_, first)) = files.next() else {
                continue;
            };
            for (block, file) in files {
                if file != first {
                    let message = format!(
                        "another block on this listener has the cookie secret of {first}, which counts"
                    );
                    report.warn(&block.place, message, "write the same in both");
                }
            }
        }
    }
}

/// Reads a file of secrets, each a line of 32 hexadecimal digits. The first one makes cookies. Messages never repeat a
/// line.
fn read_file(path: &str, place: &Place, report: &mut Report) -> Option<CookieSecrets> {
    const FIX: &str = "write one secret a line, 32 hexadecimal digits, the current one first: openssl rand -hex 16";
    let text = match fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) => {
            let message = format!(
                "cannot read the cookie secret '{}': {error}",
                path.escape_debug()
            );
            let fix = "paths are relative to the working folder: check path and permissions";
            report.error(place, message, fix);
            return None;
        }
    };
    let mut secrets = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        match secret(line) {
            Some(secret) => secrets.push(secret),
            None => {
                let message = format!(
                    "{path}:{}: not a secret of 32 hexadecimal digits",
                    index + 1
                );
                report.error(place, message, FIX);
                return None;
            }
        }
    }
    match secrets.split_first() {
        Some((current, old)) if old.len() < MOST_SECRETS => Some(CookieSecrets::new(*current, old)),
        Some(_) => {
            let message = format!(
                "{path} has {} secrets, but at most {MOST_SECRETS} count",
                secrets.len()
            );
            report.error(place, message, "remove the oldest ones");
            None
        }
        None => {
            report.error(place, format!("{path} has no secret"), FIX);
            None
        }
    }
}

/// A secret of 32 hexadecimal digits.
fn secret(text: &str) -> Option<Secret> {
    let is_hex = text.len() == 32 && text.bytes().all(|octet| octet.is_ascii_hexdigit());
    let number = is_hex.then(|| u128::from_str_radix(text, 16).ok())?;
    number.map(u128::to_be_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::tests::{block, faults};

    const NEW: &str = "e5e973e5a6b2a43f48e7dc849e37bfcf";
    const OLD: &str = "000000000000000000000000000000ff";

    /// A directive with a file of this text.
    fn with_file(text: &str) -> (tempfile::NamedTempFile, String) {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), text).unwrap();
        let directive = format!("cookies {{\n secret {}\n}}", file.path().display());
        (file, directive)
    }

    #[test]
    fn the_first_secret_of_a_file_makes_cookies_and_the_others_are_good() {
        let (_file, directive) = with_file(&format!("# today\n{NEW}\n\n  {OLD}\n"));
        let cookies = block(&directive).get::<Cookies>().unwrap().clone();
        assert!(!cookies.are_required);
        let secrets = cookies.secrets.unwrap().1;
        let here = "192.0.2.1".parse().unwrap();
        let [current, old] = [NEW, OLD].map(|text| CookieSecrets::new(secret(text).unwrap(), &[]));
        let cookie = |secrets: &CookieSecrets| secrets.server_cookie(&[1; 8], &[], here, 1_000_000);
        assert_eq!(cookie(&secrets), cookie(&current));
        assert!(secrets.is_good(&[1; 8], &cookie(&old), here, 1_000_000));
        assert!(
            block("cookies {\n require\n}")
                .get::<Cookies>()
                .unwrap()
                .are_required
        );
    }

    #[test]
    fn a_bad_file_is_reported_without_its_text() {
        for (text, want) in [
            ("", "has no secret"),
            ("abc\n", ":1: not a secret of 32 hexadecimal digits"),
            (
                &format!("{NEW}\n+{}\n", &OLD[1..]),
                ":2: not a secret of 32 hexadecimal digits",
            ),
            (
                &format!("{NEW}\n{OLD}\n{NEW}\n{OLD}\n"),
                "has 4 secrets, but at most 3 count",
            ),
        ] {
            let (_file, directive) = with_file(text);
            let faults = faults(&directive);
            assert!(faults.len() == 1 && faults[0].contains(want), "{faults:?}");
            assert!(!faults[0].contains(&NEW[..4]), "{faults:?}");
        }
        let missing = faults("cookies {\n secret /nowhere/secret\n}");
        assert!(
            missing[0].starts_with("2:9: cannot read the cookie secret"),
            "{missing:?}"
        );
        assert_eq!(faults("cookies"), ["1:1: cookies has no options"]);
    }
}
