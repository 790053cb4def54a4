//! Sends a whole version: SOA, all records in canonical order, SOA again (RFC 5936 section 2.2).

use dns::RrBlock;
use zone::{Contents, Node, Rrsets, Version};

use crate::packer::{Packer, Push};
use crate::sink::{Sink, StreamError, put};

/// Nodes that are fetched together.
const FETCH: usize = 32;
/// The bytes that the processor loads into its caches together.
const CACHE_LINE: usize = 64;
/// The part of each node that is loaded before it is read. The rest is loaded while it is read.
const FETCH_LINES: usize = 8;

/// Packs a version's records and sends every message but the last, which stays in the packer.
pub(crate) async fn send_zone<S: Sink>(
    packer: &mut Packer,
    version: &Version,
    sink: &mut S,
) -> Result<(), StreamError> {
    let soa = version.soa_record();
    put(packer, sink, [soa]).await?;
    let mut rest = Rest::of(&version.contents);
    loop {
        match rest.pack(packer) {
            Push::Taken => break,
            Push::Full => sink.send(packer.message()).await?,
            Push::TooLarge => return Err(StreamError::TooLarge),
        }
    }
    put(packer, sink, [soa]).await
}

/// The part of a zone that is not yet packed.
struct Rest<'a, I> {
    /// The apex in wire form.
    apex: &'a [u8],
    /// The nodes that are not yet loaded.
    nodes: I,
    /// The loaded nodes, the next one last.
    fetched: Vec<&'a Node>,
    node: Option<&'a Node>,
    /// The RRsets after the current one.
    rrsets: Rrsets<'a>,
    /// The rest of the current RRset.
    block: Option<RrBlock<'a>>,
}

impl<'a> Rest<'a, ()> {
    fn of(contents: &'a Contents) -> Rest<'a, impl Iterator<Item = &'a Node>> {
        Rest {
            apex: contents.apex().as_wire(),
            nodes: contents.nodes(),
            fetched: Vec::with_capacity(FETCH),
            node: None,
            rrsets: Rrsets::default(),
            block: None,
        }
    }
}

impl<'a, I: Iterator<Item = &'a Node>> Rest<'a, I> {
    /// Fills a message; [`Push::Taken`] when nothing is left.
    fn pack(&mut self, packer: &mut Packer) -> Push {
        loop {
            if let (Some(node), Some(block)) = (self.node, &mut self.block) {
                let owner = node.owner(self.apex);
                loop {
                    match packer.push_block(owner, block) {
                        Push::Taken => {}
                        full @ (Push::Full | Push::TooLarge) => return full,
                    }
                    match self.rrsets.next() {
                        Some(rrset) => *block = rrset.block(),
                        None => break,
                    }
                }
            }
            let Some(node) = self.next_node() else {
                self.block = None;
                return Push::Taken;
            };
            self.node = Some(node);
            self.rrsets = node.rrsets();
            self.block = self.rrsets.next().map(|rrset| rrset.block());
        }
    }
}

impl<'a, I: Iterator<Item = &'a Node>> Rest<'a, I> {
    /// The next node. A large zone is in memory but not in the processor's caches, so reading each node would wait for
    /// memory. Several nodes are touched at once, so that they are loaded at the same time.
    fn next_node(&mut self) -> Option<&'a Node> {
        if self.fetched.is_empty() {
            self.fetched.extend(self.nodes.by_ref().take(FETCH));
            let mut sum = 0_u8;
            for node in &self.fetched {
                for octet in node
                    .as_octets()
                    .iter()
                    .step_by(CACHE_LINE)
                    .take(FETCH_LINES)
                {
                    sum ^= octet;
                }
            }
            std::hint::black_box(sum);
            self.fetched.reverse();
        }
        self.fetched.pop()
    }
}

#[cfg(test)]
mod tests;
