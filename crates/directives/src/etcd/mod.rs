//! `etcd [ZONES...] { path PATH; endpoint URL...; credentials USER PASSWORD; tls …; fallthrough [ZONES...]; … }`: zones from
//! the keys of an etcd v3, in the layout of SkyDNS.
//!
//! The options are CoreDNS's. `debug` and `upstream` are ignored, as there. `stubzones` is refused: CoreDNS ignores it, and
//! whoever writes it expects delegations. A zone that another directive of the block writes is an error.

use corefile::parser::{Line, Statement};
use corefile::place::{Place, Report};
use corefile::quantity::go_duration;
use dns::Name;

use crate::config::TlsFiles;
use crate::config::block::{Directive, Repeat, Role, ServerBlock};
use crate::config::zone;
use crate::config::zoned::warn_of_unasked;
use crate::forward::tls_files;

/// CoreDNS's default member.
const DEFAULT_ENDPOINT: &str = "http://localhost:2379";

/// Zones from etcd.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Etcd {
    /// Its place in the Corefile.
    pub place: Place,
    /// The zones; at least one.
    pub zones: Vec<Name>,
    /// The path above the keys.
    pub path: String,
    /// The members, as URLs; at least one.
    pub endpoints: Vec<String>,
    /// User and password.
    pub credentials: Option<(String, Password)>,
    /// Certificates for `https:` endpoints.
    pub tls: TlsFiles,
    /// The least TTL of a key with a lease, seconds.
    pub min_lease_ttl: u32,
    /// The largest TTL of a key with a lease, seconds.
    pub max_lease_ttl: u32,
    /// Whether the zone itself has only the addresses below `dns/apex`.
    pub no_apex_fallback: bool,
    /// Missing names that fall through to the next handler, with all names below them.
    pub fallthrough: Vec<Name>,
}

/// A password, which is not shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Password(pub String);

impl std::fmt::Debug for Password {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a password")
    }
}

impl Etcd {
    /// Whether both give a zone the same contents and answers.
    fn is_same(&self, other: &Self) -> bool {
        let place = self.place.clone();
        let zones = self.zones.clone();
        *self
            == Self {
                place,
                zones,
                ..other.clone()
            }
    }
}

impl Directive for Etcd {
    const WORD: &'static str = "etcd";
    const USAGE: &'static str = "etcd [ZONES…] { … }";
    const SUMMARY: &'static str = "zones from the keys of an etcd v3, in SkyDNS's layout. ZONES default to the keys of the block";
    const OPTIONS: &'static str = "path, endpoint, credentials, tls, min-lease-ttl, max-lease-ttl, no_apex_fallback and fallthrough";
    const REPEAT: Repeat = Repeat::Several;
    const ROLE: Role = Role::Zones;

    fn read(directive: &Statement, block_zones: &[Name], report: &mut Report) -> Option<Self> {
        let mut etcd = Etcd {
            place: directive.name.place.clone(),
            zones: zone::arguments(&directive.arguments, block_zones, report),
            path: "skydns".to_owned(),
            endpoints: vec![DEFAULT_ENDPOINT.to_owned()],
            credentials: None,
            tls: TlsFiles::default(),
            min_lease_ttl: 30,
            max_lease_ttl: 86_400,
            no_apex_fallback: false,
            fallthrough: Vec::new(),
        };
        let mut seen: Vec<&str> = Vec::new();
        for line in &directive.lines {
            let word = line.name.text.as_str();
            if seen.contains(&word) {
                let message = format!("{word} is given twice");
                report.error(&line.name.place, message, "remove one");
            }
            seen.push(word);
            option(directive, line, &mut etcd, report);
        }
        if etcd.min_lease_ttl > etcd.max_lease_ttl {
            let (min, max) = (etcd.min_lease_ttl, etcd.max_lease_ttl);
            let message = format!("min-lease-ttl ({min} s) is more than max-lease-ttl ({max} s)");
            report.error(&etcd.place, message, "make it smaller");
        }
        let is_plain = |endpoint: &String| endpoint.starts_with("http:");
        if seen.contains(&"tls") && etcd.endpoints.iter().any(is_plain) {
            let message = "tls is not used for an endpoint with http://";
            report.error(&etcd.place, message, "write https:// in endpoint");
        }
        Some(etcd)
    }

