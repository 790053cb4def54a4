//! RDATA: the data of one record in uncompressed wire form, with constructors for the types that we generate.

use std::net::IpAddr;

use crate::Name;
use crate::wire_name::wire_name_len;
use crate::{Rtype, Serial, Ttl};

/// The data of a record: uncompressed wire form, at most 65 535 octets.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Rdata(Box<[u8]>);

/// The data is longer than RDLENGTH can say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{0} octets of data are more than a record can hold (65535)")]
pub struct TooLong(usize);

impl Rdata {
    /// Takes wire-form octets without a check of their layout.
    ///
    /// # Errors
    /// [`TooLong`] over 65 535 octets.
    pub fn from_octets(octets: &[u8]) -> Result<Self, TooLong> {
        if octets.len() > usize::from(u16::MAX) {
            return Err(TooLong(octets.len()));
        }
        Ok(Self(octets.into()))
    }

    /// The data of an address record (RFC 1035 section 3.4.1, RFC 3596 section 2.2) with its type.
    #[must_use]
    pub fn address(address: IpAddr) -> (Rtype, Self) {
        match address {
            IpAddr::V4(v4) => (Rtype::A, Self(v4.octets().into())),
            IpAddr::V6(v6) => (Rtype::AAAA, Self(v6.octets().into())),
        }
    }

    /// The data of NS, CNAME or PTR: one name (RFC 1035 section 3.3).
    #[must_use]
    pub fn name(target: &Name) -> Self {
        Self(target.as_wire().into())
    }

    /// The data of SRV (RFC 2782).
    #[must_use]
    pub fn srv(priority: u16, weight: u16, port: u16, target: &Name) -> Self {
        let mut wire = Vec::with_capacity(6 + target.as_wire().len());
        for field in [priority, weight, port] {
            wire.extend_from_slice(&field.to_be_bytes());
        }
        wire.extend_from_slice(target.as_wire());
        Self(wire.into_boxed_slice())
    }

    /// The data of TXT: character strings of at most 255 octets (RFC 1035 section 3.3.14).
    #[must_use]
    pub fn txt(text: &str) -> Self {
        let mut wire = Vec::with_capacity(text.len() + 1);
        let mut chunks = text.as_bytes().chunks(255).peekable();
        if chunks.peek().is_none() {
            wire.push(0);
        }
        for chunk in chunks {
            #[allow(
                clippy::cast_possible_truncation,
                reason = "chunks have at most 255 octets"
            )]
            wire.push(chunk.len() as u8);
            wire.extend_from_slice(chunk);
        }
        Self(wire.into_boxed_slice())
    }

    /// The octets.
    #[must_use]
    pub fn as_octets(&self) -> &[u8] {
        &self.0
    }

    /// The domain name in data of this type, if its layout is known. Compression uses it (for the types of RFC 1035
    /// only), and so does additional data.
    #[must_use]
    pub fn name_at(rtype: Rtype, data: &[u8]) -> Option<&[u8]> {
        let start = match rtype {
            Rtype::NS | Rtype::CNAME | Rtype::PTR | Rtype::DNAME => 0,
            Rtype::MX => 2,
            Rtype::SRV => 6,
            _ => return None,
        };
        let name = data.get(start..)?;
        let len = wire_name_len(name)?;
        name.get(..len)
    }
}

/// The fields of a SOA record without the serial (RFC 1035 section 3.3.13).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Soa {
    /// The primary's name.
    pub mname: Name,
    /// The mailbox of the person in charge, as a name.
    pub rname: Name,
    /// The interval of a secondary's checks.
    pub refresh: Ttl,
    /// The interval of checks after a failed one.
    pub retry: Ttl,
    /// The time without a successful check after which a secondary stops answering.
    pub expire: Ttl,
    /// TTL of negative answers (RFC 2308 section 4).
    pub minimum: Ttl,
    /// TTL of the record itself.
    pub ttl: Ttl,
}

impl Soa {
    /// The data with a serial.
    #[must_use]
    pub fn rdata(&self, serial: Serial) -> Rdata {
        let mut wire =
            Vec::with_capacity(self.mname.as_wire().len() + self.rname.as_wire().len() + 20);
        wire.extend_from_slice(self.mname.as_wire());
        wire.extend_from_slice(self.rname.as_wire());
        wire.extend_from_slice(&serial.encode().to_be_bytes());
        for field in [self.refresh, self.retry, self.expire, self.minimum] {
            wire.extend_from_slice(&field.seconds().to_be_bytes());
        }
        Rdata(wire.into_boxed_slice())
    }

    /// Reads SOA data back; `ttl` is the TTL of the record.
    #[must_use]
    pub fn decode(data: &[u8], ttl: Ttl) -> Option<(Self, Serial)> {
        let mname_len = wire_name_len(data)?;
        let rname_len = wire_name_len(data.get(mname_len..)?)?;
        let numbers = data.get(mname_len + rname_len..)?;
        if numbers.len() != 20 {
            return None;
        }
        let number = |index: usize| {
            let octets = numbers.get(index * 4..index * 4 + 4)?;
            octets.try_into().ok().map(u32::from_be_bytes)
        };
        let field = |index| number(index).map(Ttl::decode);
        let soa = Self {
            mname: Name::from_wire(&data[..mname_len]).ok()?,
            rname: Name::from_wire(&data[mname_len..mname_len + rname_len]).ok()?,
            refresh: field(1)?,
            retry: field(2)?,
            expire: field(3)?,
            minimum: field(4)?,
            ttl,
        };
        Some((soa, Serial::decode(number(0)?)))
    }

    /// The TTL of a negative answer: the lesser of the SOA's TTL and its minimum (RFC 2308 section 5).
    #[must_use]
    pub fn negative_ttl(&self) -> Ttl {
        self.ttl.min(self.minimum)
    }
}
