//! The output of a start: addresses with their zones, and our version. The file with our id.

use std::fmt::Write;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use directives::config::{BindHost, Config, Reload, Scheme, directives};
use history::{Output, SCHEMA};
use serde_json::json;

use crate::cli::commands::print as to_output;
use crate::failure::Failure;

/// The commit that the program was built from, and its date; the Makefile sets them for what it ships.
const BUILT_FROM: [Option<&str>; 2] = [
    option_env!("ZONEWRIGHT_COMMIT"),
    option_env!("ZONEWRIGHT_DATE"),
];

/// The commit and its date, as far as they are known: a tree without git sets them to nothing.
fn built_from() -> [Option<&'static str>; 2] {
    BUILT_FROM.map(|text| text.filter(|text| !text.is_empty()))
}

/// The version, in CoreDNS's form.
fn version() -> String {
    let (os, machine) = (std::env::consts::OS, std::env::consts::ARCH);
    let built = built_from().into_iter().flatten();
    let built: String = built.map(|text| format!(", {text}")).collect();
    format!(
        "zonewright-{}\n{os}/{machine}{built}\n",
        env!("CARGO_PKG_VERSION")
    )
}

/// `version` and `-version`.
///
/// # Errors
/// When it cannot be printed.
pub fn print_version(output: Output) -> Result<(), Failure> {
    match output {
        Output::Text => to_output(&version()),
        Output::Json => {
            let [commit, date] = built_from();
            let line = json!({
                "schema": SCHEMA,
                "version": env!("CARGO_PKG_VERSION"),
                "commit": commit,
                "date": date,
                "os": std::env::consts::OS,
                "machine": std::env::consts::ARCH,
            });
            to_output(&format!("{line}\n"))
        }
    }
}

/// `-plugins`: the directives that work, as CoreDNS lists its own.
///
/// # Errors
/// When it cannot be printed.
pub fn print_plugins() -> Result<(), Failure> {
    let mut text =
        "Server types:\n  dns\n\nCaddyfile loaders:\n  flag\n  default\n\nOther plugins:\n"
            .to_owned();
    let mut words: Vec<&str> = directives().map(|directive| directive.word).collect();
    words.sort_unstable();
    for word in words {
        text.push_str(&format!("  dns.{word}\n"));
    }
    to_output(&text)
}

/// Prints the addresses with their zones, and our version.
pub(crate) fn print(config: &Config, digest: &str) -> Result<(), Failure> {
    let mut text = served(config);
    let follows = config.servers.iter().any(|it| it.has::<Reload>());
    if follows {
        writeln!(
            text,
            "[INFO] plugin/reload: Running configuration SHA512 = {digest}"
        )
        .expect("a String takes all that is written");
    }
    text.push_str(&version());
    to_output(&text)
}

/// The zones of all listeners, one a line, those of one listener in order.
fn served(config: &Config) -> String {
    let mut listeners = config.listeners();
    listeners.sort_by(|one, other| one.0.cmp(&other.0));
    let mut text = String::new();
    for (listener, blocks) in listeners {
        let scheme = match listener.scheme {
            Scheme::Dns => String::new(),
            encrypted @ (Scheme::Tls | Scheme::Https | Scheme::Https3 | Scheme::Quic) => {
                format!("{}://", encrypted.as_str())
            }
        };
        let host = match &listener.host {
            None => String::new(),
            Some(BindHost::Address(address)) => format!(" on {address}"),
            Some(BindHost::Interface(name)) => format!(" on {name}"),
        };
        let keys = blocks.iter().flat_map(|block| &block.zones);
        let here = keys.filter(|key| key.scheme == listener.scheme && key.port == listener.port);
        let mut lines: Vec<String> = here
            .map(|key| format!("{scheme}{}:{}{host}\n", key.apex, key.port))
            .collect();
        lines.sort();
        text.push_str(&lines.concat());
    }
    text
}

/// A file that holds our id while we run.
pub(crate) struct PidFile(PathBuf);

impl PidFile {
    /// Writes it.
    pub(crate) fn write(path: &Path) -> Result<Self, Failure> {
        let text = format!("{}\n", std::process::id());
        let readable = Permissions::from_mode(0o644);
        let written = std::fs::write(path, text);
        let written = written.and_then(|()| std::fs::set_permissions(path, readable));
        written.map_err(|error| {
            let path = path.display();
            Failure::unusable(format!(
                "cannot write {path}: {error}; name another --pidfile"
            ))
        })?;
        Ok(Self(path.to_owned()))
    }
}

impl Drop for PidFile {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_file(&self.0) {
            tracing::warn!(%error, "cannot remove the pid file");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use directives::config::{Overrides, parse_text};

    #[test]
    fn zones_are_listed_by_listener_as_coredns_does() {
        let text = ".:1053 b:1053 a:1053 {\n}\ntls://t:853 {\n tls c k\n}\nexample.org:5300 {\n bind 127.0.0.1\n}\n";
        let loaded = parse_text("Corefile", text, &Overrides::default(), &|_| None).unwrap();
        assert_eq!(
            served(&loaded.config),
            ".:1053\na.:1053\nb.:1053\nexample.org.:5300 on 127.0.0.1\ntls://t.:853\n"
        );
    }
}
