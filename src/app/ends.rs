//! What is answered over HTTP, and where: `prometheus`, `health`, `ready`.

use std::sync::Arc;

use arc_swap::ArcSwap;

use crate::app::observe::Observed;
use crate::corefile::{Config, HttpAddress};
use crate::ops::http::{Ends, MetricsText, ReadyCheck};

/// What the data side shows, which may be exchanged.
pub(super) type ObservedNow = Arc<ArcSwap<Observed>>;

/// What all HTTP listeners have in common.
pub(super) fn ends(observed: &ObservedNow, metrics: MetricsText) -> Ends {
    let observed = Arc::clone(observed);
    let ready: ReadyCheck = Arc::new(move || observed.load().not_ready());
    Ends {
        metrics: Some(metrics),
        health: true,
        ready: Some(ready),
        stopping: Arc::default(),
    }
}

/// What each HTTP address of a configuration answers, each address once.
pub(super) fn wanted(config: &Config, all: &Ends) -> Vec<(HttpAddress, Ends)> {
    let mut wanted: Vec<(HttpAddress, Ends)> = Vec::new();
    let mut at = |address: &HttpAddress, add: &dyn Fn(&mut Ends)| {
        let place = match wanted.iter().position(|(known, _)| known == address) {
            Some(place) => place,
            None => {
                let nothing = Ends {
                    stopping: Arc::clone(&all.stopping),
                    ..Ends::default()
                };
                wanted.push((address.clone(), nothing));
                wanted.len() - 1
            }
        };
        add(&mut wanted[place].1);
    };
    for block in &config.servers {
        if let Some(prometheus) = &block.prometheus {
            at(&prometheus.address, &|ends| {
                ends.metrics.clone_from(&all.metrics);
            });
        }
        if let Some(health) = &block.health {
            at(&health.address, &|ends| ends.health = true);
        }
        if let Some(ready) = &block.ready {
            at(&ready.address, &|ends| ends.ready.clone_from(&all.ready));
        }
    }
    wanted
}
