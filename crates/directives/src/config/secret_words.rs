//! The words of a Corefile that nobody but the server may read.

use std::fmt::Write;

use ring::digest::{SHA256, digest};

/// The octets of a key's hash that name it.
const ID_OCTETS: usize = 8;

/// What stands in place of a secret word: of a key the start of its hash, so that two keys can be told apart. A password
/// could be guessed from a hash. See [`corefile::text::Hide`].
pub(crate) fn hide(directive: &str, line: &str, place: usize, word: &str) -> Option<String> {
    match (directive, line, place) {
        ("tsig", "secret", 1) => {
            let mut id = String::from("(key-");
            for octet in digest(&SHA256, word.as_bytes())
                .as_ref()
                .iter()
                .take(ID_OCTETS)
            {
                let _infallible = write!(id, "{octet:02x}");
            }
            Some(id + ")")
        }
        ("etcd", "credentials", 1) => Some("(password)".to_owned()),
        _ => None,
    }
}
