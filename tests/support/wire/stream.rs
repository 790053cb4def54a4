//! Zone transfers as a client reads them: full, incremental, and what an increment means.

use std::collections::BTreeSet;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;

use super::{AXFR, Connection, IXFR, Message, Query, Record, SOA, decoded};

/// A finished transfer.
#[derive(Clone, Debug)]
pub struct Transfer {
    pub messages: Vec<Message>,
    /// The answers of all messages, first and last SOA included.
    pub records: Vec<Record>,
}

/// Reads a transfer as its question asks for: AXFR, or IXFR when the query has a serial.
///
/// # Errors
/// A refusal (`PermissionDenied`, with the code), a stream that breaks off or cannot be read.
pub fn transfer(server: SocketAddr, query: &Query) -> io::Result<Transfer> {
    let mut connection = Connection::open(server)?;
    connection.send(&query.encode())?;
    let mut result = Transfer {
        messages: Vec::new(),
        records: Vec::new(),
    };
    let mut end = End {
        asked: query.serial,
        first: None,
        soas: 0,
        last_was_soa: false,
    };
    loop {
        let message = decoded(&connection.receive()?)?;
        if message.rcode() != 0 || message.answers.is_empty() {
            let text = format!(
                "rcode {}, {} answers",
                message.rcode(),
                message.answers.len()
            );
            return Err(io::Error::new(ErrorKind::PermissionDenied, text));
        }
        let mut is_over = false;
        for record in &message.answers {
            if is_over {
                return Err(io::Error::new(
                    ErrorKind::InvalidData,
                    "records after the last SOA",
                ));
            }
            is_over = end.is_reached_by(record);
        }
        // A lone SOA as whole answer means "nothing newer" (RFC 1995 section 4).
        let is_lone = query.serial.is_some() && message.answers.len() == 1 && end.says_current();
        result.records.extend(message.answers.iter().cloned());
        result.messages.push(message);
        if is_over || is_lone {
            return Ok(result);
        }
    }
}

/// Decides where the stream ends: a second SOA ends an AXFR; an IXFR ends by its third SOA with
/// the serial of the first (RFC 1995 section 4), or as an AXFR.
struct End {
    asked: Option<u32>,
    first: Option<u32>,
    soas: usize,
    last_was_soa: bool,
}

impl End {
    fn is_reached_by(&mut self, record: &Record) -> bool {
        let Some(serial) = record.serial() else {
            // AXFR-style answer to an IXFR: the second record is not an SOA.
            if self.soas == 1 && self.last_was_soa {
                self.asked = None;
            }
            self.last_was_soa = false;
            return false;
        };
        self.soas += 1;
        self.last_was_soa = true;
        match self.first {
            None => {
                self.first = Some(serial);
                false
            }
            // In a chain the newest serial stands second as the start of the last additions:
            // each step has two SOAs, so the closing one comes at an even place.
            Some(first) => first == serial && (self.asked.is_none() || self.soas.is_multiple_of(2)),
        }
    }

    /// Whether nothing but an SOA not newer than the asked one was seen.
    fn says_current(&self) -> bool {
        match (self.asked, self.first) {
            (Some(asked), Some(first)) if self.soas == 1 => {
                // RFC 1982: not newer is a difference below half the circle.
                asked.wrapping_sub(first) < 1 << 31
            }
            _ => false,
        }
    }
}

/// The zone by AXFR, without the closing SOA.
pub fn axfr(server: SocketAddr, zone: &str) -> io::Result<Vec<Record>> {
    let mut records = transfer(server, &Query::new(zone, AXFR))?.records;
    records.pop();
    Ok(records)
}

/// One difference of an incremental transfer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    pub from: u32,
    pub to: u32,
    /// Both with their SOA first.
    pub removed: Vec<Record>,
    pub added: Vec<Record>,
}

/// What an IXFR can bring.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Increment {
    /// We have the newest: the lone SOA's serial.
    Current(u32),
    /// The whole zone, without the closing SOA.
    Full(Vec<Record>),
    Steps(Vec<Step>),
}

impl Increment {
    /// The serial one has after it.
    pub fn serial(&self) -> u32 {
        match self {
            Self::Current(serial) => *serial,
            Self::Full(records) => records[0].serial().expect("a stream opens with an SOA"),
            Self::Steps(steps) => steps.last().expect("one step at least").to,
        }
    }
}

/// Asks for the differences since `serial`.
pub fn ixfr(server: SocketAddr, zone: &str, serial: u32) -> io::Result<Increment> {
    let query = Query {
        serial: Some(serial),
        ..Query::new(zone, IXFR)
    };
    let mut records = transfer(server, &query)?.records;
    if records.len() == 1 {
        return Ok(Increment::Current(
            records[0].serial().expect("the stream opens with an SOA"),
        ));
    }
    records.pop();
    if records.get(1).is_none_or(|second| second.rtype != SOA) {
        return Ok(Increment::Full(records));
    }
    let mut parts: Vec<Vec<Record>> = Vec::new();
    for record in records.drain(1..) {
        if record.rtype == SOA {
            parts.push(Vec::new());
        }
        parts
            .last_mut()
            .expect("the second record is an SOA")
            .push(record);
    }
    let steps = parts.chunks(2).map(|pair| {
        let [removed, added] = pair else {
            return Err(io::Error::new(
                ErrorKind::InvalidData,
                "a step without additions",
            ));
        };
        let serials = [removed, added].map(|part| part[0].serial().expect("parts open with SOAs"));
        let [from, to] = serials;
        Ok(Step {
            from,
            to,
            removed: removed.clone(),
            added: added.clone(),
        })
    });
    Ok(Increment::Steps(steps.collect::<io::Result<_>>()?))
}

/// Applies steps to a zone, strictly: the chain must join, removed records must be there, added ones
/// must not.
pub fn apply(zone: &[Record], steps: &[Step]) -> Result<Vec<Record>, String> {
    let mut set: BTreeSet<Record> = zone.iter().cloned().collect();
    for step in steps {
        let current = set.iter().find_map(Record::serial);
        if current != Some(step.from) {
            return Err(format!("step from {} meets zone at {current:?}", step.from));
        }
        for record in &step.removed {
            if !set.remove(record) {
                return Err(format!("removes what is not there: {}", record.text()));
            }
        }
        for record in &step.added {
            if !set.insert(record.clone()) {
                return Err(format!("adds what is there: {}", record.text()));
            }
        }
    }
    Ok(set.into_iter().collect())
}
