//! The form of a cluster's zone: the directive that writes it, and its default name server.

use dns::Name;
use kubernetes::schema::{NAME_SERVER, ZoneForm};

use crate::config::block::ServerBlock;
use crate::etcd::Etcd;
use crate::k8s_external::External;
use crate::kubernetes::Kubernetes;

/// A zone of a cluster, by the directive that writes it.
#[derive(Debug, Clone, Copy)]
pub enum Form<'a> {
    /// The names of a cluster.
    Forward(&'a Kubernetes),
    /// The names of a set of clusters.
    Clusterset(&'a Kubernetes),
    /// The addresses of a cluster.
    Reverse(&'a Kubernetes),
    /// The external names of a cluster.
    External(&'a External),
    /// The external addresses of a cluster.
    ExternalReverse(&'a External),
    /// Keys of etcd.
    Etcd(&'a Etcd),
}

impl<'a> Form<'a> {
    /// The form, for the schema.
    #[must_use]
    pub const fn zone_form(&self) -> ZoneForm {
        match self {
            Self::Forward(_) => ZoneForm::Forward,
            Self::Clusterset(_) => ZoneForm::Clusterset,
            Self::Reverse(_) | Self::ExternalReverse(_) | Self::Etcd(_) => ZoneForm::Reverse,
            Self::External(_) => ZoneForm::External,
        }
    }

    /// The zone whose name servers `zone` has by default. A reverse zone has those of the zone that its names are in; a
    /// zone of a clusterset has those of the cluster's zone.
    #[must_use]
    pub fn home<'z>(&self, zone: &'z Name) -> &'z Name
    where
        'a: 'z,
    {
        let home = match self {
            Self::Forward(_) | Self::External(_) | Self::Etcd(_) => None,
            Self::Clusterset(cluster) | Self::Reverse(cluster) => cluster.home(),
            Self::ExternalReverse(external) => external.forward_zones.first(),
        };
        home.unwrap_or(zone)
    }

    /// The default name server of `zone`. It is `zone` itself if the name would be too long.
    #[must_use]
    pub fn default_name_server(&self, zone: &Name) -> Name {
        let [host, label] = match self {
            Self::Forward(_) | Self::Clusterset(_) | Self::Reverse(_) | Self::Etcd(_) => {
                NAME_SERVER
            }
            Self::External(external) | Self::ExternalReverse(external) => {
                ["ns1", external.apex_label.as_str()]
            }
        };
        let home = self.home(zone);
        let name = home.child(label).and_then(|above| above.child(host));
        name.unwrap_or_else(|_| home.clone())
    }
}

impl ServerBlock {
    /// The form of a zone that a directive of this block writes from a cluster or from etcd.
    #[must_use]
    pub fn form_of(&self, zone: &Name) -> Option<Form<'_>> {
        let of_clusters = self.clusters().find_map(|it| {
            if it.forward_zones.contains(zone) {
                Some(Form::Forward(it))
            } else if it.clusterset_zones.contains(zone) {
                Some(Form::Clusterset(it))
            } else {
                let is_its = it.reverse_zones.contains(zone);
                is_its.then_some(Form::Reverse(it))
            }
        });
        let of_etcd = self.etcd_zones().find(|(own, _)| *own == zone);
        let of_etcd = of_etcd.map(|(_, etcd)| Form::Etcd(etcd));
        of_clusters.or(of_etcd).or_else(|| {
            let external = self.get::<External>()?;
            if external.forward_zones.contains(zone) {
                Some(Form::External(external))
            } else {
                let is_its = external.reverse_zones.contains(zone);
                is_its.then_some(Form::ExternalReverse(external))
            }
        })
    }
}
