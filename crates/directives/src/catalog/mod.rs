//! `catalog ZONE [MEMBERS...] { group NAME [MEMBERS...]; coo CATALOG [MEMBERS...]; several_groups }`: a
//! zone that lists zones (RFC 9432), so that secondaries find new ones by themselves. Ours.

use corefile::parser::{Line, Statement};
use corefile::place::{Place, Report};
use dns::Name;
use kubernetes::schema::CatalogMember;
use transfer::PeerAddress;

use crate::config::block::{Directive, Repeat, Role, ServerBlock};
use crate::config::listener::block_for;
use crate::config::zone::{self, ZoneKey};
use crate::transfer::Transfer;

/// The settings of a catalog zone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Catalog {
    /// Its place in the Corefile.
    pub place: Place,
    /// The catalog's own name.
    pub zone: Name,
    /// The zones that it lists. If empty, it lists all zones of the block that someone may transfer.
    pub members: Vec<Name>,
    /// Groups (RFC 9432 section 4.4.2), each with its members. No members means all.
    pub groups: Vec<(String, Vec<Name>)>,
    /// Catalogs that members move to (RFC 9432 section 4.4.1), each with these members. No members means all.
    pub moves: Vec<(Name, Vec<Name>)>,
    /// Whether a member may be in several groups: Knot 3.2 refuses such a catalog as a whole.
    pub several_groups: bool,
}

/// The most octets of a catalog's name. The names below it have a label of 32 characters and two more.
const MAX_ZONE_OCTETS: usize = 200;
/// The most octets of a group's name: one string of a TXT record.
const GROUP_OCTETS: usize = 255;

impl Directive for Catalog {
    const WORD: &'static str = "catalog";
    const USAGE: &'static str = "catalog ZONE [MEMBERS…] { … }";
    const SUMMARY: &'static str = "a zone that lists zones (RFC 9432). MEMBERS default to all zones of the block that a peer may transfer. `transfer` names the peers that get the catalog";
    const OPTIONS: &'static str = "group, coo and several_groups";
    const REPEAT: Repeat = Repeat::Several;
    const ROLE: Role = Role::Zones;

    fn read(directive: &Statement, _: &[Name], report: &mut Report) -> Option<Self> {
        let place = directive.name.place.clone();
        let Some((first, members)) = directive.arguments.split_first() else {
            let fix = "write: catalog ZONE [MEMBERS...]";
            report.error(&place, "catalog has no zone", fix);
            return None;
        };
        let mut catalog = Catalog {
            place,
            zone: zone::domain_name(first, report)?.to_lower(),
            members: zone::arguments(members, &[], report),
            groups: Vec::new(),
            moves: Vec::new(),
            several_groups: false,
        };
        for line in &directive.lines {
            match line.name.text.as_str() {
                "group" => group(line, &mut catalog, report),
                "coo" => moves(line, &mut catalog, report),
                "several_groups" => {
                    line.refuse_arguments(report);
                    catalog.several_groups = true;
                }
                _ => directive.unknown_option(line, Catalog::OPTIONS, report),
            }
        }
        Some(catalog)
    }

    fn check(blocks: &[ServerBlock], report: &mut Report) {
        let mut seen: Vec<(&Self, Vec<CatalogMember>)> = Vec::new();
        for block in blocks {
            for catalog in block.all::<Self>() {
                check_one(block, catalog, report);
                check_questions(blocks, block, catalog, report);
                let entries = block.catalog_members(catalog);
                for (other, theirs) in &seen {
                    check_pair((catalog, &entries), (other, theirs), report);
                }
                seen.push((catalog, entries));
            }
        }
    }
}

/// The names of the catalogs among directives.
pub(crate) fn names(directives: &[Statement]) -> Vec<Name> {
    let catalogs = directives.iter().filter(|it| it.name.text == "catalog");
    // Faults in a name are reported when the directive itself is read.
    let mut aside = Report::default();
    let names = catalogs.filter_map(|it| zone::domain_name(it.arguments.first()?, &mut aside));
    names.map(|name| name.to_lower()).collect()
}

