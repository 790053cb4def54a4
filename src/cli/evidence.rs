//! `verify FILE`: an export that was made elsewhere, checked without a store.

use std::fs::{self, File};
use std::io::{self, BufReader, Read, Write};
use std::path::{Path, PathBuf};

use dns::Name;
use history::{
    Anchors, AuditError, FileEntry, FileVerdict, Manifest, NOT_NAMED, Noted, Output, check_history,
    write_file_verdict,
};
use ring::digest::{Context, SHA256};
use zone::Hash;
use zone::journal::{Damage, FORMAT_FILE, Fault};
use zone::signing::PublicKey;

use crate::cli::file_faults::write_faults;
use crate::cli::stopped::refused;
use crate::failure::Failure;

/// The name of an export's manifest.
pub(crate) const MANIFEST: &str = "manifest.json";
/// What is said of a text that names another key than the one that it is checked with.
pub(crate) const OTHER_KEY: &str = "signed with another key than --key";
/// The size of an Ed25519 signature, and one more, so that a longer file is seen.
const SIGNATURE_BYTES: u64 = 65;

/// The file of an export that `verify` means; `None` for a zone. Of a folder that is its manifest.
///
/// # Errors
/// When it is another file or folder.
pub(crate) fn export_of(target: &str) -> Result<Option<PathBuf>, Failure> {
    let path = Path::new(target);
    let ends = |end| path.extension().is_some_and(|extension| extension == end);
    if ends("ndjson") || ends("json") {
        return Ok(Some(path.to_owned()));
    }
    // A zone may have the name of a file or folder that is here by chance.
    let is_path = target.contains('/') || [".", ".."].contains(&target);
    let manifest = path.join(MANIFEST);
    if manifest.is_file() {
        return Ok(Some(manifest));
    }
    let what = if path.join(FORMAT_FILE).is_file() {
        format!(
            "{target} is a state folder: write zonewright verify --state {target}, with --read-only if nothing in it may change"
        )
    } else if path.is_dir() && is_path {
        without_manifest(target)
    } else if path.is_file() && is_path {
        format!(
            "{target} is no export: name manifest.json, a history (FILE.ndjson), or their folder"
        )
    } else if target.contains('/') && !target.ends_with('.') {
        format!(
            "there is no file or folder {target}; write the name of a zone that has a / with a dot at its end"
        )
    } else {
        return Ok(None);
    };
    Err(Failure::unusable(what))
}

/// What is said of a folder without a manifest.
pub(crate) fn without_manifest(folder: &str) -> String {
    format!(
        "the folder {folder} has no {MANIFEST}: name a folder that zonewright export --history wrote, or one of its files; of \
         a state folder write zonewright verify --state FOLDER"
    )
}

/// The file with the signature of a manifest.
pub(crate) fn signature_of(manifest: &Path) -> PathBuf {
    let mut name = manifest.as_os_str().to_owned();
    name.push(".sig");
    PathBuf::from(name)
}

pub(crate) fn unreadable(file: &Path, error: &io::Error) -> Failure {
    Failure::unusable(format!("{}: {error}", file.display()))
}

/// What is known of a text that names this key as the one that it is signed with, and not that of `--key`.
pub(crate) fn other_key(other: Hash, key: Hash) -> String {
    format!("{OTHER_KEY}: with {other}, it says, not with {key}")
}

/// A file that is read and hashed at once.
struct Hashing {
    file: File,
    digest: Context,
    bytes: u64,
}

impl Read for Hashing {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let octets = self.file.read(buffer)?;
        self.digest.update(&buffer[..octets]);
        self.bytes += octets as u64;
        Ok(octets)
    }
}

/// An exported history that was read.
pub(crate) struct CheckedFile {
    name: String,
    bytes: u64,
    sha256: Hash,
    /// What checking it found.
    pub(crate) verdict: FileVerdict,
}

