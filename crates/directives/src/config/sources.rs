//! Checks that blocks agree on the contents of a zone that several of them write.

use corefile::place::Report;

use crate::config::block::ServerBlock;
use crate::kubernetes::Kubernetes;

/// Reports a zone that two directives write differently.
pub(crate) fn check(servers: &[ServerBlock], report: &mut Report) {
    let all: Vec<&Kubernetes> = servers.iter().flat_map(ServerBlock::clusters).collect();
    for (index, later) in all.iter().enumerate() {
        for zone in later.zones() {
            let clash = all[..index].iter().find(|earlier| {
                earlier.zones().any(|there| there == zone) && !earlier.same_contents(later)
            });
            if let Some(earlier) = clash {
                let message = format!(
                    "the {} at {} writes {zone} differently",
                    earlier.word(),
                    earlier.place
                );
                let fix = "a zone has one content: write the same in both, or name other zones";
                report.error(&later.place, message, fix);
            }
        }
    }
}
