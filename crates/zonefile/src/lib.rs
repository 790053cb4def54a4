//! Zone files: RFC 1035 master files become the records of a zone, or of names below a cluster's zone.
//!
//! `$ORIGIN`, `$TTL`, `$INCLUDE`, BIND's `$GENERATE`, `\#` for any type (RFC 3597), TTLs with units. Every problem
//! comes with file, line and column, many at once. A file counts as a whole: as long as one line is wrong, the last
//! good content stays in use.
//!
//! - The path in `$INCLUDE` is relative to the including file.
//! - An RRset whose TTLs differ gets the lowest (RFC 2181 section 5.2). Duplicate records count once.
//! - Messages name files as they were written.

mod check;
mod data;
pub mod follow;
mod generate;
mod lexer;
mod quantity;
mod reader;
mod signed;

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use self::check::{Check, owners};
use self::reader::{MOST_PROBLEMS, Placed, Reader};
pub use self::signed::Signed;
use dns::{Name, Record, Rtype, Serial, Soa};
use zone::Node;

/// The use of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Role {
    /// A zone of its own, which must have a SOA.
    Zone,
    /// Names to add to a cluster's zone; records at the apex are not used.
    Overlay,
}

/// A place in a file.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Spot {
    /// The file.
    pub file: Arc<str>,
    /// The line, from 1, or 0 for the whole file.
    pub line: u32,
    /// The column in bytes, from 1.
    pub column: u32,
}

impl Spot {
    /// The whole of a file.
    #[must_use]
    pub fn of_file(path: &Path) -> Self {
        Self {
            file: path.display().to_string().into(),
            line: 0,
            column: 0,
        }
    }

    /// `FILE:LINE`, for the history.
    #[must_use]
    pub fn line_text(&self) -> String {
        if self.line == 0 {
            self.file.to_string()
        } else {
            format!("{}:{}", self.file, self.line)
        }
    }

    fn problem(&self, message: String) -> FileProblem {
        FileProblem {
            spot: self.clone(),
            message,
        }
    }
}

impl fmt::Display for Spot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.line == 0 {
            return f.write_str(&self.file);
        }
        write!(f, "{}:{}:{}", self.file, self.line, self.column)
    }
}

/// A problem in a file.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileProblem {
    /// The place.
    pub spot: Spot,
    /// The problem and its solution.
    pub message: String,
}

impl fmt::Display for FileProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.spot, self.message)
    }
}

/// The problems that make a file unusable.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct BadFile {
    /// At least one, in the order of lines.
    pub problems: Vec<FileProblem>,
}

impl fmt::Display for BadFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut lines: Vec<String> = self.problems.iter().map(ToString::to_string).collect();
        if lines.len() >= MOST_PROBLEMS {
            lines.push(format!(
                "and maybe more: reading ended after {MOST_PROBLEMS} problems"
            ));
        }
        f.write_str(&lines.join("\n"))
    }
}

/// The content of a zone file: checked, in canonical order.
#[derive(Debug, Clone)]
pub struct ZoneFile {
    /// The file, as the configuration names it.
    pub path: Arc<str>,
    /// The SOA and its serial, if there is one.
    pub soa: Option<(Soa, Serial)>,
    /// The owners with their records except SOA, in canonical order.
    nodes: Vec<Node>,
    /// The place of the first record of each node.
    spots: Vec<Spot>,
    /// What its author should know, though it can be used.
    pub warnings: Vec<FileProblem>,
    /// The signatures of a zone that was signed before, which is published as it is.
    pub signed: Option<Signed>,
}

impl ZoneFile {
    /// A file without records.
    #[must_use]
    pub fn empty() -> Self {
        Self {
            path: "".into(),
            soa: None,
            nodes: Vec::new(),
            spots: Vec::new(),
            warnings: Vec::new(),
            signed: None,
        }
    }

    /// The node with this key.
    #[must_use]
    pub fn get(&self, key: &[u8]) -> Option<&Node> {
        self.place(key).map(|place| &self.nodes[place])
    }

    /// The place of the first record of the owner with this key.
    #[must_use]
    pub fn spot(&self, key: &[u8]) -> Option<&Spot> {
        self.place(key).map(|place| &self.spots[place])
    }

    fn place(&self, key: &[u8]) -> Option<usize> {
        let found = self.nodes.binary_search_by(|node| node.key().cmp(key));
        found.ok()
    }

    /// The part of the content that is at or below one of these names.
    fn within(self, names: &[Name], apex: &Name) -> Self {
        let keys: Vec<_> = names
            .iter()
            .filter_map(|name| name.sort_key(apex))
            .collect();
        if keys.iter().any(|key| key.as_bytes().is_empty()) {
            return self;
        }
        let is_within = |node: &Node| {
            keys.iter()
                .any(|key| node.key().starts_with(key.as_bytes()))
        };
        let both = self.nodes.into_iter().zip(self.spots);
        let (nodes, spots) = both.filter(|(node, _)| is_within(node)).unzip();
        Self {
            nodes,
            spots,
            ..self
        }
    }

    /// All nodes in canonical order.
    #[must_use]
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }
}

/// The text of a zone `signed.test.` that is signed, with serial 2026010100.
#[cfg(any(test, feature = "testing"))]
pub const SIGNED_TEXT: &str = include_str!("signed/tests/nsec.zone");

