//! The program: arguments, configuration, runtime, exit code.

use std::process::ExitCode;

use history::{OrderText, Output};
use zonewright::cli::{self, Cli, Command, Translated, parse, translate};
use zonewright::failure::Failure;
use zonewright::runtime;

/// The first rendering allocates several times what remains. This allocator returns it to the system.
#[cfg(feature = "jemalloc")]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    let args = match translate(std::env::args().collect()) {
        Translated::Ours(args) => args,
        Translated::Version => return ended(runtime::print_version(Output::Text)),
        Translated::Plugins => return ended(runtime::print_plugins()),
        Translated::Wrong(why) => return Failure::unusable(why).report(),
    };
    let Cli {
        command,
        log_format,
        log_filter,
    } = parse(args);
    if let Err(error) = ops::telemetry::start(log_format, log_filter.as_deref()) {
        return Failure::unusable(error).report();
    }
    ended(perform(command))
}

/// Carries a command out.
fn perform(command: Command) -> Result<(), Failure> {
    match command {
        Command::Run {
            configuration,
            state,
            start,
        } => runtime::run(&configuration, &state, &start),
        Command::Check(wanted) => cli::check(wanted),
        Command::Render {
            configuration,
            format,
            zone,
        } => cli::print_zones(&configuration, zone.as_deref(), format),
        Command::Log(wanted) => cli::log(wanted),
        Command::Show {
            zone,
            name,
            corefile,
            reading,
        } => cli::show(zone, name, corefile, &reading),
        Command::Diff(wanted) => cli::diff(wanted),
        Command::Blame {
            zone,
            name,
            audit,
            reading,
        } => cli::blame(zone, name, &audit, &reading),
        Command::Verify(wanted) => cli::verify(wanted),
        Command::Export(wanted) => cli::export(wanted),
        Command::Why(wanted) => cli::why(wanted),
        Command::Freeze { zone, time, wanted } => {
            cli::hold(zone, OrderText::Freeze { time }, &wanted)
        }
        Command::Rollback {
            zone,
            to,
            time,
            wanted,
        } => cli::hold(zone, OrderText::Rollback { to, time }, &wanted),
        Command::Advance {
            zone,
            serial,
            wanted,
        } => cli::advance(zone, serial, &wanted),
        Command::Release {
            zone,
            dry_run,
            wanted,
        } => cli::release(zone, dry_run, &wanted),
        Command::Doctor {
            configuration,
            state,
            format,
        } => cli::doctor(&configuration, &state, format),
        Command::Emit {
            configuration,
            format,
            emission,
        } => cli::emit(&configuration, &emission, format),
        Command::Reload { asking } => cli::reload(&asking),
        Command::Promote { asking, .. } => cli::promote(&asking),
        Command::Notify { zone, asking } => cli::notify(zone, &asking),
        Command::Stop { asking } => cli::stop(&asking),
        Command::Status { watch, all, asking } => cli::status(watch, all, &asking),
        Command::Version { format } => runtime::print_version(format.output),
        Command::Completion { shell } => cli::completion(shell),
        Command::ManPages { to } => cli::man_pages(&to),
    }
}

/// The exit code.
fn ended(done: Result<(), Failure>) -> ExitCode {
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}
