//! `run`: the server, from its parts to its end.

use std::backtrace::Backtrace;
use std::path::PathBuf;

use rustix::fs::Mode;
use rustix::process::umask;
use zone::journal::Journal;

use crate::cli::args::{Configuration, Start, State};
use crate::cli::commands::load;
use crate::failure::Failure;
use crate::plan::notes::note_folders;
use crate::runtime::archiver::archive_folders;
use crate::runtime::banner::PidFile;
use crate::runtime::process::Process;
use crate::runtime::sandbox::{self, Places};
use crate::runtime::state_folder::StateFolder;

/// `run`.
///
/// # Errors
/// When the configuration, a socket or the state folder is not usable, or when a part failed.
pub fn run(configuration: &Configuration, state: &State, start: &Start) -> Result<(), Failure> {
    let loaded = load(configuration)?;
    let configured = state.folder_with(&loaded.config);
    let mut errors = loaded
        .config
        .servers
        .iter()
        .filter_map(|block| block.get::<directives::config::Errors>());
    if errors.any(|errors| errors.stacktrace) {
        log_stacks();
    }
    // The state folder holds names of all tenants, and the control socket takes orders.
    umask(Mode::RWXG | Mode::RWXO);
    let _pid_file = start.pidfile.as_deref().map(PidFile::write).transpose()?;
    let state = &StateFolder::choose(&configured, &loaded.config);
    // Before there is a thread that could be left out, and before anything is heard from others.
    let sandbox = match start.no_sandbox {
        true => sandbox::left_out(),
        false => {
            Journal::create_folder(&state.path)
                .map_err(|error| Failure::unusable(error.to_string()))?;
            let notes: Vec<PathBuf> = note_folders(&loaded.config).into_iter().collect();
            sandbox::enter(&Places {
                state: &state.path,
                pidfile: start.pidfile.as_deref(),
                read_socket: start.read_socket.as_deref(),
                notes: &notes,
                archives: &archive_folders(&loaded.config),
            })
        }
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        // Sockets are looked at after so many turns of tasks that do not rest: beside many transfers
        // queries must not wait for the default of 61.
        .event_interval(8)
        .enable_all()
        .build()
        .map_err(|error| Failure::running(error.to_string()))?;
    let ended = runtime.block_on(Process::start_and_wait(
        loaded,
        configuration,
        (state, start),
        sandbox,
    ));
    runtime.shutdown_timeout(std::time::Duration::from_secs(1));
    ended
}

/// `errors stacktrace`: whatever panics is logged with its stack, until the process ends.
fn log_stacks() {
    std::panic::set_hook(Box::new(|panic| {
        tracing::error!("{panic}\n{}", Backtrace::force_capture());
    }));
}
