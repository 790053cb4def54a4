//! Finds zones within a cluster's zones.
//!
//! The longest zone answers a query, but the outer zone is transferred whole. So names of the cluster at or below the
//! inner zone are in the outer zone for a secondary, and do not exist for our own clients.

use corefile::place::{Place, Report};
use dns::Name;

use crate::apex::Apex;
use crate::config::block::ServerBlock;
use crate::file::ZoneFile;
use crate::kubernetes::is_reverse;
use crate::transfer::Transfer;

/// Reports zones at a place where a cluster has names, and warns about other zones within a cluster's zone.
pub(crate) fn check(servers: &[ServerBlock], report: &mut Report) {
    for inner in servers {
        check_files_above(inner, report);
        for (zone, place) in inner.written_at() {
            let is_near = |outer: &&ServerBlock| {
                let listeners = outer.listeners();
                std::ptr::eq(*outer, inner)
                    || inner.listeners().iter().any(|it| listeners.contains(it))
            };
            let above = servers.iter().filter(is_near).flat_map(|outer| {
                let zones = outer.cluster_zones();
                zones.map(move |zone| (outer, zone))
            });
            let above = above.filter(|(_, above)| *above != zone && zone.is_within(above));
            if let Some((outer, above)) = above.max_by_key(|(_, above)| above.label_count()) {
                check_pair((inner, zone, place), (outer, above), report);
            }
        }
    }
}

/// Warns about a cluster's zones within the zone of a file of the same block: `kubernetes` comes before `file`, as in CoreDNS.
fn check_files_above(block: &ServerBlock, report: &mut Report) {
    for (above, _) in block.file_zones() {
        let mut warned: Vec<&Place> = Vec::new();
        for (zone, place) in block.written_at() {
            // A network may be many reverse zones.
            let is_inner = block.is_of_cluster(zone) && *above != *zone && zone.is_within(above);
            if !is_inner || warned.contains(&place) {
                continue;
            }
            warned.push(place);
            let message = format!(
                "{zone} is a zone of its own: names at or below it in the file of {above} are hidden"
            );
            let fix = format!(
                "leave there only its NS records, which secondaries of {above} need; to add single names, write a file for {zone}, too, and fallthrough in kubernetes"
            );
            report.warn(place, message, fix);
        }
    }
}

/// Checks a zone of a block against a cluster's zone that it is in.
fn check_pair(
    (inner, zone, place): (&ServerBlock, &Name, &Place),
    (outer, above): (&ServerBlock, &Name),
    report: &mut Report,
) {
    let is_below = |label: &&str| above.child(label).is_ok_and(|top| zone.is_within(&top));
    let names_servers = outer
        .for_zone::<Apex>(above)
        .is_some_and(|apex| !apex.name_servers.is_empty());
    let hides_names = outer.form_of(above).is_some_and(|form| {
        let has_server = form.home(above) == above && !names_servers;
        form.zone_form().top_labels().iter().any(is_below)
            || has_server && form.default_name_server(above).is_within(zone)
    });
    if hides_names {
        let message = format!(
            "{zone} is at a place where the cluster of {above} has names: secondaries of {above} would have them, and this server would not"
        );
        let fix = format!("choose a zone without names of {above}, or remove this one");
        report.error(place, message, fix);
        return;
    }
    // PTR records are in the closest of a cluster's reverse zones, so none of them is hidden.
    if std::ptr::eq(inner, outer) && is_reverse(zone) && inner.is_of_cluster(zone) {
        return;
    }
    let is_file = inner
        .all::<ZoneFile>()
        .any(|file| file.zones.contains(zone));
    if std::ptr::eq(inner, outer) && is_file || outer.for_zone::<Transfer>(above).is_some() {
        let message =
            format!("{zone} is a zone of its own: names of {above} at or below it are hidden");
        let fix = format!(
            "to add single names, use the zone {above}; secondaries of {above} need {zone} too"
        );
        report.warn(place, message, fix);
    }
}
