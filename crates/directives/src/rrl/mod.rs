//! `rrl off` and `rrl { responses_per_second N; slip N; … }`: how many replies a second a network gets. Ours.

use std::fmt::Display;
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::str::FromStr;

use corefile::parser::Statement;
use corefile::place::Report;
use dns::{Name, Network, NotANetwork};
use server::{MOST_PER_SECOND, RateLimit};

use crate::config::block::Directive;

/// The limit of a block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rrl(pub RateLimit);

impl Directive for Rrl {
    const WORD: &'static str = "rrl";
    const USAGE: &'static str = "rrl off|{ … }";
    const SUMMARY: &'static str = "limits the replies in datagrams to each network of clients. Without it, networks that are not private are limited, with its defaults";
    const OPTIONS: &'static str =
        "responses_per_second, slip, ipv4_prefix_length, ipv6_prefix_length and allow";

    fn read(directive: &Statement, _: &[Name], report: &mut Report) -> Option<Self> {
        let mut limit = RateLimit::default();
        let is_off = match directive.at_most_one(report) {
            Some(word) if word.text == "off" => true,
            Some(word) => {
                let message = format!("rrl {} is not understood", word.shown());
                report.error(&word.place, message, "write: rrl off, or a block");
                false
            }
            None => false,
        };
        if directive.lines.is_empty() != is_off {
            let (message, fix) = if is_off {
                (
                    "rrl is off, but has options",
                    "remove off or the block".to_owned(),
                )
            } else {
                let fix = format!("write: rrl off, or a block with {}", Self::OPTIONS);
                ("rrl has no options", fix)
            };
            report.error(&directive.name.place, message, fix);
        }
        for line in &directive.lines {
            match line.name.text.as_str() {
                "responses_per_second" => {
                    let value = line.value("NUMBER", within(1..=MOST_PER_SECOND), report);
                    limit.per_second = value.or(limit.per_second);
                }
                "slip" => {
                    let value = line.value("NUMBER", within(0..=10), report);
                    limit.slip = value.unwrap_or(limit.slip);
                }
                "ipv4_prefix_length" => {
                    let value = line.value("BITS", within(1..=32), report);
                    limit.ipv4_prefix = value.unwrap_or(limit.ipv4_prefix);
                }
                "ipv6_prefix_length" => {
                    let value = line.value("BITS", within(1..=128), report);
                    limit.ipv6_prefix = value.unwrap_or(limit.ipv6_prefix);
                }
                "allow" => {
                    let allowed = limit.allowed.get_or_insert_default();
                    let words = line.arguments.iter().filter(|word| word.text != "none");
                    for word in words {
                        match network(&word.text) {
                            Ok(network) => allowed.push(network),
                            Err(error) => {
                                let message = format!("allow {}: {error}", word.shown());
                                let fix = "write: allow NETWORK…, or: allow none";
                                report.error(&word.place, message, fix);
                            }
                        }
                    }
                    if line.arguments.is_empty() {
                        let fix = "write: allow NETWORK…, or: allow none";
                        report.error(&line.name.place, "allow names no network", fix);
                    }
                }
                _ => directive.unknown_option(line, Self::OPTIONS, report),
            }
        }
        if is_off {
            limit.per_second = None;
        }
        Some(Self(limit))
    }
}

/// Reads a range of addresses, or one address.
fn network(text: &str) -> Result<Network, NotANetwork> {
    match text.parse::<IpAddr>() {
        Ok(address) => Ok(Network::of(address)),
        Err(_) => text.parse(),
    }
}

/// Reads a whole number of a range.
fn within<T: FromStr + PartialOrd + Display>(
    range: RangeInclusive<T>,
) -> impl FnOnce(&str) -> Result<T, String> {
    move |text| {
        let number = text.parse().ok().filter(|number| range.contains(number));
        number.ok_or_else(|| {
            format!(
                "not a whole number from {} to {}",
                range.start(),
                range.end()
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::tests::{block, faults};

    fn limit(text: &str) -> RateLimit {
        block(text).get::<Rrl>().unwrap().0.clone()
    }

    #[test]
    fn options_are_read_and_defaults_stay() {
        let usual = RateLimit::default();
        let off = RateLimit {
            per_second: None,
            ..usual.clone()
        };
        assert_eq!(limit("rrl off"), off);
        let all = "rrl {\n responses_per_second 20\n slip 1\n ipv4_prefix_length 32\n ipv6_prefix_length 64\n \
                   allow 10.0.0.0/8\n allow 2001:db8::1\n}";
        let want = RateLimit {
            per_second: Some(20),
            slip: 1,
            ipv4_prefix: 32,
            ipv6_prefix: 64,
            allowed: Some(vec![
                "10.0.0.0/8".parse().unwrap(),
                Network::of([0x2001, 0xdb8, 0, 0, 0, 0, 0, 1].into()),
            ]),
        };
        assert_eq!(limit(all), want);
        let nobody = RateLimit {
            allowed: Some(Vec::new()),
            ..usual
        };
        assert_eq!(limit("rrl {\n allow none\n}"), nobody);
    }

    #[test]
    fn wrong_options_are_reported_with_their_place() {
        for (text, want) in [
            ("rrl", "1:1: rrl has no options"),
            ("rrl on", "1:5: rrl 'on' is not understood"),
            (
                "rrl {\n slip 11\n}",
                "2:7: slip '11': not a whole number from 0 to 10",
            ),
            (
                "rrl {\n responses_per_second 0\n}",
                "2:23: responses_per_second '0': not a whole number from 1 to 100000",
            ),
            ("rrl {\n window 15\n}", "2:2: rrl has no option 'window'"),
            ("rrl {\n allow\n}", "2:2: allow names no network"),
        ] {
            assert!(
                faults(text).iter().any(|fault| fault == want),
                "{text}: {:?}",
                faults(text)
            );
        }
    }
}
