//! Domain names: absolute, checked, case kept, compared without case.
//!
//! A [`Name`] holds the uncompressed wire form (RFC 1035 section 3.1): length octets, labels, the
//! root's zero. Equality and hash fold ASCII case (RFC 4343); order is canonical (RFC 4034 section
//! 6.1). A [`SortKey`] is the same order as a plain octet string, which is what indexes hold: labels
//! from the right, lower case, each closed by a zero octet, so that all names below a name share its
//! key as a prefix.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::net::IpAddr;
use std::str::FromStr;

/// The most octets a name may take on the wire, root included (RFC 1035 section 2.3.4).
pub(crate) const MAX_NAME_OCTETS: usize = 255;
/// The most octets a label may have (RFC 1035 section 2.3.4).
pub(crate) const MAX_LABEL_OCTETS: usize = 63;

/// An absolute domain name.
#[derive(Clone)]
pub struct Name(Box<[u8]>);

/// Why a text is no domain name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParseError {
    /// Two dots in a row, or a dot in front.
    #[error("\"{0}\" has an empty label")]
    EmptyLabel(String),
    /// A label of more than 63 octets.
    #[error("\"{0}\" has a label of more than 63 octets")]
    LongLabel(String),
    /// A label that holds a dot.
    #[error("\"{0}\" is no label: it holds a dot")]
    DotInLabel(String),
    /// More than 255 octets in all.
    #[error("\"{0}\" is longer than 255 octets")]
    LongName(String),
    /// A backslash that starts no escape (RFC 1035 section 5.1).
    #[error("\"{0}\" has an escape that is neither \\DDD (000 to 255) nor \\X")]
    BadEscape(String),
    /// Nothing at all.
    #[error("a name is missing")]
    Empty,
}

/// Why octets of a message are no domain name.
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

    /// Reads the presentation form; without a last dot it is relative to `origin`, and `@` is the
    /// origin itself.
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
            // The length octet opened after the last dot is the root's zero.
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

    /// Reads a name at `at` of a message, following compression pointers backwards only; gives the
    /// name and the place after it.
    ///
    /// # Errors
    /// [`DecodeError`]; never panics, whatever the octets.
    pub fn decode(message: &[u8], at: usize) -> Result<(Self, usize), DecodeError> {
        let mut wire = Vec::with_capacity(64);
        let mut at = at;
        let mut end = None;
        let mut lowest = at;
        loop {
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

    /// Takes octets that are already known to be an uncompressed name, as our own store wrote them.
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

    /// The name one label longer: `label.self`. A dot within a label is legal on the wire and never
    /// meant in a text: nobody who reads the name sees that it is one label.
    ///
    /// # Errors
    /// [`ParseError`] when the label is empty, too long or holds a dot, or the name would be too long.
    pub fn child(&self, label: &str) -> Result<Self, ParseError> {
        if label.contains('.') {
            return Err(ParseError::DotInLabel(label.to_owned()));
        }
        self.child_octets(label.as_bytes())
    }

    /// As [`Self::child`], for a label of any octets, dots too.
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

    /// The labels from the left, without the root.
    pub fn labels(&self) -> impl Iterator<Item = &[u8]> {
        Labels(&self.0)
    }

    /// How many labels the name has, the root not counted.
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

    /// The sort key relative to `apex`: the labels below it, from the right. Empty at the apex.
    /// `None` when the name is not within `apex`.
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

/// The error for a bad escape in `text`.
fn bad_escape(text: &str) -> ParseError {
    ParseError::BadEscape(text.to_owned())
}

/// The labels of an uncompressed wire name.
struct Labels<'a>(&'a [u8]);

impl<'a> Iterator for Labels<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let (length, rest) = self.0.split_first()?;
        if *length == 0 {
            return None;
        }
        let (label, rest) = rest.split_at(usize::from(*length));
        self.0 = rest;
        Some(label)
    }
}

/// The length of the uncompressed name that `wire` begins with; `None` when there is none.
#[must_use]
pub(crate) fn wire_name_len(wire: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        match usize::from(*wire.get(at)?) {
            0 => return (at < MAX_NAME_OCTETS).then_some(at + 1),
            length @ 1..=MAX_LABEL_OCTETS => at += length + 1,
            _ => return None,
        }
    }
}

/// Whether one wire name equals or lies below another, without case.
#[must_use]
pub(crate) fn wire_is_within(wire: &[u8], ancestor: &[u8]) -> bool {
    let Some(skip) = wire.len().checked_sub(ancestor.len()) else {
        return false;
    };
    let mut at = 0;
    while at < skip {
        at += usize::from(wire[at]) + 1;
    }
    at == skip && wire[skip..].eq_ignore_ascii_case(ancestor)
}

