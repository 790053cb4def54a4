//! Finds the files that an `import` names.
//!
//! A path is relative to the folder of the file that holds the import. It may have at most one `*`
//! and one `?`, neither of which matches a path separator; both match a leading dot, as in CoreDNS.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Why an import finds nothing.
#[derive(Debug, thiserror::Error)]
pub(super) enum ImportError {
    /// More wildcards than one `*` and one `?`, or a `[`.
    #[error("the pattern '{0}' has other wildcards than one '*' and one '?'")]
    Wildcards(String),
    /// A path without wildcards that names nothing.
    #[error("file to import not found: {0}")]
    NotFound(String),
    /// A folder could not be listed.
    #[error("cannot list the folder {folder}: {source}")]
    Folder {
        /// The folder.
        folder: String,
        /// Why not.
        source: io::Error,
    },
}

/// Whether a path has wildcards.
pub(super) fn is_pattern(path: &str) -> bool {
    path.contains(['*', '?', '['])
}

/// The files that `pattern` names in the file `from`, in lexical order; none when a pattern with
/// wildcards matches none.
///
/// # Errors
/// [`ImportError`], with the path.
pub(super) fn find(pattern: &str, from: &str) -> Result<Vec<PathBuf>, ImportError> {
    let folder = Path::new(from).parent().unwrap_or_else(|| Path::new(""));
    let joined = folder.join(pattern);
    let shown = joined.display().to_string();
    let count = |wildcard: char| shown.matches(wildcard).count();
    if count('*') > 1 || count('?') > 1 || count('[') > 0 {
        return Err(ImportError::Wildcards(shown));
    }
    let mut found = vec![PathBuf::new()];
    for part in joined.components() {
        let name = part.as_os_str().to_string_lossy();
        if is_pattern(&name) {
            found = matching(&found, &name)?;
        } else {
            found.iter_mut().for_each(|path| path.push(part));
        }
    }
    found.retain(|path| path.exists());
    found.sort();
    if found.is_empty() && !is_pattern(&shown) {
        return Err(ImportError::NotFound(shown));
    }
    Ok(found)
}

/// What matches `pattern` in each of `folders`. A folder that does not exist holds nothing.
fn matching(folders: &[PathBuf], pattern: &str) -> Result<Vec<PathBuf>, ImportError> {
    let mut found = Vec::new();
    for folder in folders {
        let listed = if folder.as_os_str().is_empty() {
            Path::new(".")
        } else {
            folder
        };
        let failed = |source| ImportError::Folder {
            folder: listed.display().to_string(),
            source,
        };
        let entries = match fs::read_dir(listed) {
            Ok(entries) => entries,
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
                ) =>
            {
                continue;
            }
            Err(error) => return Err(failed(error)),
        };
        for entry in entries {
            let name = entry.map_err(failed)?.file_name();
            if matches(pattern.as_bytes(), name.to_string_lossy().as_bytes()) {
                found.push(folder.join(name));
            }
        }
    }
    Ok(found)
}

/// Whether `name` matches a pattern of at most one `*` (any octets) and one `?` (one character).
fn matches(pattern: &[u8], name: &[u8]) -> bool {
    match (pattern.split_first(), name.split_first()) {
        (None, None) => true,
        (Some((b'*', pattern_rest)), _) => {
            matches(pattern_rest, name)
                || name
                    .split_first()
                    .is_some_and(|(_, name_rest)| matches(pattern, name_rest))
        }
        (Some((b'?', pattern_rest)), Some((_, name_rest))) => {
            let rest = name_rest.iter().position(|octet| octet & 0xc0 != 0x80);
            matches(pattern_rest, &name_rest[rest.unwrap_or(name_rest.len())..])
        }
        (Some((octet, pattern_rest)), Some((other, name_rest))) => {
            octet == other && matches(pattern_rest, name_rest)
        }
        (None, Some(_)) | (Some(_), None) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wildcards_match_within_one_name() {
        for (pattern, name, want) in [
            ("*", "", true),
            ("*", "..data", true),
            ("*.server", "a.server", true),
            ("*.server", "a.override", false),
            ("a?c", "aüc", true),
            ("a?c", "ac", false),
            ("?*", "x", true),
            ("*?", "", false),
            ("a*b", "aab", true),
            ("ab", "ab", true),
            ("ab", "abc", false),
        ] {
            assert_eq!(
                matches(pattern.as_bytes(), name.as_bytes()),
                want,
                "{pattern} {name}"
            );
        }
    }

    #[test]
    fn files_come_in_lexical_order_and_only_the_asked_ones() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("custom/..data")).unwrap();
        for name in ["b.server", "a.server", "a.override"] {
            fs::write(folder.path().join("custom").join(name), "").unwrap();
        }
        let from = folder.path().join("Corefile");
        let found = |pattern: &str| {
            let found = find(pattern, from.to_str().unwrap()).unwrap();
            let relative = found
                .iter()
                .map(|path| path.strip_prefix(folder.path()).unwrap());
            relative
                .map(|path| path.to_str().unwrap().to_owned())
                .collect::<Vec<_>>()
        };
        assert_eq!(
            found("custom/*.server"),
            ["custom/a.server", "custom/b.server"]
        );
        assert_eq!(found("cust?m/*.override"), ["custom/a.override"]);
        assert_eq!(found("*/a.server"), ["custom/a.server"]);
        assert_eq!(found("none/*.server"), [""; 0]);
        assert!(found("custom/*").contains(&"custom/..data".to_owned()));
        let refused = |pattern: &str| {
            find(pattern, from.to_str().unwrap())
                .unwrap_err()
                .to_string()
        };
        assert!(refused("*/*.server").contains("other wildcards"));
        assert!(refused("[ab].server").contains("other wildcards"));
        assert!(refused("nothing").contains("file to import not found"));
    }
}
