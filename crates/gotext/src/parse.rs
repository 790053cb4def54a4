//! The parser: from words to nodes.

use std::iter::Peekable;
use std::vec::IntoIter;

use super::lex::{self, ParseError, Part, Placed, Word};

/// The names of the functions that `eval::call` knows.
const FUNCTIONS: &[&str] = &[
    "and", "or", "not", "eq", "ne", "lt", "le", "gt", "ge", "index", "len", "print", "println",
    "printf", "parseInt",
];

/// The deepest nesting of parentheses and blocks.
const MAX_DEPTH: usize = 50;

#[derive(Debug, Clone)]
pub(super) enum Node {
    Text(String),
    Print(Pipeline),
    /// The branches with conditions, and the one of `else`.
    If(Vec<(Pipeline, Vec<Node>)>, Vec<Node>),
    /// The first body with `.` set to the value of the pipeline, or the second if that is empty.
    With(Pipeline, Vec<Node>, Vec<Node>),
}

/// Commands, each of which gets the value of the one before as its last argument.
#[derive(Debug, Clone)]
pub(super) struct Pipeline {
    /// The variable that is set instead of printing, and whether it is declared here.
    pub(super) variable: Option<(String, bool)>,
    /// At least one.
    pub(super) commands: Vec<Command>,
}

#[derive(Debug, Clone)]
pub(super) struct Command {
    pub(super) head: Operand,
    pub(super) arguments: Vec<Operand>,
}

#[derive(Debug, Clone)]
pub(super) enum Operand {
    /// A function, by its name in [`FUNCTIONS`].
    Call(&'static str),
    /// Fields of `.`; none for `.` itself.
    Field(Vec<String>),
    /// A variable and its fields; the name is empty for the data.
    Variable(String, Vec<String>),
    /// A pipeline in parentheses, and fields of its value.
    Group(Box<Pipeline>, Vec<String>),
    Text(String),
    Number(i64),
    Truth(bool),
}

/// The end of a list of nodes.
enum End {
    /// The end of the template.
    Template,
    /// `end`.
    Closed,
    /// `else`, and the words after it.
    Else(usize, Vec<Placed>),
}

pub(super) fn parse(source: &str, fields: &[&str]) -> Result<Vec<Node>, ParseError> {
    let mut parser = Parser {
        parts: lex::parts(source)?.into_iter(),
        fields,
        withs: 0,
        depth: 0,
        variables: Vec::new(),
    };
    match parser.nodes()? {
        (nodes, End::Template) => Ok(nodes),
        (_, End::Closed | End::Else(..)) => Err(ParseError::new(
            source.len(),
            "an end or else without if or with",
        )),
    }
}

struct Parser<'a> {
    parts: IntoIter<Part>,
    fields: &'a [&'a str],
    /// The depth in `with`, where `.` is not the data.
    withs: usize,
    depth: usize,
    /// The variables in scope.
    variables: Vec<String>,
}

type Words = Peekable<IntoIter<Placed>>;

