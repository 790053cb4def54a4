//! `hosts [FILE [ZONES…]] { … }`: names and addresses from a file and from lines in the block.

pub(crate) mod handler;
pub(crate) mod metrics;

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use corefile::argument::option_words;
use corefile::parser::{Line, Statement};
use corefile::place::{Place, Report};
use corefile::quantity::go_duration;
use corefile::slip::nearest;
use dns::{Name, Ttl};
use ops::metrics::Metric;

use crate::config::block::{Directive, Role, ServerBlock};
use crate::config::zone;
use crate::forward::Forward;
use crate::handlers::chain::{BuildError, Chain};
use crate::hosts::handler::HostsHandler;

/// The default file.
const FILE: &str = "/etc/hosts";

/// The settings of `hosts`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hosts {
    /// Its place in the Corefile.
    pub place: Place,
    /// The file.
    pub file: PathBuf,
    /// The names that it answers, with all names below them.
    pub zones: Vec<Name>,
    /// The lines with addresses in the block.
    pub lines: Vec<HostLine>,
    /// The TTL of answers.
    pub ttl: Ttl,
    /// Whether addresses have PTR records.
    pub reverse: bool,
    /// The interval at which the file is checked; 0 means never again.
    pub reload: Duration,
    /// Names that fall through to the next handler when they are unknown, with all names below them.
    pub fallthrough: Vec<Name>,
    /// Whether the next handler is asked for types other than A, AAAA and PTR.
    pub fallthrough_unsupported: bool,
}

/// An address with its names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostLine {
    /// The address.
    pub address: IpAddr,
    /// Its names, in lower case.
    pub names: Vec<Name>,
}

impl HostLine {
    /// Reads one line of a hosts file. `None` if it has no address or no name. The zone of an address (after `%`) is
    /// ignored, and so are words that are no names.
    #[must_use]
    pub fn parse(line: &str) -> Option<Self> {
        let mut words = line.split('#').next()?.split_ascii_whitespace();
        let address = words.next()?.split('%').next()?;
        let names =
            words.filter_map(|word| Name::parse(&format!("{}.", word.trim_end_matches('.'))).ok());
        let line = Self {
            address: address.parse::<IpAddr>().ok()?.to_canonical(),
            names: names.map(|name| name.to_lower()).collect(),
        };
        Some(line).filter(|line| !line.names.is_empty())
    }
}

impl Hosts {
    /// The zones in which some unknown names do not fall through.
    fn ends(&self) -> impl Iterator<Item = &Name> {
        self.zones.iter().filter(|zone| !self.lets(zone))
    }

    /// Whether all unknown names below this one fall through.
    fn lets(&self, name: &Name) -> bool {
        self.fallthrough.iter().any(|below| name.is_within(below))
    }

    /// The names below which unknown names do not fall through, as text for a warning. `None` if all fall through.
    #[must_use]
    pub fn ending(&self) -> Option<String> {
        self.ends().next().map(|zone| self.ending_at(zone))
    }

    /// As [`Self::ending`], for one zone.
    fn ending_at(&self, zone: &Name) -> String {
        let within = self.fallthrough.iter().filter(|it| it.is_within(zone));
        let within: Vec<String> = within.map(ToString::to_string).collect();
        if within.is_empty() {
            return format!("below {zone}");
        }
        format!("below {zone}, but not below {}", within.join(", "))
    }
}

impl Directive for Hosts {
    const WORD: &'static str = "hosts";
    const USAGE: &'static str = "hosts [FILE [ZONES…]] { … }";
    const SUMMARY: &'static str = "answers from a hosts file and from lines in the block";
    const OPTIONS: &'static str =
        "ttl, no_reverse, reload, fallthrough and fallthrough_unsupported";
    const ROLE: Role = Role::Answers;
    const METRICS: &'static [Metric] = metrics::METRICS;

