//! Domain names: absolute, checked, in their own case, compared without case.
//!
//! A [`Name`] holds the uncompressed wire form (RFC 1035 section 3.1): length octets, labels, the root's zero. Equality
//! and hash fold ASCII case (RFC 4343). The order is canonical (RFC 4034 section 6.1). A [`SortKey`] has the same order
//! as a plain octet string, for indexes: labels from the right, in lower case, each followed by a zero octet. So the
//! keys of all names below a name begin with its key.

mod wire_text;

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::net::IpAddr;
use std::str::FromStr;

use crate::SortKey;
use crate::wire_name::{Labels, MAX_LABEL_OCTETS, MAX_NAME_OCTETS, wire_is_within, wire_name_len};

pub use wire_text::WireText;

/// The most compression pointers that we follow for one name, as in CoreDNS's library. A name has at most 127 labels:
/// with more pointers than labels, some lead to another pointer and not to a label.
const MAX_POINTERS: usize = 126;

/// An absolute domain name.
#[derive(Clone)]
pub struct Name(Box<[u8]>);

/// The reason why a text is no domain name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParseError {
    /// Two dots in a row, or a leading dot.
    #[error("\"{0}\" has an empty label")]
    EmptyLabel(String),
    /// A label of more than 63 octets.
    #[error("\"{0}\" has a label of more than 63 octets")]
    LongLabel(String),
    /// A label that holds a dot.
    #[error("\"{0}\" is not a label: it has a dot")]
    DotInLabel(String),
    /// More than 255 octets in all.
    #[error("\"{0}\" is longer than 255 octets")]
    LongName(String),
    /// A backslash that starts no valid escape (RFC 1035 section 5.1).
    #[error("\"{0}\" has an escape that is neither \\DDD (000 to 255) nor \\X")]
    BadEscape(String),
    /// The text is empty.
    #[error("a name is missing")]
    Empty,
}

/// The reason why octets of a message are no domain name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The message ends within the name.
    #[error("the message ends within a name")]
    Short,
    /// A label type other than plain or pointer.
    #[error("a label has a reserved type")]
    LabelType,
    /// A pointer that does not point back.
    #[error("a compression pointer does not point back")]
    Pointer,
    /// More than 126 pointers.
    #[error("a name has more than 126 compression pointers")]
    Pointers,
    /// More than 255 octets.
    #[error("a name is longer than 255 octets")]
    LongName,
}

impl Name {
    /// The root.
    #[must_use]
    pub fn root() -> Self {
        Self(Box::new([0]))
    }

