//! The command line.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::error::{ContextKind, ContextValue};
use clap::{Args, Parser, Subcommand};
use clap_complete::Shell;
use corefile::quantity::go_duration;
use directives::config::Config;
use history::Output;
use ops::telemetry::LogFormat;
use rustix::fs::{Access, access};
use rustls::pki_types::ServerName;
use server::Settings;
use writer::BatchSettings;

use crate::emit::Software;
use crate::runtime::state_folder::asked;

/// DNS for Kubernetes, as zones that any DNS server can transfer.
///
/// Exit codes: 0, the command succeeded. 1, it failed while running, or no server runs. 2, the command line, the
/// configuration or the state folder is not usable, or the question cannot be answered as it is written, such as one about a
/// zone that is not there. 3, the history does not tell: it begins later, or no longer has the version.
#[derive(Debug, Parser)]
#[command(name = "zonewright", version)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
    /// The format of log lines.
    #[arg(
        long,
        global = true,
        value_enum,
        default_value = "text",
        env = "ZONEWRIGHT_LOG_FORMAT"
    )]
    pub log_format: LogFormat,
    /// Which log lines are written, such as `debug` or `info,zonewright::serve=debug`. `kube_client` is off unless it is named: its lines can have tokens.
    #[arg(long, global = true, env = "ZONEWRIGHT_LOG")]
    pub log_filter: Option<String>,
}

/// Where the configuration is.
#[derive(Debug, Clone, Args)]
pub struct Configuration {
    /// The Corefile; `-` reads it from standard input.
    #[arg(short, long, value_name = "FILE", default_value = "Corefile")]
    pub corefile: PathBuf,
    /// The port for server blocks without a port.
    #[arg(long, default_value_t = 53)]
    pub port: u16,
}

/// How the server starts.
#[derive(Debug, Clone, Args)]
pub struct Start {
    /// Write the process id to this file while the server runs.
    #[arg(long)]
    pub pidfile: Option<PathBuf>,
    /// Do not print the zones and ports at the start.
    #[arg(long)]
    pub quiet: bool,
    /// The largest number of transfers at once, up to 1000. Further requests get SERVFAIL.
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub transfers: u16,
    /// The largest number of transfers at once to one peer: an address, or a key at an address. The default is three quarters of `--transfers`.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub transfers_per_peer: Option<u16>,
    /// The shortest time between two NOTIFY messages for changes to one secondary, up to 10s.
    #[arg(long, value_name = "TIME", default_value = "100ms", value_parser = up_to_ten_seconds)]
    pub notify_interval: Duration,
    /// A second socket at this path for `--read-group`, which takes questions and no orders. Its folder must exist.
    #[arg(long, value_name = "PATH", requires = "read_group")]
    pub read_socket: Option<PathBuf>,
    /// The group, by its name or number, whose members may use `--read-socket`.
    #[arg(long, value_name = "GROUP", requires = "read_socket")]
    pub read_group: Option<String>,
    /// Do not give up the rights that the server does not need: see docs/sandbox.md.
    #[arg(long)]
    pub no_sandbox: bool,
    /// In a burst of changes, a version is made when no change came for this time, up to 10s.
    #[arg(long, value_name = "TIME", default_value = "500us", value_parser = up_to_ten_seconds)]
    pub batch_quiet: Duration,
    /// In a burst of changes, a version is made after this time at the latest, up to 10s.
    #[arg(long, value_name = "TIME", default_value = "20ms", value_parser = up_to_ten_seconds)]
    pub batch_window: Duration,
    /// The versions of a zone that one namespace causes without a pause, and one name a fifth of them. After them it causes one a second. 0 is
    /// no limit.
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(0..=1000))]
    pub version_burst: u32,
}

