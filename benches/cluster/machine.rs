//! What the kernel tells of a process and of the machine.
#![allow(dead_code, reason = "each measurement uses its own part")]

use std::fs;
use std::time::Duration;

/// Clock ticks a second in `/proc/PID/stat`, the same on all Linux machines of today.
const TICKS: u64 = 100;

/// A value of `/proc/PID/status` in kilobytes, in megabytes (of 10^6 octets).
fn status(id: u32, field: &str) -> f64 {
    let text = fs::read_to_string(format!("/proc/{id}/status")).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(field));
    let kilobytes = line.and_then(|rest| rest.split_whitespace().nth(1)?.parse::<f64>().ok());
    kilobytes.unwrap() * 1024.0 / 1e6
}

/// Resident memory, MB.
pub(crate) fn rss(id: u32) -> f64 {
    status(id, "VmRSS")
}

/// The most resident memory since the start or [`forget_peak`], MB.
pub(crate) fn peak(id: u32) -> f64 {
    status(id, "VmHWM")
}

/// The peak begins anew at what is resident now.
pub(crate) fn forget_peak(id: u32) {
    fs::write(format!("/proc/{id}/clear_refs"), "5").unwrap();
}

/// What all threads of a process have computed so far.
pub(crate) fn computed(id: u32) -> Duration {
    let text = fs::read_to_string(format!("/proc/{id}/stat")).unwrap();
    let (_, rest) = text.rsplit_once(") ").unwrap();
    let ticks: u64 = rest
        .split(' ')
        .skip(11)
        .take(2)
        .map(|ticks| ticks.parse::<u64>().unwrap())
        .sum();
    Duration::from_millis(ticks * 1000 / TICKS)
}

/// Cores, processor, kernel, and how busy it is.
pub(crate) fn describe() -> String {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let cpu = read("/proc/cpuinfo");
    let model = cpu
        .lines()
        .find_map(|line| line.strip_prefix("model name"))
        .map_or("", |rest| rest.trim_start_matches([' ', '\t', ':']));
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let kernel = read("/proc/sys/kernel/osrelease");
    let load = read("/proc/loadavg");
    let load = load.split(' ').next().unwrap_or_default();
    format!(
        "{cores} cores ({model}), Linux {}, load {load}",
        kernel.trim()
    )
}
