//! Writes the records of one owner and type together, in the form of a zone's node. Most differ only in their data, so
//! the part before the data is made once.

use super::{MessageWriter, Section};
use crate::{OwnerRef, RrBlock, RrRef};

/// Octets of a record between its owner and the length of its data.
const FIXED_OCTETS: usize = 8;

impl MessageWriter {
    /// Writes as many records as fit and removes them from the front of `block`. Returns their number.
    pub fn block(&mut self, section: Section, owner: OwnerRef<'_>, block: &mut RrBlock<'_>) -> u64 {
        let before = self.counts[section as usize];
        let in_order = !block.rtype.compresses_rdata();
        if in_order && self.names.is_open() && self.by_table(section, owner, block, 1) {
            self.names.begin_order(owner);
        }
        if !in_order || !self.in_order(section, owner, block) {
            self.by_table(section, owner, block, usize::MAX);
        }
        u64::from(self.counts[section as usize] - before)
    }

    /// Writes at most `most` records one by one. Returns whether all of them fit.
    fn by_table(
        &mut self,
        section: Section,
        owner: OwnerRef<'_>,
        block: &mut RrBlock<'_>,
        most: usize,
    ) -> bool {
        let mut wire = std::mem::take(&mut self.owner);
        wire.clear();
        owner.write(&mut wire);
        let mut has_room = true;
        for _ in 0..most {
            let Some((data, end)) = block.first() else {
                break;
            };
            has_room = self.record(
                section,
                RrRef {
                    owner: &wire,
                    rtype: block.rtype,
                    ttl: block.ttl,
                    data,
                    tag: 0,
                },
            );
            if !has_room {
                break;
            }
            block.octets = &block.octets[end..];
        }
        self.owner = wire;
        has_room
    }

    /// Writes records whose owner follows the last one in order, until there is no room. Returns false if the table has
    /// to write the rest.
    fn in_order(&mut self, section: Section, owner: OwnerRef<'_>, block: &mut RrBlock<'_>) -> bool {
        let Some((_, end)) = block.first() else {
            return true;
        };
        let Some((trail, shared)) = self.names.in_order(owner) else {
            return false;
        };
        let full = self.base + self.limit;
        let mut count = self.counts[section as usize];
        let mut fixed = [0; FIXED_OCTETS];
        fixed[..2].copy_from_slice(&block.rtype.0.to_be_bytes());
        fixed[2..4].copy_from_slice(&self.class.to_be_bytes());
        fixed[4..].copy_from_slice(&block.ttl.seconds().to_be_bytes());
        let octets = &mut self.octets;
        let name = trail.octets(shared, owner.key);
        if octets.len() + name + FIXED_OCTETS + end > full || count == u16::MAX {
            return true;
        }
        trail.write(octets, self.base, shared, owner.key);
        octets.extend_from_slice(&fixed);
        octets.extend_from_slice(&block.octets[..end]);
        block.octets = &block.octets[end..];
        count += 1;
        if let Some(pointer) = trail.pointer() {
            let mut head = [0; 2 + FIXED_OCTETS];
            head[..2].copy_from_slice(&pointer.to_be_bytes());
            head[2..].copy_from_slice(&fixed);
            while let Some((_, end)) = block.first() {
                if octets.len() + head.len() + end > full || count == u16::MAX {
                    break;
                }
                octets.extend_from_slice(&head);
                octets.extend_from_slice(&block.octets[..end]);
                block.octets = &block.octets[end..];
                count += 1;
            }
            self.counts[section as usize] = count;
            return true;
        }
        self.counts[section as usize] = count;
        block.octets.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Rtype, Ttl, flags};

    /// The owner in `z.` with this key.
    fn owner(key: &[u8]) -> OwnerRef<'_> {
        OwnerRef {
            key,
            relative: b"",
            apex: b"\x01z\x00",
        }
    }

    #[test]
    fn owners_are_written_in_order_until_a_name_of_another_kind_comes() {
        let mut writer = MessageWriter::new(13);
        writer.begin(false, 4096, 7, flags::QR);
        writer.question(b"\x01z\x00\x00\xfc\x00\x01");
        let mut put = |key: &[u8], rtype, octets: &[u8]| {
            let mut block = RrBlock {
                rtype,
                ttl: Ttl::ZERO,
                octets,
            };
            assert_eq!(writer.block(Section::Answer, owner(key), &mut block), 1);
            writer.names.in_order(owner(b"x\0")).is_some()
        };
        for key in [b"a\0", b"b\0"] {
            assert!(put(key, Rtype::A, &[0, 4, 192, 0, 2, 1]), "{key:?}");
        }
        assert!(!put(b"c\0", Rtype::NS, b"\x00\x03\x01z\x00"));
        assert!(!put(b"d\0", Rtype::A, &[0, 4, 192, 0, 2, 1]));
    }
}