/// Reads a zone file from its text.
#[cfg(any(test, feature = "testing"))]
pub fn read_text(name: &str, text: &str, apex: &Name, role: Role) -> Result<ZoneFile, BadFile> {
    let mut open = |_: &Path| Ok(text.as_bytes().to_vec());
    read_with(Path::new(name), apex, role, None, &mut open)
}

/// Reads a zone file; `open` reads a file. `known` is its content when it was read before.
fn read_with(
    path: &Path,
    apex: &Name,
    role: Role,
    known: Option<&ZoneFile>,
    open: reader::Open<'_>,
) -> Result<ZoneFile, BadFile> {
    let mut reader = Reader::new(apex, open);
    reader.read_first(path);
    let Reader {
        mut records,
        soa,
        mut problems,
        ..
    } = reader;
    let soa_spot = soa.as_ref().map(|(_, _, spot)| spot);
    let mut warnings = Vec::new();
    if let Some((soa, _, spot)) = soa.as_ref().filter(|_| role == Role::Zone)
        && !records.iter().any(|it| is_apex_server(&it.record, apex))
        && let Some(record) = default_server(apex, soa)
    {
        warnings.push(spot.problem(format!(
            "the zone {apex} has no NS at its apex and is served with ns.dns.{apex}: add an NS"
        )));
        let spot = spot.clone();
        records.push(Placed { record, spot });
    }
    let grouped = owners(&records, apex);
    // An unreadable line may contain the record that a check would miss.
    if problems.is_empty() {
        let check = Check {
            apex,
            role,
            records: &records,
            owners: &grouped,
            soa: soa_spot,
            whole: Spot::of_file(path),
        };
        problems = check.problems();
        problems.truncate(MOST_PROBLEMS);
        warnings.extend(check.warnings());
    }
    if !problems.is_empty() {
        return Err(BadFile { problems });
    }
    let mut records: Vec<Option<Placed>> = records.into_iter().map(Some).collect();
    let (nodes, spots): (Vec<Node>, Vec<Spot>) = grouped
        .values()
        .filter_map(|places| node_of(&mut records, places, apex))
        .unzip();
    let soa = soa.map(|(soa, serial, _)| (soa, serial));
    let signed = match &soa {
        Some(soa) if role == Role::Zone => signed::check(apex, soa, &nodes, &spots, known)
            .map_err(|problems| BadFile { problems })?,
        Some(_) | None => None,
    };
    Ok(ZoneFile {
        path: path.display().to_string().into(),
        soa,
        nodes,
        spots,
        warnings,
        signed,
    })
}

fn is_apex_server(record: &Record, apex: &Name) -> bool {
    record.rtype == Rtype::NS && record.owner == *apex
}

/// The NS of a zone that has none, so that it can be transferred: `ns.dns` below it, as in the zones of clusters. `None`
/// where that name is too long.
fn default_server(apex: &Name, soa: &Soa) -> Option<Record> {
    let server = apex.child("dns").and_then(|dns| dns.child("ns")).ok()?;
    Some(Record {
        owner: apex.clone(),
        rtype: Rtype::NS,
        ttl: soa.ttl,
        rdata: dns::Rdata::name(&server),
    })
}

/// The node of one owner's records, which are taken, and the place of the first.
fn node_of(records: &mut [Option<Placed>], places: &[usize], apex: &Name) -> Option<(Node, Spot)> {
    let mut own = places.iter().filter_map(|place| records[*place].take());
    let Placed { record, spot } = own.next()?;
    let mut parts = vec![(record.rtype, record.ttl, record.rdata)];
    parts.extend(own.map(|it| (it.record.rtype, it.record.ttl, it.record.rdata)));
    Some((Node::build(&record.owner, apex, &mut parts)?, spot))
}

/// Reads one record in the text of a zone file. As in CoreDNS, names without a dot at their end are below the root, and
/// the default TTL is an hour.
///
/// # Errors
/// The problem, in words.
pub fn record(text: &str) -> Result<Record, String> {
    let mut words: Vec<&str> = text.split_whitespace().collect();
    let Some(owner) = words
        .first()
        .filter(|owner| !owner.starts_with(['$', ';', '@']))
    else {
        return Err(format!("\"{text}\" is not a record"));
    };
    let owner = Name::parse(owner).map_err(|error| error.to_string())?;
    // The class is always the question's.
    let is_class = |word: &&str| {
        ["CH", "HS", "CS"]
            .iter()
            .any(|it| word.eq_ignore_ascii_case(it))
    };
    let line = match words.iter().take(3).position(is_class) {
        Some(place) if place > 0 => {
            words[place] = "IN";
            words.join(" ")
        }
        Some(_) | None => text.trim_start().to_owned(),
    };
    let mut open = |_: &Path| Ok(format!("$TTL 3600\n$ORIGIN .\n{line}\n").into_bytes());
    let mut reader = Reader::new(&owner, &mut open);
    reader.read_first(Path::new(""));
    if let Some(problem) = reader.problems.first() {
        return Err(format!("\"{text}\": {}", problem.message));
    }
    if let Some((soa, serial, _)) = &reader.soa {
        return Ok(Record {
            owner: owner.clone(),
            rtype: Rtype::SOA,
            ttl: soa.ttl,
            rdata: soa.rdata(*serial),
        });
    }
    match reader.records.pop() {
        Some(placed) => Ok(placed.record),
        None => Err(format!("\"{text}\" is not a record")),
    }
}

#[cfg(test)]
mod tests;
