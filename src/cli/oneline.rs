//! `log --oneline`: each entry of the log as one line.

use std::io::{self, Write};

/// What the lines of an entry begin with, but the first.
const INDENT: &[u8] = b"    ";

/// Joins the lines of each entry: its first line, its first cause, and how many more causes there are.
pub(crate) struct Oneline<'a> {
    out: &'a mut dyn Write,
    /// The line that is not whole yet.
    line: Vec<u8>,
    /// The entry that is not whole yet.
    entry: Vec<u8>,
    /// The causes of the entry after its first one.
    more: usize,
    has_cause: bool,
}

impl<'a> Oneline<'a> {
    pub(crate) fn new(out: &'a mut dyn Write) -> Self {
        Self {
            out,
            line: Vec::new(),
            entry: Vec::new(),
            more: 0,
            has_cause: false,
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
            _ if self.has_cause => self.more += 1,
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
        self.has_cause = false;
        if entry.is_empty() {
            return Ok(());
        }
        if more > 0 {
            write!(entry, ", and {more} more")?;
        }
        entry.push(b'\n');
        self.out.write_all(&entry)
    }
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
    and more: --output json lists all
    - b.a. 5 IN A 192.0.2.1
z. 6 T frozen, by uid 0
z. 5 T +1 -0 (32 records)
    deleted Namespace a
; history begins here
";
        let want = "\
z. 7 T +0 -8 (24 records): vanished Service a/b (uid u), and 2 more
z. 6 T frozen, by uid 0
z. 5 T +1 -0 (32 records): deleted Namespace a
; history begins here
";
        assert_eq!(joined(text), want);
        assert_eq!(joined(""), "");
    }
}
