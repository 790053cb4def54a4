//! `check`: every problem of a configuration, without a socket and without state.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use corefile::Problem;
use directives::config::{Config, ServerBlock};
use directives::handlers::unresolved_upstreams;
use history::{Output, SCHEMA};
use ops::SystemClock;
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use crate::cli::args::{CheckWanted, Configuration};
use crate::cli::commands::{print, read, runtime};
use crate::cli::explain::explain;
use crate::cli::rights::rights;
use crate::failure::{Failure, one_line};
use crate::plan::addresses::interface_addresses;
use crate::plan::clusters::wanted;
use crate::plan::model::Plan;
use crate::plan::notes::{archive_folders, note_folders};
use crate::runtime::certificates::check_certificates;
use crate::runtime::history_api::check_tls;
use crate::runtime::listeners::addresses_of;
use crate::runtime::sources::Source;
use crate::runtime::zone_files::read_once;

/// How long `check` waits for the addresses of upstreams, all together.
const NAMES_WITHIN: Duration = Duration::from_secs(5);

/// One error or warning.
enum Finding {
    /// In the Corefile.
    Placed(Problem),
    /// In a file that it names, or on this machine: its line, which has the place as far as there is one.
    Line(String),
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Placed(problem) => problem.fmt(f),
            Self::Line(line) => f.write_str(line),
        }
    }
}

impl Finding {
    /// For programs: the place in the Corefile and the fix are null where they are not known apart from the message.
    fn as_json(&self) -> Value {
        match self {
            Self::Placed(Problem {
                place,
                message,
                fix,
            }) => json!({
                "file": &*place.file,
                "line": place.line,
                "column": place.column,
                "message": message,
                "fix": fix,
            }),
            Self::Line(line) => json!({
                "file": null, "line": null, "column": null, "message": line, "fix": null,
            }),
        }
    }
}

/// All that was found.
#[derive(Default)]
struct Findings {
    /// The zones of all blocks.
    zones: Vec<String>,
    /// What the blocks do.
    explained: String,
    /// The server would not start.
    errors: Vec<Finding>,
    /// The server would start, on this machine or on another.
    warnings: Vec<Finding>,
}

/// `check`.
///
/// # Errors
/// With every problem of the configuration.
pub fn check(wanted: CheckWanted) -> Result<(), Failure> {
    let CheckWanted {
        mut configuration,
        file,
        explain,
        format,
    } = wanted;
    if let Some(file) = file {
        configuration.corefile = file;
    }
    let found = look(&configuration)?;
    let file = configuration.corefile.display().to_string();
    match format.output {
        Output::Text => print_text(&file, &found, explain),
        Output::Json => print_json(&file, &found, explain),
    }
}

/// Prints the zones and the explanation; errors are the failure, warnings are logged.
fn print_text(file: &str, found: &Findings, explains: bool) -> Result<(), Failure> {
    for warning in &found.warnings {
        tracing::warn!("{warning}");
    }
    if explains {
        print(&found.explained)?;
    }
    if found.errors.is_empty() {
        return print(&format!("{file}: good; {}\n", zones_text(&found.zones)));
    }
    let lines: Vec<String> = found.errors.iter().map(ToString::to_string).collect();
    Err(Failure::unusable(lines.join("\n")))
}

/// The zones, for people.
fn zones_text(zones: &[String]) -> String {
    match zones {
        [] => "no zones of its own".to_owned(),
        zones => format!("zones {}", zones.join(" ")),
    }
}

/// Prints all of it as one line.
fn print_json(file: &str, found: &Findings, explains: bool) -> Result<(), Failure> {
    let all = |findings: &[Finding]| findings.iter().map(Finding::as_json).collect::<Vec<_>>();
    let explained = explains.then(|| found.explained.lines().collect::<Vec<_>>());
    let line = json!({
        "schema": SCHEMA,
        "file": file,
        "good": found.errors.is_empty(),
        "zones": found.zones,
        "errors": all(&found.errors),
        "warnings": all(&found.warnings),
        "explained": explained,
    });
    print(&format!("{line}\n"))?;
    match found.errors.len() {
        0 => Ok(()),
        count => Err(Failure::unusable(format!("{file}: {count} errors"))),
    }
}

/// Looks for problems.
fn look(configuration: &Configuration) -> Result<Findings, Failure> {
    let placed = |problems: Vec<Problem>| problems.into_iter().map(Finding::Placed).collect();
    let runtime = runtime()?;
    let (config, mut found) = match read(configuration) {
        Ok(loaded) => {
            let config = loaded.config;
            let found = Findings {
                zones: zones_of(&config),
                explained: explain(&config) + &rights(&config),
                errors: Vec::new(),
                warnings: placed(loaded.warnings),
            };
            (config, found)
        }
        Err(rejected) => {
            // Its warnings may come from its errors.
            let found = Findings {
                errors: placed(rejected.problems),
                ..Findings::default()
            };
            (rejected.readable, found)
        }
    };
    let config = &config;
    let of_files = errors_of_files(config, &runtime);
    found.errors.extend(of_files.into_iter().map(Finding::Line));
    if found.errors.is_empty() {
        let warnings = of_machine(config, &runtime).into_iter();
        found.warnings.extend(warnings.map(Finding::Line));
    }
    // The system may still look for a name.
    runtime.shutdown_background();
    Ok(found)
}

