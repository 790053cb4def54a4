//! Reverse zones of one network that are in the same state: one line of `status` for people.
//!
//! A range such as 10.96.0.0/12 has sixteen reverse zones. Those that need nobody's attention are one line for the network; any other
//! zone has lines of its own.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use crate::status::{Status, ZoneLine, write_text};

/// Writes a status for people, with one line for reverse zones of one network that are in the same state.
///
/// # Errors
/// When it cannot be written.
pub fn write_condensed(status: &Status, out: &mut dyn io::Write) -> io::Result<()> {
    let networks = Networks::of(status);
    write_text(status, &|zone| networks.line_for(zone), out)
}

/// Neighbours of one network: their zones in the order of their addresses, and their common state.
struct Network<'a> {
    zones: Vec<&'a ZoneLine>,
    state: State,
}

/// What has to be the same in zones that are one line.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct State {
    is_stale: bool,
    has_version: bool,
    /// The secondaries, each of which has the newest version.
    secondaries: BTreeSet<String>,
}

/// Where the lines of zones are those of a network.
#[derive(Default)]
struct Networks<'a> {
    /// By the name of the first zone.
    first: BTreeMap<&'a str, Network<'a>>,
    /// The names of the others.
    others: BTreeSet<&'a str>,
}

impl<'a> Networks<'a> {
    fn of(status: &'a Status) -> Self {
        let mut networks = Self::default();
        for network in networks_of(status) {
            let mut names = network.zones.iter().map(|line| line.zone.as_str());
            let first = names.next();
            networks.others.extend(names);
            networks.first.extend(first.map(|name| (name, network)));
        }
        networks
    }

    /// What stands for a zone; `None` if its own lines do.
    fn line_for(&self, zone: &str) -> Option<String> {
        let line = self.first.get(zone).map(|network| line_of(network) + "\n");
        line.or_else(|| self.others.contains(zone).then(String::new))
    }
}

/// The line of a network.
fn line_of(network: &Network<'_>) -> String {
    let Network { zones, state } = network;
    let name = |line: Option<&&ZoneLine>| line.map_or(String::new(), |line| line.zone.clone());
    let (first, last) = (name(zones.first()), name(zones.last()));
    let records: usize = zones.iter().map(|line| line.records).sum();
    let mut text = format!("zones {first} to {last} ({}), ", zones.len());
    match state.has_version {
        true => text += &format!("{records} records"),
        false => text += "no version yet",
    }
    if state.is_stale {
        text += ", STALE";
    }
    if !state.secondaries.is_empty() {
        let all: Vec<&str> = state.secondaries.iter().map(String::as_str).collect();
        text += &format!(", up to date in {}", all.join(" and "));
    }
    text + "; each with --all"
}

/// Runs of at least two neighbours in the same state.
fn networks_of(status: &Status) -> Vec<Network<'_>> {
    let mut alike: BTreeMap<(&str, State), BTreeMap<u32, &ZoneLine>> = BTreeMap::new();
    for line in &status.zones {
        if let (Some((parent, number)), Some(state)) =
            (place_of(&line.zone), state_of(line, status))
        {
            alike
                .entry((parent, state))
                .or_default()
                .insert(number, line);
        }
    }
    let mut networks = Vec::new();
    for ((_, state), lines) in alike {
        let mut run: Vec<&ZoneLine> = Vec::new();
        let mut last = None;
        let mut end = |run: &mut Vec<_>| {
            let zones = std::mem::take(run);
            if zones.len() > 1 {
                let state = state.clone();
                networks.push(Network { zones, state });
            }
        };
        for (number, line) in lines {
            if last.is_some_and(|last| last + 1 != number) {
                end(&mut run);
            }
            run.push(line);
            last = Some(number);
        }
        end(&mut run);
    }
    networks
}

/// The zone above a reverse zone, and its number in it: decimal in `in-addr.arpa`, a digit of an address in `ip6.arpa`.
fn place_of(zone: &str) -> Option<(&str, u32)> {
    let (label, parent) = zone.split_once('.')?;
    let number = match parent {
        _ if parent.ends_with("in-addr.arpa.") => label.parse().ok(),
        _ if parent.ends_with("ip6.arpa.") => u32::from_str_radix(label, 16).ok(),
        _ => None,
    };
    Some((parent, number?))
}

