//! The names that the zones of a block lack and leave to `forward`.
//!
//! The directives that have a zone are its layers, one behind the other: `k8s_external`, `kubernetes`, `file`, `etcd`. A query
//! passes all of them before it reaches `forward`, so every layer must have `fallthrough` for the name.

use dns::Name;

use crate::config::block::ServerBlock;
use crate::etcd::Etcd;
use crate::file::ZoneFile;
use crate::k8s_external::External;
use crate::kubernetes::Kubernetes;

/// The zones of one directive, with the names that it leaves to the next.
type Layer<'a> = (Vec<&'a Name>, &'a [Name]);

impl ServerBlock {
    /// The names at and below which `forward` is asked when a zone of the block lacks them. A layer whose zone lies
    /// above this one counts, too.
    #[must_use]
    pub fn fallthrough_of(&self, zone: &Name) -> Vec<Name> {
        if !self.content_zones().any(|own| own == zone) {
            return Vec::new();
        }
        let external = self.all().map(of_external).collect();
        let clusters = self.clusters().map(of_cluster).collect();
        let files = self.all().map(of_file).collect();
        let etcd = self.all().map(of_etcd).collect();
        let kinds: [Vec<Layer<'_>>; 4] = [external, clusters, files, etcd];
        let layers = kinds.iter().filter_map(|kind| closest(kind, zone));
        layers.fold(vec![zone.clone()], |names, layer| common(&names, layer))
    }

    /// The names in a zone that the cluster's layer of it leaves to a file.
    pub(crate) fn cluster_fallthrough(&self, zone: &Name) -> Vec<Name> {
        let clusters = self.clusters().map(of_cluster);
        let mut layers = clusters.chain(self.all().map(of_external));
        let layer = layers.find(|(zones, _)| zones.contains(&zone));
        let fallthrough = layer.map_or(&[][..], |(_, fallthrough)| fallthrough);
        common(std::slice::from_ref(zone), fallthrough)
    }
}

fn of_external(external: &External) -> Layer<'_> {
    (external.zones().collect(), &external.fallthrough)
}

fn of_cluster(cluster: &Kubernetes) -> Layer<'_> {
    (cluster.zones().collect(), &cluster.fallthrough)
}

fn of_file(file: &ZoneFile) -> Layer<'_> {
    (file.zones.iter().collect(), &file.fallthrough)
}

fn of_etcd(etcd: &Etcd) -> Layer<'_> {
    (etcd.zones.iter().collect(), &etcd.fallthrough)
}

/// What the directive leaves to the next whose zone is the longest that holds a name.
fn closest<'a>(layers: &[Layer<'a>], name: &Name) -> Option<&'a [Name]> {
    let zones = layers
        .iter()
        .flat_map(|(zones, fallthrough)| zones.iter().map(|zone| (*zone, *fallthrough)));
    let above = zones.filter(|(zone, _)| name.is_within(zone));
    let longest = above.max_by_key(|(zone, _)| zone.label_count());
    longest.map(|(_, fallthrough)| fallthrough)
}

/// The names that lie both below one of these and below one of those.
fn common(one: &[Name], other: &[Name]) -> Vec<Name> {
    let mut names = Vec::new();
    for name in one {
        for limit in other {
            if name.is_within(limit) {
                names.push(name.clone());
            } else if limit.is_within(name) {
                names.push(limit.clone());
            }
        }
    }
    names.sort();
    names.dedup();
    names
}
