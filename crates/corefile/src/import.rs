//! Snippets, and `import` of snippets and files.
//!
//! A path is relative to the folder of the file that holds the import. It may have at most one `*`
//! and one `?`, neither of which matches a path separator; both match a leading dot, as in CoreDNS.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::lexer::{Token, lex};
use crate::parser::Parser;
use crate::place::Place;

/// The most imports. More can only be an import that leads back to itself.
const MAX_IMPORTS: usize = 10_000;

#[derive(Debug, thiserror::Error)]
enum ImportError {
    #[error("the pattern '{0}' has more wildcards than one '*' and one '?'")]
    Wildcards(String),
    #[error("file to import not found: {0}")]
    NotFound(String),
    #[error("cannot list the folder {folder}: {source}")]
    Folder { folder: String, source: io::Error },
}

/// Whether a path has wildcards.
fn is_pattern(path: &str) -> bool {
    path.contains(['*', '?', '['])
}

/// The files that `pattern` names in the file `from`, in lexical order; none when a pattern with
/// wildcards matches none.
///
/// # Errors
/// [`ImportError`], with the path.
fn find(pattern: &str, from: &str) -> Result<Vec<PathBuf>, ImportError> {
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

/// The files and folders in `folders` that match `pattern`.
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

impl Parser<'_> {
    /// Reads the body of a snippet as words.
    pub fn snippet(&mut self, name: &str, place: &Place) {
        let open = match self.peek() {
            Some(token) if token.is_open() => self.take(),
            Some(_) | None => None,
        };
        let Some(open) = open else {
            let fix = format!("write ({name}) {{ … }}");
            self.report
                .error(place, format!("the snippet '{name}' has no block"), fix);
            return;
        };
        let body = self.balanced(&open.place);
        let imports_itself = |pair: &&[Token]| {
            pair[0].starts_line && pair[0].text == "import" && pair[1].text == name
        };
        if let Some(pair) = body.windows(2).find(imports_itself) {
            let message = format!("the snippet '{name}' imports itself");
            self.report
                .error(&pair[1].place, message, "remove this import");
        } else if self.snippets.contains_key(name) {
            let message = format!("the snippet '{name}' is defined twice");
            self.report
                .error(place, message, "give one of the two another name");
        } else {
            self.snippets.insert(name.to_owned(), body);
        }
    }

    /// Inserts the snippet or files of an import. `keyword` is the word `import`.
    pub fn import(&mut self, keyword: &Token) {
        let mut arguments = Vec::new();
        while self.peek().is_some_and(|token| !token.is_close()) {
            let Some(token) = self.next_on_line() else {
                break;
            };
            arguments.push(self.expand(token));
        }
        let fix = "write: import SNIPPET, or: import FILE";
        let [argument] = arguments.as_slice() else {
            let place = arguments
                .get(1)
                .map_or(&keyword.place, |extra| &extra.place);
            self.report
                .error(place, "import takes exactly one argument", fix);
            return;
        };
        if argument.text.is_empty() {
            self.report
                .error(&argument.place, "the argument of import is empty", fix);
            return;
        }
        self.imports += 1;
        if self.imports > MAX_IMPORTS {
            if self.imports == MAX_IMPORTS + 1 {
                let message = format!("more than {MAX_IMPORTS} imports");
                let fix = "an import imports itself: remove it";
                self.report.error(&argument.place, message, fix);
            }
            return;
        }
        match self.snippets.get(&argument.text).cloned() {
            Some(body) => self.put_in(body),
            None => self.import_files(argument),
        }
    }

    /// Inserts the files of an import.
    fn import_files(&mut self, argument: &Token) {
        let files = match find(&argument.text, &argument.place.file) {
            Ok(files) => files,
            Err(error) => {
                let fix =
                    "a snippet must be defined before its use; a path is relative to this file";
                self.report.error(&argument.place, error.to_string(), fix);
                return;
            }
        };
        if files.is_empty() {
            let message = format!("no file matches {}", argument.shown());
            self.report.warn(
                &argument.place,
                message,
                "ignore this if no file should match",
            );
        }
        // The first file is inserted last, so that it is read first.
        for file in files.into_iter().rev() {
            let name: Arc<str> = file.display().to_string().into();
            match fs::read(&file) {
                Ok(octets) => {
                    let tokens = lex(&name, &String::from_utf8_lossy(&octets), self.report);
                    self.put_in(tokens);
                }
                Err(error) => {
                    let message = format!("cannot read {name}: {error}");
                    let fix = "name only files, such as *.server, and make them readable";
                    self.report.error(&argument.place, message, fix);
                }
            }
        }
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
        assert!(refused("*/*.server").contains("more wildcards"));
        assert!(refused("[ab].server").contains("more wildcards"));
        assert!(refused("nothing").contains("file to import not found"));
    }
}