/// The state of a zone that nobody has to look at alone; `None` for any other.
fn state_of(line: &ZoneLine, status: &Status) -> Option<State> {
    let ZoneLine {
        zone,
        serial,
        time_ms: _,
        records: _,
        stale_since_ms,
        hash: _,
        history,
        archive,
        held,
        order,
        ahead,
        reset,
    } = line;
    let is_short = history.as_ref().is_some_and(|it| it.dropped_early > 0);
    let fails = archive.as_ref().is_some_and(|it| it.error.is_some());
    if is_short || fails || held.is_some() || order.is_some() || ahead.is_some() || reset.is_some()
    {
        return None;
    }
    let of_zone = || status.secondaries.iter().filter(|it| it.zone == *zone);
    let is_fine = of_zone().all(|it| {
        let has_all = it.took.is_some() && it.took == *serial;
        has_all && it.refused.is_none() && it.denied.is_none()
    });
    is_fine.then(|| State {
        is_stale: stale_since_ms.is_some(),
        has_version: serial.is_some(),
        secondaries: of_zone().map(|it| it.secondary.clone()).collect(),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// A zone, with what is said of it beside its serial.
    fn zone(name: &str, more: &Value) -> Value {
        let mut zone = json!({ "zone": name, "serial": 7, "timeMs": 1, "records": 3,
            "staleSinceMs": null, "hash": null, "held": null, "order": null });
        let fields = more.as_object().expect("fields").clone();
        zone.as_object_mut().expect("fields").extend(fields);
        zone
    }

    fn secondary(zone: &str, took: u32) -> Value {
        json!({ "zone": zone, "secondary": "192.0.2.9:53", "told": 7, "acknowledged": 7, "took": took,
            "by": "axfr", "lagVersions": 0, "lagSeconds": 0 })
    }

    /// The zones in the text of a server with these zones and secondaries.
    fn condensed(zones: &[Value], secondaries: &[Value]) -> Vec<String> {
        let status = json!({ "version": "1", "zones": zones, "sources": [], "secondaries": secondaries,
            "problems": ["p"], "listeners": [] });
        let status: Status = serde_json::from_value(status).expect("a status");
        let mut text = Vec::new();
        write_condensed(&status, &mut text).expect("memory takes it");
        let text = String::from_utf8(text).expect("it is text");
        let is_zone = |line: &&str| line.starts_with("zone ") || line.starts_with("zones ");
        text.lines().filter(is_zone).map(str::to_owned).collect()
    }

    #[test]
    fn reverse_zones_of_one_network_are_one_line_while_they_are_alike() {
        let plain = json!({});
        let mut zones = vec![zone("cluster.local.", &plain)];
        for number in 96..112 {
            zones.push(zone(&format!("{number}.10.in-addr.arpa."), &plain));
        }
        for digit in ["a", "9"] {
            zones.push(zone(&format!("{digit}.6.0.d.f.ip6.arpa."), &plain));
        }
        zones.push(zone("244.10.in-addr.arpa.", &plain));
        let own =
            |name: &str| format!("zone {name} serial 7 of 1970-01-01T00:00:00.001Z, 3 records");
        let want = [
            own("cluster.local."),
            "zones 96.10.in-addr.arpa. to 111.10.in-addr.arpa. (16), 48 records; each with --all"
                .to_owned(),
            "zones 9.6.0.d.f.ip6.arpa. to a.6.0.d.f.ip6.arpa. (2), 6 records; each with --all"
                .to_owned(),
            own("244.10.in-addr.arpa."),
        ];
        assert_eq!(condensed(&zones, &[]), want);
    }

    #[test]
    fn a_zone_in_another_state_has_its_own_lines() {
        let name = |number: u8| format!("{number}.10.in-addr.arpa.");
        let held =
            json!({ "held": { "why": "w", "sinceMs": 1, "untilMs": null, "isReleasable": true } });
        let stale = json!({ "staleSinceMs": 5 });
        let zones = [
            zone(&name(1), &json!({})),
            zone(&name(2), &json!({})),
            zone(&name(3), &held),
            zone(&name(4), &stale),
            zone(&name(5), &stale),
            zone(&name(6), &json!({})),
            zone(&name(7), &json!({})),
        ];
        let lines = condensed(&zones, &[secondary(&name(6), 7), secondary(&name(7), 7)]);
        let wanted = [
            "zones 1.10.in-addr.arpa. to 2.10.in-addr.arpa. (2), 6 records; each with --all",
            "zone 3.10.in-addr.arpa. serial 7 of 1970-01-01T00:00:00.001Z, 3 records",
            "zones 4.10.in-addr.arpa. to 5.10.in-addr.arpa. (2), 6 records, STALE; each with --all",
            "zones 6.10.in-addr.arpa. to 7.10.in-addr.arpa. (2), 6 records, up to date in 192.0.2.9:53; each with --all",
        ];
        assert_eq!(lines, wanted);
        let late = condensed(
            &zones[5..],
            &[secondary(&name(6), 7), secondary(&name(7), 6)],
        );
        assert!(
            late.iter().all(|line| line.starts_with("zone ")),
            "{late:?}"
        );
    }
}
