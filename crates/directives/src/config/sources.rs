//! What several blocks say of one zone: they have to agree on its contents.

use corefile::place::Report;

use crate::config::block::ServerBlock;
use crate::kubernetes::Kubernetes;

/// Reports a zone that two `kubernetes` directives write differently: a zone has one content.
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
                let fix = "a zone has one content: let both say the same, or name other zones";
                report.error(&later.place, message, fix);
            }
        }
    }
}
