//! Parses the data of a record from the words of a line into wire form.
//!
//! NLnet Labs' `domain` knows the fields of most types, and reads our words one by one. Simple types that it does not
//! know are read here: SOA (its timers have units), types with the layout of MX, SPF, URI. Data of any type may be
//! written as `\# LENGTH HEX` (RFC 3597 section 5), which is checked if the type is known.
//!
//! # Not implemented
//! The text form of LOC, APL, CERT, HIP and WKS, and of SvcParamKeys with a `9` or `z` (as in `key99`), which the
//! library refuses: write them as `\#`.

use dns::{Name, Rdata, Rtype, Serial, Soa};
use domain::base::iana::Rtype as TheirRtype;
use domain::base::rdata::{ComposeRecordData, ParseRecordData};
use domain::base::scan::{ConvertSymbols, EntrySymbol, Scanner, ScannerError, Symbol};
use domain::base::{CharStr, Name as TheirName};
use domain::dep::octseq::{Parser, str::Str};
use domain::rdata::{Mx, Txt, ZoneRecordData};

use super::lexer::Word;
use super::quantity;

/// AFSDB, RT and KX have the layout of MX, a number and a name (RFC 1183, RFC 2230).
const LIKE_MX: [Rtype; 3] = [Rtype(18), Rtype(21), Rtype(36)];
/// SPF has the layout of TXT, strings (RFC 4408 section 3.1.1).
const SPF: Rtype = Rtype(99);
/// URI (RFC 7553 section 4).
const URI: Rtype = Rtype(256);

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct DataError {
    /// The index of the word. It is that after the last one if a word is missing.
    pub(super) word: usize,
    pub(super) message: String,
}

/// An error of the library, without a place.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct ScanError(String);

impl ScannerError for ScanError {
    fn custom(message: &'static str) -> Self {
        Self(message.to_owned())
    }

    fn end_of_entry() -> Self {
        Self("something is missing after this".to_owned())
    }

    fn short_buf() -> Self {
        Self("the data is too long".to_owned())
    }

    fn trailing_tokens() -> Self {
        Self("unexpected word".to_owned())
    }
}