    /// Reads the presentation form (RFC 1035 section 5.1): labels, dots, `\DDD` and `\X`. A missing
    /// last dot is supplied: every name is absolute.
    ///
    /// # Errors
    /// [`ParseError`], with the text.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        Self::parse_in(text, &Self::root())
    }

    /// Reads the presentation form. A name without a last dot is relative to `origin`, and `@` is the origin itself.
    ///
    /// # Errors
    /// [`ParseError`], with the text.
    pub fn parse_in(text: &str, origin: &Self) -> Result<Self, ParseError> {
        match text {
            "" => return Err(ParseError::Empty),
            "." => return Ok(Self::root()),
            "@" => return Ok(origin.clone()),
            _ => {}
        }
        let mut wire = Vec::with_capacity(text.len() + 2);
        let mut start = 0;
        wire.push(0);
        let mut octets = text.bytes();
        let mut absolute = false;
        while let Some(octet) = octets.next() {
            absolute = false;
            match octet {
                b'.' => {
                    Self::close_label(&mut wire, start, text)?;
                    start = wire.len();
                    wire.push(0);
                    absolute = true;
                }
                b'\\' => wire.push(unescape(&mut octets).ok_or_else(|| bad_escape(text))?),
                other => wire.push(other),
            }
        }
        if absolute {
            // The length octet that was opened after the last dot is the root's zero.
        } else {
            Self::close_label(&mut wire, start, text)?;
            wire.extend_from_slice(&origin.0);
        }
        if wire.len() > MAX_NAME_OCTETS {
            return Err(ParseError::LongName(text.to_owned()));
        }
        Ok(Self(wire.into_boxed_slice()))
    }

    /// Writes the length octet of the label that began at `start`.
    fn close_label(wire: &mut [u8], start: usize, text: &str) -> Result<(), ParseError> {
        let octets = wire.len() - start - 1;
        if octets == 0 {
            return Err(ParseError::EmptyLabel(text.to_owned()));
        }
        match u8::try_from(octets) {
            Ok(length) if octets <= MAX_LABEL_OCTETS => {
                wire[start] = length;
                Ok(())
            }
            _ => Err(ParseError::LongLabel(text.to_owned())),
        }
    }

    /// Reads a name at `at` of a message. It follows compression pointers backwards only, and at most 126 of them.
    /// Returns the name and the place after it.
    ///
    /// # Errors
    /// [`DecodeError`]. It never panics, whatever the octets are.
    pub fn decode(message: &[u8], at: usize) -> Result<(Self, usize), DecodeError> {
        let mut wire = Vec::with_capacity(64);
        let mut at = at;
        let mut end = None;
        let mut lowest = at;
        let mut pointers = 0;
        loop {
            #[cfg(any(test, feature = "testing"))]
            crate::steps::count_step();
            let length = usize::from(*message.get(at).ok_or(DecodeError::Short)?);
            match length {
                0 => {
                    wire.push(0);
                    break;
                }
                1..=MAX_LABEL_OCTETS => {
                    let label = message.get(at..=at + length).ok_or(DecodeError::Short)?;
                    wire.extend_from_slice(label);
                    at += length + 1;
                }
                0xc0.. => {
                    let low = usize::from(*message.get(at + 1).ok_or(DecodeError::Short)?);
                    let target = (length & 0x3f) << 8 | low;
                    if target >= lowest {
                        return Err(DecodeError::Pointer);
                    }
                    pointers += 1;
                    if pointers > MAX_POINTERS {
                        return Err(DecodeError::Pointers);
                    }
                    end.get_or_insert(at + 2);
                    lowest = target;
                    at = target;
                }
                _ => return Err(DecodeError::LabelType),
            }
            if wire.len() >= MAX_NAME_OCTETS {
                return Err(DecodeError::LongName);
            }
        }
        Ok((Self(wire.into_boxed_slice()), end.unwrap_or(at + 1)))
    }

    /// Takes octets that our own store wrote as an uncompressed name.
    ///
    /// # Errors
    /// [`DecodeError`] when they are not exactly one uncompressed name.
    pub fn from_wire(wire: &[u8]) -> Result<Self, DecodeError> {
        let end = wire_name_len(wire).ok_or(DecodeError::Short)?;
        if end != wire.len() {
            return Err(DecodeError::Short);
        }
        Ok(Self(wire.into()))
    }

    /// The uncompressed wire form, root included.
    #[must_use]
    pub fn as_wire(&self) -> &[u8] {
        &self.0
    }

    /// The name one label longer: `label.self`. A label with a dot is refused: DNS allows it, but in a text it looks
    /// like two labels, and nobody means it.
    ///
    /// # Errors
    /// [`ParseError`] when the label is empty, too long or holds a dot, or the name would be too long.
    pub fn child(&self, label: &str) -> Result<Self, ParseError> {
        if label.contains('.') {
            return Err(ParseError::DotInLabel(label.to_owned()));
        }
        self.child_octets(label.as_bytes())
    }

    /// As [`Self::child`], for a label of any octets, dots included.
    ///
    /// # Errors
    /// [`ParseError`] when the label is empty or too long, or the name would be.
    pub fn child_octets(&self, label: &[u8]) -> Result<Self, ParseError> {
        let shown = || String::from_utf8_lossy(label).into_owned();
        if label.is_empty() {
            return Err(ParseError::EmptyLabel(shown()));
        }
        let length = u8::try_from(label.len())
            .ok()
            .filter(|length| usize::from(*length) <= MAX_LABEL_OCTETS)
            .ok_or_else(|| ParseError::LongLabel(shown()))?;
        if label.len() + 1 + self.0.len() > MAX_NAME_OCTETS {
            return Err(ParseError::LongName(shown()));
        }
        let mut wire = Vec::with_capacity(label.len() + 1 + self.0.len());
        wire.push(length);
        wire.extend_from_slice(label);
        wire.extend_from_slice(&self.0);
        Ok(Self(wire.into_boxed_slice()))
    }

    /// The owner of the PTR records for an address: in `in-addr.arpa` (RFC 1035 section 3.5) or
    /// `ip6.arpa` (RFC 3596 section 2.5).
    #[must_use]
    pub fn reverse_of(address: IpAddr) -> Self {
        let mut wire = Vec::with_capacity(74);
        match address {
            IpAddr::V4(v4) => {
                for octet in v4.octets().iter().rev() {
                    let digits = octet.to_string();
                    #[allow(clippy::cast_possible_truncation, reason = "at most three digits")]
                    wire.push(digits.len() as u8);
                    wire.extend_from_slice(digits.as_bytes());
                }
                wire.extend_from_slice(b"\x07in-addr\x04arpa\x00");
            }
            IpAddr::V6(v6) => {
                const HEX: &[u8; 16] = b"0123456789abcdef";
                for octet in v6.octets().iter().rev() {
                    for nibble in [octet & 15, octet >> 4] {
                        wire.push(1);
                        wire.push(HEX[usize::from(nibble)]);
                    }
                }
                wire.extend_from_slice(b"\x03ip6\x04arpa\x00");
            }
        }
        Self(wire.into_boxed_slice())
    }

    /// The address whose [`Self::reverse_of`] this is, whatever the case of its letters.
    #[must_use]
    pub fn reversed_address(&self) -> Option<IpAddr> {
        let labels: Vec<&[u8]> = self.labels().collect();
        let [reversed @ .., family, _] = labels.as_slice() else {
            return None;
        };
        let is_v4 = family.eq_ignore_ascii_case(b"in-addr");
        let address = match *reversed {
            [d, c, b, a] if is_v4 => {
                let number = |label: &[u8]| std::str::from_utf8(label).ok()?.parse::<u8>().ok();
                IpAddr::from([number(a)?, number(b)?, number(c)?, number(d)?])
            }
            _ if reversed.len() == 32 => {
                let mut value = 0_u128;
                for label in reversed.iter().rev() {
                    let digit = char::from(*label.first()?).to_digit(16)?;
                    value = value << 4 | u128::from(digit);
                }
                IpAddr::from(value.to_be_bytes())
            }
            _ => return None,
        };
        // This also checks the suffix, and that no number has leading zeros.
        (Self::reverse_of(address) == *self).then_some(address)
    }

    /// The labels from the left, without the root.
    pub fn labels(&self) -> impl Iterator<Item = &[u8]> {
        Labels(&self.0)
    }

    /// The number of labels, without the root.
    #[must_use]
    pub fn label_count(&self) -> usize {
        self.labels().count()
    }

    /// Whether this is the root.
    #[must_use]
    pub fn is_root(&self) -> bool {
        self.0.len() == 1
    }

    /// The name without its first label; `None` for the root.
    #[must_use]
    pub fn parent(&self) -> Option<Self> {
        let first = usize::from(*self.0.first()?);
        (first > 0).then(|| Self(self.0[first + 1..].into()))
    }

    /// Whether this name is `ancestor` or below it.
    #[must_use]
    pub fn is_within(&self, ancestor: &Self) -> bool {
        wire_is_within(&self.0, &ancestor.0)
    }

    /// The name in lower case.
    #[must_use]
    pub fn to_lower(&self) -> Self {
        Self(self.0.to_ascii_lowercase().into_boxed_slice())
    }

    /// The sort key relative to `apex`: the labels below it, from the right. It is empty at the apex, and `None` when
    /// the name is not within `apex`.
    #[must_use]
    pub fn sort_key(&self, apex: &Self) -> Option<SortKey> {
        SortKey::of_wire(&self.0, &apex.0)
    }
}

