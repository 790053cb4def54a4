//! The parts of the Corefile that `why` needs: the handlers before the zones, and after them.

use std::sync::Arc;

use directives::config::{Config, ServerBlock};
use dns::Name;
use history::BlockLine;

use crate::cli::explain::before_zones;
use crate::runtime::chain::zones_of;
use crate::runtime::deployment::Deployment;

/// The handler after the zones. It answers for other names.
const AFTER: &str = "forward";

/// The blocks of a configuration.
pub(crate) fn blocks(config: &Config, deployment: &Deployment) -> Vec<BlockLine> {
    let blocks = config.servers.iter();
    blocks.map(|block| block_line(block, deployment)).collect()
}

/// The block whose key is the longest that holds a name.
pub(crate) fn block_of<'a>(blocks: &'a [BlockLine], name: &Name) -> Option<&'a BlockLine> {
    let longest = |block: &BlockLine| {
        let keys = block.keys.iter().filter(|key| name.is_within(key));
        keys.map(Name::label_count).max()
    };
    // Of two blocks with one key on different addresses the first counts.
    let mut found: Option<(usize, &BlockLine)> = None;
    for block in blocks {
        if let Some(labels) = longest(block)
            && found.is_none_or(|(known, _)| labels > known)
        {
            found = Some((labels, block));
        }
    }
    found.map(|(_, block)| block)
}

/// One block.
fn block_line(block: &ServerBlock, deployment: &Deployment) -> BlockLine {
    let is_of = |written: &[String], word: &str| written.first().is_some_and(|it| it == word);
    let after = block.written.iter().filter(|it| is_of(it, AFTER));
    BlockLine {
        place: block.place.to_string(),
        keys: block.zones.iter().map(|key| key.apex.clone()).collect(),
        before: before_zones(block),
        after: after.map(|words| words.join(" ")).collect(),
        zones: Arc::new(zones_of(block, deployment)),
    }
}
