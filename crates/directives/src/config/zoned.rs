//! Directives that are for some zones: which of several is meant for a zone, and which is for none.

use corefile::place::{Place, Report};
use dns::Name;

use crate::apex::{self, Apex};
use crate::autopath::config as autopath;
use crate::config::blocks::ServerBlock;
use crate::file::ZoneFile;
use crate::gate::Gate;
use crate::history::History;
use crate::transfer::Transfer;

/// A directive that is for some zones and those below them.
pub trait Zoned {
    /// The zones.
    fn zones(&self) -> &[Name];
    /// Where it stands.
    fn place(&self) -> &Place;

    /// How many labels its closest zone at or above `zone` has; `None` when it has none.
    fn closeness(&self, zone: &Name) -> Option<usize> {
        let above = self.zones().iter().filter(|own| zone.is_within(own));
        above.map(Name::label_count).max()
    }
}

/// Implements [`Zoned`] by the fields of that name.
macro_rules! zoned {
    ($($directive:ty),*) => {$(
        impl Zoned for $directive {
            fn zones(&self) -> &[Name] {
                &self.zones
            }
            fn place(&self) -> &Place {
                &self.place
            }
        }
    )*};
}

zoned!(Transfer, Apex, Gate, History, ZoneFile);

/// Of several directives the one with the closest zone at or above `zone`; of those that are equally close
/// the first.
pub(crate) fn closest<'a, T: Zoned>(directives: &'a [T], zone: &Name) -> Option<&'a T> {
    directives
        .iter()
        .rev()
        .max_by_key(|directive| directive.closeness(zone))
        .filter(|directive| directive.closeness(zone).is_some())
}

/// Checks what the directives of one block say about zones.
pub(crate) fn check_zones(server: &ServerBlock, keys: &[Name], report: &mut Report) {
    apex::check(server, report);
    autopath::check(server, report);
    let catalogs = server.catalogs.iter().map(|catalog| &catalog.zone);
    let with_apex: Vec<&Name> = server.cluster_zones().chain(catalogs).collect();
    let of_cluster: Vec<&Name> = server.cluster_zones().collect();
    let zones: Vec<&Name> = server.zones_written().collect();
    let unasked = |place: &Place, own: &mut dyn Iterator<Item = &Name>, report: &mut Report| {
        for zone in own {
            if !keys.iter().any(|key| zone.is_within(key)) {
                let message = format!("no query for {zone} comes to this block");
                let mend = "add the zone to the keys of the block";
                report.warn(place, message, mend);
            }
        }
    };
    for kubernetes in server.clusters() {
        unasked(&kubernetes.place, &mut kubernetes.zones(), report);
    }
    if let Some(external) = &server.external {
        unasked(&external.place, &mut external.zones(), report);
    }
    let (may, must_not) = (Repeat::IsIdle, Repeat::IsWrong);
    check_zoned(("transfer", may), &server.transfers, &zones, report);
    check_zoned(("apex", must_not), &server.apexes, &with_apex, report);
    check_zoned(("gate", must_not), &server.gates, &of_cluster, report);
    check_zoned(("history", must_not), &server.histories, &zones, report);
}

/// What a second directive for one zone is.
#[derive(Debug, Clone, Copy)]
enum Repeat {
    /// Without effect, as in CoreDNS: the first counts.
    IsIdle,
    /// An error.
    IsWrong,
}

/// Reports a zone that stands in two directives of one name, and warns about a directive that is for
/// none of the zones.
fn check_zoned<T: Zoned>(
    (name, repeat): (&str, Repeat),
    directives: &[T],
    zones: &[&Name],
    report: &mut Report,
) {
    for (index, directive) in directives.iter().enumerate() {
        let place = directive.place();
        for zone in directive.zones() {
            let earlier = &directives[..index];
            if let Some(other) = earlier.iter().find(|other| other.zones().contains(zone)) {
                let line = other.place().line;
                let message = format!("there is a {name} for {zone} in line {line} already");
                let mend = "join the two, or name other zones";
                match repeat {
                    Repeat::IsIdle => report.warn(place, message + ", that one counts", mend),
                    Repeat::IsWrong => report.error(place, message, mend),
                }
                break;
            }
        }
        if !zones.iter().any(|zone| directive.closeness(zone).is_some()) {
            let message = format!("{name} is for no zone that this block writes");
            report.warn(place, message, "name one of the zones of kubernetes");
        }
    }
}
