//! The chain of NSEC or NSEC3: complete, closed, and with the types that each name has.

use std::collections::BTreeMap;

use dns::{Name, Rtype, SortKey};
use zone::Node;
use zone::nsec3::{Hashing, OCTETS, SHA1, label};

use super::{Kind, Zone, own_types};

/// The most iterations: above it resolvers take a zone for unsigned (RFC 9276 section 3.2), and each answer costs them.
const MOST_ITERATIONS: u16 = 150;
/// The flag of an NSEC3 that skips insecure delegations (RFC 5155 section 3.1.2.1).
const OPT_OUT: u8 = 1;

type Types = Vec<Rtype>;
type Hash = [u8; OCTETS];

/// Checks the chain.
pub(super) fn check_chain(zone: &mut Zone<'_>) {
    let hashes = zone.nodes.iter().any(|(kind, _)| *kind == Kind::Hash);
    let top = zone.top();
    if hashes || top.is_some_and(|top| top.rrset(Rtype::NSEC3PARAM).is_some()) {
        check_nsec3(zone);
    } else {
        check_nsec(zone);
    }
}

/// The types that the proof of an owner lists.
fn listed(kind: Kind, node: &Node) -> Types {
    let mut types: Types = own_types(kind, node).collect();
    let is_signed = !types.is_empty();
    if kind == Kind::Cut {
        types.push(Rtype::NS);
    }
    if is_signed {
        types.push(Rtype::RRSIG);
    }
    types.sort_unstable();
    types
}

/// The types of a bitmap (RFC 4034 section 4.1.2).
fn read_types(mut octets: &[u8]) -> Option<Types> {
    let mut types = Types::new();
    while let Some(([window, length], rest)) = octets.split_first_chunk() {
        let (bits, rest) = rest.split_at_checked(usize::from(*length))?;
        for (at, byte) in (0_u16..).zip(bits) {
            let set = (0..8_u16).filter(|bit| byte & (0x80 >> bit) != 0);
            types.extend(set.map(|bit| Rtype(u16::from(*window) << 8 | (at * 8 + bit))));
        }
        octets = rest;
    }
    octets.is_empty().then_some(types)
}

fn text(types: &[Rtype]) -> String {
    let types: Vec<String> = types.iter().map(ToString::to_string).collect();
    types.join(" ")
}

/// The difference of the types that a proof lists and those that there are.
fn differing(proof: &str, found: &[Rtype], wanted: &[Rtype]) -> Option<String> {
    (found != wanted).then(|| {
        format!(
            "{proof} lists the types {}, and there are {}",
            text(found),
            text(wanted)
        )
    })
}

fn check_nsec(zone: &mut Zone<'_>) {
    let is_link = |place: &usize| matches!(zone.nodes[*place].0, Kind::Own | Kind::Cut);
    let links: Vec<usize> = (0..zone.nodes.len()).filter(is_link).collect();
    for (at, place) in links.iter().enumerate() {
        if zone.is_full() {
            return;
        }
        let next = links
            .get(at + 1)
            .or(links.first())
            .copied()
            .unwrap_or(*place);
        let next = zone.owner(zone.nodes[next].1);
        if let Some(message) = nsec_problem(zone, *place, &next) {
            zone.note(*place, message);
        }
    }
    let stray =
        |(kind, node): &(Kind, &Node)| *kind == Kind::Glue && node.rrset(Rtype::NSEC).is_some();
    if let Some(place) = zone.nodes.iter().position(stray) {
        let owner = zone.owner(zone.nodes[place].1);
        zone.note(place, format!("{owner} has NSEC below a delegation"));
    }
}

