//! Facts as the store keeps them between two runs.

use provenance::FactKey;

use crate::facts::Fact;

/// The number of this form. Facts in another form are not read.
pub const FORM: u32 = 1;

/// The key of an object: its kind, its namespace, an octet of 0, its name.
#[must_use]
pub fn stored_key(FactKey { kind, key }: &FactKey) -> Vec<u8> {
    let kind = u8::try_from(kind.place()).unwrap_or(u8::MAX);
    let (namespace, name) = (key.namespace.as_bytes(), key.name.as_bytes());
    [&[kind], namespace, &[0], name].concat()
}

/// A fact in the store's form; `None` if it cannot be written, which no fact is known to be.
#[must_use]
pub fn encode(fact: &Fact) -> Option<Vec<u8>> {
    postcard::to_allocvec(fact).ok()
}

/// A fact from the store; `None` if this is not one.
#[must_use]
pub fn decode(octets: &[u8]) -> Option<Fact> {
    match postcard::take_from_bytes(octets) {
        Ok((fact, [])) => Some(fact),
        Ok(_) | Err(_) => None,
    }
}
