//! What each secondary's configuration says, how it is started, and what its log calls a transfer.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;

use super::{Kind, Plan};
use crate::support::needs;

/// Everything a configuration depends on.
pub struct Setup<'a> {
    pub kind: Kind,
    pub plan: &'a Plan,
    pub folder: &'a Path,
    pub port: u16,
}

impl Setup<'_> {
    /// Writes the configuration (and PowerDNS's database) into the folder.
    pub fn write(&self) {
        let text = match (&self.plan.emitted, self.kind) {
            (Some(printed), _) => self.emitted(printed),
            (None, kind) => self.written(kind),
        };
        fs::write(self.configuration(), text).unwrap();
    }

    /// The configuration for what has no Corefile.
    fn written(&self, kind: Kind) -> String {
        match kind {
            Kind::Bind => self.bind(),
            Kind::Knot => self.knot(),
            Kind::Nsd => self.nsd(),
            Kind::Pdns => {
                self.fill_pdns_database();
                self.pdns()
            }
            Kind::Unbound => self.unbound(),
        }
    }

    /// The configuration file; PowerDNS insists on its name.
    fn configuration(&self) -> std::path::PathBuf {
        self.folder.join(format!("{}.conf", self.kind.name()))
    }

    /// How it is started in the foreground, logging to its standard error.
    pub fn command(&self) -> Command {
        let (name, options): (_, &[&str]) = match self.kind {
            Kind::Bind => ("named", &["-f", "-n", "1", "-c"]),
            Kind::Knot => ("knotd", &["-c"]),
            Kind::Nsd => ("nsd", &["-d", "-c"]),
            Kind::Pdns => ("pdns_server", &[]),
            Kind::Unbound => ("unbound", &["-d", "-p", "-c"]),
        };
        let mut command = Command::new(needs::program(name));
        command.args(options).current_dir(self.folder);
        match self.kind {
            Kind::Pdns => command.arg(format!("--config-dir={}", self.folder.display())),
            Kind::Bind | Kind::Knot | Kind::Nsd | Kind::Unbound => {
                command.arg(self.configuration())
            }
        };
        command
    }

    /// What a log line contains when a full, and when an incremental transfer was received. NSD logs
    /// both alike.
    pub fn log_lines(&self) -> Option<(&'static [&'static str], &'static [&'static str])> {
        Some(match self.kind {
            Kind::Nsd => return None,
            Kind::Bind => (
                &["got nonincremental response"],
                &["got incremental response"],
            ),
            Kind::Knot => (
                &["AXFR, incoming", "finished"],
                &["IXFR, incoming", "finished"],
            ),
            Kind::Pdns => (
                &["AXFR-in zone", "zone committed"],
                &["IXFR-in zone", "zone committed"],
            ),
            Kind::Unbound => (&["last AXFR packet"], &["last IXFR packet"]),
        })
    }

    /// Every transfer is told of.
    pub(super) const BIND_LOGGING: &'static str = "controls { };
