//! `log --follow` and `export --follow`: asks a server for news again and again. The server may come and go.

use std::io::{self, Write};
use std::path::Path;
use std::time::Duration;

use history::{Cursor, Output, Question, Request, answer, ask};

use crate::cli::stopped::{NOBODY, refused, stored_past};
use crate::failure::Failure;

/// The pause between two questions.
const PAUSE: Duration = Duration::from_millis(500);

/// Asks with the cursor that the answer before gave, and hands each answer to `show`, until that says that nobody
/// reads any more. The first question may find a store without a server; after it a server is waited for.
pub(crate) fn follow(
    state: &Path,
    output: Output,
    request: &dyn Fn(Option<Cursor>) -> Request,
    show: &mut dyn FnMut(&[u8]) -> io::Result<bool>,
) -> Result<(), Failure> {
    let mut cursor: Option<Cursor> = None;
    loop {
        let question = Question {
            request: request(cursor.clone()),
            output,
        };
        let mut text = Vec::new();
        let answered = match (ask(state, &question, &mut text), &cursor) {
            (Some(Ok(())), _) => true,
            // A bad question fails at once, and so does a server of another version. A server that ends closes the
            // connection: what there is of its answer is not shown.
            (Some(Err(why)), position) => {
                if !why.may_pass || position.is_none() {
                    return Err(refused(why));
                }
                false
            }
            (None, Some(_)) => false,
            (None, None) => {
                let stored = stored_past(state, false)?;
                answer(&question, &stored.past, &NOBODY.into(), &mut text).map_err(refused)?;
                true
            }
        };
        let mut is_more = false;
        if answered {
            let lines = text.strip_suffix(b"\n").unwrap_or(&text);
            let at = lines.iter().rposition(|octet| *octet == b'\n');
            let (versions, last) = lines.split_at(at.map_or(0, |at| at + 1));
            let next: Cursor = serde_json::from_slice(last)
                .map_err(|_| Failure::running("cannot read the server's answer"))?;
            is_more = next.is_more;
            cursor = Some(next);
            let goes_on = show(versions);
            if !goes_on.map_err(|error| Failure::running(format!("standard output: {error}")))? {
                return Ok(());
            }
        }
        if !is_more {
            std::thread::park_timeout(PAUSE);
        }
    }
}

/// Shows each answer at once on a plain standard output.
pub(crate) fn to_stdout(versions: &[u8]) -> io::Result<bool> {
    let mut out = io::stdout().lock();
    let done = out.write_all(versions).and_then(|()| out.flush());
    match done {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        done => done.map(|()| true),
    }
}