/// Reads `group NAME [MEMBERS...]`.
fn group(line: &Line, catalog: &mut Catalog, report: &mut Report) {
    let words = line.at_least_one("NAME [MEMBERS...]", report);
    let Some((name, members)) = words.and_then(|words| words.split_first()) else {
        return;
    };
    if name.text.len() > GROUP_OCTETS {
        let fix = format!("write at most {GROUP_OCTETS} octets");
        report.error(&name.place, "the group's name is too long", fix);
        return;
    }
    let members = zone::arguments(members, &[], report);
    catalog.groups.push((name.text.clone(), members));
}

/// Reads `coo CATALOG [MEMBERS...]`.
fn moves(line: &Line, catalog: &mut Catalog, report: &mut Report) {
    let words = line.at_least_one("CATALOG [MEMBERS...]", report);
    let Some((name, members)) = words.and_then(|words| words.split_first()) else {
        return;
    };
    let Some(to) = zone::domain_name(name, report) else {
        return;
    };
    if to == catalog.zone {
        let fix = "name the catalog that the zones move to";
        report.error(&name.place, "coo names its own catalog", fix);
        return;
    }
    let members = zone::arguments(members, &[], report);
    catalog.moves.push((to.to_lower(), members));
}

impl ServerBlock {
    /// The zones that a catalog of this block lists, in the order of the block.
    #[must_use]
    pub fn catalog_members(&self, catalog: &Catalog) -> Vec<CatalogMember> {
        let zones: Vec<&Name> = if catalog.members.is_empty() {
            let own = self.content_zones();
            own.filter(|zone| self.for_zone::<Transfer>(zone).is_some())
                .collect()
        } else {
            catalog.members.iter().collect()
        };
        let is_for = |members: &[Name], zone| members.is_empty() || members.contains(zone);
        let mut members: Vec<CatalogMember> = Vec::new();
        for zone in zones {
            if members.iter().any(|entry| entry.zone == *zone) {
                continue;
            }
            let groups = catalog.groups.iter();
            let groups = groups.filter(|(_, members)| is_for(members, zone));
            let mut moves = catalog.moves.iter();
            let moves_to = moves.find(|(_, members)| is_for(members, zone));
            members.push(CatalogMember {
                zone: zone.to_lower(),
                groups: groups.map(|(group, _)| group.clone()).collect(),
                moves_to: moves_to.map(|(to, _)| to.clone()),
            });
        }
        members
    }
}

/// Checks what one catalog says about its own block.
fn check_one(block: &ServerBlock, catalog: &Catalog, report: &mut Report) {
    let place = &catalog.place;
    let own = &catalog.zone;
    if own.as_wire().len() > MAX_ZONE_OCTETS {
        let fix = "choose a short one, such as catalog.invalid";
        report.error(
            place,
            "the catalog's name is too long for members below it",
            fix,
        );
    }
    if block.content_zones().any(|zone| zone == own) {
        let fix = "give the catalog a name of its own, such as catalog.invalid";
        report.error(place, format!("{own} is a zone with content already"), fix);
    }
    if block.for_zone::<Transfer>(own).is_none() {
        let message = format!("no peer may transfer the catalog {own}");
        let fix = "add the zone to the keys of the block, or name it after transfer";
        report.error(place, message, fix);
    }
    for zone in &catalog.members {
        if !block.content_zones().any(|known| known == zone) {
            let message = format!("the catalog lists {zone}, which this block does not write");
            report.error(place, message, "name zones of this block");
        } else if block.for_zone::<Transfer>(zone).is_none() {
            let message = format!("the catalog lists {zone}, which no peer may transfer");
            report.error(place, message, "name the zone after transfer too");
        }
    }
    let entries = block.catalog_members(catalog);
    if entries.is_empty() {
        let message = format!("the catalog {own} lists no zone: its secondaries would drop all");
        report.error(
            place,
            message,
            "name zones, or allow a peer to transfer them",
        );
    }
    let named = catalog.groups.iter().map(|(_, members)| members);
    let named = named.chain(catalog.moves.iter().map(|(_, members)| members));
    for zone in named.flatten() {
        if !entries.iter().any(|entry| entry.zone == *zone) {
            let message = format!("{zone} is not a member of the catalog {own}");
            report.error(place, message, "name members of the catalog");
        }
    }
    check_readers(block, catalog, &entries, report);
    for entry in &entries {
        if entry.groups.len() > 1 && !catalog.several_groups {
            let message = format!("{} is in several groups", entry.zone);
            let fix = "Knot 3.2 refuses such a catalog: name one group, or write several_groups";
            report.error(place, message, fix);
        }
        let moves = catalog.moves.iter();
        let moves = moves.filter(|(_, zones)| zones.is_empty() || zones.contains(&entry.zone));
        if moves.count() > 1 {
            let message = format!("{} moves to several catalogs", entry.zone);
            report.error(place, message, "a zone can move to only one");
        }
    }
}