/// Reads a time in Go's notation, such as `20ms`.
fn up_to_ten_seconds(text: &str) -> Result<Duration, String> {
    match go_duration(text) {
        Ok(time) if time <= Duration::from_secs(10) => Ok(time),
        Ok(_) => Err("at most 10s".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

impl Start {
    /// The settings of all servers, those of the Corefile apart.
    #[must_use]
    pub fn server_settings(&self) -> Settings {
        let mut settings = Settings::default();
        let (at_once, per_peer) = self.transfer_limits();
        settings.transfer.max_at_once = at_once;
        settings.transfer.max_per_peer = per_peer;
        settings.notify.interval = self.notify_interval;
        settings
    }

    /// How the writer gathers changes.
    #[must_use]
    pub const fn batch(&self) -> BatchSettings {
        BatchSettings {
            quiet: self.batch_quiet,
            window: self.batch_window,
            burst: self.version_burst,
        }
    }

    /// The most transfers at once, and those of one peer.
    #[must_use]
    pub fn transfer_limits(&self) -> (usize, usize) {
        let share = self.transfers - self.transfers / 4;
        let per_peer = self.transfers_per_peer.unwrap_or(share);
        (self.transfers.into(), per_peer.into())
    }
}

/// The state folder of a machine with the Debian package, whose unit has it as `StateDirectory`.
const SYSTEM_FOLDER: &str = "/var/lib/zonewright";

/// Where the state is.
#[derive(Debug, Clone, Args)]
pub struct State {
    /// The state folder. The default is that of `state` in the Corefile, for commands that read one, else
    /// /var/lib/zonewright if it is there and can be written, else ./state. Commands that ask a running server take its
    /// `--read-socket`, too.
    #[arg(long, env = "STATE_DIRECTORY")]
    pub state: Option<PathBuf>,
}

impl State {
    /// The folder of the server that a command without a Corefile asks, or of its store.
    #[must_use]
    pub fn folder(&self) -> PathBuf {
        asked(self.state.clone().unwrap_or_else(default_folder))
    }

    /// The folder, for a command with this configuration.
    #[must_use]
    pub fn folder_with(&self, config: &Config) -> PathBuf {
        let written = || config.state_folder().map(Path::to_owned);
        let named = self.state.clone().or_else(written);
        named.unwrap_or_else(default_folder)
    }
}

/// The folder where nothing names one.
fn default_folder() -> PathBuf {
    existing_or_here(Path::new(SYSTEM_FOLDER))
}

/// The system's folder, if it can be written, else one in the working folder.
fn existing_or_here(system: &Path) -> PathBuf {
    let needed = Access::WRITE_OK | Access::EXEC_OK;
    match system.is_dir() && access(system, needed).is_ok() {
        true => system.to_owned(),
        false => PathBuf::from("./state"),
    }
}

/// What is asked of `emit` beside the Corefile.
#[derive(Debug, Clone, Args)]
pub struct Emission {
    /// The software of the secondary.
    #[arg(value_enum)]
    pub software: Software,
    /// The secondary, by its address in `to`. Required if the Corefile has several.
    #[arg(long)]
    pub secondary: Option<String>,
    /// The address of this server for the secondary, as ADDRESS:PORT. The default is the address it listens on.
    #[arg(long)]
    pub primary: Vec<SocketAddr>,
    /// Print the secrets of keys instead of a placeholder.
    #[arg(long)]
    pub with_secrets: bool,
    /// Name each zone, even if the secondary could read them from a catalog.
    #[arg(long)]
    pub no_catalog: bool,
    /// Print the keys and zones only, to include them in the configuration that the secondary has.
    #[arg(long)]
    pub zones_only: bool,
    /// The folder for the files of the secondary. The default is that of its Debian package.
    #[arg(long)]
    pub dir: Option<PathBuf>,
    /// The name in this server's certificate. Required if the secondary transfers over TLS.
    #[arg(long, value_parser = server_name)]
    pub tls_name: Option<String>,
}

/// A name as a certificate has it.
fn server_name(text: &str) -> Result<String, String> {
    let name = ServerName::try_from(text).map_err(|error| error.to_string())?;
    Ok(name.to_str().into_owned())
}

/// When lines are coloured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Colour {
    /// On a terminal, unless `$NO_COLOR` is set.
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// How text looks on a terminal.
#[derive(Debug, Clone, Copy, Args)]
pub struct Look {
    /// When to colour text.
    #[arg(long, value_enum, default_value = "auto")]
    pub color: Colour,
    /// Print long output directly, not through `$PAGER`.
    #[arg(long)]
    pub no_pager: bool,
}

/// In which form a command prints.
#[derive(Debug, Clone, Copy, Args)]
pub struct Format {
    /// The format of the output.
    #[arg(short, long, value_enum, default_value = "text")]
    pub output: Output,
}

/// Where to ask and how the answer looks.
#[derive(Debug, Clone, Args)]
pub struct Asking {
    /// The state folder, of a running server or of one that is stopped.
    #[command(flatten)]
    pub state: State,
    /// The format of the output.
    #[arg(short, long, value_enum, default_value = "text")]
    pub output: Output,
    /// How text looks on a terminal.
    #[command(flatten)]
    pub look: Look,
}

/// Where to read the history.
#[derive(Debug, Clone, Args)]
pub struct Reading {
    /// Change nothing in the state folder, not even to repair it: without a running server a copy of it in `$TMPDIR` is read.
    #[arg(long)]
    pub read_only: bool,
    /// Where to ask.
    #[command(flatten)]
    pub asking: Asking,
}

/// Who asked the API server for what the history names.
#[derive(Debug, Clone, Args)]
pub struct Audit {
    /// An audit log of the API server (format json): name user, address and verb of the request behind each cause. Can be given
    /// several times.
    #[arg(long = "audit-log", value_name = "FILE")]
    pub logs: Vec<PathBuf>,
}

/// What is to be compared.
#[derive(Debug, Args)]
pub struct DiffWanted {
    /// The zone.
    pub zone: String,
    /// Serial or time. Or both ends of the range, as `FROM..TO` or `FROM..`.
    #[arg(required_unless_present = "held")]
    pub from: Option<String>,
    /// Serial or time. The default is the current version.
    pub to: Option<String>,
    /// Print what a release would remove and add, and why: what the gate, a freeze or a rollback holds back.
    #[arg(long, conflicts_with_all = ["from", "to"])]
    pub held: bool,
    /// Print what differs between the Corefiles of the two versions, as `diff -u`.
    #[arg(long, conflicts_with_all = ["held", "logs"])]
    pub corefile: bool,
    /// The audit logs.
    #[command(flatten)]
    pub audit: Audit,
    /// Where to read.
    #[command(flatten)]
    pub reading: Reading,
}

/// What is to be explained.
#[derive(Debug, Args)]
pub struct WhyWanted {
    /// The name; an address stands for its name in the reverse zone. For an old version ask `blame`.
    pub name: String,
    /// The type. The default is A, and PTR for an address.
    #[arg(value_name = "TYPE")]
    pub rtype: Option<String>,
    /// Where to ask.
    #[command(flatten)]
    pub asking: Asking,
}

/// What is to be checked.
#[derive(Debug, Args)]
pub struct CheckWanted {
    /// The configuration.
    #[command(flatten)]
    pub configuration: Configuration,
    /// The Corefile, instead of `--corefile FILE`.
    #[arg(conflicts_with = "corefile")]
    pub file: Option<PathBuf>,
    /// Also print what each block will do with queries and zones, and the rights that are needed at API servers.
    #[arg(long)]
    pub explain: bool,
    /// The format of the output.
    #[command(flatten)]
    pub format: Format,
}

/// What is to be verified.
#[derive(Debug, Args)]
pub struct VerifyWanted {
    /// Only this zone of the store. Or what `export --history` wrote, which needs no store: FILE.ndjson is a history,
    /// manifest.json or the folder stands for all files of an export.
    #[arg(value_name = "ZONE|FILE|FOLDER")]
    pub target: Option<String>,
    /// A hash that was noted elsewhere, as HASH or ZONE=HASH: check that it is in the history. Can be given several times.
    #[arg(long, value_name = "HASH")]
    pub anchor: Vec<String>,
    /// Check that the hashes of these signed notes are in the history: a file that `history { note file PATH }` names, or
    /// note.json of a ConfigMap with note.json.sig beside it.
    #[arg(long, value_name = "FILE")]
    pub note: Option<PathBuf>,
    /// With FILE or `--note`: check the signatures with this Ed25519 public key (PEM, as `openssl pkey -pubout` writes it).
    #[arg(long, value_name = "FILE")]
    pub key: Option<PathBuf>,
    /// Note in this file which segments of the archive are good, and do not read again those that it already names: a
    /// verification that was interrupted goes on. The file is made if it is not there.
    #[arg(long, value_name = "FILE")]
    pub resume: Option<PathBuf>,
    /// Where to read.
    #[command(flatten)]
    pub reading: Reading,
}

/// Which zones are held or released.
#[derive(Debug, Args)]
pub struct HoldWanted {
    /// The reverse zones whose PTRs lead into the zone, too. A rollback takes them to the time of the version.
    #[arg(long)]
    pub with_reverse: bool,
    /// The reason, and where to ask.
    #[command(flatten)]
    pub order: OrderWanted,
}

/// Why an order is given, and to whom.
#[derive(Debug, Args)]
pub struct OrderWanted {
    /// Why: stored with the version and shown by `log`, `blame` and `status`. `require_reason` of `history` demands it.
    #[arg(long, value_name = "TEXT")]
    pub reason: Option<String>,
    /// Do not ask first. On a terminal a freeze, a rollback or a release of a zone with more than 50 records has to be confirmed, and an `advance` while a secondary lacks the last serial.
    #[arg(long)]
    pub yes: bool,
    /// Where to ask.
    #[command(flatten)]
    pub asking: Asking,
}

/// Which versions are wanted.
#[derive(Debug, Args)]
pub struct LogWanted {
    /// Only this zone.
    pub zone: Option<String>,
    /// Only versions from this time on: RFC 3339, a date, `2h`, `2 hours ago`, yesterday, or a serial of ZONE.
    #[arg(long)]
    pub since: Option<String>,
    /// Only versions up to this time.
    #[arg(long)]
    pub until: Option<String>,
    /// Only versions that changed this name.
    #[arg(long)]
    pub name: Option<String>,
    /// Only versions that this object caused: KIND/NAMESPACE/NAME, with the kind as kubectl takes it, such as svc/shop/web.
    #[arg(long)]
    pub object: Option<String>,
    /// Print no more than N versions and acts.
    #[arg(
        short = 'n',
        long = "max-count",
        value_name = "N",
        value_parser = clap::value_parser!(u64).range(1..),
        conflicts_with = "follow"
    )]
    pub count: Option<u64>,
    /// Print the oldest version first, then each new version at once. Starts after the serial of `--since`, if it is one.
    #[arg(long, conflicts_with_all = ["until", "read_only", "logs"])]
    pub follow: bool,
    /// Print each version and act as one line, with its first cause and the number of the others.
    #[arg(long, conflicts_with = "logs")]
    pub oneline: bool,
    /// The audit logs.
    #[command(flatten)]
    pub audit: Audit,
    /// Where to read.
    #[command(flatten)]
    pub reading: Reading,
}

/// What is to be taken away.
#[derive(Debug, Args)]
#[command(override_usage = "zonewright export [OPTIONS] [ZONES]...")]
pub struct ExportWanted {
    /// ZONE, ZONE@SERIAL or ZONE@TIME. The default is all zones.
    pub zones: Vec<String>,
    /// The folder to write to. It is created if it does not exist.
    #[arg(long, required_unless_present = "follow")]
    pub to: Option<PathBuf>,
    /// Write the whole history of each ZONE as JSON lines, instead of a master file, and a manifest of the files.
    #[arg(long)]
    pub history: bool,
    /// Sign the manifest with this Ed25519 key (PKCS#8 PEM, as `openssl genpkey -algorithm ed25519` writes it).
    #[arg(long, value_name = "KEYFILE", requires = "history")]
    pub sign: Option<PathBuf>,
    /// Sign the manifest with the key that `history { sign KEYFILE }` of this Corefile names for the zones.
    #[arg(
        short,
        long,
        value_name = "FILE",
        requires = "history",
        conflicts_with = "sign"
    )]
    pub corefile: Option<PathBuf>,
    /// Print new versions of one ZONE to standard output without end, as lines of its history.
    #[arg(long, conflicts_with_all = ["to", "read_only", "history"])]
    pub follow: bool,
    /// With `--follow`: start at this time, or after this serial.
    #[arg(long, requires = "follow")]
    pub since: Option<String>,
    /// Where to read.
    #[command(flatten)]
    pub reading: Reading,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run the server. CoreDNS's flags `-conf FILE -dns.port N` do the same.
    Run {
        /// The configuration.
        #[command(flatten)]
        configuration: Configuration,
        /// The state folder.
        #[command(flatten)]
        state: State,
        /// How it starts.
        #[command(flatten)]
        start: Start,
    },
    /// Print every problem of the configuration, with its place and the fix.
    Check(CheckWanted),
    /// Print the zones that the sources give now, as master files. Needs no state and no socket.
    Render {
        /// The configuration.
        #[command(flatten)]
        configuration: Configuration,
        /// The format of the output.
        #[command(flatten)]
        format: Format,
        /// Only this zone.
        zone: Option<String>,
    },
    /// List versions, newest first: time, number of changes, causes.
    Log(LogWanted),
    /// Print a version as a master file.
    Show {
        /// ZONE, ZONE@SERIAL or ZONE@TIME. ZONE@held is what the gate, a freeze or a rollback holds back.
        zone: String,
        /// Only this name.
        #[arg(conflicts_with = "corefile")]
        name: Option<String>,
        /// Print the Corefile that was in use when the version of a serial was published, at a time, or now: with its imports and environment, without comments and secrets.
        #[arg(long)]
        corefile: bool,
        /// Where to read.
        #[command(flatten)]
        reading: Reading,
    },
    /// Print the changes between two versions, and their causes.
    Diff(DiffWanted),
    /// Print for each record the version that added it, with the object and field manager.
    Blame {
        /// ZONE, ZONE@SERIAL or ZONE@TIME.
        zone: String,
        /// Only this name.
        name: Option<String>,
        /// The audit logs.
        #[command(flatten)]
        audit: Audit,
        /// Where to read.
        #[command(flatten)]
        reading: Reading,
    },
    /// Check that the history is as it was written: hashes, chain, records. Exit code 1 if it is not.
    Verify(VerifyWanted),
    /// Write versions to a folder: as master files, or as the whole history with causes and hashes.
    Export(ExportWanted),
    /// Ask the running server which record, object, rule or handler answers a name, or why none does.
    Why(WhyWanted),
    /// Keep the current version of a zone until it is released, even if its source changes.
    Freeze {
        /// The zone.
        zone: String,
        /// The zone is released after this time, such as `30m` or `2h`.
        #[arg(long = "for")]
        time: Option<String>,
        /// Which zones, the reason, and where to ask.
        #[command(flatten)]
        wanted: HoldWanted,
    },
    /// Serve the content of an old version under a new serial for a time. Then the zone follows its source again.
    Rollback {
        /// The zone.
        zone: String,
        /// The old version, by its serial or a time.
        to: String,
        /// The zone is released after this time, such as `30m` or `2h`.
        #[arg(long = "for")]
        time: String,
        /// Which zones, the reason, and where to ask.
        #[command(flatten)]
        wanted: HoldWanted,
    },
    /// Publish the version that the gate holds, or end a freeze or a rollback.
    Release {
        /// The zone.
        zone: String,
        /// Only print what would be removed and added, as `diff --held`.
        #[arg(long, conflicts_with = "with_reverse")]
        dry_run: bool,
        /// Which zones, the reason, and where to ask.
        #[command(flatten)]
        wanted: HoldWanted,
    },
    /// Publishes a zone again with a serial above SERIAL, which a secondary has: see PEER AHEAD in `status`.
    Advance {
        /// The zone.
        zone: String,
        /// The serial, after the zone's.
        serial: u32,
        /// The reason, and where to ask.
        #[command(flatten)]
        wanted: OrderWanted,
    },
    /// Make the running server read its Corefile now. Exit code 2, with the problems, if it stays with the one it has.
    Reload {
        /// Where to ask.
        #[command(flatten)]
        asking: Asking,
    },
    /// Let this replica lead although versions that were announced may be lost, when no replica has all of them.
    Promote {
        /// Says that announced versions may be lost: secondaries that have them get others under later serials.
        #[arg(long, required = true)]
        accept_loss: bool,
        /// Where to ask.
        #[command(flatten)]
        asking: Asking,
    },
    /// Notify the secondaries of a zone of its current version again.
    Notify {
        /// The zone.
        zone: String,
        /// Where to ask.
        #[command(flatten)]
        asking: Asking,
    },
    /// End the running server, as SIGTERM does.
    Stop {
        /// Where to ask.
        #[command(flatten)]
        asking: Asking,
    },
    /// Tries each secondary: reach, key, clock, NOTIFY, serial; says what to fix. Exit code 1 when something is wrong.
    Doctor {
        /// The configuration.
        #[command(flatten)]
        configuration: Configuration,
        /// The state folder of the running server.
        #[command(flatten)]
        state: State,
        /// The format of the output.
        #[command(flatten)]
        format: Format,
    },
    /// Print the configuration for a secondary of this Corefile.
    Emit {
        /// The configuration.
        #[command(flatten)]
        configuration: Configuration,
        /// The format of the output.
        #[command(flatten)]
        format: Format,
        /// For whom.
        #[command(flatten)]
        emission: Emission,
    },
    /// Print the state of the running server: listeners, zones, serials, histories, sources, holds, secondaries and their lag.
    Status {
        /// Print it again and again, every 2 seconds or as many as given, until it is interrupted.
        #[arg(long, value_name = "SECONDS", num_args = 0..=1, default_missing_value = "2", value_parser = clap::value_parser!(u64).range(1..=3600))]
        watch: Option<u64>,
        /// Print lines for each zone. Without it, reverse zones of one network that are in the same state are one line.
        #[arg(long)]
        all: bool,
        /// Where to ask.
        #[command(flatten)]
        asking: Asking,
    },
    /// Print the version of the program, and the commit it was built from.
    Version {
        /// The format of the output.
        #[command(flatten)]
        format: Format,
    },
    /// Print a script that completes commands and options in a shell.
    Completion {
        /// The shell.
        #[arg(value_enum)]
        shell: Shell,
    },
    /// Write the manual pages of all commands to a folder, for packages.
    #[command(hide = true)]
    ManPages {
        /// The folder, which has to exist.
        #[arg(long, value_name = "DIR")]
        to: PathBuf,
    },
}

