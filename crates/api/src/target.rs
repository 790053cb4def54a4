//! The target of a request: the endpoint that its path names, the zone, the parameters.

use dns::Name;
use http::Uri;
use percent_encoding::percent_decode_str;

use crate::endpoint::{ENDPOINTS, Endpoint, Parameter, Times, Values};
use crate::openapi;
use crate::refusal::Refusal;

/// The most bytes of path and query.
const MOST_OCTETS: usize = 4096;

/// The target of a request.
#[derive(Debug)]
pub(crate) enum Target {
    /// A question about the history.
    Question(Question),
    /// A description of the API, which has no secrets.
    Description(&'static str),
}

/// An endpoint with the values of a request.
#[derive(Debug)]
pub(crate) struct Question {
    pub(crate) endpoint: &'static Endpoint,
    pub(crate) values: Values,
}

impl Target {
    /// Reads path and query.
    pub(crate) fn parse(uri: &Uri) -> Result<Self, Refusal> {
        let (path, query) = (uri.path(), uri.query().unwrap_or_default());
        if path.len() + query.len() > MOST_OCTETS {
            return Err(Refusal::LongUrl);
        }
        if let Some(text) = openapi::document(path) {
            return Ok(Self::Description(text));
        }
        let parts: Vec<&str> = path.split('/').collect();
        let (zone, name) = match parts.as_slice() {
            ["", "v1", name] => (None, *name),
            ["", "v1", "zones", zone, name] => (Some(parse_zone(zone)?), *name),
            _ => return Err(Refusal::NoEndpoint),
        };
        let is_it = |it: &&Endpoint| it.name == name && it.has_zone == zone.is_some();
        let endpoint = ENDPOINTS.iter().find(is_it).ok_or(Refusal::NoEndpoint)?;
        let given = parse_query(query, endpoint.parameters)?;
        let values = Values { zone, given };
        Ok(Self::Question(Question { endpoint, values }))
    }
}

/// The zone in a path.
fn parse_zone(text: &str) -> Result<Name, Refusal> {
    let wrong = |why: &dyn std::fmt::Display| Refusal::Wrong(format!("the zone: {why}"));
    let text = percent_decode_str(text).decode_utf8();
    let text = text.map_err(|error| wrong(&error))?;
    // In a question it would begin a serial or a time.
    if text.contains('@') {
        return Err(wrong(&"a zone has no @; write the version as at=MOMENT"));
    }
    let name = Name::parse(&text).map_err(|error| wrong(&error))?;
    Ok(name.to_lower())
}

/// The parameters of a query.
fn parse_query(
    query: &str,
    known: &'static [Parameter],
) -> Result<Vec<(&'static str, String)>, Refusal> {
    let mut given: Vec<(&'static str, String)> = Vec::new();
    for (name, value) in form_urlencoded::parse(query.as_bytes()) {
        let Some(parameter) = known.iter().find(|it| it.name == name) else {
            return Err(unknown(&name, known));
        };
        let is_again = given.iter().any(|(it, _)| *it == parameter.name);
        if is_again && parameter.times != Times::Any {
            let why = format!("the parameter {name} is given twice");
            return Err(Refusal::Wrong(why));
        }
        given.push((parameter.name, value.into_owned()));
    }
    Ok(given)
}

/// The refusal of a parameter that the endpoint does not have.
fn unknown(name: &str, known: &[Parameter]) -> Refusal {
    let names: Vec<&str> = known.iter().map(|it| it.name).collect();
    let there = match names.is_empty() {
        true => "it takes none".to_owned(),
        false => format!("it takes {}", names.join(", ")),
    };
    let name = name.escape_debug();
    Refusal::Wrong(format!("no parameter \"{name}\" here; {there}"))
}

#[cfg(test)]
mod tests;
