//! `header { query|response set|clear FLAG... }`: the flags AA, RA and RD of queries and of replies.

use corefile::parser::{Line, Statement};
use corefile::place::Report;
use dns::{Name, flags};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use server::chain::{Handler, Next};
use server::message::{Outcome, Question, Request};

use crate::config::block::{Directive, Repeat, Role, ServerBlock};
use crate::handlers::chain::{BuildError, Chain};

/// How a line is written, for messages.
const LINE: &str = "write: query|response set|clear aa|ra|rd...";

/// What lines say of flags: those that are set and those that are cleared.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
struct Flags {
    set: u16,
    cleared: u16,
}

impl Flags {
    /// A flag is set or cleared: the last line counts.
    const fn note(&mut self, flag: u16, is_set: bool) {
        self.set = self.set & !flag | if is_set { flag } else { 0 };
        self.cleared = self.cleared & !flag | if is_set { 0 } else { flag };
    }

    /// The flags as the lines say.
    const fn apply(self, flags: u16) -> u16 {
        flags & !self.cleared | self.set
    }
}

/// The directive, and its handler.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Header {
    /// Flags of queries, for the handlers behind.
    query: Flags,
    /// Flags of replies.
    response: Flags,
}

impl Directive for Header {
    const WORD: &'static str = "header";
    const USAGE: &'static str = "header { … }";
    const SUMMARY: &'static str = "sets and clears the flags AA, RA and RD of queries and replies";
    const OPTIONS: &'static str = "query and response";
    const REPEAT: Repeat = Repeat::Joined(Some("the first counts"));
    const ROLE: Role = Role::Shapes;

    fn read(directive: &Statement, _: &[Name], report: &mut Report) -> Option<Self> {
        directive.refuse_arguments(report);
        let mut header = Self {
            query: Flags::default(),
            response: Flags::default(),
        };
        for line in &directive.lines {
            match line.name.text.to_ascii_lowercase().as_str() {
                "query" => read_line(line, &mut header.query, report),
                "response" => read_line(line, &mut header.response, report),
                _ => directive.unknown_option(line, Self::OPTIONS, report),
            }
        }
        if directive.lines.is_empty() {
            report.error(&directive.name.place, "header says nothing of flags", LINE);
        }
        Some(header)
    }

    fn read_again(self, again: &Statement, zones: &[Name], report: &mut Report) -> Option<Self> {
        Self::read(again, zones, report);
        Some(self)
    }

    fn add_handlers(&self, _: &ServerBlock, chain: &mut Chain<'_>) -> Result<(), BuildError> {
        chain.add(*self);
        Ok(())
    }
}

/// Reads one line.
fn read_line(line: &Line, into: &mut Flags, report: &mut Report) {
    let Some((action, names)) = line.arguments.split_first() else {
        let message = format!("{} neither sets nor clears", line.name.shown());
        report.error(&line.name.place, message, LINE);
        return;
    };
    let is_set = match action.text.to_ascii_lowercase().as_str() {
        "set" => true,
        "clear" => false,
        _ => {
            let message = format!("{} is neither set nor clear", action.shown());
            report.error(&action.place, message, LINE);
            return;
        }
    };
    if names.is_empty() {
        let message = format!("{} names no flag", action.shown());
        report.error(&action.place, message, LINE);
    }
    for name in names {
        match name.text.to_ascii_lowercase().as_str() {
            "aa" => into.note(flags::AA, is_set),
            "ra" => into.note(flags::RA, is_set),
            "rd" => into.note(flags::RD, is_set),
            _ => {
                let message = format!("{} is no flag that header knows", name.shown());
                report.error(&name.place, message, LINE);
            }
        }
    }
}

impl Handler for Header {
    fn name(&self) -> &'static str {
        Self::WORD
    }

    fn passes(&self, _: &Question<'_>) -> bool {
        false
    }

    fn answer<'a>(&'a self, request: &'a mut Request, next: Next) -> BoxFuture<'a, Outcome> {
        async move {
            request.flags = self.query.apply(request.flags);
            let mut outcome = next.run(request).await;
            // A failure has the flags of its query, as in CoreDNS.
            if let Outcome::Reply(reply) = &mut outcome {
                reply.flags = self.response.apply(reply.flags);
                request.flags = self.response.apply(request.flags);
            }
            outcome
        }
        .boxed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Overrides, parse_text};

    /// The directive of these lines, or what is wrong with them.
    fn header(lines: &str) -> Result<Header, String> {
        let text = format!(". {{\nheader {{\n{lines}\n}}\n}}\n");
        let loaded = parse_text("Corefile", &text, &Overrides::default(), &|_| None);
        let loaded = loaded.map_err(|it| it.problems[0].message.clone())?;
        Ok(*loaded.config.servers[0].get().unwrap())
    }

    #[test]
    fn of_several_lines_for_a_flag_the_last_counts() {
        let header = header("Response SET ra AA\nresponse clear aa\nquery set rd").unwrap();
        let all = flags::AA | flags::RA | flags::RD;
        assert_eq!(
            header.response.apply(flags::AA | flags::TC),
            flags::RA | flags::TC
        );
        assert_eq!(header.response.apply(all), flags::RA | flags::RD);
        assert_eq!(header.query.apply(0), flags::RD);
    }

    #[test]
    fn lines_that_mean_nothing_are_refused() {
        for (lines, want) in [
            ("", "header says nothing of flags"),
            ("answer set aa", "header has no option 'answer'"),
            ("query", "'query' neither sets nor clears"),
            ("query turn aa", "'turn' is neither set nor clear"),
            ("query set", "'set' names no flag"),
            ("response clear ad", "'ad' is no flag that header knows"),
        ] {
            assert_eq!(header(lines).unwrap_err(), want);
        }
    }
}
