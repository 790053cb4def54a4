//! Signatures over any octets: a message verifies only if it was signed.

use ::fuzz::{Fuzz, Outcome};

use super::*;
use crate::testing::{ixfr, with_opt};

fn requests() -> Vec<Vec<u8>> {
    let mut all = vec![
        query(7, "z.", Rtype::SOA),
        query(7, "a.long.name.below.z.", Rtype::A),
        with_opt(query(7, "z.", Rtype::AXFR), 1232, 0, &[0, 3, 0, 0]),
        with_opt(ixfr(8, "z.", 5), 4096, 0, &[0, 9, 0, 0]),
    ];
    for raw in &mut all {
        sign_request(&key("k."), raw, NOW);
    }
    all
}

const PARTS: &[&[u8]] = &[
    b"\xc0\x0c",
    b"\xff\xff",
    b"\x00\x00\xfa\x00\xff",
    b"\x01k\x00",
    b"\x01K\x00",
    b"\x0bhmac-sha256\x00",
    b"\x09hmac-sha1\x00",
    b"\x00\x20",
    b"\x00\x10",
    b"\x01\x2c",
    b"\x00\x12\x00\x06",
];

/// The result for a signature, if one is found.
fn judged(originals: &[Vec<u8>], input: &[u8]) -> Outcome {
    let Some(at) = tsig_place(input) else {
        return Ok("none".to_owned());
    };
    match verify(&Keys::new([key("k.")]), input, at, NOW) {
        Verdict::Malformed => Ok("malformed".to_owned()),
        Verdict::Refused(refusal) => Ok(format!("{:?}", refusal.error)),
        Verdict::Valid(_) => {
            // The ID may change in transit: the TSIG record holds the original one.
            let is_signed = originals.iter().any(|original| {
                tsig_place(original).is_some_and(|there| original[2..there] == input[2..at])
            });
            match is_signed {
                true => Ok("valid".to_owned()),
                false => Err("valid, and never signed".to_owned()),
            }
        }
    }
}

#[test]
fn e12_tsig_of_any_octets_never_verifies_what_was_not_signed() {
    let originals = requests();
    Fuzz::new(originals.clone(), PARTS).run("TSIG", |input| judged(&originals, input));
}

/// Plants a fault in the check: one octet of the signed ones is not covered.
#[test]
fn a_fault_planted_in_the_check_of_signatures_is_found() {
    let originals = requests();
    let forgetful = |input: &[u8]| {
        let mut forgot = input.to_vec();
        if let Some(octet) = forgot.get_mut(2) {
            *octet |= 1;
        }
        let outcome = judged(&originals, &forgot)?;
        let is_other = tsig_place(input).is_some() && input[2] & 1 == 0;
        match outcome == "valid" && is_other {
            true => Err("valid, and never signed".to_owned()),
            false => Ok(outcome),
        }
    };
    Fuzz::new(originals.clone(), PARTS).finds("TSIG", forgetful);
}
