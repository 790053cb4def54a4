//! What a template gives for data.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use super::Function;
use super::parse::{Command, Node, Operand, Pipeline};

/// The most octets that a template may give.
const MAX_OCTETS: usize = 1 << 20;

/// A value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// Text.
    Text(String),
    /// A number with a sign.
    Int(i64),
    /// A number without.
    Uint(u64),
    /// Yes or no.
    Truth(bool),
    /// Values in order.
    List(Vec<Value>),
    /// Texts by name; what is not there is printed as Go does.
    Map(BTreeMap<String, String>),
    /// Values by the names of fields.
    Fields(BTreeMap<&'static str, Value>),
    /// What is not there.
    Nothing,
}

/// A template cannot be filled in.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("template: {0}")]
pub struct ExecError(String);

/// What a part gives, or why it cannot.
type Given<T> = Result<T, ExecError>;

/// An error.
fn error<T>(message: impl Into<String>) -> Given<T> {
    Err(ExecError(message.into()))
}

impl Value {
    /// Whether Go takes it for true: it is not empty and not zero.
    fn is_true(&self) -> bool {
        match self {
            Self::Text(text) => !text.is_empty(),
            Self::Int(number) => *number != 0,
            Self::Uint(number) => *number != 0,
            Self::Truth(truth) => *truth,
            Self::List(list) => !list.is_empty(),
            Self::Map(map) => !map.is_empty(),
            Self::Fields(_) => true,
            Self::Nothing => false,
        }
    }

    /// As Go prints it.
    fn shown(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Int(number) => number.to_string(),
            Self::Uint(number) => number.to_string(),
            Self::Truth(truth) => truth.to_string(),
            Self::List(list) => {
                let all: Vec<String> = list.iter().map(Self::shown).collect();
                format!("[{}]", all.join(" "))
            }
            Self::Map(map) => {
                let all: Vec<String> = map.iter().map(|(key, it)| format!("{key}:{it}")).collect();
                format!("map[{}]", all.join(" "))
            }
            Self::Fields(fields) => {
                let all: Vec<String> = fields.values().map(Self::shown).collect();
                format!("{{{}}}", all.join(" "))
            }
            Self::Nothing => "<no value>".to_owned(),
        }
    }

    /// One of its fields.
    fn field(&self, name: &str) -> Given<Self> {
        match self {
            Self::Fields(fields) => match fields.get(name) {
                Some(value) => Ok(value.clone()),
                None => error(format!("there is no field {name}")),
            },
            Self::Map(map) => Ok(map.get(name).cloned().map_or(Self::Nothing, Self::Text)),
            Self::Text(_)
            | Self::Int(_)
            | Self::Uint(_)
            | Self::Truth(_)
            | Self::List(_)
            | Self::Nothing => error(format!("what is no structure has no field {name}")),
        }
    }

    /// As a whole number, for comparison.
    fn number(&self) -> Option<i128> {
        match self {
            Self::Int(number) => Some(i128::from(*number)),
            Self::Uint(number) => Some(i128::from(*number)),
            Self::Text(_)
            | Self::Truth(_)
            | Self::List(_)
            | Self::Map(_)
            | Self::Fields(_)
            | Self::Nothing => None,
        }
    }
}

/// The data and the variables.
struct Scope<'a> {
    /// The data.
    root: &'a Value,
    /// What the method `Meta` gives.
    meta: &'a dyn Fn(&str) -> String,
    /// The variables, the newest last.
    variables: Vec<(String, Value)>,
}

