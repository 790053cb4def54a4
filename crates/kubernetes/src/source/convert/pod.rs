//! Pods that have not ended, with their addresses.

use super::field::address;
use super::labels::all_labels;
use super::{Named, Object, Reader};
use crate::facts::{Pod, PodLabels};
use crate::source::objects::PodStatus;

impl Reader<'_> {
    /// The labels that are kept of pods.
    pub(super) fn pod_labels(&mut self, object: Object<'_>) -> Option<PodLabels> {
        let keys = self.setting.keep.pod_labels.as_ref()?;
        let mut labels = all_labels(object);
        let mut kept = Vec::new();
        for key in keys.iter() {
            if let Some(value) = labels.remove(key) {
                let (key, value) = (key.as_str(), value.unwrap_or_default());
                kept.push((self.interner.get(key), self.interner.get(&value)));
            }
        }
        (!kept.is_empty()).then(|| kept.into())
    }

    /// A Pod; `None` when it has ended, because another Pod may have its address.
    pub(super) fn pod(
        &mut self,
        named: &Named,
        labels: Option<PodLabels>,
        status: PodStatus,
    ) -> Option<Pod> {
        let PodStatus {
            phase,
            pod_ip,
            pod_ips,
        } = status;
        if matches!(phase.as_deref(), Some("Succeeded" | "Failed" | "Unknown")) {
            return None;
        }
        let more = pod_ips.unwrap_or_default();
        let texts = pod_ip
            .into_iter()
            .chain(more.into_iter().filter_map(|entry| entry.ip));
        let mut addresses = Vec::with_capacity(2);
        for text in texts.filter(|text| !text.is_empty()) {
            match address(&text) {
                Ok(address) if addresses.contains(&address) => {}
                Ok(address) => addresses.push(address),
                Err(why) => self.complain(format!("podIP {text:?} left out: {why}")),
            }
        }
        Some(Pod {
            key: named.key.clone(),
            addresses: addresses.into(),
            labels,
            origin: named.origin.clone(),
        })
    }
}
