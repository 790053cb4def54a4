//! `loadbalance [round_robin|weighted FILE] { reload DURATION; prefer CIDR... }`: the order of addresses.

pub(crate) mod handler;

use std::path::PathBuf;
use std::time::Duration;

use corefile::parser::Statement;
use corefile::place::{Place, Report};
use corefile::quantity::go_duration;
use dns::{Name, Network};
use server::Shape;

use crate::config::block::{Directive, Repeat, Role, ServerBlock};
use crate::handlers::chain::{BuildError, Chain};
use crate::loadbalance::handler::LoadbalanceHandler;

/// The default interval at which the file of weights is checked, as in CoreDNS.
const RELOAD: Duration = Duration::from_secs(30);

/// The settings for the order of addresses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Loadbalance {
    /// Its place in the Corefile.
    pub place: Place,
    /// The policy for the first address.
    pub policy: Policy,
    /// Addresses in these networks come first, in the order of the networks.
    pub prefer: Vec<Network>,
}

/// The policy for the first address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Policy {
    /// A random order.
    RoundRobin,
    /// One address comes first by its weight; the others keep their order.
    Weighted {
        /// The file of weights.
        file: PathBuf,
        /// The interval at which it is checked; zero means never again.
        reload: Duration,
    },
}

impl Loadbalance {
    /// Whether a random order is enough.
    fn is_plain(&self) -> bool {
        self.policy == Policy::RoundRobin && self.prefer.is_empty()
    }
}

impl Directive for Loadbalance {
    const WORD: &'static str = "loadbalance";
    const USAGE: &'static str = "loadbalance [round_robin|weighted FILE] { … }";
    const SUMMARY: &'static str = "changes the order of addresses for each reply";
    const OPTIONS: &'static str = "reload and prefer";
    const REPEAT: Repeat = Repeat::Joined(Some("the last policy counts, and every prefer"));
    const ROLE: Role = Role::Shapes;

    fn read(directive: &Statement, zones: &[Name], report: &mut Report) -> Option<Self> {
        let first = Self {
            place: directive.name.place.clone(),
            policy: Policy::RoundRobin,
            prefer: Vec::new(),
        };
        first.read_again(directive, zones, report)
    }

    fn read_again(mut self, again: &Statement, _: &[Name], report: &mut Report) -> Option<Self> {
        let mut words = again.arguments.iter();
        let policy = words.next();
        let file = words.next();
        let mut reload = None;
        let is_weighted = policy.is_some_and(|word| word.text == "weighted");
        match policy.map(|word| (word, word.text.as_str())) {
            None | Some((_, "round_robin")) => {
                if let Some(more) = file {
                    let message = format!("round_robin: {} is one argument too many", more.shown());
                    report.error(&more.place, message, "remove it");
                }
            }
            Some((word, "weighted")) => {
                if file.is_none() {
                    let fix = "write: loadbalance weighted FILE";
                    report.error(&word.place, "weighted needs a file of weights", fix);
                }
                if let Some(more) = words.next() {
                    let message = format!("weighted: {} is one argument too many", more.shown());
                    report.error(&more.place, message, "remove it");
                }
            }
            Some((word, _)) => {
                let message = format!("loadbalance has no policy {}", word.shown());
                report.error(&word.place, message, "write round_robin or weighted FILE");
            }
        }
        for line in &again.lines {
            match line.name.text.as_str() {
                "reload" if is_weighted => {
                    let value = line.value("DURATION", go_duration, report);
                    line.set(&mut reload, value, report);
                }
                "prefer" => {
                    for token in line.at_least_one("CIDR...", report).unwrap_or_default() {
                        match token.text.parse::<Network>() {
                            Ok(network) if token.text.contains('/') => self.prefer.push(network),
                            Ok(_) | Err(_) => {
                                let message = format!("prefer: {} is not a network", token.shown());
                                report.error(&token.place, message, "write one such as 10.0.0.0/8");
                            }
                        }
                    }
                }
                _ => again.unknown_option(line, Self::OPTIONS, report),
            }
        }
        self.policy = match file.filter(|_| is_weighted) {
            Some(file) => Policy::Weighted {
                file: PathBuf::from(&file.text),
                reload: reload.unwrap_or(RELOAD),
            },
            None => Policy::RoundRobin,
        };
        self.place = again.name.place.clone();
        Some(self)
    }

    fn add_handlers(&self, _: &ServerBlock, chain: &mut Chain<'_>) -> Result<(), BuildError> {
        if !self.is_plain() {
            chain.add(LoadbalanceHandler::new(self.clone())?);
        }
        Ok(())
    }

    fn shape(&self, shape: &mut Shape) {
        shape.shuffles = self.is_plain();
    }
}
