//! Fills a template in with data.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use super::parse::{Command, Node, Operand, Pipeline};

/// The longest text that a template may produce, in bytes.
const MAX_BYTES: usize = 1 << 20;

/// A value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// Text.
    Text(String),
    /// A whole number of any of Go's types.
    Number(i128),
    /// A boolean.
    Truth(bool),
    /// Values in order.
    List(Vec<Value>),
    /// Texts by key.
    Map(BTreeMap<String, String>),
    /// A struct.
    Fields(BTreeMap<&'static str, Value>),
    /// The value of a missing key in a map.
    Nothing,
}

/// An error in filling a template in.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("template: {0}")]
pub struct ExecError(String);

type Filled<T> = Result<T, ExecError>;

fn error<T>(message: impl Into<String>) -> Filled<T> {
    Err(ExecError(message.into()))
}

impl Value {
    /// Whether Go treats it as true.
    fn is_true(&self) -> bool {
        match self {
            Self::Text(text) => !text.is_empty(),
            Self::Number(number) => *number != 0,
            Self::Truth(truth) => *truth,
            Self::List(list) => !list.is_empty(),
            Self::Map(map) => !map.is_empty(),
            Self::Fields(_) => true,
            Self::Nothing => false,
        }
    }

    /// The text that Go prints.
    fn shown(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Number(number) => number.to_string(),
            Self::Truth(truth) => truth.to_string(),
            Self::List(list) => {
                format!("[{}]", shown(list))
            }
            Self::Map(map) => {
                let all: Vec<String> = map.iter().map(|(key, it)| format!("{key}:{it}")).collect();
                format!("map[{}]", all.join(" "))
            }
            Self::Fields(fields) => {
                format!("{{{}}}", shown(fields.values()))
            }
            Self::Nothing => "<no value>".to_owned(),
        }
    }

    fn field(&self, name: &str) -> Filled<Self> {
        match self {
            Self::Fields(fields) => match fields.get(name) {
                Some(value) => Ok(value.clone()),
                None => error(format!("there is no field {name}")),
            },
            Self::Map(map) => Ok(map.get(name).cloned().map_or(Self::Nothing, Self::Text)),
            Self::Text(_) | Self::Number(_) | Self::Truth(_) | Self::List(_) | Self::Nothing => {
                error(format!("there is no field {name}: this is not a struct"))
            }
        }
    }
}

/// Values as Go prints them, with spaces between them.
fn shown<'a>(values: impl IntoIterator<Item = &'a Value>) -> String {
    let all: Vec<String> = values.into_iter().map(Value::shown).collect();
    all.join(" ")
}

struct Scope<'a> {
    root: &'a Value,
    /// The method `Meta` of the data.
    meta: &'a dyn Fn(&str) -> String,
    /// The variables in scope, the newest last.
    variables: Vec<(String, Value)>,
}

pub(super) fn fill(nodes: &[Node], root: &Value, meta: &dyn Fn(&str) -> String) -> Filled<String> {
    let mut scope = Scope {
        root,
        meta,
        variables: Vec::new(),
    };
    let mut out = String::new();
    scope.nodes(nodes, root, &mut out)?;
    Ok(out)
}