/// Warns about a catalog below no key of its block where another block has the questions for it: who has the questions
/// has the transfers.
fn check_questions(
    blocks: &[ServerBlock],
    block: &ServerBlock,
    catalog: &Catalog,
    report: &mut Report,
) {
    let own = &catalog.zone;
    let is_above = |key: &ZoneKey| own.is_within(&key.apex);
    if block.zones.iter().any(is_above) {
        return;
    }
    for listener in block.listeners() {
        let here: Vec<&ServerBlock> = blocks
            .iter()
            .filter(|other| other.listeners().contains(&listener))
            .collect();
        if let Some(other) = block_for(&here, &listener, own) {
            let message = format!(
                "questions for {own} on port {} go to the block at {}: it is not transferred there",
                listener.port, other.place
            );
            let fix = "add the zone to the keys of the block";
            report.warn(&catalog.place, message, fix);
        }
    }
}

/// Warns about secondaries that would add members which they may not transfer.
fn check_readers(
    block: &ServerBlock,
    catalog: &Catalog,
    entries: &[CatalogMember],
    report: &mut Report,
) {
    let members = entries.iter().map(|entry| &entry.zone);
    let members: Vec<_> = members
        .map(|zone| (zone, block.for_zone::<Transfer>(zone)))
        .collect();
    let readers = block.for_zone::<Transfer>(&catalog.zone);
    for reader in readers.into_iter().flat_map(|it| &it.secondaries) {
        let peer = PeerAddress::from(reader.address);
        let mut lacking = members
            .iter()
            .filter(|(_, transfer)| !transfer.is_some_and(|it| it.is_for(peer)));
        let Some((first, _)) = lacking.next() else {
            continue;
        };
        let which = match lacking.count() {
            0 => format!("its member {first}"),
            more => format!("{} of its members, such as {first}", more + 1),
        };
        let message = format!(
            "{} reads the catalog {} and may not transfer {which}",
            peer.ip, catalog.zone
        );
        let fix = "name it in the transfer of each too, or name the members of the catalog";
        report.warn(&reader.place, message, fix);
    }
}

/// Checks two catalogs against each other: one name one content, one zone one catalog.
fn check_pair(
    (catalog, entries): (&Catalog, &[CatalogMember]),
    (other, theirs): (&Catalog, &[CatalogMember]),
    report: &mut Report,
) {
    if catalog.zone == other.zone {
        if entries != theirs {
            let message = format!(
                "the catalog {} is already defined at {}",
                other.zone, other.place
            );
            let fix = "a catalog has one content: write the same in both, or rename one";
            report.error(&catalog.place, message, fix);
        }
        return;
    }
    for entry in entries {
        let Some(their) = theirs.iter().find(|their| their.zone == entry.zone) else {
            continue;
        };
        // While a zone moves, both catalogs list it (RFC 9432 section 4.4.1).
        let moves = entry.moves_to.as_ref() == Some(&other.zone);
        let comes = their.moves_to.as_ref() == Some(&catalog.zone);
        if moves == comes {
            let message = format!("{} is also in the catalog {}", entry.zone, other.zone);
            let fix = "a zone is in one catalog: name the members, or move the zone with coo";
            report.error(&catalog.place, message, fix);
        }
    }
}

#[cfg(test)]
mod tests;
