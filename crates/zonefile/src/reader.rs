//! Reads a master file and the files it includes into records, each with its place.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use dns::{Name, Record, Rtype, Serial, Soa, Ttl};

use super::data::{self, DataError};
use super::generate::{self, Range};
use super::lexer::{Entry, Lexer, Word};
use super::quantity;
use super::{FileProblem, Spot};

/// The deepest nesting of included files.
const MOST_DEPTH: usize = 10;
/// The most files of one zone.
const MOST_FILES: usize = 1000;
const MOST_RECORDS: usize = 5_000_000;
/// Reading ends after this many problems.
pub(super) const MOST_PROBLEMS: usize = 20;

/// Reads a file.
pub(super) type Open<'a> = &'a mut dyn FnMut(&Path) -> std::io::Result<Vec<u8>>;

/// A record other than SOA, and the start of its line.
#[derive(Debug, Clone)]
pub(super) struct Placed {
    pub(super) record: Record,
    pub(super) spot: Spot,
}

pub(super) struct Reader<'a> {
    apex: &'a Name,
    open: Open<'a>,
    pub(super) records: Vec<Placed>,
    pub(super) soa: Option<(Soa, Serial, Spot)>,
    pub(super) problems: Vec<FileProblem>,
    /// The number of files that were read.
    files: usize,
    /// The files that are being read, each included by the one before it.
    open_files: Vec<PathBuf>,
    /// The last `$TTL`.
    default_ttl: Option<Ttl>,
    /// The TTL of the last record that had one.
    last_ttl: Option<Ttl>,
}

/// The state of reading one file.
struct Within {
    name: Arc<str>,
    /// The folder that paths of included files are relative to.
    folder: PathBuf,
    origin: Name,
    /// The owner of the last record.
    owner: Option<Name>,
}

/// A problem was noted.
struct Noted;

impl Within {
    fn spot(&self, word: &Word<'_>) -> Spot {
        Spot {
            file: Arc::clone(&self.name),
            line: word.line,
            column: word.column,
        }
    }
}

impl<'a> Reader<'a> {
    pub(super) fn new(apex: &'a Name, open: Open<'a>) -> Self {
        Self {
            apex,
            open,
            records: Vec::new(),
            soa: None,
            problems: Vec::new(),
            files: 0,
            open_files: Vec::new(),
            default_ttl: None,
            last_ttl: None,
        }
    }

    fn is_over(&self) -> bool {
        self.problems.len() >= MOST_PROBLEMS
    }

    fn note(&mut self, spot: Spot, message: impl Into<String>) -> Noted {
        let message = message.into();
        self.problems.push(FileProblem { spot, message });
        Noted
    }

    /// Reads the file of the zone.
    pub(super) fn read_first(&mut self, path: &Path) {
        let origin = self.apex.clone();
        if let Err(error) = self.read(path, origin) {
            let spot = Spot::of_file(path);
            self.note(spot, format!("cannot be read: {error}"));
        }
    }

    /// Reads a file and the files it includes.
    fn read(&mut self, path: &Path, origin: Name) -> std::io::Result<()> {
        self.files += 1;
        let text = (self.open)(path)?;
        self.open_files.push(path.to_owned());
        let mut within = Within {
            name: path.display().to_string().into(),
            folder: path.parent().unwrap_or(Path::new("")).to_owned(),
            origin,
            owner: None,
        };
        let mut lexer = Lexer::new(&text);
        while let Some(entry) = lexer.next_entry() {
            if self.is_over() {
                break;
            }
            match entry {
                // The problem was reported, and the next line may be right.
                Ok(entry) => drop(self.entry(&mut within, &entry)),
                Err(error) => {
                    let spot = Spot {
                        file: Arc::clone(&within.name),
                        line: error.line,
                        column: error.column,
                    };
                    self.note(spot, error.message);
                }
            }
        }
        self.open_files.pop();
        Ok(())
    }

    /// Reads a line: a directive or a record.
    fn entry(&mut self, within: &mut Within, entry: &Entry<'_>) -> Result<(), Noted> {
        let words = &entry.words;
        let Some(first) = words.first() else {
            return Ok(());
        };
        if !entry.indented && !first.quoted && first.raw.starts_with(b"$") {
            return self.directive(within, first, &words[1..]);
        }
        let (owner, rest) = if entry.indented {
            let owner = within.owner.clone().ok_or_else(|| {
                let message = "this line has no owner, and there is no record above it";
                self.note(within.spot(first), message)
            })?;
            (owner, &words[..])
        } else {
            (self.name(within, first)?, &words[1..])
        };
        within.owner = Some(owner.clone());
        self.record(within, owner, first, rest)
    }

