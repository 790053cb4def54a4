//! Folders that are no store of ours, or not now.

use super::*;

/// What an open of a folder says when it fails.
fn refusal(dir: &Path) -> String {
    let now = Arc::new(AtomicU64::new(0));
    let error = Journal::open(dir, clock(&now)).unwrap_err();
    let text = error.to_string();
    assert!(!text.contains('\n'), "{text}");
    text.replace(&dir.display().to_string(), "DIR")
}

#[test]
fn a_locked_folder_names_the_process_that_holds_it() {
    let bench = Bench::new();
    let expected = format!(
        "the state folder DIR is in use by process {}: stop that process, or give another folder with --state",
        std::process::id()
    );
    assert_eq!(refusal(bench.dir.path()), expected);
}

#[test]
fn a_folder_with_other_files_is_left_alone() {
    let dir = TempDir::new().unwrap();
    std::fs::write(dir.path().join("letters.txt"), "dear").unwrap();
    assert_eq!(
        refusal(dir.path()),
        "the state folder DIR holds other files (letters.txt): give an empty or a new folder with --state"
    );
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
}

#[test]
fn a_folder_with_other_files_is_not_tried() {
    let dir = TempDir::new().unwrap();
    for name in ["letters.txt", "probe"] {
        std::fs::write(dir.path().join(name), "dear").unwrap();
    }
    let error = Journal::probe(dir.path()).unwrap_err();
    assert!(matches!(error, OpenError::Foreign { .. }), "{error}");
    let kept = std::fs::read_to_string(dir.path().join("probe"));
    assert_eq!(kept.unwrap(), "dear");
}

#[test]
fn a_folder_of_another_layout_is_refused() {
    let mut bench = Bench::new();
    bench.journal = None;
    std::fs::write(bench.dir.path().join("format"), "zonewright state 9\n").unwrap();
    assert_eq!(
        refusal(bench.dir.path()),
        "the state folder DIR has the layout \"zonewright state 9\" in its file format, this zonewright reads \
         \"zonewright state 2\": use the zonewright that wrote it, or give another folder with --state"
    );
}

#[test]
fn a_folder_that_cannot_be_made_is_refused_with_the_reason() {
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("file");
    std::fs::write(&file, "").unwrap();
    let text = refusal(&file.join("state"));
    assert!(
        text.contains("cannot be used, creating it failed"),
        "{text}"
    );
    assert!(text.ends_with(
        "make room or make it writable for this user, or give another folder with --state"
    ));
}
