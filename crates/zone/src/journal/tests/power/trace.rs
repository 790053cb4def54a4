//! The calls a process made to change files, read from what strace wrote.
//!
//! Each call has a start and an end, as numbers of lines: calls of threads overlap. What a call means
//! for files is said by paths, which strace finds for each descriptor.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

/// The calls that change files, and those needed to know where a `write` goes. A call that changes
/// files and stands not here would be missed: sled and std use these.
pub(super) const TRACED: &str = "open,openat,creat,close,lseek,write,writev,pwrite64,pwritev,pwritev2,\
    ftruncate,truncate,fallocate,fsync,fdatasync,sync_file_range,sync,syncfs,rename,renameat,renameat2,\
    link,linkat,symlink,unlink,unlinkat,mkdir,mkdirat,rmdir,copy_file_range,sendfile,splice";

/// What a call does to files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Effect {
    /// The file is there; it is new if it was not.
    Create(PathBuf),
    Write(PathBuf, usize, Vec<u8>),
    /// The file has this length.
    Resize(PathBuf, usize),
    /// The file's octets and length, or the folder's entries, are on the disk.
    Sync(PathBuf),
    Rename(PathBuf, PathBuf),
    Remove(PathBuf),
    MakeDir(PathBuf),
}

#[derive(Debug, Clone)]
pub(super) struct Call {
    /// The line at which it begins and the one at which it has ended.
    pub(super) begin: usize,
    pub(super) end: usize,
    pub(super) effect: Effect,
}

/// An argument: text in quotes, or anything else with the path that strace added in `<>`.
#[derive(Debug, Clone, Default)]
struct Argument {
    /// As it stands, without path and quotes; in quotes, unescaped.
    plain: Vec<u8>,
    /// The path of a descriptor.
    path: Option<PathBuf>,
}

impl Argument {
    fn number(&self) -> i64 {
        let text = String::from_utf8_lossy(&self.plain);
        text.parse().unwrap_or_else(|_| panic!("a number: {text}"))
    }

    /// As a size or place.
    fn size(&self) -> usize {
        usize::try_from(self.number()).unwrap()
    }

    /// As a path that was given as text.
    fn text(&self) -> PathBuf {
        PathBuf::from(String::from_utf8(self.plain.clone()).unwrap())
    }

    /// The path of a descriptor.
    fn file(&self) -> Option<PathBuf> {
        self.path.clone()
    }

    fn has(&self, flag: &str) -> bool {
        String::from_utf8_lossy(&self.plain)
            .split('|')
            .any(|known| known == flag)
    }
}

/// Takes the escapes `\xNN` apart.
fn unescape(text: &str) -> Vec<u8> {
    let octets = text.as_bytes();
    let mut out = Vec::with_capacity(octets.len() / 4);
    let mut at = 0;
    while at < octets.len() {
        if octets[at..].starts_with(b"\\x") {
            out.push(u8::from_str_radix(&text[at + 2..at + 4], 16).unwrap());
            at += 4;
        } else {
            out.push(octets[at]);
            at += 1;
        }
    }
    out
}

/// The arguments of a call, up to its closing parenthesis, and the rest of the line. Everything in
/// quotes and in `<>` is in hex, so that quotes, commas and parentheses are strace's own.
fn arguments(text: &str) -> (Vec<Argument>, &str) {
    let mut list = Vec::new();
    let mut rest = text;
    loop {
        let mut argument = Argument::default();
        rest = rest.trim_start();
        if let Some(quoted) = rest.strip_prefix('"') {
            let end = quoted.find('"').unwrap();
            argument.plain = unescape(&quoted[..end]);
            rest = &quoted[end + 1..];
            assert!(!rest.starts_with("..."), "strace cut a string");
        } else {
            let mut depth = 0;
            let end = rest
                .find(|c| {
                    match c {
                        '[' | '{' | '<' => depth += 1,
                        ']' | '}' | '>' => depth -= 1,
                        _ => {}
                    }
                    depth == 0 && (c == ',' || c == ')') || depth < 0
                })
                .unwrap_or(rest.len());
            let (plain, path) = with_path(&rest[..end]);
            argument.plain = plain.as_bytes().to_vec();
            argument.path = path;
            rest = &rest[end..];
        }
        list.push(argument);
        match rest.strip_prefix(',') {
            Some(next) => rest = next,
            None => return (list, rest.strip_prefix(')').unwrap_or(rest)),
        }
    }
}

/// `5<path>` as its two parts.
fn with_path(text: &str) -> (&str, Option<PathBuf>) {
    match text.split_once('<') {
        Some((plain, path)) => {
            let path = unescape(path.trim_end_matches('>'));
            (plain, Some(PathBuf::from(String::from_utf8(path).unwrap())))
        }
        None => (text.trim(), None),
    }
}

