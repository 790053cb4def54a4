//! Secondaries with the configuration that `zonewright emit` prints, and around it what a test needs:
//! no privileges, logs on standard error, quick refreshes, transfers to loopback.

use std::fs;
use std::process::Command;

use super::Kind;
use super::setup::Setup;
use crate::support::needs;

/// What stands for the folder where `emit` was asked.
pub const FOLDER: &str = "/FOLDER";

/// Puts a line behind the first line that begins a part.
fn behind(text: &str, start: &str, lines: &str) -> String {
    assert!(text.contains(start), "no {start:?} in\n{text}");
    text.replacen(start, &format!("{start}{lines}"), 1)
}

impl Setup<'_> {
    /// The configuration that was printed, ready for a test; PowerDNS's database is filled.
    pub(super) fn emitted(&self, printed: &str) -> String {
        let folder = self.folder.display().to_string();
        let text = printed.replace(FOLDER, &folder);
        match self.kind {
            Kind::Bind => {
                let options = "    pid-file none;
    session-keyfile none;
    dnssec-validation no;
    serial-query-rate 1000;
    transfers-in 100;
    transfers-per-ns 100;
    min-refresh-time 1;
    min-retry-time 1;
";
                let text = behind(&text, "options {\n", options)
                    .replace("allow-transfer { none; }", "allow-transfer { 127.0.0.1; }");
                format!("{text}{}", Self::BIND_LOGGING)
            }
            Kind::Knot => {
                let server = format!(
                    "    rundir: {folder}\n    udp-workers: 1\n    tcp-workers: 2\n    \
                     background-workers: 2\n"
                );
                let text = behind(&text, "server:\n", &server);
                let text = behind(&text, "database:\n", "    journal-db-mode: asynchronous\n");
                let acl = "  - id: transfer\n    address: 127.0.0.1\n    action: transfer\n";
                let text = behind(&text, "acl:\n", acl);
                let text = text.replace("acl: [zonewright]", "acl: [zonewright, transfer]");
                let quick = "    refresh-min-interval: 2\n    retry-min-interval: 1\n";
                let text = behind(&text, "master: zonewright\n", quick);
                format!("{text}log:\n  - target: stderr\n    any: info\n")
            }
            Kind::Nsd => {
                let quick = "    provide-xfr: 127.0.0.1 NOKEY\n    min-refresh-time: 1\n    \
                             min-retry-time: 1\n";
                let text = behind(&text, "pattern:\n    name: \"zonewright\"\n", quick);
                format!(
                    "{text}server:\n  port: {}\n  username: \"\"\n  chroot: \"\"\n  \
                     pidfile: \"\"\n  zonefiles-write: 1\n  rrl-ratelimit: 0\n  server-count: 1\n  \
                     verbosity: 3\nremote-control:\n  control-enable: no\n",
                    self.port
                )
            }
            Kind::Pdns => {
                let text = format!(
                    "{text}gsqlite3-pragma-synchronous=0\nsocket-dir={folder}\nguardian=no\n\
                     daemon=no\ndisable-axfr=no\nallow-axfr-ips=127.0.0.1\ncache-ttl=0\n\
                     query-cache-ttl=0\nnegquery-cache-ttl=0\nzone-metadata-cache-ttl=0\n\
                     receiver-threads=1\ndistributor-threads=1\nsecurity-poll-suffix=\nloglevel=7\n\
                     version-string=anonymous\n"
                );
                self.run_pdns_commands(&text);
                text
            }
            Kind::Unbound => format!(
                "{text}server:\n  port: {}\n  username: \"\"\n  chroot: \"\"\n  pidfile: \"\"\n  \
                 use-syslog: no\n  logfile: \"\"\n  log-time-ascii: yes\n  verbosity: 5\n  \
                 num-threads: 1\n  module-config: \"iterator\"\n  do-not-query-localhost: no\n  \
                 access-control: 127.0.0.0/8 allow\n  unblock-lan-zones: yes\nremote-control:\n  \
                 control-enable: no\n",
                self.port
            ),
        }
    }

    /// Creates the database and does what the comments say.
    fn run_pdns_commands(&self, text: &str) {
        const SCHEMA: &str = "/usr/share/pdns-backend-sqlite3/schema/schema.sqlite3.sql";
        fs::write(self.folder.join("pdns.conf"), text).unwrap();
        let mut create = Command::new(needs::program("sqlite3"));
        create
            .arg(self.folder.join("zones.sqlite"))
            .stdin(fs::File::open(SCHEMA).unwrap());
        run(&mut create);
        let commands = text
            .lines()
            .filter_map(|line| line.strip_prefix("# run: pdnsutil "));
        for line in commands {
            let mut command = Command::new(needs::program("pdnsutil"));
            command
                .arg(format!("--config-dir={}", self.folder.display()))
                .args(line.split(' '));
            run(&mut command);
        }
    }
}

/// Runs a command, which must succeed.
fn run(command: &mut Command) {
    let output = command.output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {errors}");
}
