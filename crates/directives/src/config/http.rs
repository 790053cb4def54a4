//! The HTTP servers of blocks: servers of different kinds cannot share a port.

use corefile::address::{HttpAddress, HttpHost};
use corefile::place::{Place, Report};

use crate::config::block::{Directive, ServerBlock};
use crate::health::Health;
use crate::history_api::HistoryApi;
use crate::prometheus::Prometheus;
use crate::ready::Ready;

/// Reports two kinds of HTTP server on one port.
pub(crate) fn check(blocks: &[ServerBlock], report: &mut Report) {
    let mut seen: Vec<(&str, &Place, &HttpAddress)> = Vec::new();
    for block in blocks {
        let health = block
            .get()
            .map(|it: &Health| (Health::WORD, &it.place, &it.address));
        let ready = block
            .get()
            .map(|it: &Ready| (Ready::WORD, &it.place, &it.address));
        let metrics = block.get::<Prometheus>();
        let metrics = metrics.map(|it| (Prometheus::WORD, &it.place, &it.address));
        let history = block
            .get()
            .map(|it: &HistoryApi| (HistoryApi::WORD, &it.place, &it.address));
        let all = [health, ready, metrics, history];
        for (word, place, address) in all.into_iter().flatten() {
            let clash = seen.iter().find(|(other, _, there)| {
                let any = HttpHost::Any;
                let same = there.host == address.host || there.host == any || address.host == any;
                *other != word && there.port == address.port && same && address.port != 0
            });
            if let Some((_, other, _)) = clash {
                let message = format!("{address} is already taken in line {}", other.line);
                report.error(place, message, "give one of the two another port");
            }
            seen.push((word, place, address));
        }
    }
}
