//! Checks a zone file whose lines are all readable.

use std::collections::BTreeMap;
use std::ops::Bound;

use dns::{Name, Rdata, Rtype, SortKey};

use zone::check::Fault;

use super::reader::Placed;
use super::signed::OF_SIGNED;
use super::{FileProblem, Role, Spot};

/// The hash of a whole zone (RFC 8976), which is not checked here.
const ZONEMD: Rtype = Rtype(63);

/// For each owner the indices of its records.
pub(super) type Owners = BTreeMap<SortKey, Vec<usize>>;

pub(super) fn owners(records: &[Placed], apex: &Name) -> Owners {
    let mut owners = Owners::new();
    for (place, record) in records.iter().enumerate() {
        if let Some(key) = record.record.owner.sort_key(apex) {
            owners.entry(key).or_default().push(place);
        }
    }
    owners
}

/// The checks of one file.
pub(super) struct Check<'a> {
    pub(super) apex: &'a Name,
    pub(super) role: Role,
    pub(super) records: &'a [Placed],
    pub(super) owners: &'a Owners,
    /// The place of the SOA, if there is one.
    pub(super) soa: Option<&'a Spot>,
    /// The whole file.
    pub(super) whole: Spot,
}

impl Check<'_> {
    /// The problems that make the file unusable.
    pub(super) fn problems(&self) -> Vec<FileProblem> {
        let mut problems = Vec::new();
        if self.role == Role::Zone && self.soa.is_none() {
            let message = format!("the zone {} has no SOA", self.apex);
            problems.push(self.whole.problem(message));
        }
        for places in self.owners.values() {
            self.check_owner(places, &mut problems);
        }
        problems.sort_by(|a, b| a.spot.cmp(&b.spot));
        problems
    }

    /// The name servers of the zone that the zone has no address of.
    pub(super) fn warnings(&self) -> Vec<FileProblem> {
        let is_zone = self.role == Role::Zone;
        let places = self.at(self.apex).iter().filter(|_| is_zone);
        let servers = places.map(|place| &self.records[*place]);
        let servers = servers.filter(|server| server.record.rtype == Rtype::NS);
        let mut warnings: Vec<_> = servers.filter_map(|it| self.lost_server(it)).collect();
        warnings.sort_by(|a, b| a.spot.cmp(&b.spot));
        warnings
    }

    fn lost_server(&self, server: &Placed) -> Option<FileProblem> {
        let target = target_of(server)?;
        let is_lost = target.is_within(self.apex)
            && self.cut_above(&target).is_none()
            && !self.has_address(&target);
        let message = || format!("name server {target} has no address in the zone: add A or AAAA");
        is_lost.then(|| server.spot.problem(message()))
    }

    /// The records of a type at an owner.
    fn of_type<'s>(
        &'s self,
        places: &'s [usize],
        rtype: Rtype,
    ) -> impl Iterator<Item = &'s Placed> {
        let records = places.iter().map(|place| &self.records[*place]);
        records.filter(move |record| record.record.rtype == rtype)
    }

    fn at(&self, name: &Name) -> &[usize] {
        let key = name.sort_key(self.apex);
        key.and_then(|key| self.owners.get(&key))
            .map_or(&[], Vec::as_slice)
    }

    /// Whether a name of the zone has an address, by its own records or by the wildcard below its closest
    /// encloser (RFC 4592 section 3.3.1).
    fn has_address(&self, name: &Name) -> bool {
        let mut encloser = name.clone();
        while encloser != *self.apex && !self.exists(&encloser) {
            match encloser.parent() {
                Some(parent) => encloser = parent,
                None => return false,
            }
        }
        if encloser == *name {
            return self.has_own_address(name);
        }
        let wildcard = encloser.child("*");
        wildcard.is_ok_and(|wildcard| self.has_own_address(&wildcard))
    }

    /// Whether a name has an address by its own records.
    fn has_own_address(&self, name: &Name) -> bool {
        let places = self.at(name);
        [Rtype::A, Rtype::AAAA]
            .iter()
            .any(|rtype| self.of_type(places, *rtype).next().is_some())
    }

    /// Whether a name of the zone has records, or names below it.
    fn exists(&self, name: &Name) -> bool {
        let Some(key) = name.sort_key(self.apex) else {
            return false;
        };
        let next = self.owners.range(&key..).next();
        next.is_some_and(|(next, _)| next.as_bytes().starts_with(key.as_bytes()))
    }

    /// The delegation at or above a name.
    fn cut_above(&self, name: &Name) -> Option<Name> {
        let mut at = Some(name.clone());
        while let Some(name) = at {
            if name == *self.apex {
                return None;
            }
            if self.of_type(self.at(&name), Rtype::NS).next().is_some() {
                return Some(name);
            }
            at = name.parent();
        }
        None
    }

    /// Checks the records of one owner.
    fn check_owner(&self, places: &[usize], problems: &mut Vec<FileProblem>) {
        let all = || places.iter().map(|place| &self.records[*place]);
        let Some(owner) = all().next().map(|it| &it.record.owner) else {
            return;
        };
        for record in all() {
            let rtype = record.record.rtype;
            if self.role == Role::Overlay && OF_SIGNED.contains(&rtype) {
                let message = format!(
                    "{rtype} would not match the zone, which a cluster writes too: sign the zone on a secondary"
                );
                problems.push(record.spot.problem(message));
            }
            if rtype == ZONEMD {
                let message = "ZONEMD is not checked here and might not match the zone: remove it";
                problems.push(record.spot.problem(message.to_owned()));
            }
            let octets = record.record.rdata.as_octets().len();
            if let Some(fault) = Fault::of_size(self.apex, owner.as_wire(), rtype, octets) {
                problems.push(record.spot.problem(fault.to_string()));
            }
        }
        // RFC 1034 section 3.6.2, RFC 2181 section 10.1.
        if let Some(alias) = self.of_type(places, Rtype::CNAME).next() {
            let differs = |other: &&Placed| match other.record.rtype {
                Rtype::CNAME => other.record.rdata != alias.record.rdata,
                // RFC 4034 sections 3 and 4.
                rtype => !matches!(rtype, Rtype::RRSIG | Rtype::NSEC),
            };
            if *owner == *self.apex {
                let message = format!("{owner} is the apex of the zone: it cannot be an alias");
                problems.push(alias.spot.problem(message));
            } else if let Some(other) = all().find(differs) {
                let message = format!(
                    "{owner} has a CNAME at {} and {} here: an alias has no other records",
                    alias.spot, other.record.rtype
                );
                problems.push(other.spot.problem(message));
            }
        }
        self.check_cut(owner, places, problems);
        self.check_dname(owner, places, problems);
    }

    /// Checks that a name has one DNAME, is not delegated too, and has no names below it (RFC 6672 section 2.4).
    fn check_dname(&self, owner: &Name, places: &[usize], problems: &mut Vec<FileProblem>) {
        let Some(dname) = self.of_type(places, Rtype::DNAME).next() else {
            return;
        };
        let (is_apex, spot) = (owner == self.apex, &dname.spot);
        for other in self.of_type(places, Rtype::DNAME) {
            if other.record.rdata != dname.record.rdata {
                let message = format!("{owner} has a DNAME at {spot} and another one here");
                problems.push(other.spot.problem(message));
            }
        }
        for server in self.of_type(places, Rtype::NS).filter(|_| !is_apex) {
            let message = format!("{owner} has a DNAME at {spot} and NS here: remove one of them");
            problems.push(server.spot.problem(message));
        }
        // The apex of a cluster's zone is the cluster's.
        if is_apex && self.role == Role::Overlay {
            return;
        }
        let Some(key) = owner.sort_key(self.apex) else {
            return;
        };
        let from = (Bound::Excluded(&key), Bound::Unbounded);
        let below = self.owners.range::<SortKey, _>(from);
        let below = below.take_while(|(it, _)| it.as_bytes().starts_with(key.as_bytes()));
        for (_, places) in below {
            let Some(hidden) = places.first().map(|place| &self.records[*place]) else {
                continue;
            };
            // Hashes below the apex are no names.
            if is_apex && self.of_type(places, Rtype::NSEC3).next().is_some() {
                continue;
            }
            let name = &hidden.record.owner;
            let message = format!(
                "{name} is below the DNAME of {owner} at {spot}, which redirects it: remove one of them"
            );
            problems.push(hidden.spot.problem(message));
        }
    }

    /// Checks that a delegation is not at a wildcard (RFC 4592 section 4.2), and has glue for name servers below it.
    fn check_cut(&self, owner: &Name, places: &[usize], problems: &mut Vec<FileProblem>) {
        if owner == self.apex {
            return;
        }
        let is_wildcard = owner.labels().next() == Some(b"*");
        for server in self.of_type(places, Rtype::NS) {
            if is_wildcard {
                let message = format!("{owner} is a wildcard: it cannot be delegated");
                problems.push(server.spot.problem(message));
                continue;
            }
            if let Some(target) = target_of(server)
                && target.is_within(owner)
                // Wildcards do not apply below a cut.
                && !self.has_own_address(&target)
            {
                let message =
                    format!("name server {target} is below the delegation and has no address here");
                problems.push(server.spot.problem(message));
            }
        }
    }
}

fn target_of(record: &Placed) -> Option<Name> {
    let wire = Rdata::name_at(record.record.rtype, record.record.rdata.as_octets())?;
    Name::from_wire(wire).ok()
}
