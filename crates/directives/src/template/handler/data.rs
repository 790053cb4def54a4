//! The data of a question that templates may use.

use std::collections::BTreeMap;

use dns::flags;
use gotext::Value;
use server::message::Request;

use crate::config::Pattern;

/// The data for a request in a zone, with the names of its class and type, and with the matches of a pattern.
pub(super) fn of(
    request: &Request,
    [zone, class, rtype]: [&str; 3],
    pattern: Option<&Pattern>,
) -> Value {
    let name = request.name.to_lower().to_string();
    let text = |text: &str| Value::Text(text.to_owned());
    let (found, groups) = match pattern {
        // Without a pattern every name matches as a whole.
        None => (vec![text(&name)], vec![("0".to_owned(), name.clone())]),
        Some(pattern) => matched(pattern, &name),
    };
    let question = Value::Fields(BTreeMap::from([
        ("Name", Value::Text(request.name.to_string())),
        ("Qtype", Value::Number(request.qtype.0.into())),
        ("Qclass", Value::Number(request.qclass.into())),
    ]));
    let regex = pattern.map_or(".*", |pattern| pattern.regex().as_str());
    Value::Fields(BTreeMap::from([
        ("Zone", text(zone)),
        ("Name", text(&name)),
        ("Class", text(class)),
        ("Type", text(rtype)),
        ("Regex", text(regex)),
        ("Match", Value::List(found)),
        ("Group", Value::Map(groups.into_iter().collect())),
        ("Message", message(request, question.clone())),
        ("Question", question),
        (
            "Remote",
            Value::Text(request.origin.client.ip().to_canonical().to_string()),
        ),
    ]))
}

/// The matches of a pattern in a name: the groups in order, and by number and name.
fn matched(pattern: &Pattern, name: &str) -> (Vec<Value>, Vec<(String, String)>) {
    let regex = pattern.regex();
    let Some(captures) = regex.captures(name) else {
        return (Vec::new(), Vec::new());
    };
    let all: Vec<String> = captures
        .iter()
        .map(|group| group.map_or("", |group| group.as_str()).to_owned())
        .collect();
    let numbers = all.iter().enumerate();
    let mut groups: Vec<(String, String)> = numbers
        .map(|(number, group)| (number.to_string(), group.clone()))
        .collect();
    for (label, group) in regex.capture_names().zip(&all) {
        groups.extend(label.map(|label| (label.to_owned(), group.clone())));
    }
    (all.into_iter().map(Value::Text).collect(), groups)
}

/// The fields of the query's header, and its question.
fn message(request: &Request, question: Value) -> Value {
    let flag = |bit: u16| Value::Truth(request.flags & bit != 0);
    Value::Fields(BTreeMap::from([
        ("Id", Value::Number(request.id.into())),
        ("Response", flag(flags::QR)),
        ("Opcode", Value::Number(0)),
        ("Authoritative", flag(flags::AA)),
        ("Truncated", flag(flags::TC)),
        ("RecursionDesired", flag(flags::RD)),
        ("RecursionAvailable", flag(flags::RA)),
        ("AuthenticatedData", flag(flags::AD)),
        ("CheckingDisabled", flag(flags::CD)),
        ("Rcode", Value::Number(0)),
        ("Question", Value::List(vec![question])),
    ]))
}
