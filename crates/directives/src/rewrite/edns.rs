//! `rewrite edns0 local|nsid|subnet ACTION …`: changes options of the query.

use corefile::lexer::Token;
use dns::edns::{CLIENT_SUBNET, NSID};

use crate::rewrite::Reading;

/// The syntax of the rules, for messages.
const USAGE: &str = "write: rewrite edns0 local set|append|replace|unset CODE DATA, edns0 nsid ACTION, or edns0 \
                     subnet ACTION V4-BITS V6-BITS, with revert at the end if wanted";

/// The change of an option.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EdnsAction {
    /// Replaces the option, or adds it.
    Set,
    /// Adds the option if there is none. CoreDNS adds a second one of `local`.
    Append,
    /// Replaces the option if there is one.
    Replace,
    /// Removes the option.
    Unset,
}

/// A variable, for its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Variable {
    /// The name.
    Name,
    /// The number of the type.
    Type,
    /// The address of the client.
    ClientAddress,
    /// The port of the client.
    ClientPort,
    /// `udp` or `tcp`.
    Protocol,
    /// Our own address.
    ServerAddress,
    /// Our own port.
    ServerPort,
    /// A label of metadata.
    Metadata(String),
}

/// The data of an option.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EdnsValue {
    /// These octets.
    Octets(Vec<u8>),
    /// The value of this variable.
    Variable(Variable),
    /// The client's network: a number of leading bits of its address.
    Subnet {
        /// The bits of an IPv4 address.
        v4_bits: u8,
        /// The bits of an IPv6 address.
        v6_bits: u8,
    },
}

/// The option that a rule changes. CoreDNS treats each kind differently.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EdnsOption {
    /// An option of any code.
    Local(u16),
    /// NSID.
    Nsid,
    /// Client subnet.
    Subnet,
}

impl EdnsOption {
    /// Its code.
    #[must_use]
    pub const fn code(self) -> u16 {
        match self {
            Self::Local(code) => code,
            Self::Nsid => NSID,
            Self::Subnet => CLIENT_SUBNET,
        }
    }
}

/// A rule. `revert` needs no field: replies never contain options of the query.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EdnsRule {
    /// The option.
    pub option: EdnsOption,
    /// The change.
    pub action: EdnsAction,
    /// Its data.
    pub value: EdnsValue,
}

/// Reads the words after `edns0`.
pub(super) fn parse(words: &[&Token], reading: &mut Reading<'_>) -> Option<EdnsRule> {
    let [kind, action_word, rest @ ..] = words else {
        reading.wrong(
            "a rule for EDNS options needs an option and an action",
            USAGE,
        );
        return None;
    };
    let action = match action_word.text.to_ascii_lowercase().as_str() {
        "set" => EdnsAction::Set,
        "append" => EdnsAction::Append,
        "replace" => EdnsAction::Replace,
        "unset" => EdnsAction::Unset,
        _ => {
            let message = format!("{} is not an action", action_word.shown());
            reading.wrong_at(action_word, message, USAGE);
            return None;
        }
    };
    let is_unset = action == EdnsAction::Unset;
    let rest = match rest {
        [rest @ .., last] if last.text == "revert" && !is_unset => rest,
        _ => rest,
    };
    let none = || EdnsValue::Octets(Vec::new());
    let (option, value) = match (kind.text.to_ascii_lowercase().as_str(), rest) {
        ("local", [code]) if is_unset => {
            (EdnsOption::Local(number(code, u16::MAX, reading)?), none())
        }
        ("local", [code, data]) if !is_unset => {
            let code = number(code, u16::MAX, reading);
            let data = local(data, reading);
            (EdnsOption::Local(code?), data?)
        }
        ("nsid", []) => (EdnsOption::Nsid, none()),
        ("subnet", []) if is_unset => (EdnsOption::Subnet, none()),
        ("subnet", [v4, v6]) if !is_unset => {
            let (v4, v6) = (number(v4, 32, reading), number(v6, 128, reading));
            let bits = |number: u16| u8::try_from(number).unwrap_or(u8::MAX);
            let subnet = EdnsValue::Subnet {
                v4_bits: bits(v4?),
                v6_bits: bits(v6?),
            };
            (EdnsOption::Subnet, subnet)
        }
        ("local" | "nsid" | "subnet", _) => {
            let message = format!("{} cannot have {} arguments", kind.shown(), rest.len());
            reading.wrong_at(kind, message, USAGE);
            return None;
        }
        _ => {
            reading.wrong_at(kind, format!("{} is not an option", kind.shown()), USAGE);
            return None;
        }
    };
    Some(EdnsRule {
        option,
        action,
        value,
    })
}

/// Reads a number up to `most`, as Go does: decimal, or after `0x`, `0o`, `0` or `0b`.
fn number(token: &Token, most: u16, reading: &mut Reading<'_>) -> Option<u16> {
    let text = token.text.to_ascii_lowercase();
    let (digits, radix) = match text.as_bytes() {
        [b'0', b'x', ..] => (&text[2..], 16),
        [b'0', b'o', ..] => (&text[2..], 8),
        [b'0', b'b', ..] => (&text[2..], 2),
        [b'0', _, ..] => (&text[1..], 8),
        _ => (text.as_str(), 10),
    };
    let is_number = !digits.starts_with('+');
    let value = u16::from_str_radix(digits, radix).ok();
    let value = value.filter(|value| is_number && *value <= most);
    if value.is_none() {
        let message = format!("{} is not a number up to {most}", token.shown());
        reading.wrong_at(token, message, USAGE);
    }
    value
}

/// Reads the data of a local option: hex after `0x`, a variable in braces, else the text itself.
fn local(token: &Token, reading: &mut Reading<'_>) -> Option<EdnsValue> {
    let text = token.text.as_str();
    if let Some(name) = text.strip_prefix('{').and_then(|it| it.strip_suffix('}')) {
        let variable = match name {
            "qname" => Variable::Name,
            "qtype" => Variable::Type,
            "client_ip" => Variable::ClientAddress,
            "client_port" => Variable::ClientPort,
            "protocol" => Variable::Protocol,
            "server_ip" => Variable::ServerAddress,
            "server_port" => Variable::ServerPort,
            label if is_label(label) => Variable::Metadata(label.to_owned()),
            _ => {
                let message = format!("{} is not a variable", token.shown());
                let fix = "write {qname}, {qtype}, {client_ip}, {client_port}, {protocol}, {server_ip}, \
                            {server_port} or {a/label} of metadata";
                reading.wrong_at(token, message, fix);
                return None;
            }
        };
        return Some(EdnsValue::Variable(variable));
    }
    let Some(hex) = text.strip_prefix("0x") else {
        return Some(EdnsValue::Octets(text.as_bytes().to_vec()));
    };
    let octet = |pair: &[u8]| {
        let text = std::str::from_utf8(pair).ok().filter(|it| it.len() == 2)?;
        u8::from_str_radix(text, 16).ok()
    };
    let octets: Option<Vec<u8>> = hex.as_bytes().chunks(2).map(octet).collect();
    if octets.is_none() {
        let message = format!("{} is not hexadecimal text", token.shown());
        reading.wrong_at(token, message, "write pairs of hexadecimal digits after 0x");
    }
    octets.map(EdnsValue::Octets)
}

/// Whether a text is a label of metadata. Such a text contains a `/` that is neither its first nor its last character.
pub(crate) fn is_label(text: &str) -> bool {
    let slash = text.find('/');
    slash.is_some_and(|at| at > 0 && at + 1 < text.len())
}
