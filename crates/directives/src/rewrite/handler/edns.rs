//! Applies rules to the options of a query.
//!
//! Replies never contain options of the query, so there is nothing to undo.

use std::net::IpAddr;

use server::message::{Edns, Request};

use crate::config::{EdnsAction, EdnsOption, EdnsRule, EdnsValue, Variable};

/// The datagram size of an added OPT, as in CoreDNS.
const SIZE: u16 = 4096;

/// Applies a rule. Returns whether it matches the query.
pub(super) fn apply(rule: &EdnsRule, request: &mut Request) -> bool {
    let data = match &rule.value {
        EdnsValue::Octets(octets) => Some(octets.clone()),
        EdnsValue::Variable(variable) => value(variable, request),
        EdnsValue::Subnet { v4_bits, v6_bits } => {
            Some(subnet(request.origin.client.ip(), *v4_bits, *v6_bits))
        }
    };
    let Some(data) = data else {
        return false;
    };
    let edns = request.edns.get_or_insert_with(|| Edns {
        size: SIZE,
        dnssec_ok: false,
        options: Vec::new(),
    });
    let mut options = split(&edns.options);
    let code = rule.option.code();
    let found = options.iter_mut().find(|(own, _)| *own == code);
    // As in CoreDNS, only plain data and NSID are added a second time.
    let is_added_again = match (rule.option, &rule.value) {
        (EdnsOption::Nsid, _) | (EdnsOption::Local(_), EdnsValue::Octets(_)) => true,
        (EdnsOption::Local(_) | EdnsOption::Subnet, _) => false,
    };
    let is_there = found.is_some();
    let fits = match (rule.action, found) {
        (EdnsAction::Unset, _) => {
            options.retain(|(own, _)| *own != code);
            true
        }
        (EdnsAction::Set | EdnsAction::Replace, Some(found)) => {
            found.1 = data;
            true
        }
        (EdnsAction::Replace, None) => false,
        (EdnsAction::Set | EdnsAction::Append, _) if !is_there || is_added_again => {
            options.push((code, data));
            true
        }
        (EdnsAction::Set | EdnsAction::Append, _) => false,
    };
    edns.options = join(&options);
    fits
}

/// The options, each with its code. An incomplete option at the end is left out.
pub(super) fn split(mut octets: &[u8]) -> Vec<(u16, Vec<u8>)> {
    let mut options = Vec::new();
    while let Some((head, rest)) = octets.split_first_chunk::<4>() {
        let code = u16::from_be_bytes([head[0], head[1]]);
        let length = usize::from(u16::from_be_bytes([head[2], head[3]]));
        let Some((data, rest)) = rest.split_at_checked(length) else {
            break;
        };
        options.push((code, data.to_vec()));
        octets = rest;
    }
    options
}

fn join(options: &[(u16, Vec<u8>)]) -> Vec<u8> {
    let mut octets = Vec::new();
    for (code, data) in options {
        octets.extend_from_slice(&code.to_be_bytes());
        let length = u16::try_from(data.len()).unwrap_or(u16::MAX);
        octets.extend_from_slice(&length.to_be_bytes());
        octets.extend_from_slice(&data[..usize::from(length)]);
    }
    octets
}

/// The value of a variable; `None` for metadata that does not exist.
fn value(variable: &Variable, request: &Request) -> Option<Vec<u8>> {
    let address = |address: IpAddr| match address.to_canonical() {
        IpAddr::V4(v4) => v4.octets().to_vec(),
        IpAddr::V6(v6) => v6.octets().to_vec(),
    };
    let origin = &request.origin;
    Some(match variable {
        Variable::Name => request.name.to_string().into_bytes(),
        Variable::Type => request.qtype.0.to_be_bytes().to_vec(),
        Variable::ClientAddress => address(origin.client.ip()),
        Variable::ClientPort => origin.client.port().to_be_bytes().to_vec(),
        Variable::Protocol => if origin.proto.is_stream() {
            "tcp"
        } else {
            "udp"
        }
        .into(),
        Variable::ServerAddress => address(origin.local.ip()),
        Variable::ServerPort => origin.local.port().to_be_bytes().to_vec(),
        Variable::Metadata(label) => {
            let value = request.metadata.get(label.as_str())?;
            Some(value.clone().into_bytes()).filter(|value| !value.is_empty())?
        }
    })
}

/// The data of a client subnet (RFC 7871 section 6): family, bits, scope, and as many octets as the bits need.
fn subnet(client: IpAddr, v4_bits: u8, v6_bits: u8) -> Vec<u8> {
    let (family, bits, mut octets) = match client.to_canonical() {
        IpAddr::V4(v4) => (1, v4_bits, v4.octets().to_vec()),
        IpAddr::V6(v6) => (2, v6_bits, v6.octets().to_vec()),
    };
    octets.truncate(usize::from(bits).div_ceil(8));
    let spare = u32::from(bits) % 8;
    if let Some(last) = octets.last_mut().filter(|_| spare > 0) {
        *last &= u8::MAX << (8 - spare);
    }
    let mut data = vec![0, family, bits, 0];
    data.append(&mut octets);
    data
}