    fn read(directive: &Statement, zones: &[Name], report: &mut Report) -> Option<Self> {
        let place = directive.name.place.clone();
        let (file, arguments) = match directive.arguments.split_first() {
            Some((file, rest)) => {
                warn_of(Path::new(&file.text), &file.place, report);
                (file.text.as_str(), rest)
            }
            None => (FILE, &[][..]),
        };
        let mut hosts = Hosts {
            place: place.clone(),
            file: file.into(),
            zones: zone::arguments(arguments, zones, report),
            lines: Vec::new(),
            ttl: Ttl::decode(3600),
            reverse: true,
            reload: Duration::from_secs(5),
            fallthrough: Vec::new(),
            fallthrough_unsupported: false,
        };
        for line in &directive.lines {
            match line.name.text.as_str() {
                "ttl" => {
                    let value = line.value("SECONDS", ttl, report);
                    hosts.ttl = value.unwrap_or(hosts.ttl);
                }
                "no_reverse" => {
                    line.refuse_arguments(report);
                    hosts.reverse = false;
                }
                "reload" => {
                    let value = line.value("DURATION", go_duration, report);
                    hosts.reload = value.unwrap_or(hosts.reload);
                }
                "fallthrough" => {
                    hosts.fallthrough = zone::arguments(&line.arguments, &[Name::root()], report);
                }
                "fallthrough_unsupported" => {
                    line.refuse_arguments(report);
                    hosts.fallthrough_unsupported = true;
                }
                _ => entry(directive, line, &mut hosts, report),
            }
        }
        if hosts.fallthrough_unsupported && hosts.fallthrough.is_empty() {
            let message = "fallthrough_unsupported without fallthrough";
            report.error(&place, message, "add fallthrough");
        }
        Some(hosts)
    }

    fn check(blocks: &[ServerBlock], report: &mut Report) {
        for block in blocks {
            let Some(hosts) = block.get::<Self>() else {
                continue;
            };
            let forwards = block.all::<Forward>().map(|it| &it.from);
            let behind: Vec<&Name> = block.zones_written().chain(forwards).collect();
            let is_before = |zone: &&Name| {
                let overlaps = |it: &&&Name| it.is_within(zone) || zone.is_within(it);
                behind.iter().filter(overlaps).any(|it| !hosts.lets(it))
            };
            let Some(zone) = hosts.ends().find(is_before) else {
                continue;
            };
            let message = format!(
                "hosts answers SERVFAIL for all names that it lacks {}: the handlers after it are not asked",
                hosts.ending_at(zone)
            );
            let fix = match hosts.fallthrough.as_slice() {
                [] => "write fallthrough in its block",
                [_, ..] => "write fallthrough without names in its block",
            };
            report.warn(&hosts.place, &message, fix);
        }
    }

    fn add_handlers(&self, _: &ServerBlock, chain: &mut Chain<'_>) -> Result<(), BuildError> {
        chain.add(HostsHandler::new(
            self.clone(),
            chain.context.counts.metrics,
        ));
        Ok(())
    }
}

/// Warns about a file that is missing, or is a folder.
fn warn_of(file: &Path, place: &Place, report: &mut Report) {
    let what = if file.is_dir() {
        "is a folder"
    } else if file.exists() {
        return;
    } else {
        "does not exist"
    };
    let message = format!("hosts: {} {what}", file.display());
    report.warn(place, message, "it is read as soon as it exists");
}

/// Reads a line that is no option: an address and its names.
fn entry(directive: &Statement, line: &Line, hosts: &mut Hosts, report: &mut Report) {
    let words = line.arguments.iter().map(|token| token.text.as_str());
    let words: Vec<&str> = std::iter::once(line.name.text.as_str())
        .chain(words)
        .collect();
    match HostLine::parse(&words.join(" ")) {
        Some(read) => {
            if read.names.len() + 1 < words.len() {
                let message = "a word of this line is not a name";
                report.warn(&line.name.place, message, "remove it");
            }
            hosts.lines.push(read);
        }
        // As in CoreDNS, a word before `fallthrough` is part of a line of hosts. Unknown words in such lines are
        // ignored.
        None if hosts.fallthrough.is_empty() => {
            let message = format!(
                "hosts: {} does not begin a line with an address and a name; the line is ignored",
                line.name.shown()
            );
            let fix = match nearest(&line.name.text, option_words(Hosts::OPTIONS)) {
                Some(near) => format!("did you mean '{near}'?"),
                None => format!("write IP NAME..., or an option: {}", Hosts::OPTIONS),
            };
            report.warn(&line.name.place, message, fix);
        }
        None => {
            directive.unknown_option(line, &format!("{}, or IP NAME...", Hosts::OPTIONS), report)
        }
    }
}

/// The TTL is out of range.
#[derive(Debug, thiserror::Error)]
#[error("not a number from 1 to 65535")]
struct NoTtl;

fn ttl(text: &str) -> Result<Ttl, NoTtl> {
    let seconds = text.parse::<u16>().ok().filter(|seconds| *seconds > 0);
    seconds.map(|it| Ttl::decode(it.into())).ok_or(NoTtl)
}