/// The octets of an escape after its backslash.
fn unescape(octets: &mut std::str::Bytes<'_>) -> Option<u8> {
    let first = octets.next()?;
    if !first.is_ascii_digit() {
        return Some(first);
    }
    let mut value = u32::from(first - b'0');
    for _ in 0..2 {
        let digit = octets.next().filter(u8::is_ascii_digit)?;
        value = value * 10 + u32::from(digit - b'0');
    }
    u8::try_from(value).ok()
}

fn bad_escape(text: &str) -> ParseError {
    ParseError::BadEscape(text.to_owned())
}

impl PartialEq for Name {
    fn eq(&self, other: &Self) -> bool {
        // Length octets are at most 63, so no length octet is a letter: folding the whole is safe.
        self.0.eq_ignore_ascii_case(&other.0)
    }
}

impl Eq for Name {}

impl Hash for Name {
    fn hash<H: Hasher>(&self, state: &mut H) {
        for octet in &self.0 {
            state.write_u8(octet.to_ascii_lowercase());
        }
    }
}

impl Ord for Name {
    fn cmp(&self, other: &Self) -> Ordering {
        let root = [0];
        let key = |name: &Self| SortKey::of_wire(&name.0, &root);
        key(self).cmp(&key(other))
    }
}

impl PartialOrd for Name {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl FromStr for Name {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        Self::parse(text)
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        WireText(&self.0).fmt(f)
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests;