fn nsec_problem(zone: &Zone<'_>, place: usize, next: &Name) -> Option<String> {
    let (kind, node) = zone.nodes[place];
    let owner = zone.owner(node);
    let Some(nsec) = node.rrset(Rtype::NSEC) else {
        return Some(format!("{owner} has no NSEC"));
    };
    let mut data = nsec.data();
    let (Some(data), None) = (data.next(), data.next()) else {
        return Some(format!("{owner} has more than one NSEC"));
    };
    let length = dns::wire_name_len(data)?;
    let (name, bitmap) = data.split_at_checked(length)?;
    if !name.eq_ignore_ascii_case(next.as_wire()) {
        let name = Name::from_wire(name).ok()?;
        return Some(format!(
            "the NSEC of {owner} leads to {name}, and the next name is {next}"
        ));
    }
    let Some(types) = read_types(bitmap) else {
        return Some(format!("the NSEC of {owner} cannot be read"));
    };
    differing(&format!("the NSEC of {owner}"), &types, &listed(kind, node))
}

/// A name that an NSEC3 is of.
struct Wanted {
    name: Vec<u8>,
    types: Types,
    /// Whether a NSEC3 with opt-out may skip it.
    may_lack: bool,
    /// A node there or below.
    place: usize,
}

/// An NSEC3 of the zone.
struct Link<'a> {
    flags: u8,
    next: &'a [u8],
    types: Types,
    place: usize,
}

fn check_nsec3(zone: &mut Zone<'_>) {
    let top = zone.top();
    let params = top.and_then(|top| top.rrset(Rtype::NSEC3PARAM));
    let mut params = params.into_iter().flat_map(|params| params.data());
    let (Some(params), None) = (params.next(), params.next()) else {
        let apex = zone.apex;
        return zone.note(0, format!("{apex} needs one NSEC3PARAM for its NSEC3"));
    };
    let Some((hashing, 0, [])) = Hashing::read(params) else {
        let apex = zone.apex;
        return zone.note(0, format!("the NSEC3PARAM of {apex} cannot be used"));
    };
    if hashing.algorithm != SHA1 {
        return zone.note(
            0,
            format!("NSEC3 with hash {}: only 1 is known", hashing.algorithm),
        );
    }
    if hashing.iterations > MOST_ITERATIONS {
        let message = format!(
            "NSEC3 with {} iterations: resolvers take a zone with more than {MOST_ITERATIONS} for unsigned; sign it with \
             0 (RFC 9276)",
            hashing.iterations
        );
        return zone.note(0, message);
    }
    let wanted = wanted_of(zone, &hashing);
    let Some(links) = links_of(zone, &hashing) else {
        return;
    };
    check_links(zone, &links, &wanted);
    for (hash, wanted) in &wanted {
        if zone.is_full() {
            return;
        }
        if links.contains_key(hash) {
            continue;
        }
        let before = links.range(..*hash).next_back().or(links.last_key_value());
        let opts_out = before.is_some_and(|(_, link)| link.flags & OPT_OUT != 0);
        if !(wanted.may_lack && opts_out) {
            let name = Name::from_wire(&wanted.name).unwrap_or_else(|_| zone.apex.clone());
            zone.note(wanted.place, format!("{name} has no NSEC3"));
        }
    }
}

/// The names that have an NSEC3, by hash: all of the zone, and empty ones between them.
fn wanted_of(zone: &Zone<'_>, hashing: &Hashing<'_>) -> BTreeMap<Hash, Wanted> {
    let mut names: BTreeMap<&[u8], Wanted> = BTreeMap::new();
    for (place, (kind, node)) in zone.nodes.iter().enumerate() {
        if !matches!(kind, Kind::Own | Kind::Cut) {
            continue;
        }
        let key = node.key();
        let may_lack = *kind == Kind::Cut && node.rrset(Rtype::DS).is_none();
        for end in [0].into_iter().chain(SortKey::ends(key)) {
            let types = if end == key.len() {
                listed(*kind, node)
            } else {
                Types::new()
            };
            let known = names.entry(&key[..end]).or_insert_with(|| {
                let mut name = Vec::new();
                SortKey::write_wire(&key[..end], &mut name);
                name.extend_from_slice(zone.apex.to_lower().as_wire());
                Wanted {
                    name,
                    types: Types::new(),
                    may_lack,
                    place,
                }
            });
            known.may_lack &= may_lack;
            if end == key.len() {
                known.types = types;
            }
        }
    }
    let names = names.into_values();
    names
        .map(|wanted| (hashing.of(&wanted.name), wanted))
        .collect()
}

