//! Sends a whole version: SOA, all records in canonical order, SOA again (RFC 5936 section 2.2).

use crate::dns::RrRef;
use crate::transfer::packer::Packer;
use crate::transfer::stream::{Sink, StreamError, put};
use crate::zone::Version;

/// Packs a version's records and sends every message but the last, which stays in the packer.
pub(crate) async fn send_zone<S: Sink>(
    packer: &mut Packer,
    version: &Version,
    sink: &mut S,
) -> Result<(), StreamError> {
    let contents = &version.contents;
    let apex = contents.apex().as_wire();
    let soa = soa_record(version);
    put(packer, sink, soa).await?;
    let mut owner = Vec::with_capacity(255);
    for node in contents.nodes() {
        owner.clear();
        node.write_relative_owner(&mut owner);
        owner.extend_from_slice(apex);
        for rr in node.records(&owner, 0) {
            put(packer, sink, rr).await?;
        }
    }
    put(packer, sink, soa).await
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