impl Scope<'_> {
    fn nodes(&mut self, nodes: &[Node], dot: &Value, out: &mut String) -> Filled<()> {
        for node in nodes {
            match node {
                Node::Text(text) => out.push_str(text),
                Node::Print(pipeline) => {
                    let value = self.pipeline(pipeline, dot)?;
                    if pipeline.variable.is_none() {
                        out.push_str(&value.shown());
                    }
                }
                Node::If(arms, otherwise) => {
                    let known = self.variables.len();
                    let mut body = otherwise;
                    for (condition, arm) in arms {
                        if self.pipeline(condition, dot)?.is_true() {
                            body = arm;
                            break;
                        }
                    }
                    self.nodes(body, dot, out)?;
                    self.variables.truncate(known);
                }
                Node::With(pipeline, body, otherwise) => {
                    let known = self.variables.len();
                    let value = self.pipeline(pipeline, dot)?;
                    if value.is_true() {
                        self.nodes(body, &value, out)?;
                    } else {
                        self.nodes(otherwise, dot, out)?;
                    }
                    self.variables.truncate(known);
                }
            }
            if out.len() > MAX_BYTES {
                return error("the text is too long");
            }
        }
        Ok(())
    }

    /// The value of a pipeline, which is assigned to its variable.
    fn pipeline(&mut self, pipeline: &Pipeline, dot: &Value) -> Filled<Value> {
        let mut last = None;
        for command in &pipeline.commands {
            last = Some(self.command(command, dot, last)?);
        }
        let value = last.unwrap_or(Value::Nothing);
        match &pipeline.variable {
            None => {}
            Some((name, true)) => self.variables.push((name.clone(), value.clone())),
            Some((name, false)) => {
                let mut known = self.variables.iter_mut().rev();
                if let Some((_, slot)) = known.find(|(known, _)| known == name) {
                    *slot = value.clone();
                }
            }
        }
        Ok(value)
    }

    /// The value of a command; `last` is one more argument.
    fn command(&mut self, command: &Command, dot: &Value, last: Option<Value>) -> Filled<Value> {
        let mut arguments = Vec::new();
        for argument in &command.arguments {
            arguments.push(self.operand(argument, dot)?);
        }
        arguments.extend(last);
        match &command.head {
            Operand::Call(function) => call(function, &arguments),
            Operand::Field(names) | Operand::Variable(_, names)
                if names.last().is_some_and(|name| name == "Meta") =>
            {
                match arguments.as_slice() {
                    [Value::Text(label)] => Ok(Value::Text((self.meta)(label))),
                    _ => error("Meta takes one text"),
                }
            }
            head if arguments.is_empty() => self.operand(head, dot),
            Operand::Field(_)
            | Operand::Variable(..)
            | Operand::Group(..)
            | Operand::Text(_)
            | Operand::Number(_)
            | Operand::Truth(_) => error("only a function can follow |"),
        }
    }

    fn operand(&mut self, operand: &Operand, dot: &Value) -> Filled<Value> {
        let (start, names) = match operand {
            Operand::Call(function) => return call(function, &[]),
            Operand::Text(text) => return Ok(Value::Text(text.clone())),
            Operand::Number(number) => return Ok(Value::Number((*number).into())),
            Operand::Truth(truth) => return Ok(Value::Truth(*truth)),
            Operand::Field(names) => (dot.clone(), names),
            Operand::Variable(name, names) if name.is_empty() => (self.root.clone(), names),
            Operand::Variable(name, names) => {
                let mut known = self.variables.iter().rev();
                match known.find(|(known, _)| known == name) {
                    Some((_, value)) => (value.clone(), names),
                    None => return error(format!("there is no variable ${name}")),
                }
            }
            Operand::Group(pipeline, names) => (self.pipeline(pipeline, dot)?, names),
        };
        names
            .iter()
            .try_fold(start, |value, name| value.field(name))
    }
}

/// Calls a function of `parse::FUNCTIONS`.
fn call(function: &str, arguments: &[Value]) -> Filled<Value> {
    let text = |text: String| Ok(Value::Text(text));
    match (function, arguments) {
        ("and", [.., last]) => {
            let first = arguments.iter().find(|it| !it.is_true());
            Ok(first.unwrap_or(last).clone())
        }
        ("or", [.., last]) => {
            let first = arguments.iter().find(|it| it.is_true());
            Ok(first.unwrap_or(last).clone())
        }
        ("not", [one]) => Ok(Value::Truth(!one.is_true())),
        ("eq", [one, others @ ..]) if !others.is_empty() => {
            let mut any = false;
            for other in others {
                any |= is_equal(one, other)?;
            }
            Ok(Value::Truth(any))
        }
        ("ne", [one, other]) => Ok(Value::Truth(!is_equal(one, other)?)),
        ("lt", [one, other]) => Ok(Value::Truth(compare(one, other)?.is_lt())),
        ("le", [one, other]) => Ok(Value::Truth(compare(one, other)?.is_le())),
        ("gt", [one, other]) => Ok(Value::Truth(compare(one, other)?.is_gt())),
        ("ge", [one, other]) => Ok(Value::Truth(compare(one, other)?.is_ge())),
        ("index", [value, keys @ ..]) => keys
            .iter()
            .try_fold(value.clone(), |value, key| index(&value, key)),
        ("len", [value]) => length(value),
        ("print", all) => text(print(all)),
        ("println", all) => text(shown(all) + "\n"),
        ("printf", [Value::Text(format), all @ ..]) => printf(format, all).map(Value::Text),
        (
            "parseInt",
            [
                Value::Text(digits),
                Value::Number(base),
                Value::Number(bits),
            ],
        ) => parse_int(digits, *base, *bits),
        _ => error(format!("{function} does not take these arguments")),
    }
}

fn is_equal(one: &Value, other: &Value) -> Filled<bool> {
    match (one, other) {
        (Value::Text(one), Value::Text(other)) => Ok(one == other),
        (Value::Truth(one), Value::Truth(other)) => Ok(one == other),
        (Value::Number(one), Value::Number(other)) => Ok(one == other),
        _ => error("these values cannot be compared"),
    }
}

fn compare(one: &Value, other: &Value) -> Filled<Ordering> {
    match (one, other) {
        (Value::Text(one), Value::Text(other)) => Ok(one.cmp(other)),
        (Value::Number(one), Value::Number(other)) => Ok(one.cmp(other)),
        _ => error("these values cannot be compared"),
    }
}