logging {
    channel all { stderr; severity debug 3; print-time yes; print-category yes; };
    channel usual { stderr; severity info; print-time yes; print-category yes; };
    category xfer-in { all; };
    category default { usual; };
};
";

    fn bind(&self) -> String {
        let (ip, port) = (self.plan.primary.ip(), self.plan.primary.port());
        let folder = self.folder.display();
        let mut text = format!(
            "options {{
    directory \"{folder}\";
    listen-on port {own} {{ 127.0.0.1; }};
    listen-on-v6 {{ none; }};
    pid-file none;
    session-keyfile none;
    recursion no;
    dnssec-validation no;
    empty-zones-enable no;
    notify no;
    allow-transfer {{ 127.0.0.1; }};
    request-ixfr yes;
    ixfr-from-differences no;
    serial-query-rate 1000;
    transfers-in 100;
    transfers-per-ns 100;
    min-refresh-time 1;
    min-retry-time 1;
}};
{logging}",
            own = self.port,
            logging = Self::BIND_LOGGING
        );
        let mut signed = String::new();
        if let Some(key) = &self.plan.key {
            writeln!(
                text,
                "key \"{}\" {{ algorithm {}; secret \"{}\"; }};",
                key.name, key.algorithm, key.secret
            )
            .unwrap();
            signed = format!(" key \"{}\"", key.name);
        }
        let mut port = port;
        if let Some(tls) = &self.plan.tls {
            writeln!(
                text,
                "tls primary {{ ca-file \"{}\"; remote-hostname \"{}\"; cert-file \"{}\"; key-file \"{}\"; \
                 protocols {{ TLSv1.3; }}; }};",
                tls.ca.display(),
                tls.name,
                tls.certificate.display(),
                tls.key.display()
            )
            .unwrap();
            signed.push_str(" tls primary");
            port = tls.port;
        }
        for (index, zone) in self.plan.zones.iter().enumerate() {
            writeln!(
                text,
                "zone \"{zone}\" {{ type secondary; primaries {{ {ip} port {port}{signed}; }}; \
                 file \"zone{index}\"; masterfile-format text; }};"
            )
            .unwrap();
        }
        text
    }

    /// The journal is not synced at each change: what is lost by a crash is transferred again, and a
    /// busy disk would hold every change up. It has room for a large zone, which Knot refuses else.
    fn knot(&self) -> String {
        let (ip, port) = (self.plan.primary.ip(), self.plan.primary.port());
        let folder = self.folder.display();
        let mut text = format!(
            "server:
  rundir: {folder}
  listen: 127.0.0.1@{own}
  udp-workers: 1
  tcp-workers: 2
  background-workers: 2
log:
  - target: stderr
    any: info
database:
  storage: {folder}
  journal-db-mode: asynchronous
  journal-db-max-size: 4G
",
            own = self.port
        );
        let mut signed = String::new();
        if let Some(key) = &self.plan.key {
            writeln!(
                text,
                "key:\n  - id: {}\n    algorithm: {}\n    secret: {}",
                key.name, key.algorithm, key.secret
            )
            .unwrap();
            signed = format!("\n    key: {}", key.name);
        }
        write!(
            text,
            "remote:
  - id: primary
    address: {ip}@{port}{signed}
acl:
  - id: notify
    address: {ip}
    action: notify{signed}
  - id: signed
    address: 127.0.0.1
    action: transfer{signed}
  - id: transfer
    address: 127.0.0.1
    action: transfer
template:
  - id: default
    storage: {folder}
    master: primary
    acl: [notify, signed, transfer]
    zonefile-sync: -1
    zonefile-load: none
    journal-content: all
    journal-max-usage: 1G
    refresh-min-interval: 2
    retry-min-interval: 1
zone:
"
        )
        .unwrap();
        for zone in &self.plan.zones {
            writeln!(text, "  - domain: {zone}").unwrap();
        }
        text
    }

    fn nsd(&self) -> String {
        let (ip, port) = (self.plan.primary.ip(), self.plan.primary.port());
        let folder = self.folder.display();
        let mut text = format!(
            "server:
  ip-address: 127.0.0.1@{own}
  port: {own}
  username: \"\"
  chroot: \"\"
  database: \"\"
  zonesdir: \"{folder}\"
  pidfile: \"\"
  zonelistfile: \"{folder}/zone.list\"
  xfrdfile: \"{folder}/xfrd.state\"
  xfrdir: \"{folder}\"
  zonefiles-write: 1
  xfrd-reload-timeout: 0
  rrl-ratelimit: 0
  server-count: 1
  verbosity: 3
remote-control:
  control-enable: no
",
            own = self.port
        );
        let mut signed = "NOKEY";
        if let Some(key) = &self.plan.key {
            writeln!(
                text,
                "key:\n  name: \"{}\"\n  algorithm: {}\n  secret: \"{}\"",
                key.name, key.algorithm, key.secret
            )
            .unwrap();
            signed = &key.name;
        }
        let (mut port, mut over) = (port, "");
        if let Some(tls) = &self.plan.tls {
            writeln!(
                text,
                "server:\n  tls-cert-bundle: \"{}\"\ntls-auth:\n  name: primary\n  auth-domain-name: \"{}\"\n  \
                 client-cert: \"{}\"\n  client-key: \"{}\"",
                tls.ca.display(),
                tls.name,
                tls.certificate.display(),
                tls.key.display()
            )
            .unwrap();
            (port, over) = (tls.port, " primary");
        }
        let kept = if self.plan.nsd_keeps_ixfr {
            "\n  store-ixfr: yes\n  ixfr-number: 1000\n  ixfr-size: 0"
        } else {
            ""
        };
        for (index, zone) in self.plan.zones.iter().enumerate() {
            writeln!(
                text,
                "zone:
  name: \"{zone}\"
  zonefile: \"zone{index}\"
  request-xfr: {ip}@{port} {signed}{over}
  allow-notify: {ip} {signed}
  provide-xfr: 127.0.0.1 NOKEY
  provide-xfr: 127.0.0.1 {signed}{kept}
  min-refresh-time: 1
  min-retry-time: 1"
            )
            .unwrap();
        }
        text
    }

    /// One retrieval thread: of two that write to SQLite at once one finds the database locked, gives
    /// its transfer up, and comes back to it only after a minute.
    fn pdns(&self) -> String {
        let folder = self.folder.display();
        let (ip, own) = (self.plan.primary.ip(), self.port);
        let signed = match self.plan.pdns_holds_signatures {
            true => "yes",
            false => "no",
        };
        format!(
            "launch=gsqlite3
gsqlite3-database={folder}/zones.sqlite
gsqlite3-pragma-synchronous=0
gsqlite3-dnssec={signed}
local-address=127.0.0.1
local-port={own}
socket-dir={folder}
guardian=no
daemon=no
secondary=yes
xfr-cycle-interval=1
allow-notify-from={ip}
disable-axfr=no
dname-processing=yes
allow-axfr-ips=127.0.0.1
cache-ttl=0
query-cache-ttl=0
negquery-cache-ttl=0
zone-cache-refresh-interval=0
zone-metadata-cache-ttl=0
receiver-threads=1
retrieval-threads=1
distributor-threads=1
security-poll-suffix=
loglevel=7
version-string=anonymous
"
        )
    }

    /// PowerDNS keeps its list of zones, and per zone that IXFR is to be asked for, in its database.
    fn fill_pdns_database(&self) {
        const SCHEMA: &str = "/usr/share/pdns-backend-sqlite3/schema/schema.sqlite3.sql";
        let mut statements = format!(".bail on\n.read {SCHEMA}\n");
        for zone in &self.plan.zones {
            writeln!(
                statements,
                "INSERT INTO domains (name, type, master) VALUES ('{zone}', 'SLAVE', '{}');
INSERT INTO domainmetadata (domain_id, kind, content)
    SELECT id, 'IXFR', '1' FROM domains WHERE name = '{zone}';",
                self.plan.primary
            )
            .unwrap();
        }
        if let Some(key) = &self.plan.key {
            writeln!(
                statements,
                "INSERT INTO tsigkeys (name, algorithm, secret) VALUES ('{name}', '{}', '{}');
INSERT INTO domainmetadata (domain_id, kind, content)
    SELECT id, 'AXFR-MASTER-TSIG', '{name}' FROM domains;",
                key.algorithm,
                key.secret,
                name = key.name
            )
            .unwrap();
        }
        let script = self.folder.join("zones.sql");
        fs::write(&script, statements).unwrap();
        let output = Command::new(needs::program("sqlite3"))
            .arg(self.folder.join("zones.sqlite"))
            .stdin(fs::File::open(script).unwrap())
            .output()
            .unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(
            output.status.success() && errors.is_empty(),
            "sqlite3: {errors}"
        );
    }

    fn unbound(&self) -> String {
        let (ip, port) = (self.plan.primary.ip(), self.plan.primary.port());
        let folder = self.folder.display();
        let mut text = format!(
            "server:
  interface: 127.0.0.1@{own}
  port: {own}
  username: \"\"
  chroot: \"\"
  directory: \"{folder}\"
  pidfile: \"\"
  use-syslog: no
  logfile: \"\"
  log-time-ascii: yes
  verbosity: 5
  num-threads: 1
  module-config: \"iterator\"
  do-not-query-localhost: no
  access-control: 127.0.0.0/8 allow
  unblock-lan-zones: yes
remote-control:
  control-enable: no
",
            own = self.port
        );
        for (index, zone) in self.plan.zones.iter().enumerate() {
            // Unbound answers some names (test, 10.in-addr.arpa, ...) itself unless told not to.
            writeln!(
                text,
                "server:
  local-zone: \"{zone}.\" nodefault
auth-zone:
  name: \"{zone}\"
  primary: {ip}@{port}
  allow-notify: {ip}
  for-downstream: yes
  for-upstream: yes
  fallback-enabled: no
  zonefile: \"{folder}/zone{index}\""
            )
            .unwrap();
        }
        text
    }
}
