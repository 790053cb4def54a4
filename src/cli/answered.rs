//! The answer to a question: of the running server, else of the store.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use history::{Output, Question, Request, Status, ZoneParts, answer, ask};
use serde::de::DeserializeOwned;

use crate::cli::args::Reading;
use crate::cli::state_files::StateFiles;
use crate::cli::stopped::{NOBODY, Stored, refused, stored_past};
use crate::cli::terminal::{Paint, Screen, Wanted};
use crate::failure::Failure;

/// Writes what the running server answers, else what the store does.
pub(crate) fn read_into(
    question: &Question,
    reading: &Reading,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let Reading { read_only, asking } = reading;
    let state = &asking.state.folder();
    if let Some(answered) = ask(state, question, out) {
        return answered.map_err(refused);
    }
    match question.request {
        Request::Status
        | Request::Standing
        | Request::Why { .. }
        | Request::Waiting { .. }
        | Request::Reload
        | Request::Stop
        | Request::Promote
        | Request::Notify { .. }
        | Request::Order { .. } => Err(Failure::running(no_server(state))),
        Request::Log { .. }
        | Request::Follow(_)
        | Request::Show { .. }
        | Request::Diff { .. }
        | Request::Corefile { .. }
        | Request::Corefiles { .. }
        | Request::Blame { .. }
        | Request::Verify { .. }
        | Request::Parts { .. }
        | Request::Part { .. }
        | Request::History { .. } => {
            let stored = stored_past(state, *read_only)?;
            answer(question, &stored.past, &NOBODY.into(), out).map_err(refused)
        }
    }
}

/// The error of a command that needs a running server. It names the folder: a wrong one is the usual reason.
fn no_server(state: &Path) -> String {
    format!(
        "no server runs on the state folder {}; name its folder with --state, or start one with `zonewright run`",
        state.display()
    )
}

/// How things stand at the server that runs with this state folder.
pub(crate) fn standing(state: &Path) -> Option<Status> {
    let question = Question {
        request: Request::Standing,
        output: Output::Json,
    };
    let mut text = Vec::new();
    ask(state, &question, &mut text)?.ok()?;
    serde_json::from_slice(&text).ok()
}

/// Who answers several questions: a running server, or the store, which is opened once.
pub(crate) struct Asked {
    /// The state folder.
    state: PathBuf,
    /// Whether it stays as it is.
    read_only: bool,
    /// The store, when no server runs.
    stored: Option<Stored>,
}

impl Asked {
    /// Where a command reads.
    pub(crate) fn of(reading: &Reading) -> Self {
        Self {
            state: reading.asking.state.folder(),
            read_only: reading.read_only,
            stored: None,
        }
    }

    /// The answer to a question.
    pub(crate) fn answer(&mut self, request: Request, output: Output) -> Result<Vec<u8>, Failure> {
        let question = Question { request, output };
        let mut text = Vec::new();
        if self.stored.is_none() {
            match ask(&self.state, &question, &mut text) {
                Some(answered) => return answered.map(|()| text).map_err(refused),
                None => self.stored = Some(stored_past(&self.state, self.read_only)?),
            }
        }
        if let Some(stored) = &self.stored {
            answer(&question, &stored.past, &NOBODY.into(), &mut text).map_err(refused)?;
        }
        Ok(text)
    }

    /// What is to be said of the files of the state folder, once a question was answered.
    pub(crate) fn files(&mut self) -> Result<StateFiles, Failure> {
        match &mut self.stored {
            Some(stored) => Ok(std::mem::take(&mut stored.files)),
            None => StateFiles::check(&self.state, true),
        }
    }

    /// The parts of a history, or of all.
    pub(crate) fn parts(&mut self, zone: Option<String>) -> Result<Vec<ZoneParts>, Failure> {
        let text = self.answer(Request::Parts { zone }, Output::Json)?;
        text.split(|octet| *octet == b'\n')
            .filter(|line| !line.is_empty())
            .map(read_json)
            .collect()
    }
}

/// Reads a line of an answer.
pub(crate) fn read_json<T: DeserializeOwned>(line: &[u8]) -> Result<T, Failure> {
    serde_json::from_slice(line)
        .map_err(|error| Failure::running(format!("cannot read the answer: {error}")))
}

/// Ends the output of an answer.
pub(crate) fn finish(answered: Result<(), Failure>, screen: Screen) -> Result<(), Failure> {
    let closed = screen.close();
    answered.and_then(|()| closed.or_else(ignore_closed))
}

/// How an answer is shown.
pub(crate) fn wanted_of(question: &Question) -> Wanted {
    let (paint, is_paged) = match question.request {
        Request::Log { .. } => (Paint::Log, true),
        Request::Diff { .. } | Request::Waiting { .. } | Request::Corefiles { .. } => {
            (Paint::Diff, true)
        }
        Request::Show { .. } | Request::Corefile { .. } | Request::Blame { .. } => {
            (Paint::None, true)
        }
        Request::Follow(_)
        | Request::Verify { .. }
        | Request::Parts { .. }
        | Request::Part { .. }
        | Request::History { .. }
        | Request::Status
        | Request::Standing
        | Request::Why { .. }
        | Request::Reload
        | Request::Stop
        | Request::Promote
        | Request::Notify { .. }
        | Request::Order { .. } => (Paint::None, false),
    };
    Wanted {
        output: question.output,
        paint,
        is_paged,
    }
}

/// A reader that had enough (`| head`) is no failure.
pub(crate) fn ignore_closed(error: io::Error) -> Result<(), Failure> {
    if error.kind() == io::ErrorKind::BrokenPipe {
        Ok(())
    } else {
        Err(Failure::running(format!("standard output: {error}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_on_which_no_server_runs_is_named() {
        let said = no_server(Path::new("/var/lib/other"));
        assert!(
            said.contains("the state folder /var/lib/other; name its folder with --state"),
            "{said}"
        );
    }
}
