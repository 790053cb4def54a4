//! Zone files: RFC 1035 master files become the records of a zone, or the names that lie under a cluster's.
//!
//! `$ORIGIN`, `$TTL`, `$INCLUDE`, BIND's `$GENERATE`, `\#` for any type (RFC 3597), TTLs with units. Every
//! problem comes with file, line and column, many at once. A file is taken whole or not at all: what is
//! wrong with one line leaves the last good content standing.
//!
//! - A file that is included is named relative to the file that includes it.
//! - RRsets whose TTLs differ have the lowest (RFC 2181 section 5.2); a record that stands twice counts
//!   once.
//! - The names of files appear in messages as they were written.

mod check;
mod data;
pub mod follow;
mod generate;
mod lexer;
mod quantity;
mod reader;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use self::check::{Check, owners};
use self::reader::{MOST_PROBLEMS, Placed, Reader};
use dns::{Name, Record, Rtype, Serial, Soa};
use zone::Node;

/// What a file is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Role {
    /// It is a zone: it must have SOA and NS.
    Zone,
    /// It holds names that lie under those of a cluster; what stands at its top is not used.
    Overlay,
}

/// A place in a file.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Spot {
    /// The file.
    pub file: Arc<str>,
    /// The line, from 1; 0 stands for the file as a whole.
    pub line: u32,
    /// The column in octets, from 1.
    pub column: u32,
}

impl Spot {
    /// A file as a whole.
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

    /// A problem at this place.
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

/// What is wrong with a file, and where.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileProblem {
    /// Where.
    pub spot: Spot,
    /// What, and what to do.
    pub message: String,
}

impl fmt::Display for FileProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.spot, self.message)
    }
}

/// A file cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct BadFile {
    /// What is wrong, in the order of lines; at least one.
    pub problems: Vec<FileProblem>,
}

impl fmt::Display for BadFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, problem) in self.problems.iter().enumerate() {
            let separator = if place == 0 { "" } else { "\n" };
            write!(f, "{separator}{problem}")?;
        }
        if self.problems.len() >= MOST_PROBLEMS {
            write!(
                f,
                "\nand maybe more: reading ended after {MOST_PROBLEMS} problems"
            )?;
        }
        Ok(())
    }
}

/// The content of a zone file: checked, in canonical order. Files that say the same are equal.
#[derive(Debug, Clone)]
pub struct ZoneFile {
    /// The file, as it was named.
    pub path: Arc<str>,
    /// SOA fields and the file's own serial, if it has a SOA.
    pub soa: Option<(Soa, Serial)>,
    /// The owners with their records, SOA aside, in canonical order.
    nodes: Vec<Node>,
    /// Where each of them is first spoken of.
    spots: Vec<Spot>,
}

impl ZoneFile {
    /// The node with this key.
    #[must_use]
    pub fn get(&self, key: &[u8]) -> Option<&Node> {
        let place = self
            .nodes
            .binary_search_by(|node| node.key().cmp(key))
            .ok()?;
        self.nodes.get(place)
    }

    /// Where the owner with this key is first spoken of.
    #[must_use]
    pub fn spot(&self, key: &[u8]) -> Option<&Spot> {
        let place = self
            .nodes
            .binary_search_by(|node| node.key().cmp(key))
            .ok()?;
        self.spots.get(place)
    }

    /// The content without what is neither at nor below one of these names.
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
            path: self.path,
            soa: self.soa,
            nodes,
            spots,
        }
    }

    /// All nodes in canonical order.
    #[must_use]
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }
}

/// A file with those it includes: what they say, or what is wrong, and which files were looked at.
#[derive(Debug)]
pub struct Reading {
    /// What they say.
    pub content: Result<ZoneFile, BadFile>,
    /// The files, the first one first; a file that is included twice stands twice.
    pub files: Vec<PathBuf>,
}

/// Reads a zone file that is at hand.
#[cfg(any(test, feature = "testing"))]
pub fn read_text(name: &str, text: &str, apex: &Name, role: Role) -> Result<ZoneFile, BadFile> {
    let mut open = |_: &Path| Ok(text.as_bytes().to_vec());
    read_with(Path::new(name), apex, role, &mut open).content
}

/// Reads a zone file; `open` gives the octets of files.
fn read_with(path: &Path, apex: &Name, role: Role, open: reader::Open<'_>) -> Reading {
    let mut reader = Reader::new(apex, open);
    reader.read_first(path);
    let Reader {
        records,
        soa,
        mut problems,
        files,
        ..
    } = reader;
    let grouped = owners(&records, apex);
    // A file with lines that cannot be read lacks what it may well have: only what it has is judged.
    if problems.is_empty() {
        let check = Check {
            apex,
            role,
            records: &records,
            owners: &grouped,
            soa: soa.as_ref().map(|(_, _, spot)| spot),
            whole: Spot::of_file(path),
        };
        problems = check.run();
        problems.truncate(MOST_PROBLEMS);
    }
    let content = if problems.is_empty() {
        let (nodes, spots) = nodes_of(records, &grouped, apex);
        Ok(ZoneFile {
            path: path.display().to_string().into(),
            soa: soa.map(|(soa, serial, _)| (soa, serial)),
            nodes,
            spots,
        })
    } else {
        Err(BadFile { problems })
    };
    Reading { content, files }
}

/// The nodes of records, with the place of each.
fn nodes_of(records: Vec<Placed>, grouped: &check::Owners, apex: &Name) -> (Vec<Node>, Vec<Spot>) {
    let mut records: Vec<Option<Placed>> = records.into_iter().map(Some).collect();
    let mut nodes = Vec::with_capacity(grouped.len());
    let mut spots = Vec::with_capacity(grouped.len());
    for places in grouped.values() {
        let own: Vec<Placed> = places
            .iter()
            .filter_map(|place| records.get_mut(*place)?.take())
            .collect();
        let Some((owner, spot)) = own.first().map(|one| (one.owner.clone(), one.spot.clone()))
        else {
            continue;
        };
        let mut parts = own
            .into_iter()
            .map(|one| (one.rtype, one.ttl, one.rdata))
            .collect();
        if let Some(node) = Node::build(&owner, apex, &mut parts) {
            nodes.push(node);
            spots.push(spot);
        }
    }
    (nodes, spots)
}

/// Reads one record that stands alone, as text of a zone file: names without a dot at their end are below the
/// root, and the TTL is an hour where none stands, as in CoreDNS.
///
/// # Errors
/// What is wrong, in words.
pub fn record(text: &str) -> Result<Record, String> {
    let mut words: Vec<&str> = text.split_whitespace().collect();
    let Some(owner) = words
        .first()
        .filter(|owner| !owner.starts_with(['$', ';', '@']))
    else {
        return Err(format!("\"{text}\" is no record"));
    };
    let owner = Name::parse(owner).map_err(|error| error.to_string())?;
    // The class is that of the question, whatever is written.
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
        Some(placed) => Ok(Record {
            owner: placed.owner,
            rtype: placed.rtype,
            ttl: placed.ttl,
            rdata: placed.rdata,
        }),
        None => Err(format!("\"{text}\" is no record")),
    }
}

#[cfg(test)]
mod tests;