impl PartialEq for Name {
    fn eq(&self, other: &Self) -> bool {
        // Length octets are at most 63 and so never letters: folding the whole is safe.
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
        if self.is_root() {
            return f.write_str(".");
        }
        for label in self.labels() {
            for octet in label {
                match octet {
                    b'.' | b'\\' | b'"' | b';' | b'@' | b'$' | b'(' | b')' => {
                        write!(f, "\\{}", char::from(*octet))?;
                    }
                    0x21..=0x7e => write!(f, "{}", char::from(*octet))?,
                    other => write!(f, "\\{other:03}")?,
                }
            }
            f.write_str(".")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A name as a sortable octet string, relative to an apex: labels from the right, lower case, each
/// closed by 0. The octets 0 and 1 within a label are written 1 1 and 1 2. Octet order of keys is
/// canonical order of names; the keys of all names below a name begin with its key.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SortKey(Vec<u8>);

impl SortKey {
    /// The key of a wire name within a wire apex; `None` when it is not within.
    #[must_use]
    pub fn of_wire(wire: &[u8], apex: &[u8]) -> Option<Self> {
        let mut key = Vec::with_capacity(wire.len());
        Self::write(wire, apex, &mut key).then_some(Self(key))
    }

    /// As [`Self::of_wire`], into a buffer that is cleared first; false when not within.
    pub(crate) fn write(wire: &[u8], apex: &[u8], key: &mut Vec<u8>) -> bool {
        key.clear();
        if !wire_is_within(wire, apex) {
            return false;
        }
        let mut starts = [0_u8; 128];
        let mut count = 0;
        let mut at = 0;
        while at < wire.len() - apex.len() {
            #[allow(
                clippy::cast_possible_truncation,
                reason = "names have at most 255 octets"
            )]
            {
                starts[count] = at as u8;
            }
            count += 1;
            at += usize::from(wire[at]) + 1;
        }
        for start in starts[..count].iter().rev() {
            let start = usize::from(*start);
            let length = usize::from(wire[start]);
            for octet in &wire[start + 1..=start + length] {
                match octet.to_ascii_lowercase() {
                    low @ (0 | 1) => key.extend_from_slice(&[1, low + 1]),
                    other => key.push(other),
                }
            }
            key.push(0);
        }
        true
    }

    /// The octets.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Writes the wire form of the name a key stands for, without its apex, in lower case.
    pub(crate) fn write_wire(key: &[u8], wire: &mut Vec<u8>) {
        let mut labels = key;
        let mut ends = [0_u16; 128];
        let mut count = 0;
        let mut at = 0;
        while let Some(length) = labels.iter().position(|octet| *octet == 0) {
            at += length + 1;
            #[allow(
                clippy::cast_possible_truncation,
                reason = "keys have at most 510 octets"
            )]
            {
                ends[count] = at as u16;
            }
            count += 1;
            labels = &labels[length + 1..];
        }
        for index in (0..count).rev() {
            let start = if index == 0 {
                0
            } else {
                usize::from(ends[index - 1])
            };
            let label = &key[start..usize::from(ends[index]) - 1];
            let length_at = wire.len();
            wire.push(0);
            let mut octets = label.iter();
            while let Some(octet) = octets.next() {
                match octet {
                    1 => wire.push(octets.next().map_or(0, |low| low - 1)),
                    other => wire.push(*other),
                }
            }
            #[allow(
                clippy::cast_possible_truncation,
                reason = "labels have at most 63 octets"
            )]
            {
                wire[length_at] = (wire.len() - length_at - 1) as u8;
            }
        }
    }
}