    fn check(blocks: &[ServerBlock], report: &mut Report) {
        let all = || blocks.iter().flat_map(ServerBlock::all::<Self>);
        for (index, etcd) in all().enumerate() {
            for zone in &etcd.zones {
                let mut earlier = all().take(index);
                let differs = |other: &&Self| other.zones.contains(zone) && !other.is_same(etcd);
                if let Some(other) = earlier.find(differs) {
                    let message = format!("the etcd at {} writes {zone} differently", other.place);
                    let fix = "a zone has one content: write the same in both, or name other zones";
                    report.error(&etcd.place, message, fix);
                }
                let other = blocks.iter().find_map(|block| {
                    let file = block.file_zones().find(|(own, _)| *own == zone);
                    let file = file.map(|(_, file)| ("file", &file.place));
                    let cluster = block.is_of_cluster(zone);
                    file.or_else(|| cluster.then_some(("cluster", &block.place)))
                });
                if let Some((what, at)) = other {
                    let message = format!("{zone} is also the zone of a {what} at {at}");
                    let fix = "a zone has one source: give etcd a zone of its own, such as one below this";
                    report.error(&etcd.place, message, fix);
                }
            }
        }
        for block in blocks {
            for etcd in block.all::<Self>() {
                warn_of_unasked(block, &etcd.place, etcd.zones.iter(), report);
            }
        }
    }
}

/// Reads one option.
fn option(directive: &Statement, line: &Line, etcd: &mut Etcd, report: &mut Report) {
    match line.name.text.as_str() {
        "path" => {
            if let Some(token) = line.exactly_one("PATH", report) {
                etcd.path.clone_from(&token.text);
            }
        }
        "endpoint" => {
            etcd.endpoints = endpoints(line, report);
        }
        "credentials" => match line.arguments.as_slice() {
            [user, password] => {
                etcd.credentials = Some((user.text.clone(), Password(password.text.clone())));
            }
            _ => {
                let message = "credentials takes a user and a password";
                report.error(
                    &line.name.place,
                    message,
                    "write: credentials USER PASSWORD",
                );
            }
        },
        "tls" => {
            if let Some(TlsFiles {
                identity,
                authorities,
            }) = tls_files(line, report)
            {
                let path = |path: std::path::PathBuf| directive.path(&path.display().to_string());
                etcd.tls = TlsFiles {
                    identity: identity.map(|(cert, key)| (path(cert), path(key))),
                    authorities: authorities.map(path),
                };
            }
        }
        "min-lease-ttl" => seconds(line, &mut etcd.min_lease_ttl, report),
        "max-lease-ttl" => seconds(line, &mut etcd.max_lease_ttl, report),
        "no_apex_fallback" => {
            line.refuse_arguments(report);
            etcd.no_apex_fallback = true;
        }
        "fallthrough" => {
            etcd.fallthrough = zone::arguments(&line.arguments, &[Name::root()], report);
        }
        // CoreDNS ignores them, whatever their arguments.
        "debug" | "upstream" => {}
        "stubzones" => {
            let why = "CoreDNS ignores it, and no delegation comes of it: remove it, and send the names elsewhere with `forward ZONE ADDRESS`";
            report.not_supported(&line.name.place, "etcd stubzones", why);
        }
        _ => directive.unknown_option(line, Etcd::OPTIONS, report),
    }
}

/// Reads the members. A word without a scheme is an address, as for etcd's own clients.
fn endpoints(line: &Line, report: &mut Report) -> Vec<String> {
    let tokens = line.at_least_one("URL...", report).unwrap_or_default();
    let mut urls = Vec::new();
    for token in tokens {
        let text = token.text.trim_end_matches('/');
        let url = match text.contains("://") {
            true => text.to_owned(),
            false => format!("http://{text}"),
        };
        let rest = url.strip_prefix("http://").or(url.strip_prefix("https://"));
        let is_host = |rest: &str| !rest.is_empty() && !rest.contains(['/', '?', '#', '@']);
        if rest.is_some_and(is_host) {
            urls.push(url);
        } else {
            let message = format!("{} is not the URL of an etcd", token.shown());
            report.error(
                &token.place,
                message,
                "write http://HOST:PORT or https://HOST:PORT",
            );
        }
    }
    if urls.is_empty() {
        urls.push(DEFAULT_ENDPOINT.to_owned());
    }
    urls
}