impl CheckedFile {
    /// Reads and checks a file.
    pub(crate) fn read(path: &Path, anchors: &[Hash]) -> Result<Self, Failure> {
        let file = File::open(path).map_err(|error| unreadable(path, &error))?;
        let mut input = BufReader::with_capacity(
            1 << 18,
            Hashing {
                file,
                digest: Context::new(&SHA256),
                bytes: 0,
            },
        );
        let verdict =
            check_history(&mut input, anchors).map_err(|error| unreadable(path, &error))?;
        let Hashing { digest, bytes, .. } = input.into_inner();
        let mut sha256 = [0; 32];
        sha256.copy_from_slice(digest.finish().as_ref());
        let name = path.file_name().unwrap_or_default();
        Ok(Self {
            name: name.to_string_lossy().into_owned(),
            bytes,
            sha256: Hash::from_octets(sha256),
            verdict,
        })
    }

    /// What a manifest says of the file.
    pub(crate) fn entry(&self) -> FileEntry {
        let FileVerdict {
            zone,
            verdict,
            newest_ms,
            is_named: _,
        } = &self.verdict;
        FileEntry {
            file: self.name.clone(),
            bytes: self.bytes,
            sha256: self.sha256,
            zone: zone.as_ref().map(ToString::to_string).unwrap_or_default(),
            versions: verdict.versions,
            serial: verdict.newest.1,
            time_ms: *newest_ms,
            hash: verdict.head,
        }
    }

    /// Notes that the manifest does not say anything of the file: a fault if its signature has to vouch for the file.
    fn is_not_named(&mut self, must_be: bool) {
        self.verdict.is_named = Some(false);
        if must_be {
            self.fault(Damage::Chain, NOT_NAMED.to_owned());
        }
    }

    /// Compares the file with what the manifest says of it.
    fn compare(&mut self, said: &FileEntry) {
        self.verdict.is_named = Some(true);
        let found = self.entry();
        if found == *said {
            return;
        }
        let (damage, what) = if found.bytes < said.bytes {
            let what = format!(
                "it has {} bytes, the manifest says {}",
                found.bytes, said.bytes
            );
            (Damage::Lost, what)
        } else if found.sha256 != said.sha256 || found.bytes != said.bytes {
            let what = format!(
                "its SHA-256 is {}, the manifest says {}",
                found.sha256, said.sha256
            );
            (Damage::Changed, what)
        } else {
            let what = "the manifest names another zone, serial, time or hash".to_owned();
            (Damage::Chain, what)
        };
        self.fault(damage, what);
    }

    /// Notes a fault of the newest version.
    fn fault(&mut self, damage: Damage, what: String) {
        let verdict = &mut self.verdict.verdict;
        let (seq, serial) = verdict.newest;
        verdict.faults.push(Fault {
            seq,
            // A file without a version has no serial.
            serial: (seq > 0).then(|| serial.encode()),
            damage,
            what,
        });
    }
}

/// What is known of the signature of a manifest.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Signature {
    /// The manifest says that it is not signed.
    None,
    /// Nobody gave a key.
    Unchecked,
    /// The key made it.
    Good,
    /// The key did not make it.
    Bad(String),
    /// The manifest names another key than the one that was given.
    OtherKey(String),
    /// The file with it is not there; whether a key was given.
    Missing { is_sought: bool },
}

impl Signature {
    /// As programs read it.
    const fn as_str(&self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Unchecked => "unchecked",
            Self::Good => "good",
            Self::Bad(_) => "bad",
            Self::OtherKey(_) => "otherKey",
            Self::Missing { is_sought: _ } => "missing",
        }
    }
}

/// A manifest that was read, and what is wrong with it.
struct CheckedManifest {
    path: PathBuf,
    manifest: Option<Manifest>,
    signature: Signature,
    /// What is wrong with the text.
    fault: Option<String>,
}