impl fmt::Debug for SortKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0.escape_ascii())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A name from text, for tests.
    fn name(text: &str) -> Name {
        Name::parse(text).unwrap()
    }

    #[test]
    fn text_forms_read_back() {
        for text in [
            ".",
            "a.",
            "a.b.c.",
            "a\\.b.c.",
            "\\000x.y.",
            "\\\"q.",
            "_http._tcp.s.n.svc.z.",
        ] {
            assert_eq!(name(text).to_string(), text);
        }
        assert_eq!(name("\\097.b").to_string(), "a.b.");
    }

    #[test]
    fn relative_names_take_the_origin() {
        let origin = name("example.org.");
        assert_eq!(
            Name::parse_in("www", &origin).unwrap(),
            name("www.example.org.")
        );
        assert_eq!(Name::parse_in("@", &origin).unwrap(), origin);
        assert_eq!(Name::parse_in("www.", &origin).unwrap(), name("www."));
    }

    #[test]
    fn malformed_text_is_refused() {
        let long_label = "a".repeat(64);
        let long_name = format!("{}.", vec!["abcdefg"; 32].join("."));
        for (text, want) in [
            ("a..b", ParseError::EmptyLabel("a..b".into())),
            (".a", ParseError::EmptyLabel(".a".into())),
            (&long_label, ParseError::LongLabel(long_label.clone())),
            (&long_name, ParseError::LongName(long_name.clone())),
            ("a\\25", ParseError::BadEscape("a\\25".into())),
            ("a\\256", ParseError::BadEscape("a\\256".into())),
            ("a\\", ParseError::BadEscape("a\\".into())),
            ("", ParseError::Empty),
        ] {
            assert_eq!(Name::parse(text), Err(want));
        }
        assert!(Name::parse(&"a".repeat(63)).is_ok());
    }

    #[test]
    fn equality_folds_case_and_text_keeps_it() {
        assert_eq!(name("MiXed.Case."), name("mixed.case."));
        assert_eq!(name("MiXed.Case.").to_string(), "MiXed.Case.");
    }

    /// RFC 4034 section 6.1 gives this order.
    #[test]
    fn order_is_canonical() {
        let sorted = [
            "example.",
            "a.example.",
            "yljkjljk.a.example.",
            "Z.a.example.",
            "zABC.a.EXAMPLE.",
            "z.example.",
            "\\001.z.example.",
            "*.z.example.",
            "\\200.z.example.",
        ];
        for pair in sorted.windows(2) {
            assert!(
                name(pair[0]) < name(pair[1]),
                "{} before {}",
                pair[0],
                pair[1]
            );
        }
    }

    #[test]
    fn reverse_names_are_those_of_the_rfcs() {
        assert_eq!(
            Name::reverse_of("10.2.3.4".parse().unwrap()).to_string(),
            "4.3.2.10.in-addr.arpa."
        );
        assert_eq!(
            Name::reverse_of("2001:db8::1".parse().unwrap()).to_string(),
            "1.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.8.b.d.0.1.0.0.2.ip6.arpa."
        );
    }

    #[test]
    fn pointers_must_point_back() {
        assert_eq!(Name::decode(&[0xc0, 0], 0), Err(DecodeError::Pointer));
        assert_eq!(
            Name::decode(&[1, b'a', 0xc0, 0], 0),
            Err(DecodeError::Pointer)
        );
        assert_eq!(Name::decode(&[0x40, 0], 0), Err(DecodeError::LabelType));
        assert_eq!(Name::decode(&[3, b'a'], 0), Err(DecodeError::Short));
        let message = [1, b'z', 0, 1, b'a', 0xc0, 0, 9];
        assert_eq!(Name::decode(&message, 3), Ok((name("a.z."), 7)));
    }

    /// Any name, as labels of any octets.
    pub(crate) fn any_name() -> impl Strategy<Value = Name> {
        let label = prop::collection::vec(any::<u8>(), 1..12);
        prop::collection::vec(label, 0..8).prop_map(|labels| {
            labels.iter().fold(Name::root(), |name, label| {
                name.child_octets(label).unwrap()
            })
        })
    }

    proptest! {
        #[test]
        fn text_and_wire_read_back(name in any_name()) {
            let text = Name::parse(&name.to_string()).unwrap();
            prop_assert_eq!(text.as_wire(), name.as_wire());
            let wire = Name::decode(name.as_wire(), 0).unwrap().0;
            prop_assert_eq!(wire.as_wire(), name.as_wire());
        }

        #[test]
        fn keys_give_the_name_back_in_lower_case(name in any_name()) {
            let key = name.sort_key(&Name::root()).unwrap();
            let mut wire = Vec::new();
            SortKey::write_wire(key.as_bytes(), &mut wire);
            wire.push(0);
            let lower = name.to_lower();
            prop_assert_eq!(wire.as_slice(), lower.as_wire());
        }

        #[test]
        fn key_order_is_canonical_order(left in any_name(), right in any_name()) {
            // The definition itself: labels from the right, octet by octet in lower case, absent first.
            let canonical = |name: &Name| -> Vec<Vec<u8>> {
                let mut labels: Vec<_> = name.labels().map(<[u8]>::to_ascii_lowercase).collect();
                labels.reverse();
                labels
            };
            prop_assert_eq!(left.cmp(&right), canonical(&left).cmp(&canonical(&right)));
        }

        #[test]
        fn decoding_never_panics(octets in prop::collection::vec(any::<u8>(), 0..80), at in 0usize..90) {
            let decoded = Name::decode(&octets, at);
            prop_assert!(decoded.is_err() || at < octets.len());
        }
    }
}
