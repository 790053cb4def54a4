//! The zones that a block writes, by the directives that write them.

use corefile::place::Place;
use dns::Name;

use crate::catalog::Catalog;
use crate::config::block::ServerBlock;
use crate::etcd::Etcd;
use crate::file::ZoneFile;
use crate::k8s_external::External;
use crate::kubernetes::Kubernetes;
use crate::multicluster::Multicluster;

impl ServerBlock {
    /// The clusters that the block writes.
    pub fn clusters(&self) -> impl Iterator<Item = &Kubernetes> {
        let sets = self.all::<Multicluster>().map(|Multicluster(set)| set);
        self.all::<Kubernetes>().chain(sets)
    }

    /// All zones that the block writes from clusters.
    pub(crate) fn cluster_zones(&self) -> impl Iterator<Item = &Name> {
        let external = self.all::<External>().flat_map(External::zones);
        self.clusters().flat_map(Kubernetes::zones).chain(external)
    }

    /// Whether a cluster writes this zone.
    pub(crate) fn is_of_cluster(&self, zone: &Name) -> bool {
        self.cluster_zones().any(|own| own == zone)
    }

    /// The zones that come from files and from no cluster.
    pub fn file_zones(&self) -> impl Iterator<Item = (&Name, &ZoneFile)> {
        self.all::<ZoneFile>()
            .flat_map(|file| file.zones.iter().map(move |zone| (zone, file)))
            .filter(|(zone, _)| !self.is_of_cluster(zone))
    }

    /// All zones with contents of their own: those of clusters, then those of files and of etcd.
    pub fn content_zones(&self) -> impl Iterator<Item = &Name> {
        self.cluster_zones()
            .chain(self.file_zones().map(|(zone, _)| zone))
            .chain(self.etcd_zones().map(|(zone, _)| zone))
    }

    /// The zones that come from etcd.
    pub fn etcd_zones(&self) -> impl Iterator<Item = (&Name, &Etcd)> {
        self.all::<Etcd>()
            .flat_map(|etcd| etcd.zones.iter().map(move |zone| (zone, etcd)))
    }

    /// All zones that the block writes: those with contents, then catalogs.
    pub fn zones_written(&self) -> impl Iterator<Item = &Name> {
        self.written_at().map(|(zone, _)| zone)
    }

    /// All zones that the block writes, each with the place of its directive.
    pub(crate) fn written_at(&self) -> impl Iterator<Item = (&Name, &Place)> {
        let clusters = self.clusters();
        let clusters = clusters.flat_map(|it| it.zones().map(|zone| (zone, &it.place)));
        let external = self.all::<External>();
        let external = external.flat_map(|it| it.zones().map(|zone| (zone, &it.place)));
        let files = self.file_zones().map(|(zone, file)| (zone, &file.place));
        let catalogs = self.all::<Catalog>().map(|it| (&it.zone, &it.place));
        let etcd = self.etcd_zones().map(|(zone, etcd)| (zone, &etcd.place));
        let own = clusters.chain(external).chain(files).chain(etcd);
        own.chain(catalogs)
    }
}