/// Commands that are not suggested for a misspelt one, because they publish, hold or end something.
const NEVER_SUGGESTED: [&str; 5] = ["release", "rollback", "freeze", "advance", "stop"];

/// Parses a command line. Ends the process with the usage if it is wrong.
#[must_use]
pub fn parse(args: Vec<String>) -> Cli {
    Cli::try_parse_from(args).unwrap_or_else(|error| without_orders(error).exit())
}

/// Takes commands that must be meant out of the suggestions of an error.
fn without_orders(mut error: clap::Error) -> clap::Error {
    let kind = ContextKind::SuggestedSubcommand;
    let is_harmless = |word: &String| !NEVER_SUGGESTED.contains(&word.as_str());
    match error.remove(kind) {
        Some(ContextValue::Strings(words)) => {
            let words: Vec<String> = words.into_iter().filter(is_harmless).collect();
            if !words.is_empty() {
                error.insert(kind, ContextValue::Strings(words));
            }
        }
        Some(ContextValue::String(word)) if !is_harmless(&word) => {}
        Some(other) => {
            error.insert(kind, other);
        }
        None => {}
    }
    error
}

/// What a command line of CoreDNS's wants.
#[derive(Debug, PartialEq, Eq)]
pub enum Translated {
    /// A command of ours.
    Ours(Vec<String>),
    /// The version: `-version`.
    Version,
    /// The directives: `-plugins`.
    Plugins,
    /// Something that CoreDNS refuses, too: why.
    Wrong(String),
}

