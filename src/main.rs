//! The program: arguments, configuration, runtime, exit code.

use std::process::ExitCode;

use clap::Parser;
use history::OrderText;
use zonewright::cli::{self, Cli, Command, Translated, translate};
use zonewright::failure::Failure;
use zonewright::runtime;

/// The first rendering allocates several times what remains. This allocator returns it to the system.
#[cfg(feature = "jemalloc")]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    let args = match translate(std::env::args().collect()) {
        Translated::Ours(args) => args,
        Translated::Version => return ended(runtime::print_version()),
        Translated::Plugins => return ended(runtime::print_plugins()),
        Translated::Wrong(why) => return Failure::unusable(why).report(),
    };
    let Cli {
        command,
        log_format,
        log_filter,
    } = Cli::parse_from(args);
    if let Err(error) = ops::telemetry::start(log_format, log_filter.as_deref()) {
        return Failure::unusable(error).report();
    }
    let done = match command {
        Command::Run {
            configuration,
            state,
            start,
        } => runtime::run(&configuration, &state, &start),
        Command::Check {
            configuration,
            explain,
        } => cli::check(&configuration, explain),
        Command::Render {
            configuration,
            zone,
        } => cli::print_zones(&configuration, zone.as_deref()),
        Command::Log(wanted) => cli::log(wanted),
        Command::Show { zone, name, asking } => cli::show(zone, name, &asking),
        Command::Diff {
            zone,
            from,
            to,
            asking,
        } => cli::diff(zone, from, to, &asking),
        Command::Blame { zone, name, asking } => cli::blame(zone, name, &asking),
        Command::Verify { zone, asking } => cli::verify(zone, &asking),
        Command::Export(wanted) => cli::export(wanted),
        Command::Why {
            name,
            rtype,
            asking,
        } => cli::why(name, rtype, &asking),
        Command::Freeze { zone, time, wanted } => {
            cli::order(zone, OrderText::Freeze { time }, &wanted)
        }
        Command::Rollback {
            zone,
            to,
            time,
            wanted,
        } => cli::order(zone, OrderText::Rollback { to, time }, &wanted),
        Command::Advance {
            zone,
            serial,
            wanted,
        } => cli::order(zone, OrderText::Advance { serial }, &wanted),
        Command::Release { zone, wanted } => cli::order(zone, OrderText::Release, &wanted),
        Command::Doctor {
            configuration,
            state,
        } => cli::doctor(&configuration, &state),
        Command::Emit {
            configuration,
            emission,
        } => cli::emit(&configuration, &emission),
        Command::Status { asking } => cli::status(&asking),
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