impl CheckedManifest {
    fn read(path: &Path, key: Option<&PublicKey>) -> Result<Self, Failure> {
        let text = fs::read(path).map_err(|error| unreadable(path, &error))?;
        let (manifest, fault) = match Manifest::parse(&text) {
            Ok(manifest) => (Some(manifest), None),
            Err(error) => (None, Some(error.to_string())),
        };
        let signature = signature_state(path, &text, key, manifest.as_ref())?;
        Ok(Self {
            path: path.to_owned(),
            manifest,
            signature,
            fault,
        })
    }

    /// What is wrong with it, with the damage as programs read it.
    fn faults(&self) -> Vec<(Damage, String)> {
        let of_signature = match &self.signature {
            Signature::None | Signature::Unchecked | Signature::Good => None,
            Signature::Missing { is_sought: false } => None,
            Signature::Bad(what) => Some((Damage::Changed, what.clone())),
            Signature::OtherKey(what) => Some((Damage::Unknown, what.clone())),
            Signature::Missing { is_sought: true } => Some((Damage::Lost, self.without())),
        };
        let of_text = self.fault.clone().map(|what| (Damage::Changed, what));
        of_text.into_iter().chain(of_signature).collect()
    }

    /// Says that the signature is not there.
    fn without(&self) -> String {
        format!(
            "its signature {} is not there",
            signature_of(&self.path).display()
        )
    }

    fn write(&self, output: Output, out: &mut dyn Write) -> io::Result<()> {
        let file = self.path.display().to_string();
        let faults = self.faults();
        if output == Output::Json {
            let signature = self.signature.as_str();
            return write_faults(&file, Some(signature), &faults, output, out);
        }
        let is_good = faults.is_empty();
        if let Some(what) = &self.fault {
            write_faults(&file, None, &[(Damage::Changed, what.clone())], output, out)?;
        }
        let said = match &self.signature {
            Signature::Bad(what) => {
                return write_faults(&file, None, &[(Damage::Changed, what.clone())], output, out);
            }
            Signature::OtherKey(what) => return writeln!(out, "{file}: {what}"),
            Signature::Missing { is_sought: true } => {
                return writeln!(out, "{file}: BROKEN: {}", self.without());
            }
            _ if !is_good => return Ok(()),
            Signature::None => "not signed".to_owned(),
            Signature::Unchecked => {
                "signed, but the signature was not checked: --key PUBLIC.pem checks it".to_owned()
            }
            Signature::Good => "signed with this key".to_owned(),
            Signature::Missing { is_sought: false } => {
                format!("it says that it is signed, but {}", self.without())
            }
        };
        writeln!(out, "{file}: good; {said}")
    }
}

/// Reads a public key.
pub(crate) fn read_public_key(file: &Path) -> Result<PublicKey, Failure> {
    PublicKey::read(file).map_err(|error| Failure::unusable(format!("{}: {error}", file.display())))
}

/// What is known of the signature of a manifest.
fn signature_state(
    path: &Path,
    text: &[u8],
    key: Option<&PublicKey>,
    manifest: Option<&Manifest>,
) -> Result<Signature, Failure> {
    let signed_by = manifest.and_then(|manifest| manifest.key);
    if key.is_none() && signed_by.is_none() {
        return Ok(Signature::None);
    }
    let file = signature_of(path);
    let mut signature = Vec::new();
    let read = File::open(&file)
        .and_then(|opened| opened.take(SIGNATURE_BYTES).read_to_end(&mut signature));
    match read {
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let is_sought = key.is_some();
            return Ok(Signature::Missing { is_sought });
        }
        Err(error) => return Err(unreadable(&file, &error)),
    }
    let Some(key) = key else {
        return Ok(Signature::Unchecked);
    };
    if key.has_signed(text, &signature) {
        return Ok(Signature::Good);
    }
    let other = manifest.zip(signed_by.filter(|by| *by != key.id()));
    if let Some((manifest, other)) = other {
        let own = Manifest {
            key: Some(key.id()),
            ..manifest.clone()
        };
        // Otherwise no more than the name of the key was changed.
        if !key.has_signed(own.text().as_bytes(), &signature) {
            return Ok(Signature::OtherKey(other_key(other, key.id())));
        }
    }
    let (file, key) = (file.display(), key.id());
    let what = format!("{file} is not the signature of it that {key} makes");
    Ok(Signature::Bad(what))
}

