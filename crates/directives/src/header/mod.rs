//! `header { query|response set|clear FLAG... }`: sets and clears the flags AA, RA and RD of queries and replies.

use corefile::parser::{Line, Statement};
use corefile::place::Report;
use dns::{Name, flags};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use server::chain::{Handler, Next};
use server::message::{Outcome, Question, Request};

use crate::config::block::{Directive, Repeat, Role, ServerBlock};
use crate::handlers::chain::{BuildError, Chain};

/// The syntax of a line, for messages.
const LINE: &str = "write: query|response set|clear aa|ra|rd...";

/// The flags that the lines set, and those that they clear.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
struct Flags {
    set: u16,
    cleared: u16,
}

impl Flags {
    /// Notes that a flag is set or cleared. The last line counts.
    const fn note(&mut self, flag: u16, is_set: bool) {
        self.set = self.set & !flag | if is_set { flag } else { 0 };
        self.cleared = self.cleared & !flag | if is_set { 0 } else { flag };
    }

    /// Whether a line is about a flag.
    const fn changes(self, flag: u16) -> bool {
        (self.set | self.cleared) & flag != 0
    }

    /// The flags as the lines say.
    const fn apply(self, flags: u16) -> u16 {
        flags & !self.cleared | self.set
    }
}

/// The directive, and its handler.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Header {
    /// The flags of queries, for the handlers after this one.
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
            report.error(&directive.name.place, "header has no flags", LINE);
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
        let message = format!("{} has no flag", action.shown());
        report.error(&action.place, message, LINE);
    }
    for name in names {
        match name.text.to_ascii_lowercase().as_str() {
            "aa" => into.note(flags::AA, is_set),
            "ra" => into.note(flags::RA, is_set),
            "rd" => into.note(flags::RD, is_set),
            _ => {
                let message = format!("{} is not a flag of header", name.shown());
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
            // A failure gets the flags of its query, as in CoreDNS.
            if let Outcome::Reply(reply) = &mut outcome {
                reply.flags = self.response.apply(reply.flags);
                if self.response.changes(flags::RD) {
                    let is_set = self.response.set & flags::RD != 0;
                    reply.recursion_desired = Some(is_set);
                }
            }
            outcome
        }
        .boxed()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use server::testing::{Counting, chain, request};

    use super::*;
    use crate::config::{Overrides, parse_text};

    /// The directive with these lines, or its problems.
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
    fn rd_of_a_reply_is_not_that_of_the_next_query() {
        for (lines, want) in [
            ("response clear rd", Some(false)),
            ("response set rd", Some(true)),
            ("response set aa", None),
        ] {
            let header = Arc::new(header(lines).unwrap());
            let server = chain(vec![header], vec![Arc::new(Counting::default())]);
            let mut request = request("a.test. A");
            let outcome = server.answer(&mut request).now_or_never();
            let Some(Outcome::Reply(reply)) = outcome else {
                panic!("{outcome:?}");
            };
            assert_eq!(reply.recursion_desired, want, "{lines}");
            assert_eq!(request.flags, flags::RD, "{lines}");
        }
    }

    #[test]
    fn lines_that_mean_nothing_are_refused() {
        for (lines, want) in [
            ("", "header has no flags"),
            ("answer set aa", "header has no option 'answer'"),
            ("query", "'query' neither sets nor clears"),
            ("query turn aa", "'turn' is neither set nor clear"),
            ("query set", "'set' has no flag"),
            ("response clear ad", "'ad' is not a flag of header"),
        ] {
            assert_eq!(header(lines).unwrap_err(), want);
        }
    }
}
