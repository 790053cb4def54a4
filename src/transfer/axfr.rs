//! Sends a whole version: SOA, all records in canonical order, SOA again (RFC 5936 section 2.2).

use crate::dns::{RrBlock, RrRef};
use crate::transfer::packer::{Packer, Push};
use crate::transfer::stream::{Sink, StreamError, put};
use crate::zone::{Contents, Node, Rrsets, Version};

/// Packs a version's records and sends every message but the last, which stays in the packer.
pub(crate) async fn send_zone<S: Sink>(
    packer: &mut Packer,
    version: &Version,
    sink: &mut S,
) -> Result<(), StreamError> {
    let soa = soa_record(version);
    put(packer, sink, soa).await?;
    let mut rest = Rest::of(&version.contents);
    loop {
        match rest.pack(packer) {
            Push::Taken => break,
            Push::Full => sink.send(packer.message()).await?,
            Push::TooLarge => return Err(StreamError::TooLarge),
        }
    }
    put(packer, sink, soa).await
}

/// What of a zone is still to be packed.
struct Rest<'a, I> {
    /// The apex in wire form.
    apex: &'a [u8],
    /// The nodes after the one at hand.
    nodes: I,
    /// The node at hand.
    node: Option<&'a Node>,
    /// Its RRsets after the one at hand.
    rrsets: Rrsets<'a>,
    /// What is left of the RRset at hand.
    block: Option<RrBlock<'a>>,
}

impl<'a> Rest<'a, ()> {
    /// All of it.
    fn of(contents: &'a Contents) -> Rest<'a, impl Iterator<Item = &'a Node>> {
        Rest {
            apex: contents.apex().as_wire(),
            nodes: contents.nodes(),
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
                        full => return full,
                    }
                    match self.rrsets.next() {
                        Some(rrset) => *block = rrset.block(),
                        None => break,
                    }
                }
            }
            let Some(node) = self.nodes.next() else {
                self.block = None;
                return Push::Taken;
            };
            self.node = Some(node);
            self.rrsets = node.rrsets();
            self.block = self.rrsets.next().map(|rrset| rrset.block());
        }
    }
}

/// The SOA record of a version.
pub(crate) fn soa_record(version: &Version) -> RrRef<'_> {
    RrRef {
        owner: version.contents.apex().as_wire(),
        rtype: crate::dns::Rtype::SOA,
        ttl: version.contents.soa().ttl,
        data: version.soa_rdata.as_octets(),
        tag: 0,
    }
}
