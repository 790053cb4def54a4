//! The page of the manual that the story writes: some of its commands, with fixed serials, times and ids.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use regex::{Captures, Regex};

use super::play::Serials;
use super::stage::{HOLD_MS, Stage};

/// The line of the page before the story.
const MARK: &str =
    "<!-- the story of tests/cluster_story.rs; UPDATE_DOCS=1 writes it -->\n\n```text\n";
/// A time as the commands print it.
const TIME: &str = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z";

/// The page has what the commands print, or is written.
pub fn check(stage: &Stage, serials: &Serials) {
    let told = told(stage, serials);
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/story.md");
    let page = fs::read_to_string(&path).unwrap();
    let (before, after) = page.split_once(MARK).expect("the page has its place");
    let (known, after) = after.split_once("```").expect("the block ends");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        fs::write(&path, format!("{before}{MARK}{told}```{after}")).unwrap();
        return;
    }
    assert_eq!(known, told, "UPDATE_DOCS=1 writes it");
}

/// The output of the commands, one after the other.
fn told(stage: &Stage, serials: &Serials) -> String {
    let audit = stage.server.audit_log();
    let audit = audit.to_str().unwrap();
    let Serials {
        web,
        www,
        before_mistake,
        rolled_back,
    } = serials;
    let [web, www, before_mistake, rolled_back] =
        [web, www, before_mistake, rolled_back].map(ToString::to_string);
    let mut text = String::new();
    for command in [
        vec!["log", "cluster.local", "--since", &web],
        vec!["diff", "cluster.local", &web, &www],
        vec!["diff", "cluster.local", &before_mistake, &rolled_back],
        vec!["blame", "cluster.local", "web.shop.svc.cluster.local"],
        vec![
            "log",
            "cluster.local",
            "--name",
            "mail.shop.svc.cluster.local",
            "--audit-log",
            audit,
        ],
        vec!["why", "feed.partner.svc.cluster.local"],
        vec!["why", "old.shop.svc.cluster.local"],
        vec!["why", "kubernetes.default.svc.cluster.local"],
    ] {
        let said = stage.zonewright.command(&command);
        text.push_str(&format!("$ zonewright {}\n{said}\n", command.join(" ")));
    }
    let text = text.replace(audit, "audit.log");
    masked(stage, text.trim_end()) + "\n"
}

/// Replaces serials, times, digests and ids by fixed ones in the same order.
fn masked(stage: &Stage, text: &str) -> String {
    let mut text = masked_times(stage, text);
    for (pattern, mask) in [
        (
            r"uid \d+ \([^)]*\), process \d+ \([^)]*\) over the control socket",
            "uid …",
        ),
        ("uid [0-9a-f-]{36}", "uid 8f1c…"),
        (r"resourceVersion \d+", "resourceVersion …"),
    ] {
        text = Regex::new(pattern)
            .unwrap()
            .replace_all(&text, mask)
            .into_owned();
    }
    let serial = |place: usize| (1_795_269_600 + 60 * place).to_string();
    text = in_order(&text, r"\b\d{10}\b", serial, true);
    let digest = |place: usize| format!("{}…", place.to_string().repeat(16));
    in_order(&text, "[0-9a-f]{16}…", digest, false)
}

/// Replaces what fits a pattern by its place: among all that fit, by size or as they come.
fn in_order(text: &str, pattern: &str, mask: impl Fn(usize) -> String, is_by_size: bool) -> String {
    let pattern = Regex::new(pattern).unwrap();
    let mut found: Vec<&str> = Vec::new();
    for word in pattern.find_iter(text).map(|it| it.as_str()) {
        if !found.contains(&word) {
            found.push(word);
        }
    }
    if is_by_size {
        found.sort_unstable();
    }
    let masks: BTreeMap<&str, String> = { found.iter().zip(1..) }
        .map(|(word, place)| (*word, mask(place)))
        .collect();
    let replaced = pattern.replace_all(text, |it: &Captures<'_>| masks[&it[0]].clone());
    replaced.into_owned()
}

/// Each step of the story takes a minute, and so many seconds if the gate holds a change in it.
fn masked_times(stage: &Stage, text: &str) -> String {
    let held = Regex::new(&format!("since ({TIME}) until {TIME} at most")).unwrap();
    let held = held.captures(text).map(|found| milliseconds(&found[1]));
    let time = |found: &Captures<'_>| {
        let ms = milliseconds(&found[0]);
        let (step, hours) = stage.record.step(ms).expect("all times are of the story");
        let is_after = held.is_some_and(|held| held + HOLD_MS <= ms && hours == 0);
        let seconds = if is_after { HOLD_MS / 1000 } else { 0 };
        format!("2026-11-21T{}:{step:02}:{seconds:02}.000Z", 14 + hours)
    };
    Regex::new(TIME)
        .unwrap()
        .replace_all(text, time)
        .into_owned()
}

/// Milliseconds since 1970.
fn milliseconds(time: &str) -> u64 {
    let time: jiff::Timestamp = time.parse().unwrap();
    u64::try_from(time.as_millisecond()).unwrap()
}