/// The errors of the files that a configuration names, also one with other errors.
fn errors_of_files(config: &Config, runtime: &Runtime) -> Vec<String> {
    let checked = [
        check_sources(config, runtime),
        check_files(config),
        check_certificates(config),
        check_tls(config),
    ];
    let errors = checked.into_iter().filter_map(Result::err);
    let texts = errors.map(|error| error.to_string());
    texts
        .flat_map(|text| text.lines().map(str::to_owned).collect::<Vec<_>>())
        .collect()
}

/// The zones of all blocks.
fn zones_of(config: &Config) -> Vec<String> {
    let zones = config.servers.iter().flat_map(ServerBlock::zones_written);
    zones.map(ToString::to_string).collect()
}

/// Problems that prevent a start on this machine, notes or an archive; the Corefile may be for another.
fn of_machine(config: &Config, runtime: &Runtime) -> Vec<String> {
    let mut warnings = Vec::new();
    for (listener, blocks) in config.listeners() {
        if let Err(error) = addresses_of(&listener, &blocks, &interface_addresses) {
            warnings.push(one_line(&error));
        }
    }
    for folder in note_folders(config) {
        if !folder.is_dir() {
            let folder = folder.display();
            warnings.push(format!(
                "{folder}: this folder of `note file` does not exist, so no notes are written there"
            ));
        }
    }
    for folder in archive_folders(config) {
        if !folder.is_dir() {
            let folder = folder.display();
            warnings.push(format!(
                "{folder}: this folder of `archive` does not exist, so nothing is archived and no version is dropped"
            ));
        }
    }
    for error in runtime.block_on(unresolved_upstreams(config, NAMES_WITHIN)) {
        warnings.push(one_line(&error.into()));
    }
    warnings
}

/// Opens the files that the sources need. The pod's own files are not read: `check` runs elsewhere.
fn check_sources(config: &Config, runtime: &Runtime) -> Result<(), Failure> {
    let mut wrong = Vec::new();
    for kubernetes in config.servers.iter().flat_map(ServerBlock::clusters) {
        if kubernetes.source == directives::config::Source::InCluster {
            continue;
        }
        let clock = Arc::new(SystemClock);
        let opened = Source::open(
            &kubernetes.source,
            wanted(kubernetes),
            clock,
            Arc::default(),
        );
        if let Err(error) = runtime.block_on(opened) {
            wrong.push(format!(
                "{}: {}: {}",
                kubernetes.place,
                kubernetes.word(),
                one_line(&error)
            ));
        }
    }
    if wrong.is_empty() {
        Ok(())
    } else {
        Err(Failure::unusable(wrong.join("\n")))
    }
}

/// Reads all files of a configuration.
fn check_files(config: &Config) -> Result<(), Failure> {
    let plan = Plan::new(config, &|_| Vec::new());
    let wrong: Vec<String> = plan
        .files
        .iter()
        .filter_map(|file| read_once(file, Arc::new(SystemClock)).err())
        .map(|error| error.to_string())
        .collect();
    if wrong.is_empty() {
        Ok(())
    } else {
        Err(Failure::unusable(wrong.join("\n")))
    }
}

#[cfg(test)]
mod tests {
    use directives::config::{Overrides, parse_text};
    use proptest::prelude::*;

    use super::*;

    /// The errors of files, and those of the Corefile.
    fn errors(text: &str) -> (Vec<String>, usize) {
        let rejected = parse_text("Corefile", text, &Overrides::default(), &|_| None);
        let Err(rejected) = rejected else {
            return (Vec::new(), 0);
        };
        let runtime = runtime().unwrap();
        let of_files = errors_of_files(&rejected.readable, &runtime);
        (of_files, rejected.problems.len())
    }

    /// They were found after all errors of the Corefile were corrected.
    #[test]
    fn the_files_of_a_corefile_with_errors_are_read() {
        let text = "a.test b.test:99999 {\n file /none/db a.test\n}\n\
            tls://c.test {\n tls /none/cert /none/key\n whoami\n}\n\
            d.test {\n kubernetes {\n  manifests /none/objects\n  ttl never\n }\n}\n\
            in-addr.arpa {\n kubernetes\n}\n";
        let (of_files, of_text) = errors(text);
        let of_files = of_files.join("\n");
        for file in ["/none/db", "/none/cert", "/none/objects"] {
            assert!(of_files.contains(file), "{file}: {of_files}");
        }
        assert_eq!(of_text, 3);
    }

    /// A directive with an error does not look like one that is missing.
    #[test]
    fn an_error_of_the_corefile_is_no_error_of_files_too() {
        let text = "tls://c.test {\n tls /none/cert\n whoami\n}\n";
        assert_eq!(errors(text).0, [""; 0]);
    }

    proptest! {
        #[test]
        fn the_files_of_any_text_are_looked_for_without_a_panic(words in prop::collection::vec(prop::sample::select(vec![
            "{", "}", "\n", "\n", ",", ".", "a:53", "10.0.0.0/15", "in-addr.arpa", "tls://b", "kubernetes", "multicluster",
            "k8s_external", "file", "/none", "catalog", "etcd", "apex", "ns", "tls", "manifests", "transfer", "to", "*",
        ]), 0..60)) {
            prop_assert!(errors(&words.join(" ")).0.len() < 60);
        }
    }

    #[test]
    fn a_corefile_without_zones_is_said_to_have_none() {
        assert_eq!(zones_text(&[]), "no zones of its own");
        let zones = ["a.test.", "b.test."].map(str::to_owned);
        assert_eq!(zones_text(&zones), "zones a.test. b.test.");
    }
}
