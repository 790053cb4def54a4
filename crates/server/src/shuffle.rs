//! The order of records for `loadbalance`: a new one for each reply.

use dns::{Record, Rtype};

/// Whether records of a type get a new order each time.
#[must_use]
pub fn is_shuffled(rtype: Rtype) -> bool {
    matches!(rtype, Rtype::A | Rtype::AAAA | Rtype::MX)
}

/// Random numbers that need not be secret (xorshift of 64 bits, Marsaglia 2003).
#[derive(Debug)]
pub struct Dice(u64);

impl Dice {
    /// Dice with a seed of their own.
    #[must_use]
    pub fn new() -> Self {
        use std::hash::{BuildHasher, RandomState};
        Self(RandomState::new().hash_one(0_u8) | 1)
    }

    /// A random number.
    pub fn roll(&mut self) -> u32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        u32::try_from(self.0 >> 32).expect("32 bits")
    }

    /// A random number, if one is wanted.
    pub fn turn(&mut self, is_wanted: bool) -> Option<u32> {
        is_wanted.then(|| self.roll())
    }
}

/// Sorts a section in CoreDNS's order: aliases, other records, addresses, mail exchangers. Returns the last two parts.
pub fn parts(records: &mut [Record]) -> [&mut [Record]; 2] {
    let class = |record: &Record| match record.rtype {
        Rtype::CNAME | Rtype::DNAME => 0,
        Rtype::A | Rtype::AAAA => 2,
        Rtype::MX => 3,
        _ => 1_u8,
    };
    records.sort_by_key(class);
    let addresses = records.partition_point(|record| class(record) < 2);
    let exchangers = records.partition_point(|record| class(record) < 3);
    let (front, exchangers) = records.split_at_mut(exchangers);
    [&mut front[addresses..], exchangers]
}

/// Sorts a section in CoreDNS's order: aliases, other records, addresses, mail exchangers. The last two parts get a
/// random order.
pub fn shuffle(records: &mut [Record], dice: &mut Dice) {
    if !records.iter().any(|record| is_shuffled(record.rtype)) {
        return;
    }
    let [addresses, exchangers] = parts(records);
    for part in [addresses, exchangers] {
        // Fisher and Yates.
        for left in (1..part.len()).rev() {
            let other = usize::try_from(dice.roll()).unwrap_or(0) % (left + 1);
            part.swap(left, other);
        }
    }
}

impl Default for Dice {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use dns::{Name, Rdata, Ttl};

    /// A record with some data.
    fn record(rtype: Rtype, data: u8) -> Record {
        Record {
            owner: Name::root(),
            rtype,
            ttl: Ttl::decode(1),
            rdata: Rdata::from_octets(&[data]).unwrap(),
        }
    }

    #[test]
    fn every_order_of_addresses_comes_up_and_aliases_stay_in_front() {
        let mut dice = Dice::new();
        let mut orders = BTreeSet::new();
        for _ in 0..1000 {
            let mut records = vec![
                record(Rtype::MX, 9),
                record(Rtype::A, 1),
                record(Rtype::A, 2),
                record(Rtype::AAAA, 3),
                record(Rtype::SRV, 8),
                record(Rtype::CNAME, 7),
            ];
            shuffle(&mut records, &mut dice);
            let data: Vec<u8> = records.iter().map(|it| it.rdata.as_octets()[0]).collect();
            assert_eq!((&data[..2], data[5]), (&[7, 8][..], 9));
            orders.insert(data);
        }
        assert_eq!(orders.len(), 6);
    }
}
