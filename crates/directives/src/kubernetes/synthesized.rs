//! Names of a cluster that no version holds: pods by address, and endpoints by topology zone.

mod pods;
mod zonal;

use std::any::Any;
use std::sync::Arc;

use dns::{Rdata, Ttl};
use kubernetes::facts::{HeadlessServices, SeenNamespaces};
use kubernetes::schema::{ZoneForm, parse_name};
use server::{Synthesized, SynthesizedNames};
use zone::Version;

use self::pods::{InsecurePods, PodAnswer};
use self::zonal::ZonalNames;

pub use self::zonal::RenderService;

/// Answers for the names of a cluster in one of its zones.
#[derive(Debug)]
pub struct ClusterNames {
    pods: Option<InsecurePods>,
    zonal: Option<ZonalNames>,
}

impl ClusterNames {
    /// Answers for pods in the namespaces `seen`, and for topology zones of the Services `headless`, as far as the
    /// directive has them. `None` if it has neither.
    #[must_use]
    pub fn new(
        seen: Option<Arc<SeenNamespaces>>,
        headless: Option<Arc<HeadlessServices>>,
        ttl: Ttl,
        render: RenderService,
    ) -> Option<Self> {
        let has_any = seen.is_some() || headless.is_some();
        has_any.then(|| Self {
            pods: seen.map(|seen| InsecurePods { seen, ttl }),
            zonal: headless.map(|services| ZonalNames::new(services, ttl, render)),
        })
    }
}

impl SynthesizedNames for ClusterNames {
    fn answer(&self, version: &Version, name: &[u8]) -> Synthesized {
        let contents = &version.contents;
        let apex = contents.apex();
        let parsed = parse_name(ZoneForm::Forward, apex, name);
        if let Some(pods) = &self.pods {
            let by = "`pods insecure`";
            match pods.answer(contents, &parsed) {
                PodAnswer::Address(address) => {
                    let (rtype, rdata) = Rdata::address(address);
                    return Synthesized::record(by, name, apex, (rtype, pods.ttl, rdata));
                }
                PodAnswer::Empty => return Synthesized::Exists { node: None, by },
                PodAnswer::Unknown => return Synthesized::Unknown,
                PodAnswer::Missing => {}
            }
        }
        match &self.zonal {
            Some(zonal) => zonal.answer(contents, &parsed),
            None => Synthesized::Missing,
        }
    }

    fn is_same(&self, other: &dyn SynthesizedNames) -> bool {
        let Some(Self { pods, zonal }) = (other as &dyn Any).downcast_ref() else {
            return false;
        };
        let same_pods = match (&self.pods, pods) {
            (Some(one), Some(two)) => Arc::ptr_eq(&one.seen, &two.seen) && one.ttl == two.ttl,
            (None, None) => true,
            (Some(_), None) | (None, Some(_)) => false,
        };
        let same_zonal = match (&self.zonal, zonal) {
            (Some(one), Some(two)) => one.is_same(two),
            (None, None) => true,
            (Some(_), None) | (None, Some(_)) => false,
        };
        same_pods && same_zonal
    }
}

#[cfg(test)]
mod tests;