/// CoreDNS's flags that take a value, and ours.
const WITH_VALUE: &[(&str, &str)] = &[
    ("conf", "--corefile"),
    ("dns.port", "--port"),
    ("p", "--port"),
    ("pidfile", "--pidfile"),
    ("log-format", "--log-format"),
];
/// CoreDNS's flags that take none.
const WITHOUT_VALUE: &[&str] = &["quiet", "version", "plugins"];

/// Turns CoreDNS's flags into ours: `-conf FILE`, `-dns.port N` and so on (one dash or two, with `=` or
/// without) mean `run`, with log lines as CoreDNS writes them. Other command lines stay as they are.
#[must_use]
pub fn translate(args: Vec<String>) -> Translated {
    let with_value = |arg: &str| {
        let mut flags = WITH_VALUE.iter();
        flags.find_map(|(flag, ours)| flag_value(arg, flag).map(|value| (*ours, value)))
    };
    let without_value = |arg: &str| {
        let mut flags = WITHOUT_VALUE.iter();
        flags.find(|flag| flag_value(arg, flag).is_some()).copied()
    };
    // `--version` of ours prints the same, and so does its short form.
    if args.get(1).is_some_and(|arg| arg == "-V") {
        return Translated::Version;
    }
    let is_coredns = |arg: &String| with_value(arg).is_some() || without_value(arg).is_some();
    // `--log-format FORMAT` may be before a command of ours, too: what follows it decides.
    let first = match args.get(1).map(String::as_str) {
        Some("--log-format") => args.get(3),
        Some(arg) if arg.starts_with("--log-format=") => args.get(2),
        _ => args.get(1),
    };
    if !first.is_some_and(is_coredns) {
        return Translated::Ours(args);
    }
    let mut translated: Vec<String> = args.iter().take(1).cloned().collect();
    translated.push("run".into());
    let is_format = |arg: &String| flag_value(arg, "log-format").is_some();
    if !args.iter().any(is_format) {
        translated.push("--log-format=coredns".into());
    }
    let mut rest = args.into_iter().skip(1);
    while let Some(arg) = rest.next() {
        let value = match (with_value(&arg), without_value(&arg)) {
            (_, Some("version")) => return Translated::Version,
            (_, Some("plugins")) => return Translated::Plugins,
            (_, Some(_)) => {
                translated.push("--quiet".into());
                continue;
            }
            (Some((ours, Some(value))), None) => (ours, Some(value)),
            (Some((ours, None)), None) => (ours, rest.next()),
            (None, None) if arg.starts_with("--") => {
                // One of ours; a value of its own comes with it.
                let has_value = arg.contains('=');
                translated.push(arg);
                translated.extend((!has_value).then(|| rest.next()).flatten());
                continue;
            }
            (None, None) => {
                return Translated::Wrong(format!(
                    "unknown flag or extra command line argument: {arg}"
                ));
            }
        };
        let (ours, Some(value)) = value else {
            return Translated::Wrong(format!("flag needs an argument: {arg}"));
        };
        let value = match (ours, value.as_str()) {
            // CoreDNS's word for what is piped in.
            ("--corefile", "stdin") => "-",
            // Its own format is the text.
            ("--log-format", "text") => "coredns",
            (_, value) => value,
        };
        translated.push(format!("{ours}={value}"));
    }
    Translated::Ours(translated)
}