/// Fills nodes in.
pub(super) fn fill(nodes: &[Node], root: &Value, meta: &dyn Fn(&str) -> String) -> Given<String> {
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
    /// Writes what nodes give.
    fn nodes(&mut self, nodes: &[Node], dot: &Value, out: &mut String) -> Given<()> {
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
            if out.len() > MAX_OCTETS {
                return error("the text is too long");
            }
        }
        Ok(())
    }

    /// What a pipeline gives; it is assigned where it says so.
    fn pipeline(&mut self, pipeline: &Pipeline, dot: &Value) -> Given<Value> {
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

    /// What a command gives; `last` is one more argument.
    fn command(&mut self, command: &Command, dot: &Value, last: Option<Value>) -> Given<Value> {
        let mut arguments = Vec::new();
        for argument in &command.arguments {
            arguments.push(self.operand(argument, dot)?);
        }
        arguments.extend(last);
        match &command.head {
            Operand::Call(function) => call(*function, &arguments),
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
            | Operand::Truth(_) => error("only a function takes what stands before |"),
        }
    }

    /// The value of an operand.
    fn operand(&mut self, operand: &Operand, dot: &Value) -> Given<Value> {
        let (start, names) = match operand {
            Operand::Call(function) => return call(*function, &[]),
            Operand::Text(text) => return Ok(Value::Text(text.clone())),
            Operand::Number(number) => return Ok(Value::Int(*number)),
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

/// What a function gives.
fn call(function: Function, arguments: &[Value]) -> Given<Value> {
    let text = |text: String| Ok(Value::Text(text));
    match (function, arguments) {
        (Function::And, [.., last]) => {
            let first = arguments.iter().find(|it| !it.is_true());
            Ok(first.unwrap_or(last).clone())
        }
        (Function::Or, [.., last]) => {
            let first = arguments.iter().find(|it| it.is_true());
            Ok(first.unwrap_or(last).clone())
        }
        (Function::Not, [one]) => Ok(Value::Truth(!one.is_true())),
        (Function::Eq, [one, others @ ..]) if !others.is_empty() => {
            let mut any = false;
            for other in others {
                any |= is_equal(one, other)?;
            }
            Ok(Value::Truth(any))
        }
        (Function::Ne, [one, other]) => Ok(Value::Truth(!is_equal(one, other)?)),
        (Function::Lt, [one, other]) => Ok(Value::Truth(compare(one, other)?.is_lt())),
        (Function::Le, [one, other]) => Ok(Value::Truth(compare(one, other)?.is_le())),
        (Function::Gt, [one, other]) => Ok(Value::Truth(compare(one, other)?.is_gt())),
        (Function::Ge, [one, other]) => Ok(Value::Truth(compare(one, other)?.is_ge())),
        (Function::Index, [value, keys @ ..]) => keys
            .iter()
            .try_fold(value.clone(), |value, key| index(&value, key)),
        (Function::Len, [value]) => length(value),
        (Function::Print, all) => text(print(all)),
        (Function::Println, all) => {
            let all: Vec<String> = all.iter().map(Value::shown).collect();
            text(all.join(" ") + "\n")
        }
        (Function::Printf, [Value::Text(format), all @ ..]) => printf(format, all).map(Value::Text),
        (Function::ParseInt, [Value::Text(digits), Value::Int(base), Value::Int(bits)]) => {
            parse_int(digits, *base, *bits)
        }
        (function, all) => error(format!(
            "{function:?} does not take these {} values",
            all.len()
        )),
    }
}

/// Whether two values of a kind are equal.
fn is_equal(one: &Value, other: &Value) -> Given<bool> {
    match (one, other) {
        (Value::Text(one), Value::Text(other)) => Ok(one == other),
        (Value::Truth(one), Value::Truth(other)) => Ok(one == other),
        _ => match (one.number(), other.number()) {
            (Some(one), Some(other)) => Ok(one == other),
            _ => error("values of different kinds are compared"),
        },
    }
}

/// How two values of a kind compare.
fn compare(one: &Value, other: &Value) -> Given<Ordering> {
    match (one, other) {
        (Value::Text(one), Value::Text(other)) => Ok(one.cmp(other)),
        _ => match (one.number(), other.number()) {
            (Some(one), Some(other)) => Ok(one.cmp(&other)),
            _ => error("values of different kinds are compared"),
        },
    }
}

/// An element.
fn index(value: &Value, key: &Value) -> Given<Value> {
    match (value, key) {
        (Value::List(list), key) => {
            let place = key.number().and_then(|it| usize::try_from(it).ok());
            match place.and_then(|place| list.get(place)) {
                Some(element) => Ok(element.clone()),
                None => error(format!("there is no element {}", key.shown())),
            }
        }
        // What is not in a map of texts is an empty text here.
        (Value::Map(map), Value::Text(key)) => {
            Ok(Value::Text(map.get(key).cloned().unwrap_or_default()))
        }
        (Value::Text(text), key) => {
            let place = key.number().and_then(|it| usize::try_from(it).ok());
            match place.and_then(|place| text.as_bytes().get(place)) {
                Some(octet) => Ok(Value::Uint(u64::from(*octet))),
                None => error(format!("there is no octet {}", key.shown())),
            }
        }
        _ => error("index takes a list and a number, or a map and a text"),
    }
}

/// How many elements or octets.
fn length(value: &Value) -> Given<Value> {
    let length = match value {
        Value::Text(text) => text.len(),
        Value::List(list) => list.len(),
        Value::Map(map) => map.len(),
        Value::Int(_) | Value::Uint(_) | Value::Truth(_) | Value::Fields(_) | Value::Nothing => {
            return error("len takes a list, a map or a text");
        }
    };
    Ok(Value::Int(i64::try_from(length).unwrap_or(i64::MAX)))
}

/// Values as text, a space between two of which neither is text.
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

/// Values as a format says.
fn printf(format: &str, all: &[Value]) -> Given<String> {
    let mut out = String::new();
    let mut values = all.iter();
    let mut rest = format;
    while let Some((text, behind)) = rest.split_once('%') {
        out.push_str(text);
        let end = behind.find(|symbol: char| !symbol.is_ascii_digit() && symbol != '-');
        let end = end.unwrap_or(behind.len());
        let (width, verb) = behind.split_at(end);
        let Some(verb) = verb.chars().next() else {
            return error("printf: a % without what follows");
        };
        rest = &behind[end + verb.len_utf8()..];
        if verb == '%' {
            out.push('%');
            continue;
        }
        let Some(value) = values.next() else {
            return error("printf: a value is missing");
        };
        let said = match (verb, value.number()) {
            ('s' | 'v', _) => value.shown(),
            ('d', Some(number)) => number.to_string(),
            ('x', Some(number)) => format!("{number:x}"),
            ('X', Some(number)) => format!("{number:X}"),
            ('q', None) => format!("{:?}", value.shown()),
            _ => return error(format!("printf: %{verb} does not go with this value")),
        };
        let is_left = width.starts_with('-');
        let has_zeros = width.starts_with('0');
        let least: usize = width.trim_start_matches('-').parse().unwrap_or(0);
        let fill = least.min(MAX_OCTETS).saturating_sub(said.chars().count());
        if is_left {
            out.push_str(&said);
            out.extend(std::iter::repeat_n(' ', fill));
        } else {
            let with = if has_zeros { '0' } else { ' ' };
            out.extend(std::iter::repeat_n(with, fill));
            out.push_str(&said);
        }
    }
    if values.next().is_some() {
        return error("printf: a value is too much");
    }
    out.push_str(rest);
    Ok(out)
}

/// A number without sign from its digits; base 0 is that of the digits' own mark, 0 bits are 64.
fn parse_int(digits: &str, base: i64, bits: i64) -> Given<Value> {
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
        return error(format!("parseInt: base or digits of \"{digits}\""));
    }
    let most = match bits {
        0 | 64 => u64::MAX,
        1..=63 => (1 << bits) - 1,
        _ => return error(format!("parseInt: {bits} bits")),
    };
    match u64::from_str_radix(rest, base) {
        Ok(number) if number <= most => Ok(Value::Uint(number)),
        Ok(_) => error(format!("parseInt: {digits} has more than {bits} bits")),
        Err(_) => error(format!("parseInt: \"{digits}\" is no number")),
    }
}
