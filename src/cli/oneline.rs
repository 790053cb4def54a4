//! `log --oneline`: each entry of the log as one line.

use std::io::{self, Write};

/// What the lines of an entry begin with, but the first.
const INDENT: &[u8] = b"    ";

/// Joins the lines of each entry: its first line, its first cause, how many more causes there are, and for how many
/// versions it stands.
pub(crate) struct Oneline<'a> {
    out: &'a mut dyn Write,
    /// The line that is not whole yet.
    line: Vec<u8>,
    /// The entry that is not whole yet.
    entry: Vec<u8>,
    /// The causes of the entry after its first one.
    more: usize,
    has_cause: bool,
    /// For how many versions the entry stands.
    condensed: Vec<u8>,
}

impl<'a> Oneline<'a> {
    pub(crate) fn new(out: &'a mut dyn Write) -> Self {
        Self {
            out,
            line: Vec::new(),
            entry: Vec::new(),
            more: 0,
            has_cause: false,
            condensed: Vec::new(),
        }
    }

    fn take_line(&mut self) -> io::Result<()> {
        let line = std::mem::take(&mut self.line);
        let Some(text) = line.strip_prefix(INDENT) else {
            self.end_entry()?;
            self.entry = line;
            return Ok(());
        };
        match text {
            // Records.
            [b'+' | b'-', b' ', ..] => {}
            [b';', b' ', ..] => self.condensed = text.to_vec(),
            _ if self.has_cause => self.more += omitted(text).unwrap_or(1),
            _ => {
                self.entry.extend_from_slice(b": ");
                self.entry.extend_from_slice(text);
                self.has_cause = true;
            }
        }
        Ok(())
    }

    /// Writes the entry.
    fn end_entry(&mut self) -> io::Result<()> {
        let mut entry = std::mem::take(&mut self.entry);
        let more = std::mem::take(&mut self.more);
        let condensed = std::mem::take(&mut self.condensed);
        self.has_cause = false;
        if entry.is_empty() {
            return Ok(());
        }
        if more > 0 {
            write!(entry, ", and {more} more")?;
        }
        entry.extend(condensed);
        entry.push(b'\n');
        self.out.write_all(&entry)
    }
}

/// The number in `and N more: …`, the line for causes that are not listed. Each cause begins with a verb.
fn omitted(text: &[u8]) -> Option<usize> {
    let number = std::str::from_utf8(text).ok()?.strip_prefix("and ")?;
    number.split_once(" more: ")?.0.parse().ok()
}

impl Write for Oneline<'_> {
    fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
        for octet in octets {
            match octet {
                b'\n' => self.take_line()?,
                octet => self.line.push(*octet),
            }
        }
        Ok(octets.len())
    }

    /// Ends the entry: more of it does not come.
    fn flush(&mut self) -> io::Result<()> {
        self.end_entry()?;
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn joined(text: &str) -> String {
        let mut out = Vec::new();
        let mut lines = Oneline::new(&mut out);
        lines.write_all(text.as_bytes()).unwrap();
        lines.flush().unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn an_entry_is_one_line_with_its_first_cause_and_the_number_of_the_others() {
        let text = "\
z. 7 T +0 -8 (24 records)
    vanished Service a/b (uid u)
    listed EndpointSlice a/c
    and 295 more: --output json lists all
    - b.a. 5 IN A 192.0.2.1
    ; 7 versions of namespace a condensed, the first of T
z. 6 T frozen, by uid 0
z. 5 T +1 -0 (32 records)
    deleted Namespace a
z. 4 T +0 -0 (31 records)
    ; a version of namespace a; their records were dropped
; history begins here
";
        let want = "\
z. 7 T +0 -8 (24 records): vanished Service a/b (uid u), and 296 more; 7 versions of namespace a condensed, the first of T
z. 6 T frozen, by uid 0
z. 5 T +1 -0 (32 records): deleted Namespace a
z. 4 T +0 -0 (31 records); a version of namespace a; their records were dropped
; history begins here
";
        assert_eq!(joined(text), want);
        assert_eq!(joined(""), "");
    }
}