impl Parser<'_> {
    /// Reads nodes up to the end of their block.
    fn nodes(&mut self) -> Result<(Vec<Node>, End), ParseError> {
        let mut nodes = Vec::new();
        while let Some(part) = self.parts.next() {
            let (at, words) = match part {
                Part::Text(text) => {
                    nodes.push(Node::Text(text));
                    continue;
                }
                Part::Action(at, words) => (at, words),
            };
            let first = words.first().map(|first| first.word.clone());
            match first {
                None => return Err(ParseError::new(at, "this action is empty")),
                Some(Word::Name(name)) if name == "end" => return Ok((nodes, End::Closed)),
                Some(Word::Name(name)) if name == "else" => {
                    return Ok((nodes, End::Else(at, words[1..].to_vec())));
                }
                Some(Word::Name(name)) if name == "if" => {
                    nodes
                        .push(self.nested(at, |parser| parser.condition(at, words[1..].to_vec()))?);
                }
                Some(Word::Name(name)) if name == "with" => {
                    nodes.push(self.nested(at, |parser| parser.with(at, words[1..].to_vec()))?);
                }
                Some(_) => nodes.push(Node::Print(self.pipeline(at, words)?)),
            }
        }
        Ok((nodes, End::Template))
    }

    /// Reads a block, whose variables end with it.
    fn nested(
        &mut self,
        at: usize,
        read: impl FnOnce(&mut Self) -> Result<Node, ParseError>,
    ) -> Result<Node, ParseError> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(ParseError::new(at, "blocks are nested too deep"));
        }
        let known = self.variables.len();
        let node = read(self);
        self.variables.truncate(known);
        self.depth -= 1;
        node
    }

    fn condition(&mut self, at: usize, words: Vec<Placed>) -> Result<Node, ParseError> {
        let mut arms = Vec::new();
        let mut words = words;
        loop {
            let pipeline = self.pipeline(at, words)?;
            let (body, end) = self.nodes()?;
            arms.push((pipeline, body));
            match end {
                End::Template => return Err(ParseError::new(at, "if without end")),
                End::Closed => return Ok(Node::If(arms, Vec::new())),
                End::Else(_, rest) if rest.is_empty() => {
                    let otherwise = self.rest(at)?;
                    return Ok(Node::If(arms, otherwise));
                }
                End::Else(at, mut rest) => {
                    if rest.remove(0).word != Word::Name("if".to_owned()) {
                        return Err(ParseError::new(at, "else can be followed by `if` only"));
                    }
                    words = rest;
                }
            }
        }
    }

    fn with(&mut self, at: usize, words: Vec<Placed>) -> Result<Node, ParseError> {
        let pipeline = self.pipeline(at, words)?;
        self.withs += 1;
        let read = self.nodes();
        self.withs -= 1;
        let (body, end) = read?;
        let otherwise = match end {
            End::Template => return Err(ParseError::new(at, "with without end")),
            End::Closed => Vec::new(),
            End::Else(_, rest) if rest.is_empty() => self.rest(at)?,
            End::Else(at, _) => {
                return Err(ParseError::new(at, "`else` of `with` takes no condition"));
            }
        };
        Ok(Node::With(pipeline, body, otherwise))
    }

    /// Reads nodes up to `end`.
    fn rest(&mut self, at: usize) -> Result<Vec<Node>, ParseError> {
        match self.nodes()? {
            (nodes, End::Closed) => Ok(nodes),
            (_, End::Template | End::Else(..)) => Err(ParseError::new(at, "else without end")),
        }
    }

    /// Reads an action that is a pipeline.
    fn pipeline(&mut self, at: usize, words: Vec<Placed>) -> Result<Pipeline, ParseError> {
        let mut words = words.into_iter().peekable();
        let pipeline = self.commands(at, &mut words)?;
        match words.next() {
            None => Ok(pipeline),
            Some(word) => Err(ParseError::new(word.start, "unexpected word")),
        }
    }

    /// Reads a pipeline up to the end of the action or the `)` around it.
    fn commands(&mut self, at: usize, words: &mut Words) -> Result<Pipeline, ParseError> {
        let mut variable = None;
        let mut ahead = words.clone();
        if let (Some(Word::Variable(name)), Some(sign)) =
            (ahead.next().map(|it| it.word), ahead.next())
            && matches!(sign.word, Word::Declare | Word::Assign)
        {
            let is_new = sign.word == Word::Declare;
            if !is_new && !self.variables.contains(&name) {
                return Err(ParseError::new(
                    sign.start,
                    format!("there is no variable ${name}"),
                ));
            }
            variable = Some((name, is_new));
            *words = ahead;
        }
        let mut commands = vec![self.command(at, words)?];
        while words.next_if(|it| it.word == Word::Pipe).is_some() {
            commands.push(self.command(at, words)?);
        }
        if let Some((name, true)) = &variable {
            self.variables.push(name.clone());
        }
        Ok(Pipeline { variable, commands })
    }

    fn command(&mut self, at: usize, words: &mut Words) -> Result<Command, ParseError> {
        let place = words.peek().map_or(at, |word| word.start);
        let head = self.operand(words)?;
        let head = head.ok_or_else(|| ParseError::new(place, "a value is missing"))?;
        let mut arguments = Vec::new();
        while let Some(argument) = self.operand(words)? {
            arguments.push(argument);
        }
        let takes = match &head {
            Operand::Call(_) => true,
            Operand::Field(names) | Operand::Variable(_, names) => {
                names.last().is_some_and(|name| name == "Meta")
            }
            Operand::Group(..) | Operand::Text(_) | Operand::Number(_) | Operand::Truth(_) => false,
        };
        if !takes && !arguments.is_empty() {
            return Err(ParseError::new(place, "only functions take arguments"));
        }
        Ok(Command { head, arguments })
    }

    /// Reads a value, if there is one here.
    fn operand(&mut self, words: &mut Words) -> Result<Option<Operand>, ParseError> {
        let is_value = |word: &Word| match word {
            Word::Field(_) | Word::Variable(_) | Word::Name(_) => true,
            Word::Text(_) | Word::Number(_) | Word::Open => true,
            Word::Pipe | Word::Close | Word::Declare | Word::Assign => false,
        };
        let Some(placed) = words.next_if(|it| is_value(&it.word)) else {
            return match words.peek() {
                Some(it) if matches!(it.word, Word::Declare | Word::Assign) => Err(
                    ParseError::new(it.start, "an assignment must be at the start of the action"),
                ),
                _ => Ok(None),
            };
        };
        let (at, end) = (placed.start, placed.end);
        Ok(Some(match placed.word {
            Word::Text(text) => Operand::Text(text),
            Word::Number(number) => Operand::Number(number),
            Word::Field(names) => {
                if self.withs == 0 {
                    self.check(at, &names)?;
                }
                Operand::Field(names)
            }
            Word::Variable(name) => {
                let fields = fields_at(words, end);
                if name.is_empty() {
                    self.check(at, &fields)?;
                } else if !self.variables.contains(&name) {
                    return Err(ParseError::new(at, format!("there is no variable ${name}")));
                }
                Operand::Variable(name, fields)
            }
            Word::Name(name) => return self.name(at, &name).map(Some),
            Word::Open => {
                self.depth += 1;
                if self.depth > MAX_DEPTH {
                    return Err(ParseError::new(at, "parentheses are nested too deep"));
                }
                let pipeline = self.commands(at, words)?;
                self.depth -= 1;
                let close = words.next_if(|it| it.word == Word::Close);
                let close = close.ok_or_else(|| ParseError::new(at, "( without )"))?;
                Operand::Group(Box::new(pipeline), fields_at(words, close.end))
            }
            Word::Pipe | Word::Close | Word::Declare | Word::Assign => return Ok(None),
        }))
    }

    /// Reads the name of a value or function.
    fn name(&self, at: usize, name: &str) -> Result<Operand, ParseError> {
        match name {
            "true" => return Ok(Operand::Truth(true)),
            "false" => return Ok(Operand::Truth(false)),
            _ => {}
        }
        let function = FUNCTIONS.iter().find(|known| **known == name);
        let function = function.map(|function| Operand::Call(function));
        let message = || format!("{name} is not supported in templates");
        function.ok_or_else(|| ParseError::new(at, message()))
    }

    /// Checks that the data has the first of the fields.
    fn check(&self, at: usize, names: &[String]) -> Result<(), ParseError> {
        match names.first() {
            Some(first) if !self.fields.contains(&first.as_str()) => {
                let known = self.fields.join(" .");
                let message = format!("there is no .{first}, but .{known}");
                Err(ParseError::new(at, message))
            }
            Some(_) | None => Ok(()),
        }
    }
}

/// Reads the fields directly after a value that ends at `end`.
fn fields_at(words: &mut Words, end: usize) -> Vec<String> {
    let behind = words.next_if(|it| it.start == end && matches!(it.word, Word::Field(_)));
    match behind.map(|it| it.word) {
        Some(Word::Field(names)) => names,
        _ => Vec::new(),
    }
}
