//! Standard output for people: colours and a pager on a terminal, plain text anywhere else.

use std::io::{self, IsTerminal, Write};
use std::process::{Child, Command, Stdio};

use history::Output;

use crate::cli::args::{Colour, Look};

/// The default options of `less`: leave short texts on the screen, pass colours on.
const LESS: &str = "FRX";

/// How lines of an answer are coloured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Paint {
    /// Not at all.
    None,
    /// By their first character: `diff`.
    Diff,
    /// Versions, and records below them: `log`.
    Log,
}

/// How an answer is printed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wanted {
    /// Output for programs stays plain.
    pub(crate) output: Output,
    /// How lines are coloured.
    pub(crate) paint: Paint,
    /// Whether it may be long.
    pub(crate) is_paged: bool,
}

/// Standard output. A reader that had enough (`| head`, the end of a pager) is no failure: the rest is dropped.
pub(crate) struct Screen {
    /// Where to.
    out: Box<dyn Write>,
    /// The pager.
    pager: Option<Child>,
    /// How lines are coloured.
    paint: Paint,
    /// The line that is not whole yet.
    line: Vec<u8>,
    /// Whether the reader is gone.
    is_closed: bool,
}

impl Screen {
    /// Standard output for an answer.
    pub(crate) fn open(wanted: Wanted, look: Look) -> Self {
        let env = |name: &str| std::env::var(name).ok().filter(|text| !text.is_empty());
        let is_terminal = io::stdout().is_terminal();
        let is_text = wanted.output == Output::Text;
        let colours = match look.color {
            Colour::Always => true,
            Colour::Never => false,
            Colour::Auto => {
                is_terminal && env("NO_COLOR").is_none() && env("TERM").as_deref() != Some("dumb")
            }
        };
        let paint = if colours && is_text {
            wanted.paint
        } else {
            Paint::None
        };
        let pages = is_terminal && is_text && wanted.is_paged && !look.no_pager;
        let mut pager = pages.then(pager).flatten();
        let out: Box<dyn Write> = match pager.as_mut().and_then(|pager| pager.stdin.take()) {
            Some(stdin) => Box::new(io::BufWriter::new(stdin)),
            None => Box::new(io::BufWriter::new(io::stdout().lock())),
        };
        Self {
            out,
            pager,
            paint,
            line: Vec::new(),
            is_closed: false,
        }
    }

    /// Whether the reader is gone.
    pub(crate) const fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// Writes the rest and waits for the pager.
    pub(crate) fn close(mut self) -> io::Result<()> {
        let rest = std::mem::take(&mut self.line);
        let written = self.pass(&rest).and_then(|()| self.flush());
        let Self { out, pager, .. } = self;
        drop(out);
        if let Some(mut pager) = pager {
            pager.wait()?;
        }
        written
    }

    /// Passes bytes on.
    fn pass(&mut self, octets: &[u8]) -> io::Result<()> {
        if self.is_closed {
            return Ok(());
        }
        let done = self.out.write_all(octets);
        self.unless_closed(done)
    }

    /// Notes that the reader is gone.
    fn unless_closed(&mut self, done: io::Result<()>) -> io::Result<()> {
        match done {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                self.is_closed = true;
                Ok(())
            }
            done => done,
        }
    }
}

impl Write for Screen {
    fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
        if self.paint == Paint::None {
            self.pass(octets)?;
            return Ok(octets.len());
        }
        for octet in octets {
            self.line.push(*octet);
            if *octet == b'\n' {
                let line = std::mem::take(&mut self.line);
                let painted = painted(self.paint, &line);
                self.pass(&painted)?;
            }
        }
        Ok(octets.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.is_closed {
            return Ok(());
        }
        let done = self.out.flush();
        self.unless_closed(done)
    }
}

/// The pager, as git runs it: `$PAGER`, else `less`; none where that is empty, `cat`, or cannot be run.
fn pager() -> Option<Child> {
    let wanted = std::env::var("PAGER").unwrap_or_else(|_| "less".to_owned());
    if wanted.is_empty() || wanted == "cat" {
        return None;
    }
    let mut command = Command::new("sh");
    command.args(["-c", &wanted]).stdin(Stdio::piped());
    if std::env::var_os("LESS").is_none() {
        command.env("LESS", LESS);
    }
    if wanted == "less" && !is_there("less") {
        return None;
    }
    command.spawn().ok()
}

/// Whether a program is found.
fn is_there(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

/// A line in colour.
fn painted(paint: Paint, line: &[u8]) -> Vec<u8> {
    const RED: &str = "31";
    const GREEN: &str = "32";
    const YELLOW: &str = "33";
    const BOLD: &str = "1";
    const DIM: &str = "2";
    let text = line.strip_suffix(b"\n").unwrap_or(line);
    let trimmed = text.trim_ascii_start();
    let is_indented = trimmed.len() < text.len();
    let colour = match (paint, trimmed) {
        (Paint::None, _) | (_, []) => return line.to_vec(),
        (Paint::Diff, [b'-', b'-', b'-', b' ', ..] | [b'+', b'+', b'+', b' ', ..]) => BOLD,
        (Paint::Diff, [b'-', ..]) => RED,
        (Paint::Diff, [b'+', ..]) => GREEN,
        (Paint::Diff, _) => DIM,
        (Paint::Log, [b'-', b' ', ..]) if is_indented => RED,
        (Paint::Log, [b'+', b' ', ..]) if is_indented => GREEN,
        (Paint::Log, _) if is_indented => return line.to_vec(),
        (Paint::Log, _) => YELLOW,
    };
    let mut painted = format!("\u{1b}[{colour}m").into_bytes();
    painted.extend_from_slice(text);
    painted.extend_from_slice(b"\x1b[m");
    painted.extend_from_slice(&line[text.len()..]);
    painted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_coloured_by_what_they_are() {
        for (paint, line, want) in [
            (Paint::Diff, "--- z. 1 T\n", "\x1b[1m--- z. 1 T\x1b[m\n"),
            (
                Paint::Diff,
                "-a.z. 5 IN A\n",
                "\x1b[31m-a.z. 5 IN A\x1b[m\n",
            ),
            (
                Paint::Diff,
                "+a.z. 5 IN A\n",
                "\x1b[32m+a.z. 5 IN A\x1b[m\n",
            ),
            (Paint::Diff, "; applied\n", "\x1b[2m; applied\x1b[m\n"),
            (Paint::Log, "z. 1 T +1 -0\n", "\x1b[33mz. 1 T +1 -0\x1b[m\n"),
            (Paint::Log, "    applied Service\n", "    applied Service\n"),
            (Paint::Log, "    - a.z.\n", "\x1b[31m    - a.z.\x1b[m\n"),
            (Paint::Log, "    + a.z.", "\x1b[32m    + a.z.\x1b[m"),
            (Paint::None, "-a\n", "-a\n"),
            (Paint::Diff, "\n", "\n"),
        ] {
            let said = String::from_utf8(painted(paint, line.as_bytes())).unwrap();
            assert_eq!(said, want, "{line}");
        }
    }
}
