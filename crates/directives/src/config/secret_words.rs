//! The words of a Corefile that nobody but the server may read.

use std::fmt::Write;

use ring::digest::{SHA256, digest};

/// What stands in place of a secret word: of a key its hash, so that two keys can be told apart. The hash is for the server
/// alone, which makes an id of it that nobody can guess the key from. Of a password there is nothing. See
/// [`corefile::text::Hide`].
pub(crate) fn hide(directive: &str, line: &str, place: usize, word: &str) -> Option<String> {
    match (directive, line, place) {
        ("tsig", "secret", 1) => {
            let mut id = String::from("(key-");
            for octet in digest(&SHA256, word.as_bytes()).as_ref() {
                let _infallible = write!(id, "{octet:02x}");
            }
            Some(id + ")")
        }
        ("etcd", "credentials", 1) => Some("(password)".to_owned()),
        _ => None,
    }
}
