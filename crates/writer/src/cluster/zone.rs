//! A zone of a cluster as the writer holds it.

use std::sync::Arc;

use zone::{Contents, Zone};

use crate::guard::Guard;
use crate::overlay::Overlay;

#[derive(Debug)]
pub(crate) struct ClusterZone {
    /// The zone that readers share.
    pub(crate) zone: Arc<Zone>,
    pub(crate) guard: Guard,
    /// The file under it, if there is one.
    pub(crate) overlay: Option<Overlay>,
}

impl ClusterZone {
    /// The contents that a rendering starts from. `None` before the first.
    pub(crate) fn base(&self) -> Option<Contents> {
        let kept = self.guard.base().cloned();
        kept.or_else(|| Some(self.zone.current()?.contents.clone()))
    }
}
