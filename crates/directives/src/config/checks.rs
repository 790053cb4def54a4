//! The checks over all blocks and directives, once all are read.

use corefile::place::Report;

use crate::config::block::ServerBlock;
use crate::config::{http, listener, nested, registry, sources};

/// Reports all conflicts between blocks and directives.
pub(crate) fn check_all(blocks: &[ServerBlock], report: &mut Report) {
    listener::check_zones(blocks, report);
    listener::check_sockets(blocks, report);
    http::check(blocks, report);
    sources::check(blocks, report);
    nested::check(blocks, report);
    for directive in registry::directives() {
        (directive.check)(blocks, report);
    }
}
