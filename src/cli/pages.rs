//! What packages and shells need beside the program, from the definitions of the command line: manual pages and completions.

use std::io;
use std::path::Path;

use clap::CommandFactory;
use clap_complete::Shell;

use crate::cli::args::Cli;
use crate::cli::commands::print;
use crate::failure::Failure;

/// `completion`.
///
/// # Errors
/// When it cannot be printed.
pub fn completion(shell: Shell) -> Result<(), Failure> {
    let mut command = Cli::command();
    let name = command.get_name().to_owned();
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command, name, &mut script);
    print(&String::from_utf8_lossy(&script))
}

/// `man-pages`: a page for the program and one for each command, such as `zonewright-run.1`.
///
/// # Errors
/// When the folder cannot be written.
pub fn man_pages(folder: &Path) -> Result<(), Failure> {
    write_pages(folder).map_err(|error| {
        let folder = folder.display();
        Failure::unusable(format!(
            "cannot write manual pages to {folder}: {error}; name another folder with --to"
        ))
    })
}

/// Writes the pages.
fn write_pages(folder: &Path) -> io::Result<()> {
    clap_mangen::generate_to(Cli::command(), folder)
}