/// Reads the data of a type other than SOA.
pub(super) fn rdata(rtype: Rtype, words: &[Word<'_>], origin: &Name) -> Result<Rdata, DataError> {
    let mut source = Words::new(words, origin);
    let octets = scan(rtype, &mut source).map_err(|error| source.at_last(error))?;
    source.end()?;
    Rdata::from_octets(&octets).map_err(|error| source.at_last(ScanError(error.to_string())))
}

/// Reads the data of a SOA (RFC 1035 section 3.3.13), whose times may have units. The TTL is set to the minimum.
pub(super) fn soa(words: &[Word<'_>], origin: &Name) -> Result<(Soa, Serial), DataError> {
    let mut source = Words::new(words, origin);
    let read = scan_soa(&mut source).map_err(|error| source.at_last(error))?;
    source.end()?;
    Ok(read)
}

fn scan_soa(source: &mut Words<'_>) -> Result<(Soa, Serial), ScanError> {
    if source.scan_opt_unknown_marker()? {
        source.at -= 1;
        let octets = scan_known(Rtype::SOA, source)?;
        let minimum = dns::Ttl::ZERO;
        let malformed = || ScanError("this is not the data of a SOA".to_owned());
        let (mut soa, serial) = Soa::decode(&octets, minimum).ok_or_else(malformed)?;
        soa.ttl = soa.minimum;
        return Ok((soa, serial));
    }
    let mname = source.name()?;
    let rname = source.name()?;
    let serial = source.text()?;
    let serial = serial.parse().map_err(|_| {
        let text = format!("\"{serial}\" is not a serial: write a number up to 4294967295");
        ScanError(text)
    })?;
    let mut time = || -> Result<_, ScanError> {
        quantity::ttl(source.text()?).map_err(|error| ScanError(error.to_string()))
    };
    let (refresh, retry, expire, minimum) = (time()?, time()?, time()?, time()?);
    let soa = Soa {
        mname,
        rname,
        refresh,
        retry,
        expire,
        minimum,
        ttl: minimum,
    };
    Ok((soa, Serial::decode(serial)))
}

fn scan(rtype: Rtype, source: &mut Words<'_>) -> Result<Vec<u8>, ScanError> {
    let is_marked = source.peek().is_some_and(Words::is_marker);
    if is_marked {
        scan_known(rtype, source)
    } else if LIKE_MX.contains(&rtype) {
        composed(&Mx::scan(source)?)
    } else if rtype == SPF {
        composed(&Txt::scan(source)?)
    } else if rtype == URI {
        let mut octets = Vec::new();
        for _ in 0..2 {
            let text = source.text()?;
            let number: u16 = text
                .parse()
                .map_err(|_| ScanError(format!("\"{text}\" is not a number up to 65535")))?;
            octets.extend_from_slice(&number.to_be_bytes());
        }
        octets.extend_from_slice(&source.scan_octets()?);
        Ok(octets)
    } else {
        scan_known(rtype, source)
    }
}

/// Reads the data of a type that the library knows, or `\#`.
fn scan_known(rtype: Rtype, source: &mut Words<'_>) -> Result<Vec<u8>, ScanError> {
    let theirs = TheirRtype::from_int(rtype.0);
    let is_marked = source.peek().is_some_and(Words::is_marker);
    let data: ZoneRecordData<Vec<u8>, TheirName<Vec<u8>>> = match ZoneRecordData::scan(
        theirs, source,
    ) {
        Ok(data) => data,
        Err(error) if !is_marked && is_unknown_to_them(&error) => {
            return Err(ScanError(format!(
                "the data of {rtype} has no text form here: write it as \\# LENGTH HEX (RFC 3597)"
            )));
        }
        Err(error) => return Err(error),
    };
    let octets = composed(&data)?;
    if is_marked && !is_well_formed(theirs, &octets) {
        return Err(ScanError(format!(
            "these bytes are not the data of {rtype}"
        )));
    }
    Ok(octets)
}

fn is_unknown_to_them(error: &ScanError) -> bool {
    error.0.starts_with("unknown record type")
}

/// Whether bytes are complete data of a type that the library knows, with uncompressed names.
fn is_well_formed(rtype: TheirRtype, octets: &[u8]) -> bool {
    let mut parser = Parser::from_ref(octets);
    let parsed =
        ZoneRecordData::<&[u8], domain::base::ParsedName<&[u8]>>::parse_rdata(rtype, &mut parser);
    match parsed {
        Ok(None) => true,
        Ok(Some(data)) => {
            parser.remaining() == 0 && composed(&data).is_ok_and(|again| again == octets)
        }
        Err(_) => false,
    }
}

fn composed(data: &impl ComposeRecordData) -> Result<Vec<u8>, ScanError> {
    let mut octets = Vec::new();
    data.compose_rdata(&mut octets)
        .map_err(|_| ScanError::short_buf())?;
    Ok(octets)
}

/// The words of one record's data, for the library.
struct Words<'a> {
    words: &'a [Word<'a>],
    at: usize,
    origin: &'a Name,
}

