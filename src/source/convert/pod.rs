//! Pods: their addresses, as long as they have not ended.

use super::field::address;
use super::{Named, Reader};
use crate::cluster::Pod;
use crate::source::objects::PodStatus;

impl Reader<'_> {
    /// A Pod, unless it has ended: then its address may be another's.
    pub(super) fn pod(&mut self, named: &Named, status: PodStatus) -> Option<Pod> {
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
            origin: named.origin.clone(),
        })
    }
}
