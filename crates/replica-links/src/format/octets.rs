//! Numbers, texts and names as bytes, with a limit on each length. Numbers are in network order.

use dns::{Name, Serial};
use replicas::chain::{Epoch, Hash, ReplicaId, Tip};

use std::collections::BTreeMap;

use super::FormatError;

/// Reads from a slice; never past its end.
#[derive(Debug)]
pub(super) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    pub(super) const fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    fn take(&mut self, count: usize) -> Result<&'a [u8], FormatError> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or(FormatError::Short)?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], FormatError> {
        let (taken, rest) = self.0.split_first_chunk().ok_or(FormatError::Short)?;
        self.0 = rest;
        Ok(*taken)
    }

    pub(super) fn byte(&mut self) -> Result<u8, FormatError> {
        self.array().map(|[byte]| byte)
    }

    pub(super) fn u32(&mut self) -> Result<u32, FormatError> {
        self.array().map(u32::from_be_bytes)
    }

    pub(super) fn u64(&mut self) -> Result<u64, FormatError> {
        self.array().map(u64::from_be_bytes)
    }

    pub(super) fn is_set(&mut self) -> Result<bool, FormatError> {
        match self.byte()? {
            0 => Ok(false),
            1 => Ok(true),
            other => Err(FormatError::Choice(other)),
        }
    }

    pub(super) fn epoch(&mut self) -> Result<Epoch, FormatError> {
        self.u64().map(Epoch)
    }

    pub(super) fn serial(&mut self) -> Result<Serial, FormatError> {
        self.u32().map(Serial::decode)
    }

    pub(super) fn hash(&mut self) -> Result<Hash, FormatError> {
        self.array()
    }

    pub(super) fn tip(&mut self) -> Result<Tip, FormatError> {
        Ok(Tip {
            epoch: self.epoch()?,
            seq: self.u64()?,
            serial: self.serial()?,
            hash: self.hash()?,
        })
    }

    pub(super) fn name(&mut self) -> Result<Name, FormatError> {
        let octets = self.byte()?;
        let wire = self.take(octets.into())?;
        Name::from_wire(wire).map_err(FormatError::Name)
    }

    pub(super) fn replica(&mut self) -> Result<ReplicaId, FormatError> {
        let bytes = self.byte()?;
        let text = self.take(bytes.into())?;
        let text = std::str::from_utf8(text).map_err(|_| FormatError::Text)?;
        Ok(ReplicaId::from(text))
    }

    /// A count of items, of which each takes at least so many bytes: a count that cannot be true is an error before anything is
    /// allocated for it.
    pub(super) fn count(&mut self, max: usize, item_bytes: usize) -> Result<usize, FormatError> {
        let count = self.u32()?;
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        if count > max {
            return Err(FormatError::Count { count, max });
        }
        if count.saturating_mul(item_bytes) > self.0.len() {
            return Err(FormatError::Short);
        }
        Ok(count)
    }

    /// Values by name, in the order of names and each once.
    pub(super) fn by_name<T>(
        &mut self,
        max: usize,
        mut value: impl FnMut(&mut Self) -> Result<T, FormatError>,
    ) -> Result<BTreeMap<Name, T>, FormatError> {
        let count = self.count(max, 2)?;
        let mut values = BTreeMap::new();
        for _ in 0..count {
            let name = self.name()?;
            if values
                .last_key_value()
                .is_some_and(|(last, _)| *last >= name)
            {
                return Err(FormatError::Order);
            }
            let value = value(self)?;
            values.insert(name, value);
        }
        Ok(values)
    }

    /// The end.
    pub(super) const fn end(self) -> Result<(), FormatError> {
        if self.0.is_empty() {
            Ok(())
        } else {
            Err(FormatError::Trailing)
        }
    }
}

/// Writes to a buffer.
#[derive(Debug, Default)]
pub(super) struct Writer(pub(super) Vec<u8>);

impl Writer {
    pub(super) fn byte(&mut self, byte: u8) {
        self.0.push(byte);
    }

    pub(super) fn u32(&mut self, number: u32) {
        self.0.extend(number.to_be_bytes());
    }

    pub(super) fn u64(&mut self, number: u64) {
        self.0.extend(number.to_be_bytes());
    }

    pub(super) fn is_set(&mut self, is_set: bool) {
        self.byte(is_set.into());
    }

    pub(super) fn epoch(&mut self, epoch: Epoch) {
        self.u64(epoch.0);
    }

    pub(super) fn serial(&mut self, serial: Serial) {
        self.0.extend(serial.encode().to_be_bytes());
    }

    pub(super) fn hash(&mut self, hash: &Hash) {
        self.0.extend(hash);
    }

    pub(super) fn tip(&mut self, tip: &Tip) {
        self.epoch(tip.epoch);
        self.u64(tip.seq);
        self.serial(tip.serial);
        self.hash(&tip.hash);
    }

    pub(super) fn name(&mut self, name: &Name) -> Result<(), FormatError> {
        self.short(name.as_wire())
    }

    pub(super) fn replica(&mut self, replica: &ReplicaId) -> Result<(), FormatError> {
        self.short(replica.to_string().as_bytes())
    }

    /// At most 255 bytes.
    fn short(&mut self, bytes: &[u8]) -> Result<(), FormatError> {
        let count = bytes.len();
        let length = u8::try_from(count).map_err(|_| FormatError::Count { count, max: 255 })?;
        self.byte(length);
        self.0.extend(bytes);
        Ok(())
    }

    pub(super) fn count(&mut self, count: usize, max: usize) -> Result<(), FormatError> {
        let number = u32::try_from(count).ok().filter(|_| count <= max);
        let number = number.ok_or(FormatError::Count { count, max })?;
        self.0.extend(number.to_be_bytes());
        Ok(())
    }

    pub(super) fn by_name<T>(
        &mut self,
        values: &BTreeMap<Name, T>,
        max: usize,
        mut write: impl FnMut(&mut Self, &T) -> Result<(), FormatError>,
    ) -> Result<(), FormatError> {
        self.count(values.len(), max)?;
        for (name, value) in values {
            self.name(name)?;
            write(self, value)?;
        }
        Ok(())
    }
}