impl<'a> Words<'a> {
    const fn new(words: &'a [Word<'a>], origin: &'a Name) -> Self {
        Self {
            words,
            at: 0,
            origin,
        }
    }

    fn peek(&self) -> Option<&'a Word<'a>> {
        self.words.get(self.at)
    }

    /// Whether a word is `\#`.
    fn is_marker(word: &Word<'_>) -> bool {
        !word.quoted && *word.raw == *b"\\#"
    }

    fn take(&mut self) -> Result<&'a Word<'a>, ScanError> {
        let word = self.peek().ok_or_else(ScanError::end_of_entry)?;
        self.at += 1;
        Ok(word)
    }

    /// Takes the next word as plain text.
    fn text(&mut self) -> Result<&'a str, ScanError> {
        let word = self.take()?;
        std::str::from_utf8(&word.raw).map_err(|_| ScanError("this is not plain text".to_owned()))
    }

    /// Takes the next word as a name.
    fn name(&mut self) -> Result<Name, ScanError> {
        let word = self.take()?;
        name(word, self.origin).map_err(ScanError)
    }

    /// An error at the word that was read last.
    fn at_last(&self, error: ScanError) -> DataError {
        DataError {
            word: self.at.saturating_sub(1),
            message: error.0,
        }
    }

    /// Reports words that are left.
    fn end(&self) -> Result<(), DataError> {
        match self.peek() {
            None => Ok(()),
            Some(word) => Err(DataError {
                word: self.at,
                message: format!(
                    "\"{}\" is one word too many: the data is complete",
                    word.shown()
                ),
            }),
        }
    }
}

/// A word as a name, in `origin` when it is relative.
pub(super) fn name(word: &Word<'_>, origin: &Name) -> Result<Name, String> {
    let text = std::str::from_utf8(&word.raw)
        .map_err(|_| "a name holds bytes that are not text: write them as \\DDD".to_owned())?;
    Name::parse_in(text, origin).map_err(|error| error.to_string())
}

/// The bytes of a word, escapes resolved.
pub(super) fn unescaped(raw: &[u8]) -> Result<Vec<u8>, &'static str> {
    let mut out = Vec::with_capacity(raw.len());
    let mut rest = raw;
    while let Some((octet, _)) = next_symbol(&mut rest)? {
        out.push(octet);
    }
    Ok(out)
}

/// The notation of a byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Written {
    Plain,
    /// `\X`.
    Simple,
    /// `\DDD`.
    Decimal,
}

/// Takes one byte, escapes resolved.
fn next_symbol(rest: &mut &[u8]) -> Result<Option<(u8, Written)>, &'static str> {
    const BAD: &str = "an escape is neither \\DDD (000 to 255) nor \\X";
    let Some((first, after)) = rest.split_first() else {
        return Ok(None);
    };
    if *first != b'\\' {
        *rest = after;
        return Ok(Some((*first, Written::Plain)));
    }
    let (second, after) = after.split_first().ok_or(BAD)?;
    if !second.is_ascii_digit() {
        *rest = after;
        return Ok(Some((*second, Written::Simple)));
    }
    let (two, after) = after.split_first_chunk::<2>().ok_or(BAD)?;
    let mut value = u32::from(second - b'0');
    for digit in two {
        if !digit.is_ascii_digit() {
            return Err(BAD);
        }
        value = value * 10 + u32::from(digit - b'0');
    }
    *rest = after;
    let octet = u8::try_from(value).map_err(|_| BAD)?;
    Ok(Some((octet, Written::Decimal)))
}

fn each_symbol(
    word: &Word<'_>,
    mut each: impl FnMut(Symbol) -> Result<(), ScanError>,
) -> Result<(), ScanError> {
    let mut rest: &[u8] = &word.raw;
    while let Some((octet, how)) = next_symbol(&mut rest).map_err(ScanError::custom)? {
        each(match how {
            Written::Plain if octet.is_ascii() => Symbol::Char(char::from(octet)),
            Written::Plain => {
                return Err(ScanError::custom("only ASCII is allowed here"));
            }
            Written::Simple if octet.is_ascii() => Symbol::SimpleEscape(octet),
            Written::Simple | Written::Decimal => Symbol::DecimalEscape(octet),
        })?;
    }
    Ok(())
}

fn put(out: &mut Vec<u8>, data: Option<&[u8]>) {
    out.extend_from_slice(data.unwrap_or_default());
}

