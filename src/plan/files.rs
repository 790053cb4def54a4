//! The zone files of a configuration, planned.

use corefile::Place;
use directives::config::Config;
use dns::Name;
use writer::{ClusterPlan, FilePlan};
use zonefile::Role;
use zonefile::follow::Settings;

use crate::plan::zone_settings::retention;

/// One file as one zone, or under one.
#[derive(Debug, Clone, PartialEq)]
pub struct PlannedFile {
    /// Where the Corefile names it.
    pub place: Place,
    /// How it is followed.
    pub settings: Settings,
    /// Its plan for the writer.
    pub plan: FilePlan,
}

/// Plans the files under the zones of a cluster.
pub(crate) fn plan_overlays(config: &Config, plan: &ClusterPlan, files: &mut Vec<PlannedFile>) {
    for zone in plan.zones() {
        // Blocks that write the same zone agree on it.
        let mut blocks = config.servers.iter();
        let Some((file, names)) = blocks.find_map(|block| block.overlay_of(&zone.name)) else {
            continue;
        };
        files.push(PlannedFile {
            place: file.place.clone(),
            settings: settings(file, &zone.name, Role::Overlay, names),
            plan: FilePlan::Overlay {
                zone: zone.name.clone(),
            },
        });
    }
}

/// Plans the zones that are files, and adds them to `zones`.
pub(crate) fn plan_file_zones(
    config: &Config,
    zones: &mut Vec<Name>,
    files: &mut Vec<PlannedFile>,
) {
    for block in &config.servers {
        for (apex, file) in block.file_zones() {
            // A second block with the same zone shares it.
            if zones.contains(apex) {
                continue;
            }
            zones.push(apex.to_lower());
            files.push(PlannedFile {
                place: file.place.clone(),
                settings: settings(file, apex, Role::Zone, vec![apex.clone()]),
                plan: FilePlan::Zone {
                    zone: apex.to_lower(),
                    retention: retention(block.for_zone(apex)),
                },
            });
        }
    }
}

/// How a file is followed.
fn settings(
    file: &directives::config::ZoneFile,
    apex: &Name,
    role: Role,
    names: Vec<Name>,
) -> Settings {
    Settings {
        path: file.path.clone(),
        apex: apex.clone(),
        role,
        names,
        reload: file.reload,
    }
}
