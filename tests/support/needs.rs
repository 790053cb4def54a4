//! Finds the programs a test needs, or says that they were declared missing.
//!
//! `ZW_MISSING` (a comma list of kinds, written by `tools/with-tools`) names what this machine does
//! not have: a test that needs it prints so and returns. What is absent without being declared is a
//! failure, so that no test vanishes unseen.

use std::env;
use std::path::{Path, PathBuf};

/// Whether one of `kinds` (`bind`, `knot`, `nsd`, `pdns`, `unbound`, `dig`, `kdig`, `checkzone`,
/// `ldns`, `openssl`, `dnspython`, `jq`, `python`, `strace`, `faketime`, `namespaces`, `promtool`, `image`, `registry`, `debian`, `rpm`, `apiserver`, `controllers`,
/// `coredns`, `crds`, `helm`, `nfpm`, `s3`) was declared missing; prints which.
pub fn lacks(kinds: &[&str]) -> bool {
    let declared = env::var("ZW_MISSING").unwrap_or_default();
    let missing: Vec<&str> = declared
        .split(',')
        .filter(|kind| kinds.contains(kind) && !kind.is_empty())
        .collect();
    if !missing.is_empty() {
        eprintln!(
            "NOT RUN: ZW_MISSING declares {} missing",
            missing.join(", ")
        );
    }
    !missing.is_empty()
}

/// The path of a program: in `ZW_TOOLS`, `KUBEBUILDER_ASSETS`, `target/tools/bin`, then in `PATH`
/// and the folders where Debian keeps daemons.
pub fn program(name: &str) -> PathBuf {
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/tools/bin");
    let path = env::var_os("PATH").unwrap_or_default();
    ["ZW_TOOLS", "KUBEBUILDER_ASSETS"]
        .into_iter()
        .filter_map(env::var_os)
        .map(PathBuf::from)
        .chain([own])
        .chain(env::split_paths(&path))
        .chain(["/usr/sbin", "/usr/local/sbin", "/sbin"].map(PathBuf::from))
        .map(|folder| folder.join(name))
        .find(|candidate| candidate.is_file())
        .unwrap_or_else(|| {
            panic!("no program `{name}`: run `make tools`, or declare its kind in ZW_MISSING")
        })
}

/// The library of faketime that stands before a program's own clock.
pub fn faketime_library() -> PathBuf {
    let folders = std::fs::read_dir("/usr/lib").expect("the folder can be read");
    folders
        .map(|entry| entry.expect("the folder can be read").path())
        .map(|folder| folder.join("faketime/libfaketime.so.1"))
        .find(|candidate| candidate.is_file())
        .expect("no libfaketime.so.1: install faketime, or declare it in ZW_MISSING")
}

/// The zonewright to run: `ZW_BIN` (a release build, for tests that measure time) or the one Cargo
/// built for this test.
pub fn zonewright() -> PathBuf {
    env::var_os("ZW_BIN").map_or_else(
        || PathBuf::from(env!("CARGO_BIN_EXE_zonewright")),
        PathBuf::from,
    )
}
