//! The text of a name without allocation, for work on every query.

use std::fmt::{self, Write as _};

use dns::WireText;

/// The most bytes of the text of a name: at most four for each octet of a label.
const MAX_TEXT: usize = 1024;

pub(crate) struct NameText {
    octets: [u8; MAX_TEXT],
    length: usize,
}

impl fmt::Write for NameText {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let end = self.length + text.len();
        let free = self.octets.get_mut(self.length..end);
        free.ok_or(fmt::Error)?.copy_from_slice(text.as_bytes());
        self.length = end;
        Ok(())
    }
}

impl NameText {
    /// The text of a wire name.
    pub(crate) fn of(wire: &[u8]) -> Self {
        let mut text = Self {
            octets: [0; MAX_TEXT],
            length: 0,
        };
        let written = write!(text, "{}", WireText(wire));
        debug_assert!(written.is_ok(), "a name has no more octets");
        text
    }

    pub(crate) fn as_str(&self) -> &str {
        std::str::from_utf8(&self.octets[..self.length]).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dns::Name;

    #[test]
    fn texts_of_names_are_those_that_names_have() {
        for text in [
            "a.b.",
            ".",
            "\\000\\.x\\;.y.",
            &"\\007".repeat(60),
            "a\\@b.",
        ] {
            let name = Name::parse(text).unwrap();
            assert_eq!(NameText::of(name.as_wire()).as_str(), name.to_string());
        }
    }
}
