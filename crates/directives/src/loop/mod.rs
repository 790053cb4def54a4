//! `loop`: ends the server if queries come back to it.

use crate::config::block::{Directive, Role, ServerBlock};
use crate::config::listener::Listener;
use crate::handlers::chain::{BuildError, Chain};
use crate::r#loop::handler::LoopHandler;
use corefile::parser::Statement;
use corefile::place::Report;
use dns::Name;

pub(crate) mod handler;

/// The directive.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Loop;

impl Directive for Loop {
    const WORD: &'static str = "loop";
    const USAGE: &'static str = "loop";
    const SUMMARY: &'static str = "ends the process if forwarders form a loop";
    const ROLE: Role = Role::Shapes;

    fn read(directive: &Statement, _: &[Name], report: &mut Report) -> Option<Self> {
        directive.refuse_all(report);
        Some(Self)
    }

    fn add_handlers(&self, block: &ServerBlock, chain: &mut Chain<'_>) -> Result<(), BuildError> {
        if let Some(key) = block.zones.first() {
            let address = block.listeners().first().and_then(Listener::address);
            chain.add(LoopHandler::new(&key.apex, address, key.port));
        }
        Ok(())
    }
}
