//! Names as octets of messages and stores: limits, labels, lengths.

/// The most octets of a name on the wire, root included (RFC 1035 section 2.3.4).
pub(crate) const MAX_NAME_OCTETS: usize = 255;
/// The most octets of a label (RFC 1035 section 2.3.4).
pub(crate) const MAX_LABEL_OCTETS: usize = 63;

/// The labels of an uncompressed wire name.
pub(crate) struct Labels<'a>(pub(crate) &'a [u8]);

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

/// The length of the uncompressed name at the start of `wire`; `None` if it is malformed.
#[must_use]
pub fn wire_name_len(wire: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        match usize::from(*wire.get(at)?) {
            0 => return (at < MAX_NAME_OCTETS).then_some(at + 1),
            length @ 1..=MAX_LABEL_OCTETS => at += length + 1,
            _ => return None,
        }
    }
}

/// Whether a wire name is another or below it, in any case of letters.
#[must_use]
pub fn wire_is_within(wire: &[u8], ancestor: &[u8]) -> bool {
    let Some(skip) = wire.len().checked_sub(ancestor.len()) else {
        return false;
    };
    let mut at = 0;
    while at < skip {
        at += usize::from(wire[at]) + 1;
    }
    at == skip && wire[skip..].eq_ignore_ascii_case(ancestor)
}

/// The place after the name at `at`, compressed or not. Pointers must point back.
pub(crate) fn skip_name(raw: &[u8], at: usize) -> Option<usize> {
    let start = at;
    let mut at = at;
    loop {
        #[cfg(any(test, feature = "testing"))]
        crate::steps::count_step();
        let length = usize::from(*raw.get(at)?);
        match length {
            0 => return (at - start < MAX_NAME_OCTETS).then_some(at + 1),
            1..=MAX_LABEL_OCTETS => at += length + 1,
            0xc0.. => {
                let target = (length & 0x3f) << 8 | usize::from(*raw.get(at + 1)?);
                return (target < at).then_some(at + 2);
            }
            _ => return None,
        }
    }
}