/// Hashes to look for in an export.
pub(crate) struct Sought<'a> {
    /// Those that a person noted.
    pub(crate) anchors: &'a [String],
    /// Those of notes.
    pub(crate) noted: &'a [Noted],
    /// The key that checks the manifest.
    pub(crate) key: Option<&'a PublicKey>,
    /// Whether it is that of notes: then there may be no manifest, or one without a signature or with that of another key.
    pub(crate) is_for_notes: bool,
}

/// `verify FILE`: a history with what the manifest beside it says, or all files of a manifest.
///
/// # Errors
/// When a file cannot be read, or is not as it was written.
pub(crate) fn verify_export(
    path: &Path,
    sought: &Sought<'_>,
    output: Output,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let Sought {
        anchors,
        noted,
        key,
        is_for_notes,
    } = *sought;
    let is_history = path
        .extension()
        .is_some_and(|extension| extension == "ndjson");
    if is_history && is_notes(path)? {
        let file = path.display();
        return Err(Failure::unusable(format!(
            "{file} has signed notes, and is no history: zonewright verify --note {file} checks them and the store"
        )));
    }
    let anchors = Anchors::parse(anchors, noted).map_err(refused)?;
    let hashes = anchors.hashes();
    if !is_history && !hashes.is_empty() {
        return Err(Failure::unusable(
            "--anchor and --note look into one history: name FILE.ndjson",
        ));
    }
    let manifest = manifest_of(path, is_history, (key, is_for_notes))?;
    let mut found = Found::default();
    let mut other_key = None;
    if let Some(checked) = &manifest {
        checked.write(output, out).map_err(unwritten)?;
        let faults = checked.faults();
        let shown = checked.path.display().to_string();
        if faults.iter().any(|(damage, _)| *damage != Damage::Unknown) {
            found.broken.push(shown);
        } else if matches!(checked.signature, Signature::OtherKey(_)) && !is_for_notes {
            other_key = Some(format!("{shown}: {OTHER_KEY}"));
        }
    }
    let is_listed = manifest.as_ref().is_some_and(|it| it.manifest.is_some());
    for (file, said) in files_of(path, is_history, manifest.as_ref())? {
        let shown = file.display().to_string();
        if said.is_some() && !file.exists() {
            let what = "the manifest names it, and it is not there".to_owned();
            write_faults(&shown, None, &[(Damage::Lost, what)], output, out).map_err(unwritten)?;
            found.broken.push(shown);
            continue;
        }
        let mut checked = CheckedFile::read(&file, &hashes)?;
        match said {
            Some(said) => checked.compare(said),
            None if is_listed => checked.is_not_named(key.is_some() && !is_for_notes),
            None => {}
        }
        let written = write_file_verdict(&shown, &checked.verdict, &anchors, output, out);
        found.take_in(shown, written)?;
    }
    found.judge(other_key)
}

fn unwritten(error: io::Error) -> Failure {
    Failure::running(error.to_string())
}

/// What is wrong with the files of an export.
#[derive(Default)]
struct Found {
    /// The files that are not as they were written.
    broken: Vec<String>,
    /// A hash that no version has.
    not_anchored: Option<AuditError>,
    /// The zones that are not known whole.
    not_known: Vec<Name>,
}

impl Found {
    /// Takes in what was written about a file.
    fn take_in(&mut self, file: String, written: Result<(), AuditError>) -> Result<(), Failure> {
        match written {
            Err(AuditError::BrokenFile(_)) => self.broken.push(file),
            Err(error @ AuditError::NotAnchored { .. }) => self.not_anchored = Some(error),
            Err(AuditError::NotAllKnown(zones)) => self.not_known.extend(zones),
            done => done.map_err(refused)?,
        }
        Ok(())
    }

