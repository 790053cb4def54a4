//! `--audit-log FILE`: who asked the API server for what a cause names.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};

use history::{Output, Question, Request, Requests};

use crate::cli::answered::{finish, read_into, wanted_of};
use crate::cli::args::Reading;
use crate::cli::terminal::Screen;
use crate::failure::Failure;

/// The longest line of an audit log. The API server takes objects of up to 3 MiB, and a line may have two of them.
const MOST_LINE_BYTES: u64 = 32 << 20;

/// Hands each line of what is written to a function.
struct Lines<F> {
    take: F,
    begun: Vec<u8>,
}

impl<F: FnMut(&str) -> io::Result<()>> Lines<F> {
    fn new(take: F) -> Self {
        let begun = Vec::new();
        Self { take, begun }
    }
}

impl<F: FnMut(&str) -> io::Result<()>> Write for Lines<F> {
    fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
        let mut rest = octets;
        while let Some(end) = rest.iter().position(|octet| *octet == b'\n') {
            self.begun.extend(&rest[..end]);
            (self.take)(&String::from_utf8_lossy(&self.begun))?;
            self.begun.clear();
            rest = &rest[end + 1..];
        }
        self.begun.extend(rest);
        Ok(octets.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Takes every line of an audit log. A last line that is not complete is left: the API server may be writing it.
fn read(file: &Path, requests: &mut Requests) -> Result<(), Failure> {
    let failed = |error: io::Error| Failure::unusable(format!("{}: {error}", file.display()));
    let mut input = BufReader::with_capacity(1 << 18, File::open(file).map_err(failed)?);
    let mut line = Vec::new();
    for number in 1_usize.. {
        line.clear();
        let mut bounded = (&mut input).take(MOST_LINE_BYTES);
        bounded.read_until(b'\n', &mut line).map_err(failed)?;
        let is_whole = line.last() == Some(&b'\n');
        if !is_whole && (line.len() as u64) < MOST_LINE_BYTES {
            break;
        }
        if !is_whole || !requests.take(&line) {
            return Err(Failure::unusable(format!(
                "{}:{number}: this is no event of an audit log; name a log of kube-apiserver in the format json \
                 (audit.k8s.io)",
                file.display()
            )));
        }
    }
    Ok(())
}

/// Prints an answer with the requests of these audit logs below its causes. The server is asked twice: first for the causes.
pub(crate) fn name_requests(
    request: Request,
    reading: &Reading,
    logs: &[PathBuf],
) -> Result<(), Failure> {
    let mut requests = Requests::default();
    let causes = Question {
        request: request.clone(),
        output: Output::Json,
    };
    let mut seek = Lines::new(|line| {
        requests.seek(line);
        Ok(())
    });
    read_into(&causes, reading, &mut seek)?;
    for log in logs {
        read(log, &mut requests)?;
    }
    let output = reading.asking.output;
    let question = Question { request, output };
    let mut screen = Screen::open(wanted_of(&question), reading.asking.look);
    let mut lines = Lines::new(|line| requests.write_line(line, output, &mut screen));
    let answered = read_into(&question, reading, &mut lines);
    finish(answered, screen)
}
