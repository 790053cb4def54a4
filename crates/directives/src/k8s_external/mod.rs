//! `k8s_external [ZONES...] { apex LABEL; ttl SECONDS; headless; external_ips; fallthrough [ZONES...] }`: the external
//! names of Services in the cluster of the `kubernetes` in the same block.
//!
//! A second one in a block, which CoreDNS lets overwrite the first, is an error here; so is a zone that `kubernetes`
//! writes too.

use corefile::lexer::Token;
use corefile::parser::Statement;
use corefile::place::{Place, Report};
use dns::{Name, Ttl};

use crate::config::block::{Directive, Role, ServerBlock};
use crate::config::zone;
use crate::config::zoned::warn_of_unasked;
use crate::kubernetes::{Kubernetes, is_reverse, ttl};

/// The external zones of a cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct External {
    /// Its place in the Corefile.
    pub place: Place,
    /// The forward zones; at least one, in the order of the file.
    pub forward_zones: Vec<Name>,
    /// The reverse zones, in the order of the file.
    pub reverse_zones: Vec<Name>,
    /// The label above the names of the zone itself, in lower case.
    pub apex_label: String,
    /// The TTL of all records.
    pub ttl: Ttl,
    /// Whether the endpoints of headless Services have names.
    pub headless: bool,
    /// Whether `externalIPs` of Services are published. Ours: CoreDNS always publishes them.
    pub external_ips: bool,
    /// Missing names that fall through to the next handler, with all names below them. The root means all names;
    /// an empty list means none.
    pub fallthrough: Vec<Name>,
}

/// The default label.
const DEFAULT_APEX: &str = "dns";

/// The default TTL.
const DEFAULT_TTL: Ttl = Ttl::decode(5);

impl External {
    /// All zones, forward zones first.
    pub fn zones(&self) -> impl Iterator<Item = &Name> {
        self.forward_zones.iter().chain(&self.reverse_zones)
    }

    /// Whether both directives give a zone the same contents, from one cluster.
    pub(crate) fn same_contents(&self, other: &Self) -> bool {
        let place = self.place.clone();
        *self
            == Self {
                place,
                ..other.clone()
            }
    }
}

impl Directive for External {
    const WORD: &'static str = "k8s_external";
    const USAGE: &'static str = "k8s_external [ZONES…] { … }";
    const SUMMARY: &'static str = "zones of the Services that clients outside of the cluster can reach; the cluster is that of `kubernetes` in the same block. ZONES default to the keys of the block. Reverse zones get PTRs that point into the first forward zone";
    const OPTIONS: &'static str = "apex, ttl, headless, external_ips and fallthrough";
    const ROLE: Role = Role::Zones;

    fn read(directive: &Statement, block_zones: &[Name], report: &mut Report) -> Option<Self> {
        let place = directive.name.place.clone();
        let zones = zone::arguments(&directive.arguments, block_zones, report);
        let (reverse_zones, forward_zones): (Vec<Name>, Vec<Name>) =
            zones.into_iter().partition(is_reverse);
        if forward_zones.is_empty() && !reverse_zones.is_empty() {
            let fix = "add a zone of names, such as example.org";
            report.error(&place, "k8s_external has only reverse zones", fix);
        }
        let (mut apex, mut seconds, mut headless, mut external_ips) = (None, None, None, None);
        let mut fallthrough: Vec<Name> = Vec::new();
        for line in &directive.lines {
            match line.name.text.as_str() {
                "apex" => {
                    let value = line
                        .exactly_one("LABEL", report)
                        .and_then(|token| label(token, report));
                    line.set(&mut apex, value, report);
                }
                "ttl" => {
                    let value = line.value("SECONDS", ttl, report);
                    line.set(&mut seconds, value, report);
                }
                "headless" => {
                    line.refuse_arguments(report);
                    line.set(&mut headless, Some(()), report);
                }
                "external_ips" => {
                    line.refuse_arguments(report);
                    line.set(&mut external_ips, Some(()), report);
                }
                "fallthrough" => {
                    for zone in zone::arguments(&line.arguments, &[Name::root()], report) {
                        if !fallthrough.contains(&zone) {
                            fallthrough.push(zone);
                        }
                    }
                }
                _ => directive.unknown_option(line, External::OPTIONS, report),
            }
        }
        Some(External {
            place,
            forward_zones,
            reverse_zones,
            apex_label: apex.unwrap_or_else(|| DEFAULT_APEX.to_owned()),
            ttl: seconds.unwrap_or(DEFAULT_TTL),
            headless: headless.is_some(),
            external_ips: external_ips.is_some(),
            fallthrough,
        })
    }

    fn check(blocks: &[ServerBlock], report: &mut Report) {
        for (index, server) in blocks.iter().enumerate() {
            let Some(external) = server.get::<Self>() else {
                continue;
            };
            if !server.has::<Kubernetes>() {
                let message = "k8s_external without kubernetes in its block";
                let fix = "add kubernetes with the cluster of the Services";
                report.error(&external.place, message, fix);
            }
            warn_of_unasked(server, &external.place, external.zones(), report);
            for zone in external.zones() {
                let by_cluster = blocks
                    .iter()
                    .flat_map(ServerBlock::clusters)
                    .find(|kubernetes| kubernetes.zones().any(|there| there == zone));
                if let Some(kubernetes) = by_cluster {
                    let message = format!(
                        "the {} at {} writes {zone} too",
                        kubernetes.word(),
                        kubernetes.place
                    );
                    let fix = "a zone has one content: name another zone after k8s_external";
                    report.error(&external.place, message, fix);
                }
                let is_other = |earlier: &&ServerBlock| {
                    let Some(own) = earlier.get::<Self>() else {
                        return false;
                    };
                    let one_cluster = earlier
                        .all::<Kubernetes>()
                        .zip(server.get::<Kubernetes>())
                        .all(|(one, other)| one.same_contents(other));
                    own.zones().any(|there| there == zone)
                        && !(one_cluster && own.same_contents(external))
                };
                if let Some(earlier) = blocks[..index].iter().find(is_other) {
                    let message =
                        format!("the block at {} writes {zone} differently", earlier.place);
                    let fix = "a zone has one content: write the same in both, or name other zones";
                    report.error(&external.place, message, fix);
                }
            }
        }
    }
}

/// Reads one label, in lower case.
fn label(token: &Token, report: &mut Report) -> Option<String> {
    let text = token.text.as_str();
    let plain = |octet: u8| octet.is_ascii_alphanumeric() || octet == b'-';
    if (1..=63).contains(&text.len()) && text.bytes().all(plain) {
        return Some(text.to_ascii_lowercase());
    }
    let message = format!("{} is not one label", token.shown());
    let fix = "write letters, digits and hyphens, without a dot";
    report.error(&token.place, message, fix);
    None
}

#[cfg(test)]
mod tests;
