//! `file DBFILE [ZONES...] { reload DURATION; fallthrough [ZONES...] }`: zones from master files.
//!
//! A file whose zone `kubernetes` of the same block writes, too, lies under it where that has
//! `fallthrough`: the plugins' order is CoreDNS's, `kubernetes` first. CoreDNS's old option `upstream` is
//! passed over, as there.

use std::path::PathBuf;
use std::time::Duration;

use corefile::parser::Statement;
use corefile::place::{Place, Report};
use corefile::quantity::go_duration;
use dns::Name;

use crate::config::block::{Directive, Repeat, Role, ServerBlock};
use crate::config::zone;
use crate::config::zoned::warn_of_unasked;
use crate::k8s_external::External;

/// How often a file is looked at, unless written: CoreDNS's.
const DEFAULT_RELOAD: Duration = Duration::from_secs(60);

/// A zone file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ZoneFile {
    /// Where it stands.
    pub place: Place,
    /// The file, relative to `root` or the working folder.
    pub path: PathBuf,
    /// The zones, each with this content; at least one.
    pub zones: Vec<Name>,
    /// How often it is looked at; `None` for never again.
    pub reload: Option<Duration>,
    /// The names, and those below them, for which the next in the chain is asked when there is no
    /// such name; the root stands for all, nothing for none.
    pub fallthrough: Vec<Name>,
}

impl Directive for ZoneFile {
    const WORD: &'static str = "file";
    const USAGE: &'static str = "file DBFILE [ZONES…] { … }";
    const SUMMARY: &'static str = "zones from master files, or names under a cluster's zone; zones default to the keys of the block";
    const OPTIONS: &'static str = "reload and fallthrough";
    const REPEAT: Repeat = Repeat::Several;
    const ROLE: Role = Role::Zones;

    fn read(directive: &Statement, block_zones: &[Name], report: &mut Report) -> Option<Self> {
        let place = directive.name.place.clone();
        let Some((path, zones)) = directive.arguments.split_first() else {
            let fix = "write: file DBFILE [ZONES...]";
            report.error(&place, "file names no file", fix);
            return None;
        };
        let mut file = ZoneFile {
            place,
            path: directive.path(&path.text),
            zones: zone::arguments(zones, block_zones, report),
            reload: Some(DEFAULT_RELOAD),
            fallthrough: Vec::new(),
        };
        let mut reload = None;
        for line in &directive.lines {
            match line.name.text.as_str() {
                "reload" => {
                    let value = line.value("DURATION", go_duration, report);
                    line.set(&mut reload, value, report);
                }
                "fallthrough" => {
                    file.fallthrough = zone::arguments(&line.arguments, &[Name::root()], report);
                }
                // CoreDNS passes over it, whatever it says.
                "upstream" => {}
                "reload_by_mtime" => line.refuse_arguments(report),
                _ => directive.unknown_option(line, ZoneFile::OPTIONS, report),
            }
        }
        if let Some(reload) = reload {
            file.reload = Some(reload).filter(|reload| !reload.is_zero());
        }
        Some(file)
    }

    fn check(blocks: &[ServerBlock], report: &mut Report) {
        for (index, block) in blocks.iter().enumerate() {
            for (at, file) in block.all::<Self>().enumerate() {
                for zone in &file.zones {
                    let mut earlier = block.all::<Self>().take(at);
                    match earlier.find(|other| other.zones.contains(zone)) {
                        None => check_reach(block, file, zone, report),
                        Some(other) => {
                            let line = other.place.line;
                            let message =
                                format!("the file of {zone} stands in line {line} already");
                            let fix = "a zone has one file: let it $INCLUDE the other";
                            report.error(&file.place, message, fix);
                        }
                    }
                }
            }
            for zone in block.zones_written() {
                check_agreement(&blocks[..index], block, zone, report);
            }
        }
    }
}

impl ServerBlock {
    /// For which names the zone of a cluster falls through.
    fn fallthrough_of(&self, zone: &Name) -> &[Name] {
        let mut clusters = self.clusters();
        if let Some(cluster) = clusters.find(|it| it.zones().any(|own| own == zone)) {
            return &cluster.fallthrough;
        }
        let external = self
            .get::<External>()
            .filter(|it| it.zones().any(|own| own == zone));
        external.map_or(&[], |external| &external.fallthrough)
    }

    /// The file under a zone of a cluster, and the names of the zone for which it is asked, with those
    /// below them.
    #[must_use]
    pub fn overlay_of(&self, zone: &Name) -> Option<(&ZoneFile, Vec<Name>)> {
        let file = self
            .all::<ZoneFile>()
            .find(|file| file.zones.contains(zone))?;
        let names = self.fallthrough_of(zone).iter().filter_map(|name| {
            if zone.is_within(name) {
                Some(zone.clone())
            } else {
                name.is_within(zone).then(|| name.clone())
            }
        });
        let names: Vec<Name> = names.collect();
        (!names.is_empty()).then_some((file, names))
    }
}

/// What a zone is made of, where files take part.
type Made<'a> = (bool, Option<(&'a ZoneFile, Vec<Name>)>);

/// What a block makes a zone of; `None` when it does not write it.
fn made_of<'a>(server: &'a ServerBlock, zone: &Name) -> Option<Made<'a>> {
    if server.is_of_cluster(zone) {
        return Some((true, server.overlay_of(zone)));
    }
    let (_, file) = server.file_zones().find(|(own, _)| *own == zone)?;
    Some((false, Some((file, Vec::new()))))
}

/// Whether two blocks make a zone of the same.
fn is_same(one: &Made<'_>, other: &Made<'_>) -> bool {
    let of = |made: &Made<'_>| {
        let file = made.1.as_ref();
        file.map(|(file, names)| (file.path.clone(), file.reload, names.clone()))
    };
    one.0 == other.0 && of(one) == of(other)
}

/// Reports a zone that an earlier block makes of another file, or of none.
fn check_agreement(
    earlier: &[ServerBlock],
    server: &ServerBlock,
    zone: &Name,
    report: &mut Report,
) {
    let Some(made) = made_of(server, zone) else {
        return;
    };
    let differs =
        |other: &&ServerBlock| made_of(other, zone).is_some_and(|others| !is_same(&made, &others));
    if let Some(other) = earlier.iter().find(differs) {
        let message = format!(
            "the block at {} makes {zone} of something else",
            other.place
        );
        let fix = "a zone has one content: let both say the same, or name other zones";
        let of_file = made.1.as_ref().map(|(file, _)| &file.place);
        report.error(of_file.unwrap_or(&server.place), message, fix);
    }
}

/// Warns about a file that no query reaches.
fn check_reach(server: &ServerBlock, file: &ZoneFile, zone: &Name, report: &mut Report) {
    if server.is_of_cluster(zone) && server.overlay_of(zone).is_none() {
        let message = format!("kubernetes answers for all of {zone}: this file is never asked");
        report.warn(&file.place, message, "write fallthrough in kubernetes");
        return;
    }
    warn_of_unasked(server, &file.place, [zone].into_iter(), report);
}

#[cfg(test)]
mod tests;
