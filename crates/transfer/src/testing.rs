//! For tests: rules from text.

#![allow(
    clippy::unwrap_used,
    clippy::missing_panics_doc,
    reason = "for tests: what fails here fails the test"
)]

use dns::Network;

use crate::Peers;

/// The peers of a rule, from `ADDRESS[%LINK]`, `ADDRESS/BITS` or `*`.
pub fn peers(text: &str) -> Peers {
    if text == "*" {
        return Peers::Any;
    }
    let of_link = text.split_once('%');
    let (range, link) = of_link.map_or((text, 0), |(of, link)| (of, link.parse().unwrap()));
    let one = range.parse().map(Network::of);
    let network = one.or_else(|_| range.parse()).unwrap().to_canonical();
    Peers::Net {
        network: network.into(),
        link,
    }
}
