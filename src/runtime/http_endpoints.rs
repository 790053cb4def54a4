//! The HTTP endpoints: `prometheus`, `health`, `ready`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arc_swap::ArcSwap;
use corefile::HttpAddress;
use directives::config::{Config, Health, Monitor, Prometheus, Ready};
use ops::http::{HttpEndpoints, MetricsText, ReadyCheck};

use crate::runtime::observed::Observed;

/// The state of the data side; a reload exchanges it.
pub(crate) type ObservedNow = Arc<ArcSwap<Observed>>;

/// Shared by all HTTP listeners.
pub(crate) fn ends(observed: &ObservedNow, metrics: MetricsText) -> HttpEndpoints {
    let observed = Arc::clone(observed);
    let ready: ReadyCheck = Arc::new(move || observed.load().not_ready());
    HttpEndpoints {
        metrics: Some(metrics),
        health: true,
        ready: Some(ready),
        stopping: Arc::default(),
    }
}

/// The HTTP addresses of a configuration with their endpoints.
pub(crate) fn wanted(config: &Config, all: &HttpEndpoints) -> Vec<(HttpAddress, HttpEndpoints)> {
    let mut wanted: Vec<(HttpAddress, HttpEndpoints)> = Vec::new();
    let mut at = |address: &HttpAddress, add: &dyn Fn(&mut HttpEndpoints)| {
        let place = match wanted.iter().position(|(known, _)| known == address) {
            Some(place) => place,
            None => {
                let nothing = HttpEndpoints {
                    stopping: Arc::clone(&all.stopping),
                    ..HttpEndpoints::default()
                };
                wanted.push((address.clone(), nothing));
                wanted.len() - 1
            }
        };
        add(&mut wanted[place].1);
    };
    for block in &config.servers {
        if let Some(prometheus) = block.get::<Prometheus>() {
            at(&prometheus.address, &|ends| {
                ends.metrics.clone_from(&all.metrics);
            });
        }
        if let Some(health) = block.get::<Health>() {
            at(&health.address, &|ends| ends.health = true);
        }
        if let Some(ready) = block.get::<Ready>() {
            let check = all.ready.clone();
            let check = check.map(|check| monitored(check, ready.monitor));
            at(&ready.address, &|ends| ends.ready.clone_from(&check));
        }
    }
    wanted
}

/// The plugin that is not ready while a zone has no version, as CoreDNS names it for probes.
const NOT_READY: &str = "kubernetes";

/// Asks as `monitor` says, and logs which zones are not ready.
fn monitored(check: ReadyCheck, monitor: Monitor) -> ReadyCheck {
    let was_ready = AtomicBool::new(false);
    Arc::new(move || {
        let is_settled = match monitor {
            Monitor::UntilReady => was_ready.load(Ordering::Relaxed),
            Monitor::Continuously => false,
        };
        if is_settled {
            return Vec::new();
        }
        let missing = check();
        if missing.is_empty() {
            was_ready.store(true, Ordering::Relaxed);
        } else {
            let zones = missing.join(",");
            tracing::info!(zones, "plugin/ready: Plugins not ready: \"{NOT_READY}\"");
            return vec![NOT_READY.to_owned()];
        }
        missing
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_ready_is_asked_again_only_where_that_is_wanted() {
        for (monitor, again) in [(Monitor::UntilReady, 0), (Monitor::Continuously, 1)] {
            let is_ready = Arc::new(AtomicBool::new(false));
            let state = Arc::clone(&is_ready);
            let check: ReadyCheck = Arc::new(move || match state.load(Ordering::Relaxed) {
                true => Vec::new(),
                false => vec!["z.".to_owned()],
            });
            let check = monitored(check, monitor);
            assert_eq!(check(), ["kubernetes"]);
            is_ready.store(true, Ordering::Relaxed);
            assert!(check().is_empty());
            is_ready.store(false, Ordering::Relaxed);
            assert_eq!(check().len(), again, "{monitor:?}");
        }
    }
}
