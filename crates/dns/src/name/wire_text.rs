//! Names as a master file writes them (RFC 1035 section 5.1).

use std::fmt;

use crate::wire_name::{Labels, MAX_NAME_OCTETS};

/// Whether an octet of a label is written without escape in a master file (RFC 1035 section 5.1).
const fn is_plain(octet: u8) -> bool {
    octet.is_ascii_graphic()
        && !matches!(
            octet,
            b'.' | b'\\' | b'"' | b';' | b'@' | b'$' | b'(' | b')'
        )
}

/// The text of a wire name without escapes, as almost all names are: the name's octets, with a dot after each label
/// instead of the length before it.
fn plain_text<'a>(wire: &[u8], buffer: &'a mut [u8; MAX_NAME_OCTETS]) -> Option<&'a str> {
    let octets = wire.len().checked_sub(1)?;
    let mut rest = buffer.get_mut(..octets)?;
    for label in Labels(wire) {
        let (text, after) = rest.split_at_mut_checked(label.len())?;
        text.copy_from_slice(label);
        let (dot, after) = after.split_first_mut()?;
        *dot = b'.';
        rest = after;
        if !label.iter().all(|octet| is_plain(*octet)) {
            return None;
        }
    }
    if !rest.is_empty() {
        return None;
    }
    str::from_utf8(&buffer[..octets]).ok()
}

/// The text of an uncompressed wire name, in the form of [`Name`](super::Name).
#[derive(Clone, Copy)]
pub struct WireText<'a>(pub &'a [u8]);

impl WireText<'_> {
    /// Writes the text.
    pub fn write(self, out: &mut impl fmt::Write) -> fmt::Result {
        if self.0 == [0] {
            return out.write_str(".");
        }
        let mut buffer = [0; MAX_NAME_OCTETS];
        if let Some(text) = plain_text(self.0, &mut buffer) {
            return out.write_str(text);
        }
        for label in Labels(self.0) {
            for octet in label {
                match *octet {
                    plain if is_plain(plain) => out.write_char(char::from(plain))?,
                    graphic @ 0x21..=0x7e => write!(out, "\\{}", char::from(graphic))?,
                    other => write!(out, "\\{other:03}")?,
                }
            }
            out.write_str(".")?;
        }
        Ok(())
    }
}

impl fmt::Display for WireText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write(f)
    }
}