/// Reads a trace; what lies outside of `folder` is left out, but for what is written to `told`, a file
/// whose lines come out as the second list: each with the line at which its `write` began.
pub(super) fn read(trace: &str, folder: &Path, told: &Path) -> (Vec<Call>, Vec<(usize, String)>) {
    let mut reader = Reader {
        folder: folder.to_owned(),
        told: told.to_owned(),
        ..Reader::default()
    };
    // The first half of calls that were interrupted in the trace, by process.
    let mut open: BTreeMap<&str, (usize, &str)> = BTreeMap::new();
    for (number, line) in trace.lines().enumerate() {
        let (process, rest) = line.split_once(' ').unwrap_or((line, ""));
        let rest = rest.trim_start();
        if rest.starts_with("---") || rest.starts_with("+++") {
            continue;
        }
        if let Some(first) = rest.strip_suffix(" <unfinished ...>") {
            open.insert(process, (number, first));
        } else if rest.starts_with("<... ") {
            let (begin, first) = open.remove(process).expect("a call that resumes began");
            let second = rest.split_once(" resumed>").expect("it resumes").1;
            reader.call(begin, number, &format!("{first}{second}"));
        } else {
            reader.call(number, number, rest);
        }
    }
    // What never ended may have been done.
    for (begin, first) in open.into_values() {
        reader.call(begin, usize::MAX, &format!("{first}) = 0"));
    }
    reader.calls.sort_by_key(|call| call.begin);
    (reader.calls, reader.lines)
}

#[derive(Debug, Default)]
struct Reader {
    folder: PathBuf,
    told: PathBuf,
    /// Places of descriptors that are written without a place.
    places: HashMap<i64, usize>,
    calls: Vec<Call>,
    lines: Vec<(usize, String)>,
}

impl Reader {
    fn call(&mut self, begin: usize, end: usize, text: &str) {
        let Some((name, rest)) = text.split_once('(') else {
            panic!("not a call: {text}")
        };
        let (arguments, rest) = arguments(rest);
        let (_, result) = rest.rsplit_once("= ").expect("a call has a result");
        let (result, opened) = with_path(result.split(' ').next().unwrap());
        let Ok(result) = result.parse::<i64>() else {
            return; // `?`: the process ended in it
        };
        if result < 0 {
            return;
        }
        for effect in self.effects(name, &arguments, result, opened) {
            let path = match &effect {
                Effect::Write(path, _, octets) if *path == self.told => {
                    let text = String::from_utf8(octets.clone()).unwrap();
                    self.lines.push((begin, text));
                    continue;
                }
                Effect::Create(path)
                | Effect::Write(path, ..)
                | Effect::Resize(path, _)
                | Effect::Sync(path)
                | Effect::Rename(path, _)
                | Effect::Remove(path)
                | Effect::MakeDir(path) => path,
            };
            if path.starts_with(&self.folder) {
                self.calls.push(Call { begin, end, effect });
            }
        }
    }

    /// What a call that succeeded does.
    fn effects(
        &mut self,
        name: &str,
        arguments: &[Argument],
        result: i64,
        opened: Option<PathBuf>,
    ) -> Vec<Effect> {
        let file = || arguments[0].file();
        match name {
            "open" | "openat" | "creat" => {
                let (flags, path) = (
                    &arguments[if name == "openat" { 2 } else { 1 }],
                    opened.expect("strace tells the path of what was opened"),
                );
                assert!(!flags.has("O_APPEND") || !path.starts_with(&self.folder));
                self.places.insert(result, 0);
                let mut effects = Vec::new();
                if flags.has("O_CREAT") {
                    effects.push(Effect::Create(path.clone()));
                }
                if flags.has("O_TRUNC") {
                    effects.push(Effect::Resize(path, 0));
                }
                effects
            }
            "lseek" => {
                self.places
                    .insert(arguments[0].number(), usize::try_from(result).unwrap());
                Vec::new()
            }
            "write" => {
                let place = self.places.entry(arguments[0].number()).or_default();
                let at = *place;
                let length = usize::try_from(result).unwrap();
                *place += length;
                let Some(path) = file() else {
                    return Vec::new();
                };
                vec![Effect::Write(
                    path,
                    at,
                    arguments[1].plain[..length].to_vec(),
                )]
            }
            "pwrite64" => {
                let length = usize::try_from(result).unwrap();
                let octets = arguments[1].plain[..length].to_vec();
                vec![Effect::Write(file().unwrap(), arguments[3].size(), octets)]
            }
            "ftruncate" => vec![Effect::Resize(file().unwrap(), arguments[1].size())],
            "fsync" | "fdatasync" => vec![Effect::Sync(file().unwrap())],
            // It writes to the device, and does not make the device keep it.
            "sync_file_range" | "close" => Vec::new(),
            "rename" => vec![Effect::Rename(arguments[0].text(), arguments[1].text())],
            "unlink" | "rmdir" => vec![Effect::Remove(arguments[0].text())],
            "unlinkat" => vec![Effect::Remove(arguments[1].text())],
            "mkdir" => vec![Effect::MakeDir(arguments[0].text())],
            other => {
                let ours = arguments.iter().any(|argument| {
                    argument
                        .path
                        .as_ref()
                        .is_some_and(|path| path.starts_with(&self.folder))
                });
                assert!(!ours, "{other} changes files in a way that is not read yet");
                Vec::new()
            }
        }
    }
}