/// Whether an argument is a flag of that name, and the value after its `=`.
fn flag_value(arg: &str, flag: &str) -> Option<Option<String>> {
    let rest = arg
        .strip_prefix("--")
        .or_else(|| arg.strip_prefix('-'))?
        .strip_prefix(flag)?;
    match rest.strip_prefix('=') {
        Some(value) => Some(Some(value.to_owned())),
        None => rest.is_empty().then_some(None),
    }
}

#[cfg(test)]
mod tests {
    use directives::config::{Overrides, parse_text};

    use super::*;

    /// Splits a command line.
    fn args(line: &str) -> Vec<String> {
        line.split(' ').map(ToOwned::to_owned).collect()
    }

    #[test]
    fn the_zones_of_an_export_are_not_required() {
        for line in ["zonewright export", "zonewright export cluster.local"] {
            let refused = Cli::try_parse_from(args(line));
            let text = refused.err().map(|error| error.to_string());
            let text = text.expect("it does not say where to");
            assert!(text.contains(" [ZONES]..."), "{text}");
        }
    }

    #[test]
    fn flags_of_coredns_run_the_server() {
        let run = "zonewright run --log-format=coredns";
        for (line, want) in [
            (
                "zonewright -conf F -dns.port 1053",
                format!("{run} --corefile=F --port=1053"),
            ),
            (
                "zonewright --conf=F -p=1053 -quiet",
                format!("{run} --corefile=F --port=1053 --quiet"),
            ),
            (
                "zonewright -conf F --state S --pidfile P",
                format!("{run} --corefile=F --state S --pidfile=P"),
            ),
            (
                "zonewright -conf stdin --log-format=json",
                "zonewright run --corefile=- --log-format=json".to_owned(),
            ),
            (
                "zonewright -conf F -log-format json",
                "zonewright run --corefile=F --log-format=json".to_owned(),
            ),
            (
                "zonewright -log-format=text -conf F",
                "zonewright run --log-format=coredns --corefile=F".to_owned(),
            ),
            (
                "zonewright --log-format json -conf F",
                "zonewright run --log-format=json --corefile=F".to_owned(),
            ),
            (
                "zonewright --log-format json check --corefile F",
                "zonewright --log-format json check --corefile F".to_owned(),
            ),
            (
                "zonewright check --corefile F",
                "zonewright check --corefile F".to_owned(),
            ),
        ] {
            assert_eq!(
                translate(args(line)),
                Translated::Ours(args(&want)),
                "{line}"
            );
        }
        let other = |line: &str| translate(args(line));
        assert_eq!(other("zonewright -version"), Translated::Version);
        assert_eq!(other("zonewright -V"), Translated::Version);
        assert_eq!(other("zonewright -conf F -plugins"), Translated::Plugins);
        for line in ["zonewright -conf F extra", "zonewright -conf"] {
            assert!(matches!(other(line), Translated::Wrong(_)), "{line}");
        }
    }

