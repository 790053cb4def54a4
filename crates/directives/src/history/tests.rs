//! Tests of the options for signed notes.

use std::time::Duration;

use tempfile::NamedTempFile;

use crate::config::tests::{block, faults, name, problems, warnings};
use crate::config::{History, NoteTarget};

/// The key of RFC 8410 section 10.3.
const KEY: &str = "-----BEGIN PRIVATE KEY-----\n\
    MC4CAQAwBQYDK2VwBCIEINTuctv5E1hK1bbY8fdp+K06/nwoy/HU++CXqI9EdVhC\n\
    -----END PRIVATE KEY-----\n";

fn key() -> NamedTempFile {
    let file = NamedTempFile::new().unwrap();
    std::fs::write(file.path(), KEY).unwrap();
    file
}

#[test]
fn notes_have_a_key_places_and_a_rhythm() {
    let key = key();
    let sign = key.path().display();
    let server = block(&format!(
        "kubernetes\nroot /srv\nhistory {{\n sign {sign}\n note file notes/z.ndjson\n note log\n note log\n \
         note configmap audit/zone-notes.a\n note_every 5m\n}}"
    ));
    let history = server.for_zone::<History>(&name("cluster.local")).unwrap();
    assert_eq!(history.sign.as_deref(), Some(key.path()));
    assert_eq!(history.every(), Duration::from_secs(300));
    let targets: Vec<String> = history
        .notes
        .iter()
        .map(|note| note.target.to_string())
        .collect();
    let want = [
        "file /srv/notes/z.ndjson",
        "log",
        "configmap audit/zone-notes.a",
    ];
    assert_eq!(targets, want);
    assert!(matches!(history.notes[1].target, NoteTarget::Log));
}

#[test]
fn a_note_that_cannot_be_written_as_it_is_said_is_refused() {
    for (line, want) in [
        ("note", "2:1: note names no place for notes"),
        ("note file", "2:1: note names no place for notes"),
        ("note log x", "2:1: note names no place for notes"),
        ("note mail a@b", "2:1: note names no place for notes"),
        ("note configmap x", "2:16: 'x' is no name of a ConfigMap"),
        (
            "note configmap a/../b",
            "2:16: 'a/../b' is no name of a ConfigMap",
        ),
        (
            "note configmap A/b",
            "2:16: 'A/b' is no name of a ConfigMap",
        ),
        (
            "note_every 0",
            "2:12: note_every '0': less than 1s or more than 24h",
        ),
        (
            "note_every 25h",
            "2:12: note_every '25h': less than 1s or more than 24h",
        ),
        ("sign", "2:1: sign needs an argument"),
        ("note log", "2:1: a note without a signature proves nothing"),
    ] {
        assert_eq!(faults(&format!("history {{\n{line}\n}}")), [want], "{line}");
    }
}

#[test]
fn a_key_that_cannot_be_used_is_named_with_its_place_and_without_its_content() {
    let sign = |path: &str| problems(&format!("z {{\n history {{\n  sign {path}\n }}\n}}\n"));
    let gone = sign("/nowhere/key.pem");
    assert_eq!(gone.len(), 1);
    let want = "Corefile:3:8: sign '/nowhere/key.pem': no private key can be read: ";
    assert!(gone[0].starts_with(want), "{gone:?}");
    assert!(gone[0].contains("openssl genpkey -algorithm ed25519"));
    let cut = NamedTempFile::new().unwrap();
    std::fs::write(cut.path(), KEY.replace("dVhC", "dVh")).unwrap();
    let wrong = sign(&cut.path().display().to_string());
    assert_eq!(wrong.len(), 1);
    assert!(!wrong[0].contains("EINTuctv5E1hK1bbY8"), "{wrong:?}");
}

#[test]
fn a_config_map_needs_an_api_server_and_a_place_has_one_note() {
    let key = key();
    let sign = key.path().display();
    let history = |more: &str| format!("history {{\n sign {sign}\n {more}\n}}");
    let block = |zone: &str, source: &str, history: &str| {
        format!("{zone} {{\nkubernetes {zone} {{\n{source}\n}}\n{history}\n}}\n")
    };
    let to_map = history("note configmap a/b");
    let alone = problems(&block("z", "manifests .", &to_map));
    assert_eq!(alone.len(), 1);
    assert!(alone[0].contains("no kubernetes here has an API server"));
    // The cluster of another block will do.
    let both = block("z", "manifests .", &to_map) + &block("y", "", "");
    assert!(problems(&both).is_empty());
    let twice = |one: &str, two: &str| {
        problems(&(block("z", "", &history(one)) + &block("y", "", &history(two))))
    };
    assert!(twice("note configmap a/b", "note configmap a/b").is_empty());
    assert!(twice("note log", "note log\n note_every 1m").is_empty());
    for place in ["configmap a/b", "file n"] {
        let found = twice(&format!("note {place}"), &format!("note {place}\nnote log"));
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].contains(&format!("writes other notes to {place}")));
    }
    let without = block("z", "", &history("note_every 1m"));
    assert!(warnings(&without)[0].contains("note_every has no effect without a note"));
}