    /// What is certain comes first.
    fn judge(self, other_key: Option<String>) -> Result<(), Failure> {
        if !self.broken.is_empty() {
            let files = self.broken.join(", ");
            return Err(Failure::running(format!("{files}: not as it was written")));
        }
        if let Some(what) = other_key {
            return Err(Failure::running(what));
        }
        let zones = Some(self.not_known).filter(|zones| !zones.is_empty());
        let not_known = self.not_anchored.or(zones.map(AuditError::NotAllKnown));
        not_known.map_or(Ok(()), |error| Err(refused(error)))
    }
}

/// The manifest that is checked: the file itself, or that beside a history, if there is one.
fn manifest_of(
    path: &Path,
    is_history: bool,
    (key, is_for_notes): (Option<&PublicKey>, bool),
) -> Result<Option<CheckedManifest>, Failure> {
    let beside = path.with_file_name(MANIFEST);
    if !is_history {
        return CheckedManifest::read(path, key).map(Some);
    }
    if beside.exists() {
        let checked = CheckedManifest::read(&beside, key.filter(|_| !is_for_notes))?;
        let is_signed = checked.manifest.as_ref().is_none_or(|it| it.key.is_some());
        return match is_for_notes && is_signed {
            true => CheckedManifest::read(&beside, key).map(Some),
            false => Ok(Some(checked)),
        };
    }
    match key.filter(|_| !is_for_notes) {
        None => Ok(None),
        Some(_) => Err(Failure::unusable(format!(
            "{}: there is no manifest to check with --key",
            beside.display()
        ))),
    }
}

/// The files to check, each with what the manifest says of it. Those that it does not name are the last ones.
fn files_of<'a>(
    path: &Path,
    is_history: bool,
    manifest: Option<&'a CheckedManifest>,
) -> Result<Vec<(PathBuf, Option<&'a FileEntry>)>, Failure> {
    let manifest = manifest.and_then(|checked| checked.manifest.as_ref());
    let mut entries = manifest.into_iter().flat_map(|manifest| &manifest.files);
    if is_history {
        let name = path.file_name().map(|name| name.to_string_lossy());
        let said = entries.find(|said| Some(said.file.as_str()) == name.as_deref());
        return Ok(vec![(path.to_owned(), said)]);
    }
    let all = entries.map(|said| (path.with_file_name(&said.file), Some(said)));
    let mut all: Vec<_> = all.collect();
    let others = not_named(path, &all)?;
    all.extend(others.into_iter().map(|file| (file, None)));
    Ok(all)
}

/// The histories beside a manifest that are not among these files, in the order of their names.
fn not_named(
    manifest: &Path,
    named: &[(PathBuf, Option<&FileEntry>)],
) -> Result<Vec<PathBuf>, Failure> {
    let folder = match manifest.parent() {
        Some(parent) if parent != Path::new("") => parent,
        Some(_) | None => Path::new("."),
    };
    let failed = |error: io::Error| unreadable(folder, &error);
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed)? {
        let file = manifest.with_file_name(entry.map_err(failed)?.file_name());
        let is_lines = file.extension().is_some_and(|it| it == "ndjson") && file.is_file();
        if is_lines && !is_notes(&file)? && !named.iter().any(|(known, _)| *known == file) {
            found.push(file);
        }
    }
    found.sort();
    Ok(found)
}

/// Whether a file has notes, which may be kept beside an export.
fn is_notes(file: &Path) -> Result<bool, Failure> {
    const BEGIN: &[u8] = b"{\"note\":";
    let mut begin = Vec::new();
    File::open(file)
        .and_then(|opened| opened.take(BEGIN.len() as u64).read_to_end(&mut begin))
        .map_err(|error| unreadable(file, &error))?;
    Ok(begin == BEGIN)
}