/// Reads a time in whole seconds: a number, or one with a unit.
fn seconds(line: &Line, into: &mut u32, report: &mut Report) {
    let parse = |text: &str| -> Result<u32, String> {
        if let Ok(seconds) = text.parse() {
            return Ok(seconds);
        }
        let duration = go_duration(text).map_err(|error| error.to_string())?;
        u32::try_from(duration.as_secs()).map_err(|_| "more than 4294967295 s".to_owned())
    };
    if let Some(seconds) = line.value("DURATION", parse, report) {
        *into = seconds;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Overrides, parse_text};

    fn read(text: &str) -> Result<Etcd, String> {
        let loaded = parse_text("Corefile", text, &Overrides::default(), &|_| None);
        let loaded = loaded.map_err(|rejected| rejected.to_string())?;
        Ok(loaded.config.servers[0].get::<Etcd>().unwrap().clone())
    }

    fn with(options: &str) -> Result<Etcd, String> {
        read(&format!("example.org {{\n etcd {{\n{options}\n }}\n}}\n"))
    }

    #[test]
    fn the_options_are_those_of_coredns() {
        let etcd = with("").unwrap();
        assert_eq!((etcd.path.as_str(), etcd.min_lease_ttl), ("skydns", 30));
        assert_eq!(etcd.max_lease_ttl, 86_400);
        assert_eq!(etcd.endpoints, [DEFAULT_ENDPOINT]);
        assert!(!etcd.no_apex_fallback && etcd.fallthrough.is_empty());
        let etcd = with("path /dns\nendpoint https://a:1 https://b:2\ntls cert key ca\ncredentials u p\nmin-lease-ttl 60\nmax-lease-ttl 1h\nno_apex_fallback\ndebug\nupstream x\nfallthrough a.example.org").unwrap();
        assert_eq!(etcd.endpoints, ["https://a:1", "https://b:2"]);
        assert_eq!((etcd.min_lease_ttl, etcd.max_lease_ttl), (60, 3600));
        assert_eq!(etcd.path, "/dns");
        let (user, Password(password)) = etcd.credentials.as_ref().unwrap();
        assert_eq!((user.as_str(), password.as_str()), ("u", "p"));
        assert_eq!(etcd.tls.identity, Some(("cert".into(), "key".into())));
        assert_eq!(etcd.tls.authorities, Some("ca".into()));
        assert!(etcd.no_apex_fallback);
        assert_eq!(etcd.fallthrough, ["a.example.org".parse().unwrap()]);
        assert!(!format!("{etcd:?}").contains("\"p\""), "{etcd:?}");
        let zones = read(". {\n etcd a.test 10.0.0.0/24\n}\n").unwrap().zones;
        let zones: Vec<String> = zones.iter().map(ToString::to_string).collect();
        assert_eq!(zones, ["a.test.", "0.0.10.in-addr.arpa."]);
    }

    #[test]
    fn an_option_that_cannot_be_used_is_refused_with_the_fix() {
        for (options, want) in [
            ("stubzones", "CoreDNS ignores it"),
            ("credentials u", "USER PASSWORD"),
            ("endpoint", "URL"),
            ("endpoint ftp://a", "not the URL"),
            ("endpoint http://a/v3", "not the URL"),
            ("tls ca", "write https://"),
            (
                "min-lease-ttl 2h\nmax-lease-ttl 1h",
                "more than max-lease-ttl",
            ),
            ("path /a\npath /b", "given twice"),
            ("nonsense", "nonsense"),
        ] {
            let error = with(options).unwrap_err();
            assert!(error.contains(want), "{options}: {error}");
        }
    }

    #[test]
    fn a_zone_has_one_source() {
        let file = "example.org {\n etcd\n file db\n}\n";
        assert!(read(file).unwrap_err().contains("zone of a file"));
        let cluster = "example.org {\n kubernetes {\n manifests .\n }\n etcd\n}\n";
        assert!(read(cluster).unwrap_err().contains("zone of a cluster"));
        let twice = "example.org {\n etcd\n}\nexample.org:54 {\n etcd {\n path x\n }\n}\n";
        assert!(read(twice).unwrap_err().contains("differently"));
        assert!(read(&twice.replace("path x", "debug")).is_ok());
    }
}
