//! The program: arguments, configuration, runtime, exit code.

use std::process::ExitCode;

use clap::Parser;
use zonewright::app;
use zonewright::app::Failure;
use zonewright::cli::{Cli, Command, Translated, translate};

/// The first rendering allocates several times what stays; this allocator gives it back to the system.
#[cfg(feature = "jemalloc")]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    let args = match translate(std::env::args().collect()) {
        Translated::Ours(args) => args,
        Translated::Version => return ended(app::print_version()),
        Translated::Plugins => return ended(app::print_plugins()),
        Translated::Wrong(why) => return Failure::unusable(why).report(),
    };
    let cli = Cli::parse_from(args);
    let Cli {
        command,
        log_format,
        log_filter,
    } = cli;
    if let Err(error) = ops::telemetry::start(log_format, log_filter.as_deref()) {
        return Failure::unusable(error).report();
    }
    let done = match command {
        Command::Run {
            configuration,
            state,
            start,
        } => app::run(&configuration, &state, &start),
        Command::Check {
            configuration,
            explain,
        } => app::check(&configuration, explain),
        Command::Render {
            configuration,
            zone,
        } => app::print_zones(&configuration, zone.as_deref()),
        Command::Log(wanted) => app::log(wanted),
        Command::Show { zone, name, asking } => app::show(zone, name, &asking),
        Command::Diff {
            zone,
            from,
            to,
            asking,
        } => app::diff(zone, from, to, &asking),
        Command::Blame { zone, name, asking } => app::blame(zone, name, &asking),
        Command::Verify { zone, asking } => app::verify(zone, &asking),
        Command::Export(wanted) => app::export(wanted),
        Command::Why {
            name,
            rtype,
            asking,
        } => app::why(name, rtype, &asking),
        Command::Freeze { zone, time, asking } => app::freeze(zone, time, &asking),
        Command::Rollback {
            zone,
            to,
            time,
            asking,
        } => app::rollback(zone, to, time, &asking),
        Command::Release { zone, asking } => app::release(zone, &asking),
        Command::Doctor {
            configuration,
            state,
        } => app::doctor(&configuration, &state),
        Command::Emit {
            configuration,
            emission,
        } => app::emit(&configuration, &emission),
        Command::Status { asking } => app::status(&asking),
    };
    ended(done)
}

/// The exit code.
fn ended(done: Result<(), Failure>) -> ExitCode {
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}
