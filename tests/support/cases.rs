//! The cases of `zones/`, running: their Corefiles, made to listen here and to give their zones away.

use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use super::process::Process;
use super::{needs, ports, wire};

/// How long a start may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// A running zonewright with the zones its Corefile names.
pub struct Subject {
    pub process: Process,
    pub address: SocketAddr,
    pub zones: Vec<String>,
    pub folder: tempfile::TempDir,
}

impl Subject {
    /// Starts it with a Corefile that has `PORT` where the port goes; paths are those of the repository.
    pub fn start(corefile: &str, zones: Vec<String>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let address = ports::free_address();
        let file = folder.path().join("Corefile");
        fs::write(&file, corefile.replace("PORT", &address.port().to_string())).unwrap();
        let mut command = Command::new(needs::zonewright());
        command.arg("run").arg("--corefile").arg(&file);
        // For keys without a port.
        command.arg("--port").arg(address.port().to_string());
        command.arg("--state").arg(folder.path().join("state"));
        let mut process = Process::spawn("zonewright", &mut command, &folder.path().join("log"));
        for zone in &zones {
            process.wait_for(zone, PATIENCE, || wire::serial(address, zone));
        }
        Self {
            process,
            address,
            zones,
            folder,
        }
    }
}

/// The cases of `zones/`, each with its Corefile and the zones that come out.
pub fn cases() -> Vec<(PathBuf, String, Vec<String>)> {
    let mut cases = Vec::new();
    for entry in fs::read_dir("zones").unwrap() {
        let folder = entry.unwrap().path();
        let Ok(corefile) = fs::read_to_string(folder.join("Corefile")) else {
            continue;
        };
        let zones = fs::read_dir(&folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter_map(|name| name.strip_suffix("zone").map(str::to_owned))
            .collect();
        cases.push((folder, corefile, zones));
    }
    cases
}

/// A case's Corefile that listens here, on one port, and lets its zones be transferred here.
pub fn transferable(corefile: &str) -> String {
    let mut text = String::new();
    let (mut depth, mut dropped) = (0_usize, 0_usize);
    for line in corefile
        .lines()
        .filter(|line| !line.trim_start().starts_with('#'))
    {
        let word = line.split_whitespace().next().unwrap_or_default();
        let change = line
            .matches('{')
            .count()
            .wrapping_sub(line.matches('}').count());
        let ours = ["bind", "transfer", "prometheus", "health", "ready", "log"].contains(&word);
        if dropped > 0 || (depth == 1 && ours) {
            dropped = dropped.wrapping_add(change);
        } else {
            text += &format!("{line}\n");
        }
        if depth == 0 && change == 1 {
            text += "    bind 127.0.0.1\n    transfer {\n        allow 127.0.0.1\n    }\n";
        }
        depth = depth.wrapping_add(change);
    }
    text.replace(":5300", ":PORT").replace(":5353", ":PORT")
}
