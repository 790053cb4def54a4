//! Changes inputs at random, for tests that read what anyone may send or what a disk may give back.
//!
//! Coverage is not measured: that needs a nightly compiler. In its place each target says in a few words
//! what came of an input (a code, the beginning of an error), and an input with which something came
//! for the first time is changed further. Numbers come from a seed, [`seed`], the time from
//! `ZW_FUZZ_SECONDS`, for each target. proptest makes values and shrinks them, but does not change given
//! octets and keeps no inputs; crates that do are made for coverage.

#![allow(clippy::print_stdout, reason = "what a test did is printed with it")]

use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

/// How long a target is tried unless `ZW_FUZZ_SECONDS` says so.
const SECONDS: u64 = 4;
/// Inputs after which a run without an end gives up: planted faults are found within.
const MOST: u64 = 200_000;
/// The longest input.
const LONGEST: usize = 4096;
/// Inputs kept for what came of them.
const KEPT: usize = 2000;
/// Octets and numbers at which readers change their mind.
const EDGES: [u16; 14] = [
    0, 1, 2, 11, 12, 63, 64, 127, 128, 191, 192, 255, 0x7fff, 0xffff,
];

/// The seed of a random test: `ZW_SEED`, or another number in each run. It is printed, so that the output of a test that
/// fails has it.
///
/// # Panics
/// When `ZW_SEED` is not a number.
#[must_use]
pub fn seed() -> u64 {
    let given = std::env::var("ZW_SEED").ok();
    // Short enough to be typed, and to count on from.
    let seed = given.map_or_else(
        || u64::from(fastrand::u32(..)),
        |text| text.parse().expect("ZW_SEED is a number"),
    );
    println!("ZW_SEED={seed}");
    seed
}

/// What came of an input, in a few words; an error when the target is wrong about it.
pub type Outcome = Result<String, String>;

/// Changes inputs.
pub struct Fuzz<'a> {
    /// Inputs to begin with and those that were kept.
    pool: Vec<Vec<u8>>,
    /// Words that mean something to the target.
    words: &'a [&'a [u8]],
    /// What has come of inputs so far.
    seen: HashSet<String>,
    /// The seed of `random`.
    seed: u64,
    /// Random numbers.
    random: fastrand::Rng,
}

impl<'a> Fuzz<'a> {
    /// With inputs to begin with, and words that mean something.
    pub fn new(seeds: Vec<Vec<u8>>, words: &'a [&'a [u8]]) -> Self {
        Self::with_seed(seed(), seeds, words)
    }

    /// The same with a seed that the test has from [`seed`] for more than this.
    pub fn with_seed(seed: u64, seeds: Vec<Vec<u8>>, words: &'a [&'a [u8]]) -> Self {
        assert!(!seeds.is_empty());
        Self {
            pool: seeds,
            words,
            seen: HashSet::new(),
            seed,
            random: fastrand::Rng::with_seed(seed),
        }
    }

    /// A number below `limit`.
    fn below(&mut self, limit: usize) -> usize {
        self.random.usize(..limit.max(1))
    }

    /// One of the inputs, changed in a few places.
    pub fn input(&mut self) -> Vec<u8> {
        let place = self.below(self.pool.len());
        let mut input = self.pool[place].clone();
        for _ in 0..=self.below(4) {
            self.change(&mut input);
        }
        input.truncate(LONGEST);
        input
    }

    /// One change.
    fn change(&mut self, input: &mut Vec<u8>) {
        let at = self.below(input.len() + 1);
        let length = 1 + self.below(16);
        let end = input.len().min(at + length);
        match self.below(9) {
            0 | 1 if at < input.len() => input[at] ^= 1 << self.below(8),
            2 if at < input.len() => input[at] = self.below(256).to_le_bytes()[0],
            3 if at + 2 <= input.len() => {
                let edge = EDGES[self.below(EDGES.len())];
                input[at..at + 2].copy_from_slice(&edge.to_be_bytes());
            }
            4 => drop(input.drain(at..end)),
            5 => {
                let part = input[at..end].to_vec();
                let to = self.below(input.len() + 1);
                input.splice(to..to, part);
            }
            6 => {
                let other = self.below(self.pool.len());
                let other = &self.pool[other];
                let tail = other[other.len().min(at)..].to_vec();
                input.truncate(at);
                input.extend(tail);
            }
            7 if self.below(4) == 0 => input.truncate(at),
            _ if !self.words.is_empty() => {
                let word = self.words[self.below(self.words.len())];
                let over = if self.below(2) == 0 { at } else { end };
                input.splice(at..over, word.iter().copied());
            }
            _ => input.insert(at, b'0'),
        }
    }

    /// Tries the target until the time is over.
    ///
    /// # Panics
    /// When it panics or is wrong: with the input, made smaller.
    pub fn run(&mut self, name: &str, target: impl Fn(&[u8]) -> Outcome) {
        let given = std::env::var("ZW_FUZZ_SECONDS").ok();
        let seconds = given.map_or(SECONDS, |text| text.parse().expect("seconds are a number"));
        let start = now();
        let mut count = 0_u64;
        while now().duration_since(start) < Duration::from_secs(seconds) {
            for _ in 0..16 {
                count += 1;
                if let Some(failure) = self.step(&target) {
                    panic!("{name}, ZW_SEED={}, input {count}: {failure}", self.seed);
                }
            }
        }
        println!("{name}: {count} inputs, {} outcomes", self.seen.len());
        assert!(self.seen.len() > 3, "{name}: {:?} alone", self.seen);
    }

    /// Tries a target with a planted fault until it is found; gives how many inputs that took.
    ///
    /// # Panics
    /// When it is not found.
    pub fn finds(&mut self, name: &str, target: impl Fn(&[u8]) -> Outcome) -> u64 {
        let found = (1..=MOST).find(|_| self.step(&target).is_some());
        let Some(count) = found else {
            panic!(
                "{name}, ZW_SEED={}: the planted fault was not found in {MOST} inputs",
                self.seed
            )
        };
        println!("{name}: the planted fault was found by input {count}");
        count
    }

    /// Tries one input; says what is wrong.
    fn step(&mut self, target: &impl Fn(&[u8]) -> Outcome) -> Option<String> {
        let input = self.input();
        match attempt(target, &input) {
            Ok(outcome) => {
                if self.pool.len() < KEPT && self.seen.insert(outcome) {
                    self.pool.push(input);
                }
                None
            }
            Err(what) => {
                let small = smaller(target, input);
                let text = String::from_utf8_lossy(&small).into_owned();
                Some(format!("{what}\n{small:?}\n{text}"))
            }
        }
    }
}

/// What comes of an input; a panic is an error.
fn attempt(target: &impl Fn(&[u8]) -> Outcome, input: &[u8]) -> Outcome {
    catch_unwind(AssertUnwindSafe(|| target(input))).unwrap_or_else(|_| Err("a panic".to_owned()))
}

/// Leaves out what can be without the fault going away.
fn smaller(target: &impl Fn(&[u8]) -> Outcome, mut input: Vec<u8>) -> Vec<u8> {
    let mut length = input.len() / 2;
    while length > 0 {
        let mut at = 0;
        while at < input.len() {
            let mut without = input.clone();
            without.drain(at..input.len().min(at + length));
            if attempt(target, &without).is_err() {
                input = without;
            } else {
                at += length;
            }
        }
        length /= 2;
    }
    input
}

/// The time.
fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}
