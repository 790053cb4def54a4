//! `verify FILE`: an export that was made elsewhere, checked without a store.

use std::fs::{self, File};
use std::io::{self, BufReader, Read, Write};
use std::path::{Path, PathBuf};

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
        format!(
            "the folder {target} has no {MANIFEST}: name a folder that zonewright export --history wrote, or one of its files; of \
             a state folder write zonewright verify --state FOLDER"
        )
    } else if path.is_file() && is_path {
        format!(
            "{target} is no export: name manifest.json, a history (FILE.ndjson), or their folder"
        )
    } else {
        return Ok(None);
    };
    Err(Failure::unusable(what))
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
        verdict.faults.push(Fault {
            seq: verdict.newest.0,
            serial: Some(verdict.newest.1.encode()),
            damage,
            what,
        });
    }
}

/// A manifest that was read, and what is wrong with it.
struct CheckedManifest {
    path: PathBuf,
    manifest: Option<Manifest>,
    /// What is known of the signature.
    signature: &'static str,
    faults: Vec<(Damage, String)>,
}

impl CheckedManifest {
    fn read(path: &Path, key: Option<&PublicKey>) -> Result<Self, Failure> {
        let text = fs::read(path).map_err(|error| unreadable(path, &error))?;
        let mut faults = Vec::new();
        let manifest = match Manifest::parse(&text) {
            Ok(manifest) => Some(manifest),
            Err(error) => {
                faults.push((Damage::Changed, error.to_string()));
                None
            }
        };
        let signed_by = manifest.as_ref().and_then(|manifest| manifest.key);
        let signature = match (key, signed_by) {
            (None, None) => "none",
            (None, Some(_)) => "unchecked",
            (Some(key), _) => match signature_fault(path, &text, key, signed_by) {
                None => "good",
                Some(fault) => {
                    faults.push(fault);
                    "bad"
                }
            },
        };
        Ok(Self {
            path: path.to_owned(),
            manifest,
            signature,
            faults,
        })
    }

    fn write(&self, output: Output, out: &mut dyn Write) -> io::Result<()> {
        let file = self.path.display().to_string();
        write_faults(&file, Some(self.signature), &self.faults, output, out)?;
        if self.faults.is_empty() && output == Output::Text {
            let signature = match self.signature {
                "good" => "signed with this key",
                "unchecked" => {
                    "signed, but the signature was not checked: --key PUBLIC.pem checks it"
                }
                _ => "not signed",
            };
            writeln!(out, "{file}: good; {signature}")?;
        }
        Ok(())
    }
}

/// Reads a public key.
pub(crate) fn read_public_key(file: &Path) -> Result<PublicKey, Failure> {
    PublicKey::read(file).map_err(|error| Failure::unusable(format!("{}: {error}", file.display())))
}

/// Why the signature of a manifest does not prove that it was signed with a key.
fn signature_fault(
    path: &Path,
    text: &[u8],
    key: &PublicKey,
    signed_by: Option<Hash>,
) -> Option<(Damage, String)> {
    let file = signature_of(path);
    let mut signature = Vec::new();
    let read = File::open(&file)
        .and_then(|opened| opened.take(SIGNATURE_BYTES).read_to_end(&mut signature));
    if let Err(error) = read {
        return Some((
            Damage::Lost,
            format!("its signature {}: {error}", file.display()),
        ));
    }
    if key.has_signed(text, &signature) {
        return None;
    }
    let other = signed_by.filter(|by| *by != key.id());
    let why = match other {
        Some(by) => format!("it is signed with the key {by}, not with {}", key.id()),
        None => format!(
            "{} is not the signature of it that {} makes",
            file.display(),
            key.id()
        ),
    };
    Some((Damage::Changed, why))
}

/// Hashes to look for in an export.
pub(crate) struct Sought<'a> {
    /// Those that a person noted.
    pub(crate) anchors: &'a [String],
    /// Those of notes.
    pub(crate) noted: &'a [Noted],
    /// The key that checks the manifest.
    pub(crate) key: Option<&'a PublicKey>,
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
    } = *sought;
    let is_history = path
        .extension()
        .is_some_and(|extension| extension == "ndjson");
    let anchors = Anchors::parse(anchors, noted).map_err(refused)?;
    let hashes = anchors.hashes();
    if !is_history && !hashes.is_empty() {
        return Err(Failure::unusable(
            "--anchor and --note look into one history: name FILE.ndjson",
        ));
    }
    let manifest = manifest_of(path, is_history, key)?;
    let failed = |error: io::Error| Failure::running(error.to_string());
    let mut broken = Vec::new();
    if let Some(checked) = &manifest {
        checked.write(output, out).map_err(failed)?;
        if !checked.faults.is_empty() {
            broken.push(checked.path.display().to_string());
        }
    }
    let mut not_anchored = None;
    let is_listed = manifest.as_ref().is_some_and(|it| it.manifest.is_some());
    for (file, said) in files_of(path, is_history, manifest.as_ref()) {
        let shown = file.display().to_string();
        if said.is_some() && !file.exists() {
            let what = "the manifest names it, and it is not there".to_owned();
            write_faults(&shown, None, &[(Damage::Lost, what)], output, out).map_err(failed)?;
            broken.push(shown);
            continue;
        }
        let mut checked = CheckedFile::read(&file, &hashes)?;
        match said {
            Some(said) => checked.compare(said),
            None if is_listed => checked.is_not_named(key.is_some()),
            None => {}
        }
        match write_file_verdict(&shown, &checked.verdict, &anchors, output, out) {
            Err(AuditError::BrokenFile(_)) => broken.push(shown),
            Err(error @ AuditError::NotAnchored { .. }) => not_anchored = Some(error),
            done => done.map_err(refused)?,
        }
    }
    if broken.is_empty() {
        not_anchored.map_or(Ok(()), |error| Err(refused(error)))
    } else {
        let files = broken.join(", ");
        Err(Failure::running(format!("{files}: not as it was written")))
    }
}

/// The manifest that is checked: the file itself, or that beside a history, if there is one.
fn manifest_of(
    path: &Path,
    is_history: bool,
    key: Option<&PublicKey>,
) -> Result<Option<CheckedManifest>, Failure> {
    let beside = path.with_file_name(MANIFEST);
    if !is_history {
        return CheckedManifest::read(path, key).map(Some);
    }
    if beside.exists() {
        return CheckedManifest::read(&beside, key).map(Some);
    }
    match key {
        None => Ok(None),
        Some(_) => Err(Failure::unusable(format!(
            "{}: there is no manifest to check with --key",
            beside.display()
        ))),
    }
}

/// The files to check, each with what the manifest says of it.
fn files_of<'a>(
    path: &Path,
    is_history: bool,
    manifest: Option<&'a CheckedManifest>,
) -> Vec<(PathBuf, Option<&'a FileEntry>)> {
    let manifest = manifest.and_then(|checked| checked.manifest.as_ref());
    let mut entries = manifest.into_iter().flat_map(|manifest| &manifest.files);
    if is_history {
        let name = path.file_name().map(|name| name.to_string_lossy());
        let said = entries.find(|said| Some(said.file.as_str()) == name.as_deref());
        return vec![(path.to_owned(), said)];
    }
    let all = entries.map(|said| (path.with_file_name(&said.file), Some(said)));
    all.collect()
}