    #[test]
    fn times_of_notify_and_of_a_batch_are_what_the_settings_say_unless_given() {
        let start = |line: &str| {
            let command = Cli::try_parse_from(args(line)).map(|cli| cli.command);
            let Ok(Command::Run { start, .. }) = command else {
                return None;
            };
            Some((start.server_settings(), start.batch()))
        };
        let usual = (Settings::default(), BatchSettings::default());
        assert_eq!(start("zonewright run"), Some(usual));
        let given = "zonewright run --notify-interval 1s --batch-quiet 2ms --batch-window 3ms --version-burst 9";
        let (settings, batch) = start(given).unwrap();
        assert_eq!(settings.notify.interval, Duration::from_secs(1));
        let [quiet, window] = [2, 3].map(Duration::from_millis);
        assert_eq!(
            batch,
            BatchSettings {
                quiet,
                window,
                burst: 9
            }
        );
        assert_eq!(start("zonewright run --batch-window 11s"), None);
        assert_eq!(start("zonewright run --batch-window 5"), None);
    }

    #[test]
    fn transfers_at_once_are_what_the_settings_say_unless_given() {
        let limits = |line: &str| {
            let command = Cli::try_parse_from(args(line)).map(|cli| cli.command);
            let Ok(Command::Run { start, .. }) = command else {
                return None;
            };
            Some(start.transfer_limits())
        };
        let usual = Settings::default().transfer;
        let usual = (usual.max_at_once, usual.max_per_peer);
        assert_eq!(limits("zonewright run"), Some(usual));
        assert_eq!(limits("zonewright run --transfers 1"), Some((1, 1)));
        assert_eq!(limits("zonewright run --transfers 100"), Some((100, 75)));
        let both = "zonewright run --transfers 100 --transfers-per-peer 9";
        assert_eq!(limits(both), Some((100, 9)));
        assert_eq!(limits("zonewright run --transfers 0"), None);
        assert_eq!(limits("zonewright run --transfers 1001"), None);
    }