/// The NSEC3 of the zone, by hash.
fn links_of<'a>(zone: &mut Zone<'a>, hashing: &Hashing<'_>) -> Option<BTreeMap<Hash, Link<'a>>> {
    let mut links = BTreeMap::new();
    let problems = zone.problems.len();
    for place in 0..zone.nodes.len() {
        let (kind, node) = zone.nodes[place];
        let owner = zone.owner(node);
        if node.rrset(Rtype::NSEC).is_some() {
            zone.note(place, format!("{owner} has NSEC in a zone with NSEC3"));
        }
        if kind != Kind::Hash {
            continue;
        }
        if zone.is_full() {
            break;
        }
        match link_of(hashing, place, node) {
            Ok((hash, link)) => drop(links.insert(hash, link)),
            Err(why) => zone.note(place, format!("the NSEC3 of {owner} {why}")),
        }
    }
    (zone.problems.len() == problems).then_some(links)
}

fn link_of<'a>(
    hashing: &Hashing<'_>,
    place: usize,
    node: &'a Node,
) -> Result<(Hash, Link<'a>), &'static str> {
    let unreadable = "cannot be read";
    if !node.is_hash() {
        return Err("is beside other records");
    }
    let mut data = node
        .rrset(Rtype::NSEC3)
        .into_iter()
        .flat_map(|set| set.data());
    let (Some(data), None) = (data.next(), data.next()) else {
        return Err("is not the only one");
    };
    let (own, flags, rest) = Hashing::read(data).ok_or(unreadable)?;
    if own != *hashing {
        return Err("differs from NSEC3PARAM in hash, iterations or salt");
    }
    if flags & !OPT_OUT != 0 {
        return Err("has flags that are not known");
    }
    let (length, rest) = rest.split_first().ok_or(unreadable)?;
    let (next, bitmap) = rest
        .split_at_checked(usize::from(*length))
        .ok_or(unreadable)?;
    let types = read_types(bitmap).ok_or(unreadable)?;
    let hash = hash_of(node.key()).ok_or("is not at a hash below the apex")?;
    let link = Link {
        flags,
        next,
        types,
        place,
    };
    Ok((hash, link))
}

/// The hash that the key of an owner is.
fn hash_of(key: &[u8]) -> Option<Hash> {
    let text = key.strip_suffix(&[0]).filter(|text| text.len() == 32)?;
    let mut hash = [0; OCTETS];
    for (five, digits) in hash.chunks_mut(5).zip(text.chunks(8)) {
        let bits = digits.iter().try_fold(0_u64, |bits, digit| {
            let value = char::from(*digit).to_digit(32)?;
            Some(bits << 5 | u64::from(value))
        })?;
        five.copy_from_slice(&bits.to_be_bytes()[3..]);
    }
    Some(hash)
}

/// Checks that the chain is closed, and that each link is of a name and has its types.
fn check_links(
    zone: &mut Zone<'_>,
    links: &BTreeMap<Hash, Link<'_>>,
    wanted: &BTreeMap<Hash, Wanted>,
) {
    let first = links.keys().next();
    for (hash, link) in links {
        if zone.is_full() {
            return;
        }
        let next = links.range(*hash..).nth(1).map(|(next, _)| next).or(first);
        let shown = |hash: &[u8]| String::from_utf8_lossy(&label(hash)).into_owned();
        let own = shown(hash);
        if next.is_none_or(|next| link.next != next) {
            let next = next.map_or_else(String::new, |next| shown(next));
            let message = format!(
                "the NSEC3 {own} leads to {}, and the next hash is {next}",
                shown(link.next)
            );
            zone.note(link.place, message);
        }
        match wanted.get(hash) {
            None => zone.note(
                link.place,
                format!("the NSEC3 {own} is of no name of the zone"),
            ),
            Some(wanted) => {
                let name = Name::from_wire(&wanted.name).unwrap_or_else(|_| zone.apex.clone());
                let proof = format!("the NSEC3 of {name}");
                if let Some(message) = differing(&proof, &link.types, &wanted.types) {
                    zone.note(link.place, message);
                }
            }
        }
    }
}