    fn name(&mut self, within: &Within, word: &Word<'_>) -> Result<Name, Noted> {
        data::name(word, &within.origin).map_err(|message| self.note(within.spot(word), message))
    }

    fn ttl(&mut self, within: &Within, word: &Word<'_>) -> Result<Ttl, Noted> {
        quantity::ttl(&word.shown())
            .map_err(|error| self.note(within.spot(word), error.to_string()))
    }

    fn directive(
        &mut self,
        within: &mut Within,
        name: &Word<'_>,
        words: &[Word<'_>],
    ) -> Result<(), Noted> {
        if name.is("$GENERATE") {
            return self.generate(within, name, words);
        }
        let (most, form) = if name.is("$ORIGIN") {
            (1, "$ORIGIN NAME")
        } else if name.is("$TTL") {
            (1, "$TTL TIME")
        } else if name.is("$INCLUDE") {
            (2, "$INCLUDE FILE [ORIGIN]")
        } else {
            let message = format!(
                "unknown directive {}: there are $ORIGIN, $TTL, $INCLUDE and $GENERATE",
                name.shown()
            );
            return Err(self.note(within.spot(name), message));
        };
        let Some(first) = words.first() else {
            return Err(self.note(within.spot(name), format!("write: {form}")));
        };
        if let Some(extra) = words.get(most) {
            let message = format!("\"{}\" is one word too many; write: {form}", extra.shown());
            return Err(self.note(within.spot(extra), message));
        }
        if name.is("$ORIGIN") {
            within.origin = self.name(within, first)?;
        } else if name.is("$TTL") {
            self.default_ttl = Some(self.ttl(within, first)?);
        } else {
            self.include(within, first, words.get(1))?;
        }
        Ok(())
    }

    /// Reads an included file, which changes neither origin nor last owner of this one (RFC 1035 section 5.1).
    fn include(
        &mut self,
        within: &Within,
        file: &Word<'_>,
        origin: Option<&Word<'_>>,
    ) -> Result<(), Noted> {
        let origin = match origin {
            Some(word) => self.name(within, word)?,
            None => within.origin.clone(),
        };
        let octets =
            data::unescaped(&file.raw).map_err(|message| self.note(within.spot(file), message))?;
        let name = String::from_utf8(octets)
            .map_err(|_| self.note(within.spot(file), "the name of a file must be UTF-8"))?;
        let path = within.folder.join(name);
        if self.open_files.contains(&path) {
            let message = format!("{} includes itself", path.display());
            return Err(self.note(within.spot(file), message));
        }
        if self.open_files.len() > MOST_DEPTH || self.files == MOST_FILES {
            let message = format!(
                "not included: the limits are {MOST_DEPTH} levels of files, and {MOST_FILES} files in all"
            );
            return Err(self.note(within.spot(file), message));
        }
        self.read(&path, origin).map_err(|error| {
            let message = format!("cannot read {}: {error}", path.display());
            self.note(within.spot(file), message)
        })
    }

    fn generate(
        &mut self,
        within: &mut Within,
        name: &Word<'_>,
        words: &[Word<'_>],
    ) -> Result<(), Noted> {
        let [range, owner, rest @ ..] = words else {
            let form = "write: $GENERATE START-STOP[/STEP] OWNER [TTL] [CLASS] TYPE DATA";
            return Err(self.note(within.spot(name), form));
        };
        let numbers = Range::parse(&range.shown())
            .map_err(|message| self.note(within.spot(range), message))?;
        for number in numbers.numbers() {
            let mut fill = |word| {
                generate::filled(word, number)
                    .map_err(|message| self.note(within.spot(word), message))
            };
            let owner = fill(owner)?;
            let mut filled = rest.iter().map(&mut fill).collect::<Result<Vec<_>, _>>()?;
            let one_quoted = match filled.as_slice() {
                [.., rtype, data] if data.quoted && !is_of_strings(rtype) => Some(data.clone()),
                _ => None,
            };
            if let Some(data) = &one_quoted {
                filled.pop();
                filled.extend(generate::cut_quoted(data));
            }
            let owner = self.name(within, &owner)?;
            within.owner = Some(owner.clone());
            self.record(within, owner, name, &filled)?;
        }
        Ok(())
    }

    /// Reads TTL, class, type and data of a record.
    fn record(
        &mut self,
        within: &Within,
        owner: Name,
        start: &Word<'_>,
        words: &[Word<'_>],
    ) -> Result<(), Noted> {
        let mut written_ttl = None;
        let mut has_class = false;
        let mut at = 0;
        let rtype = loop {
            let Some(word) = words.get(at) else {
                let last = words.last().unwrap_or(start);
                return Err(self.note(within.spot(last), "a record type is missing after this"));
            };
            at += 1;
            if written_ttl.is_none() && !word.quoted && quantity::looks_like_ttl(&word.raw) {
                written_ttl = Some(self.ttl(within, word)?);
            } else if !has_class && is_class(word) {
                if !word.is("IN") && !word.is("CLASS1") {
                    let message = format!("class {} is not supported: only IN is", word.shown());
                    return Err(self.note(within.spot(word), message));
                }
                has_class = true;
            } else {
                break self.rtype(within, word)?;
            }
        };
        self.last_ttl = written_ttl.or(self.last_ttl);
        let ttl = written_ttl.or(self.default_ttl).or(self.last_ttl);
        let type_word = &words[at - 1];
        let words = &words[at..];
        let spot = within.spot(start);
        if rtype == Rtype::SOA {
            let read = data::soa(words, &within.origin);
            let (soa, serial) = read.map_err(|e| self.note_data(within, type_word, words, e))?;
            return self.take_soa(&owner, soa, serial, ttl, spot);
        }
        let read = data::rdata(rtype, words, &within.origin);
        let rdata = read.map_err(|e| self.note_data(within, type_word, words, e))?;
        let Some(ttl) = ttl else {
            let message = "this record has no TTL: write one, or $TTL above";
            return Err(self.note(spot, message));
        };
        if !owner.is_within(self.apex) {
            let message = format!("{owner} is not in the zone {}", self.apex);
            return Err(self.note(spot, message));
        }
        if self.records.len() == MOST_RECORDS {
            return Err(self.note(
                spot,
                format!("more than {MOST_RECORDS} records in one zone file"),
            ));
        }
        let record = Record {
            owner,
            rtype,
            ttl,
            rdata,
        };
        self.records.push(Placed { record, spot });
        Ok(())
    }

    /// Notes a problem in the data of a record.
    fn note_data(
        &mut self,
        within: &Within,
        type_word: &Word<'_>,
        words: &[Word<'_>],
        error: DataError,
    ) -> Noted {
        let word = words.get(error.word).or(words.last()).unwrap_or(type_word);
        let message = format!("{}: {}", type_word.shown(), error.message);
        self.note(within.spot(word), message)
    }

    fn take_soa(
        &mut self,
        owner: &Name,
        mut soa: Soa,
        serial: Serial,
        ttl: Option<Ttl>,
        spot: Spot,
    ) -> Result<(), Noted> {
        if owner != self.apex {
            let message = format!(
                "the SOA of {owner} does not belong here: the zone is {}",
                self.apex
            );
            return Err(self.note(spot, message));
        }
        if let Some((_, _, first)) = &self.soa {
            let message = format!("a second SOA; the first is at {first}");
            return Err(self.note(spot, message));
        }
        match ttl {
            Some(ttl) => soa.ttl = ttl,
            // As in BIND: without any TTL so far, the minimum is the default.
            None => self.default_ttl = Some(soa.ttl),
        }
        self.soa = Some((soa, serial, spot));
        Ok(())
    }

    /// A record type that a zone may hold.
    fn rtype(&mut self, within: &Within, word: &Word<'_>) -> Result<Rtype, Noted> {
        let text = word.shown();
        match text.parse::<Rtype>().ok() {
            Some(rtype) if !word.quoted && rtype.is_meta() => {
                let message = format!("a zone cannot hold records of type {rtype}");
                Err(self.note(within.spot(word), message))
            }
            Some(rtype) if !word.quoted => Ok(rtype),
            _ => {
                let message = format!("unknown record type \"{text}\"");
                Err(self.note(within.spot(word), message))
            }
        }
    }
}

/// Whether a word is a class (RFC 1035 section 3.2.4, RFC 3597 section 5).
fn is_class(word: &Word<'_>) -> bool {
    let numbered = word
        .raw
        .get(..5)
        .is_some_and(|start| start.eq_ignore_ascii_case(b"CLASS"))
        && word.raw.len() > 5
        && word.raw[5..].iter().all(u8::is_ascii_digit);
    !word.quoted && (numbered || ["IN", "CH", "HS", "CS"].iter().any(|class| word.is(class)))
}

/// Whether the data of a type is character strings, so that quotes around all of it make one string.
fn is_of_strings(rtype: &Word<'_>) -> bool {
    ["TXT", "SPF", "HINFO", "TYPE16", "TYPE99", "TYPE13"]
        .iter()
        .any(|text| rtype.is(text))
}
