//! `file DBFILE [ZONES...] { reload DURATION; fallthrough [ZONES...] }`: zones from master files.
//!
//! If `kubernetes` of the same block writes the zone too, its `fallthrough` decides which names the file answers:
//! `kubernetes` comes first, as in CoreDNS. CoreDNS's old option `upstream` is ignored, as there.

mod missing;

use std::path::PathBuf;
use std::time::Duration;

use corefile::parser::Statement;
use corefile::place::{Place, Report};
use corefile::quantity::go_duration;
use dns::Name;

use crate::config::block::{Directive, Repeat, Role, ServerBlock};
use crate::config::zone;
use crate::config::zoned::warn_of_unasked;

pub use missing::MissingFile;

/// The default interval at which a file is checked, as in CoreDNS.
const DEFAULT_RELOAD: Duration = Duration::from_secs(60);

/// A zone file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ZoneFile {
    /// Its place in the Corefile.
    pub place: Place,
    /// The file, relative to `root` or the working folder.
    pub path: PathBuf,
    /// The zones with this content; at least one.
    pub zones: Vec<Name>,
    /// The interval at which the file is checked; `None` for never.
    pub reload: Option<Duration>,
    /// Missing names that fall through to the next handler, with all names below them. The root means all names;
    /// an empty list means none.
    pub fallthrough: Vec<Name>,
}

impl Directive for ZoneFile {
    const WORD: &'static str = "file";
    const USAGE: &'static str = "file DBFILE [ZONES…] { … }";
    const SUMMARY: &'static str = "zones from master files, or more names for a cluster's zone. ZONES default to the keys of the block";
    const OPTIONS: &'static str = "reload and fallthrough";
    const REPEAT: Repeat = Repeat::Several;
    const ROLE: Role = Role::Zones;

    fn read(directive: &Statement, block_zones: &[Name], report: &mut Report) -> Option<Self> {
        let place = directive.name.place.clone();
        let Some((path, zones)) = directive.arguments.split_first() else {
            let fix = "write: file DBFILE [ZONES...]";
            report.error(&place, "file has no file name", fix);
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
                // CoreDNS ignores it, whatever its arguments.
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
                            let message = format!("{zone} already has a file in line {line}");
                            let fix = "a zone has one file: $INCLUDE the other in it";
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
    /// The file under a cluster's zone, and the names for which it is asked. They include all names below them.
    #[must_use]
    pub fn overlay_of(&self, zone: &Name) -> Option<(&ZoneFile, Vec<Name>)> {
        let file = self
            .all::<ZoneFile>()
            .find(|file| file.zones.contains(zone))?;
        let names = self.cluster_fallthrough(zone);
        (!names.is_empty()).then_some((file, names))
    }
}

/// The sources of a zone: whether a cluster is one, and the file, if there is one.
type Made<'a> = (bool, Option<(&'a ZoneFile, Vec<Name>)>);

/// The sources of a block's zone; `None` when it does not write the zone.
fn made_of<'a>(server: &'a ServerBlock, zone: &Name) -> Option<Made<'a>> {
    if server.is_of_cluster(zone) {
        return Some((true, server.overlay_of(zone)));
    }
    let (_, file) = server.file_zones().find(|(own, _)| *own == zone)?;
    Some((false, Some((file, Vec::new()))))
}

/// Whether two blocks make a zone from the same sources.
fn is_same(one: &Made<'_>, other: &Made<'_>) -> bool {
    let of = |made: &Made<'_>| {
        let file = made.1.as_ref();
        file.map(|(file, names)| (file.path.clone(), file.reload, names.clone()))
    };
    one.0 == other.0 && of(one) == of(other)
}

/// Reports a zone that an earlier block makes from another file, or without a file.
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
        let message = format!("the block at {} has another source for {zone}", other.place);
        let fix = "a zone has one content: write the same in both, or name other zones";
        let of_file = made.1.as_ref().map(|(file, _)| &file.place);
        report.error(of_file.unwrap_or(&server.place), message, fix);
    }
}

/// Warns about a file that answers no query.
fn check_reach(server: &ServerBlock, file: &ZoneFile, zone: &Name, report: &mut Report) {
    if server.is_of_cluster(zone) && server.overlay_of(zone).is_none() {
        let message =
            format!("kubernetes answers for all names of {zone}: this file is never used");
        report.warn(&file.place, message, "write fallthrough in kubernetes");
        return;
    }
    warn_of_unasked(server, &file.place, [zone].into_iter(), report);
}

#[cfg(test)]
mod tests;
