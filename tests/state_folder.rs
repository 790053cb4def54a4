//! A start on a state folder that cannot be written: refused where zones are handed out, else with a temporary folder.

use std::fs;
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use crate::support::process::wait_for;
use crate::support::product::{START, Site, cluster_ip};
use crate::support::{namespaces, needs, wire};

/// A user that owns nothing.
const NOBODY: u32 = 65534;

const ZONE: &str = "cluster.local.";

/// A file system at `state` of the site, filled or read-only.
fn unwritable_state(site: &Site, is_full: bool) {
    let state = site.state();
    let mount = |args: &[&str]| {
        let mut command = Command::new("mount");
        let done = command.args(args).arg(&state).status();
        assert!(done.expect("mount starts").success(), "{args:?}");
    };
    if !state.exists() {
        fs::create_dir(&state).expect("a folder can be made");
    }
    if !is_full {
        mount(&["-t", "tmpfs", "-o", "ro", "tmpfs"]);
        return;
    }
    mount(&["-t", "tmpfs", "-o", "size=128k", "tmpfs"]);
    let mut file = fs::File::create(state.join("lost+found")).expect("a file can be made");
    while file.write_all(&[0; 4096]).is_ok() {}
}

#[test]
fn a_server_that_hands_nothing_out_starts_on_a_full_or_read_only_state_folder() {
    const TEST: &str =
        "state_folder::a_server_that_hands_nothing_out_starts_on_a_full_or_read_only_state_folder";
    if needs::lacks(&["namespaces"]) || !namespaces::is_inside(TEST) {
        return;
    }
    for (is_full, why) in [(false, "Read-only file system"), (true, "No space left")] {
        let site = Site::new();
        let handed_out = site.corefile("");
        let transfer = "    transfer {\n        allow 127.0.0.1\n    }\n";
        let kept = handed_out.replace(transfer, "");
        assert_ne!(kept, handed_out);
        site.manifest("web.yaml", &cluster_ip("web", 1, 80));
        unwritable_state(&site, is_full);

        site.write("Corefile", &handed_out);
        let mut server = site.start();
        let ended = wait_for("the end", START, String::new, || server.ended());
        assert_eq!(ended.code(), Some(2), "{}", server.log());
        let log = server.log();
        assert!(
            log.contains(why)
                && log.contains("`transfer` in Corefile:10:5 hands out what is in it"),
            "{log}"
        );

        site.write("Corefile", &kept);
        let mut server = site.start_answering();
        let serial = wire::serial(site.dns, ZONE).expect("it answers");
        let status = site.ask(&["status"]);
        assert!(status.contains(why), "{status}");
        let words = status.split([' ', ',']);
        let mut named = words.filter(|word| word.contains("/zonewright-state-"));
        let temporary = named.next().expect("it is named").to_owned();
        assert!(site.metrics().contains("\nzonewright_state_temporary 1"));
        assert!(site.ask(&["log", ZONE]).contains(&serial.to_string()));
        // What it would hand out could contradict what others have of the real folder.
        site.write("Corefile", &handed_out);
        let reloaded = site.run(&["reload", "--state", "state"]);
        let text = String::from_utf8_lossy(&reloaded.stderr);
        assert_eq!(reloaded.status.code(), Some(2), "{text}");
        assert!(
            text.contains("restart it when the folder can be written"),
            "{text}"
        );
        site.write("Corefile", &kept);
        server.terminate(START);

        // With room again the temporary folder is gone.
        let unmounted = Command::new("umount").arg(site.state()).status();
        assert!(unmounted.expect("umount starts").success());
        let mut server = site.start_answering();
        assert!(!site.ask(&["status"]).contains("/zonewright-state-"));
        assert!(site.metrics().contains("\nzonewright_state_temporary 0"));
        assert!(!Path::new(&temporary).exists(), "{temporary}");
        server.terminate(START);
    }
}

/// As after `sudo zonewright verify`, or a backup that root restored.
#[test]
fn a_file_of_another_owner_in_the_state_folder_is_named_with_its_owner() {
    let site = Site::new();
    if fs::metadata(site.path("")).expect("it is there").uid() != 0 {
        eprintln!("only root can give files to others");
        return;
    }
    site.manifest("web.yaml", &cluster_ip("web", 1, 80));
    site.write("Corefile", &site.corefile(""));
    let mut server = site.start_answering();
    server.terminate(START);
    let open = fs::Permissions::from_mode(0o755);
    fs::set_permissions(site.path(""), open).expect("it is ours");
    let own = |path: &Path, user: u32| chown(path, Some(user), None).expect("root may");
    let mut all = vec![site.state()];
    while let Some(path) = all.pop() {
        own(&path, NOBODY);
        if path.is_dir() {
            let entries = fs::read_dir(&path).expect("it is a folder");
            all.extend(entries.map(|entry| entry.expect("it is there").path()));
        }
    }
    let error = |name: &str| {
        own(&site.state().join(name), 0);
        let mut command = Command::new(needs::zonewright());
        command.args(["log", "--state", "state"]);
        let ran = command.current_dir(site.path("")).uid(NOBODY).output();
        own(&site.state().join(name), NOBODY);
        let ran = ran.expect("zonewright runs");
        (
            ran.status.code(),
            String::from_utf8_lossy(&ran.stderr).into_owned(),
        )
    };
    for name in ["format", "db/conf", "db"] {
        let (code, text) = error(name);
        assert_eq!(code, Some(2), "{name}: {text}");
        let named = format!("state/{name} belongs to uid 0, and this process may not read it");
        assert!(text.contains(&named), "{text}");
        assert!(text.contains("chown -R USER state"), "{text}");
    }
}