fn index(value: &Value, key: &Value) -> Filled<Value> {
    match (value, key) {
        (Value::List(list), Value::Number(place)) => {
            let element = usize::try_from(*place).ok().and_then(|it| list.get(it));
            match element {
                Some(element) => Ok(element.clone()),
                None => error(format!("there is no element {place}")),
            }
        }
        // As in Go, a missing key gives an empty text.
        (Value::Map(map), Value::Text(key)) => {
            Ok(Value::Text(map.get(key).cloned().unwrap_or_default()))
        }
        (Value::Text(text), Value::Number(place)) => {
            let octets = text.as_bytes();
            match usize::try_from(*place).ok().and_then(|it| octets.get(it)) {
                Some(octet) => Ok(Value::Number((*octet).into())),
                None => error(format!("there is no byte {place}")),
            }
        }
        _ => error("index takes a list and a number, or a map and a text"),
    }
}

fn length(value: &Value) -> Filled<Value> {
    let length = match value {
        Value::Text(text) => text.len(),
        Value::List(list) => list.len(),
        Value::Map(map) => map.len(),
        Value::Number(_) | Value::Truth(_) | Value::Fields(_) | Value::Nothing => {
            return error("len takes a list, a map or a text");
        }
    };
    Ok(Value::Number(length as i128))
}

/// Joins values, with a space between two values that are both no text.
fn print(all: &[Value]) -> String {
    let is_text = |value: &Value| matches!(value, Value::Text(_));
    let mut out = String::new();
    for (place, value) in all.iter().enumerate() {
        let before = place.checked_sub(1).and_then(|place| all.get(place));
        if before.is_some_and(|before| !is_text(before) && !is_text(value)) {
            out.push(' ');
        }
        out.push_str(&value.shown());
    }
    out
}

fn printf(format: &str, all: &[Value]) -> Filled<String> {
    let mut out = String::new();
    let mut values = all.iter();
    let mut rest = format;
    while let Some((text, behind)) = rest.split_once('%') {
        out.push_str(text);
        let end = behind.find(|symbol: char| !symbol.is_ascii_digit() && symbol != '-');
        let end = end.unwrap_or(behind.len());
        let (width, verb) = behind.split_at(end);
        let Some(verb) = verb.chars().next() else {
            return error("printf: no verb after %");
        };
        rest = &behind[end + verb.len_utf8()..];
        if verb == '%' {
            out.push('%');
            continue;
        }
        let Some(value) = values.next() else {
            return error("printf: too few values");
        };
        let shown = match (verb, value) {
            ('s' | 'v', value) => value.shown(),
            ('d', Value::Number(number)) => number.to_string(),
            ('x', Value::Number(number)) => format!("{number:x}"),
            ('X', Value::Number(number)) => format!("{number:X}"),
            ('q', Value::Text(_)) => format!("{:?}", value.shown()),
            _ => return error(format!("printf: %{verb} does not fit this value")),
        };
        let is_left = width.starts_with('-');
        let has_zeros = width.starts_with('0');
        let least: usize = width.trim_start_matches('-').parse().unwrap_or(0);
        let fill = least.min(MAX_BYTES).saturating_sub(shown.chars().count());
        if is_left {
            out.push_str(&shown);
            out.extend(std::iter::repeat_n(' ', fill));
        } else {
            let with = if has_zeros { '0' } else { ' ' };
            out.extend(std::iter::repeat_n(with, fill));
            out.push_str(&shown);
        }
    }
    if values.next().is_some() {
        return error("printf: too many values");
    }
    out.push_str(rest);
    Ok(out)
}

/// Parses an unsigned number. For base 0 the digits' prefix decides the base, and 0 bits means 64.
fn parse_int(digits: &str, base: i128, bits: i128) -> Filled<Value> {
    let lower = digits.to_ascii_lowercase();
    let (rest, base) = match (base, lower.as_bytes()) {
        (0, [b'0', b'x', ..]) => (&lower[2..], 16),
        (0, [b'0', b'b', ..]) => (&lower[2..], 2),
        (0, [b'0', b'o', ..]) => (&lower[2..], 8),
        (0, [b'0', _, ..]) => (&lower[1..], 8),
        (0, _) => (&lower[..], 10),
        (base, _) => (&lower[..], u32::try_from(base).unwrap_or_default()),
    };
    if !(2..=36).contains(&base) || rest.starts_with('+') {
        return error(format!("parseInt: base {base} of \"{digits}\""));
    }
    let most = match bits {
        0 | 64 => u64::MAX,
        1..=63 => (1 << bits) - 1,
        _ => return error(format!("parseInt: {bits} bits")),
    };
    match u64::from_str_radix(rest, base) {
        Ok(number) if number <= most => Ok(Value::Number(number.into())),
        Ok(_) => error(format!("parseInt: {digits} has more than {bits} bits")),
        Err(_) => error(format!("parseInt: \"{digits}\" is not a number")),
    }
}