    #[test]
    fn a_command_that_publishes_or_ends_something_is_never_suggested() {
        let said = |line: &str| {
            let error = Cli::try_parse_from(args(line)).expect_err("there is no such command");
            without_orders(error).to_string()
        };
        for line in ["relese", "releas", "rollbak", "freez", "advanc", "stopp"] {
            let text = said(&format!("zonewright {line}"));
            let tips = text.lines().filter(|line| line.contains("tip:"));
            let tips: String = tips.collect();
            assert!(
                !NEVER_SUGGESTED.iter().any(|word| tips.contains(word)),
                "{text}"
            );
        }
        let text = said("zonewright relod");
        assert!(
            text.contains("'reload'") && !text.contains("'release'"),
            "{text}"
        );
    }

    #[test]
    fn the_command_line_is_consistent() {
        use clap::CommandFactory;
        Cli::command().debug_assert();
        for line in [
            "zonewright status --state S --output json",
            "zonewright check -o json other",
            "zonewright render -c other -o json",
            "zonewright emit powerdns -c other",
            "zonewright emit bind9 -c other",
        ] {
            assert!(Cli::try_parse_from(args(line)).is_ok(), "{line}");
        }
        for wrong in ["zonewright check -c one other", "zonewright log -n 0"] {
            assert!(Cli::try_parse_from(args(wrong)).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_state_is_in_the_folder_of_the_system_if_it_is_there() {
        let system = tempfile::tempdir().unwrap();
        assert_eq!(existing_or_here(system.path()), system.path());
        let file = system.path().join("file");
        std::fs::write(&file, "").unwrap();
        for none in [file, system.path().join("nothing")] {
            assert_eq!(existing_or_here(&none), Path::new("./state"));
        }
    }

    #[test]
    fn the_option_names_the_state_folder_before_the_corefile() {
        let overrides = Overrides { default_port: 53 };
        let text = "a {\n state /written\n}\n";
        let loaded = parse_text("Corefile", text, &overrides, &|_| None).unwrap();
        for (given, want) in [(Some("/given"), "/given"), (None, "/written")] {
            let state = State {
                state: given.map(PathBuf::from),
            };
            assert_eq!(state.folder_with(&loaded.config), Path::new(want));
        }
    }
}
