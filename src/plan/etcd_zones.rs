//! The zones from etcd of a configuration, planned.

use std::net::IpAddr;
use std::sync::Arc;

use directives::config::{Apex, Config, Form, Password};
use dns::{Name, Ttl};
use etcd::source::EtcdSource;
use etcd::{Access, Credentials, Layout, Settings, Tls};
use ops::Clock;
use writer::{EtcdPlan, FilePlan, ZonePlan};

use crate::plan::addresses::own_addresses;
use crate::plan::apex::{ApexDefaults, apex_settings};
use crate::plan::zone_settings::{gate, retention};

/// The TTL of negative answers, and of the zone's own records: CoreDNS's.
const NEGATIVE_TTL: Ttl = Ttl::decode(30);

/// A zone from etcd.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedEtcd {
    /// How etcd is reached.
    pub access: Access,
    /// Its plan for the writer.
    pub plan: EtcdPlan,
}

impl PlannedEtcd {
    /// The zone as the writer takes it.
    pub(crate) fn file(&self) -> FilePlan {
        FilePlan::Etcd(Box::new(self.plan.clone()))
    }

    /// Its source.
    pub(crate) fn source(&self, clock: &Arc<dyn Clock>) -> EtcdSource {
        let prefix = self.plan.layout.prefix();
        EtcdSource::new(self.access.clone(), prefix, Arc::clone(clock))
    }

    /// Whether two plans differ in nothing but how much history is kept.
    pub(crate) fn keeps_source(&self, new: &Self) -> bool {
        let mut same = self.clone();
        same.plan.zone.retention = new.plan.zone.retention;
        same == *new
    }
}

/// Plans the zones from etcd, and adds them to `zones`.
pub(crate) fn plan_etcd(
    config: &Config,
    zones: &mut Vec<Name>,
    local: &dyn Fn(Option<&str>) -> Vec<IpAddr>,
) -> Vec<PlannedEtcd> {
    let mut planned = Vec::new();
    for block in &config.servers {
        for (apex, etcd) in block.etcd_zones() {
            // A second block with the same zone shares it.
            if zones.contains(apex) {
                continue;
            }
            zones.push(apex.to_lower());
            let defaults = ApexDefaults {
                made: Form::Etcd(etcd),
                mbox: &["hostmaster"],
                ttl: NEGATIVE_TTL,
            };
            let own = own_addresses(block, local);
            let credentials = etcd.credentials.as_ref();
            let names_servers = |apex: &Apex| !apex.name_servers.is_empty();
            planned.push(PlannedEtcd {
                access: Access {
                    endpoints: etcd.endpoints.clone(),
                    credentials: credentials.map(|(user, Password(password))| Credentials {
                        user: user.clone(),
                        password: password.clone(),
                    }),
                    tls: Tls {
                        identity: etcd.tls.identity.clone(),
                        ca: etcd.tls.authorities.clone(),
                    },
                },
                plan: EtcdPlan {
                    zone: ZonePlan {
                        name: apex.to_lower(),
                        apex: apex_settings(block, apex, &defaults, &own),
                        retention: retention(block.for_zone(apex)),
                        gate: gate(block.for_zone(apex)),
                    },
                    layout: Layout::new(&etcd.path, apex),
                    settings: Settings {
                        min_lease_ttl: etcd.min_lease_ttl,
                        max_lease_ttl: etcd.max_lease_ttl,
                        no_apex_fallback: etcd.no_apex_fallback,
                    },
                    reads_servers: !block.for_zone::<Apex>(apex).is_some_and(names_servers),
                },
            });
        }
    }
    planned
}