impl Scanner for Words<'_> {
    type Octets = Vec<u8>;
    type OctetsBuilder = Vec<u8>;
    type Name = TheirName<Vec<u8>>;
    type Error = ScanError;

    fn has_space(&self) -> bool {
        self.peek().is_none_or(|word| !word.joined)
    }

    fn continues(&mut self) -> bool {
        self.peek().is_some()
    }

    fn scan_symbols<F>(&mut self, op: F) -> Result<(), ScanError>
    where
        F: FnMut(Symbol) -> Result<(), ScanError>,
    {
        each_symbol(self.take()?, op)
    }

    fn scan_entry_symbols<F>(&mut self, mut op: F) -> Result<(), ScanError>
    where
        F: FnMut(EntrySymbol) -> Result<(), ScanError>,
    {
        while self.continues() {
            each_symbol(self.take()?, |symbol| op(symbol.into()))?;
            op(EntrySymbol::EndOfToken)?;
        }
        Ok(())
    }

    fn convert_token<C: ConvertSymbols<Symbol, ScanError>>(
        &mut self,
        mut convert: C,
    ) -> Result<Vec<u8>, ScanError> {
        let mut out = Vec::new();
        each_symbol(self.take()?, |symbol| {
            put(&mut out, convert.process_symbol(symbol)?);
            Ok(())
        })?;
        put(&mut out, convert.process_tail()?);
        Ok(out)
    }

    fn convert_entry<C: ConvertSymbols<EntrySymbol, ScanError>>(
        &mut self,
        mut convert: C,
    ) -> Result<Vec<u8>, ScanError> {
        let mut out = Vec::new();
        while self.continues() {
            each_symbol(self.take()?, |symbol| {
                put(&mut out, convert.process_symbol(symbol.into())?);
                Ok(())
            })?;
        }
        put(&mut out, convert.process_tail()?);
        Ok(out)
    }

    fn scan_octets(&mut self) -> Result<Vec<u8>, ScanError> {
        unescaped(&self.take()?.raw).map_err(ScanError::custom)
    }

    fn scan_svcb_octets(&mut self) -> Result<Vec<u8>, ScanError> {
        let mut octets = self.scan_octets()?;
        while self.peek().is_some_and(|word| word.joined) {
            octets.extend_from_slice(&self.scan_octets()?);
        }
        Ok(octets)
    }

    fn scan_ascii_str<F, T>(&mut self, op: F) -> Result<T, ScanError>
    where
        F: FnOnce(&str) -> Result<T, ScanError>,
    {
        let octets = self.scan_octets()?;
        match std::str::from_utf8(&octets) {
            Ok(text) if text.is_ascii() => op(text),
            _ => Err(ScanError::custom("only ASCII is allowed here")),
        }
    }

    fn scan_name(&mut self) -> Result<Self::Name, ScanError> {
        let name = self.name()?;
        TheirName::from_octets(name.as_wire().to_vec())
            .map_err(|_| ScanError::custom("this is not a domain name"))
    }

    fn scan_charstr(&mut self) -> Result<CharStr<Vec<u8>>, ScanError> {
        CharStr::from_octets(self.scan_octets()?)
            .map_err(|_| ScanError::custom("a string is longer than 255 bytes: split it"))
    }

    fn scan_string(&mut self) -> Result<Str<Vec<u8>>, ScanError> {
        Str::from_utf8(self.scan_octets()?).map_err(|_| ScanError::custom("this is not UTF-8"))
    }

    fn scan_charstr_entry(&mut self) -> Result<Vec<u8>, ScanError> {
        if !self.continues() {
            return Err(ScanError::end_of_entry());
        }
        let mut out = Vec::new();
        while self.continues() {
            let string = self.scan_charstr()?;
            let octets: &[u8] = string.as_ref();
            out.push(u8::try_from(octets.len()).map_err(|_| ScanError::short_buf())?);
            out.extend_from_slice(octets);
        }
        Ok(out)
    }

    fn scan_opt_unknown_marker(&mut self) -> Result<bool, ScanError> {
        let is_marker = self.peek().is_some_and(Self::is_marker);
        if is_marker {
            self.at += 1;
        }
        Ok(is_marker)
    }

    fn octets_builder(&mut self) -> Result<Vec<u8>, ScanError> {
        Ok(Vec::new())
    }
}
