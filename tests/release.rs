//! A release: its files, their sums and signature, the bill of materials in them, and what `tools/release` refuses.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use regex::Regex;
use serde_json::Value;

use crate::support::needs;
use crate::support::page::{Shell, check_sections};
use crate::support::tree::{Tree, VERSION, run, shell};

/// Where the bill of materials is, in the image and on a machine.
const SBOM: &str = "usr/share/doc/zonewright/sbom.cdx.json";
/// This machine, as Debian names it, and as RPM and the kernel do.
const MACHINES: [&str; 2] = if cfg!(target_arch = "x86_64") {
    ["amd64", "x86_64"]
} else {
    ["arm64", "aarch64"]
};

/// A key that signs, and its public half.
fn keys(folder: &Path) -> [PathBuf; 2] {
    let [key, public] = ["key.pem", "public.pem"].map(|name| folder.join(name));
    let make = "openssl genpkey -algorithm ed25519 -out \"$1\"; openssl pkey -in \"$1\" -pubout -out \"$2\"";
    shell(make, &[&key, &public]);
    [key, public]
}

/// A folder of caches with an mdBook in place of the real one, which takes minutes to build.
fn caches(folder: &Path) -> PathBuf {
    let script = fs::read_to_string("tools/mdbook").expect("it can be read");
    let version = Regex::new(r"(?m)^VERSION=(.*)$").expect("a pattern");
    let version = &version.captures(&script).expect("it names a version")[1];
    let program = folder.join(format!("zonewright/mdbook-{version}/bin/mdbook"));
    fs::create_dir_all(program.parent().expect("a folder")).expect("a folder");
    let text = "#!/bin/sh\n[ \"$1 $2 $3\" = 'build docs --dest-dir' ] && mkdir -p \"$4\" && echo book >\"$4/index.html\"\n";
    fs::write(&program, text).expect("a file");
    shell("chmod 755 \"$1\"", &[&program]);
    folder.to_owned()
}

/// Whether the sums of a folder hold.
fn sums_hold(folder: &Path) -> bool {
    let mut command = Command::new("sha256sum");
    command.args(["--check", "--strict", "--quiet", "SHA256SUMS"]);
    let output = command.current_dir(folder).output().expect("it runs");
    output.status.success()
}

/// Whether the signature of the sums holds.
fn signature_holds(folder: &Path, public: &Path) -> bool {
    let mut command = Command::new(needs::program("openssl"));
    command.args(["pkeyutl", "-verify", "-rawin", "-pubin", "-inkey"]);
    command
        .arg(public)
        .args(["-in", "SHA256SUMS", "-sigfile", "SHA256SUMS.sig"]);
    let output = command.current_dir(folder).output().expect("it runs");
    output.status.success()
}

/// Changes one bit in the middle of a file, and back again.
fn flip(file: &Path) {
    let mut content = fs::read(file).expect("it can be read");
    let middle = content.len() / 2;
    content[middle] ^= 1;
    fs::write(file, content).expect("it can be written");
}

/// The crates that cargo compiles into the program, as `NAME@VERSION`: by its own plan of the build, not by `cargo tree`.
fn crates_of_the_program(target: &Path) -> BTreeSet<String> {
    let mut command = Command::new(env!("CARGO"));
    command.args([
        "build",
        "--locked",
        "--package",
        "zonewright",
        "--bin",
        "zonewright",
    ]);
    command.args(["--unit-graph", "-Zunstable-options", "--target-dir"]);
    let text = run(command.arg(target).env("RUSTC_BOOTSTRAP", "1"));
    let graph: Value = serde_json::from_str(&text).expect("JSON");
    let unit = |index: &Value| &graph["units"][usize::try_from(index.as_u64().unwrap()).unwrap()];
    let is_part = |index: &Value| {
        let kinds = unit(index)["target"]["kind"].to_string();
        unit(index)["mode"] == "build"
            && !kinds.contains("proc-macro")
            && !kinds.contains("custom-build")
    };
    let roots = graph["roots"].as_array().expect("a list");
    let mut todo: Vec<&Value> = roots.iter().collect();
    let mut seen = BTreeSet::new();
    let mut crates = BTreeSet::new();
    while let Some(index) = todo.pop() {
        if !seen.insert(index.as_u64()) {
            continue;
        }
        // `SOURCE#NAME@VERSION`, or `path+file:///FOLDER/NAME#VERSION`.
        let id = unit(index)["pkg_id"].as_str().expect("an id");
        let (source, name) = id.rsplit_once('#').expect("a fragment");
        let folder = source.rsplit('/').next().expect("a folder");
        let is_whole = name.contains('@');
        crates.insert(if is_whole {
            name.to_owned()
        } else {
            format!("{folder}@{name}")
        });
        let dependencies = unit(index)["dependencies"].as_array().expect("a list");
        todo.extend(
            dependencies
                .iter()
                .map(|it| &it["index"])
                .filter(|it| is_part(it)),
        );
    }
    crates
}

/// The bill of materials has the crates of the program with checksum and licence, the library of Rust, these Debian packages,
/// and nothing else.
fn check_sbom(text: &str, wanted: &BTreeSet<String>, packages: &[&str]) {
    let sbom: Value = serde_json::from_str(text).expect("JSON");
    assert_eq!(sbom["bomFormat"], "CycloneDX");
    assert!(sbom["serialNumber"].is_null(), "it would be random");
    assert_eq!(sbom["metadata"]["timestamp"], "2026-01-02T03:04:05Z");
    let program = &sbom["metadata"]["component"];
    assert_eq!(program["purl"], format!("pkg:cargo/zonewright@{VERSION}"));
    let lock = fs::read_to_string("Cargo.lock").expect("it can be read");
    let mut crates = BTreeSet::from([format!("zonewright@{VERSION}")]);
    let mut others = BTreeMap::new();
    for component in sbom["components"].as_array().expect("a list") {
        let text = |field: &str| component[field].as_str().expect("text").to_owned();
        let (name, version, purl) = (text("name"), text("version"), text("purl"));
        let hash = component["hashes"][0]["content"].as_str();
        if purl.starts_with("pkg:cargo/") {
            let license = component["licenses"][0]["expression"].as_str();
            assert!(
                license.is_some_and(|it| !it.is_empty() && !it.contains('/')),
                "{component}"
            );
            let entry = format!("name = \"{name}\"\nversion = \"{version}\"\n");
            let (_, rest) = lock.split_once(&entry).expect("it is in Cargo.lock");
            let rest = rest.split("\n\n").next().expect("an entry");
            let checksum = rest.lines().find_map(|it| it.strip_prefix("checksum = "));
            assert_eq!(hash, checksum.map(|it| it.trim_matches('"')), "{name}");
            assert!(crates.insert(format!("{name}@{version}")), "{name} twice");
        } else {
            others.insert(name, purl);
        }
    }
    let differ: Vec<&String> = crates.symmetric_difference(wanted).collect();
    assert!(differ.is_empty(), "{differ:?}");
    assert!(others.remove("rust-std").is_some(), "{others:?}");
    let names: Vec<&str> = others.keys().map(String::as_str).collect();
    assert_eq!(names, packages);
    assert!(
        others.values().all(|it| it.starts_with("pkg:deb/debian/")),
        "{others:?}"
    );
}

/// The bill of materials in the image, in both packages, and beside them.
fn check_sboms(released: &Path, folder: &Path) {
    let file = |name: &str| {
        let names = fs::read_dir(released).expect("a folder");
        let mut paths = names.map(|it| it.expect("an entry").path());
        paths
            .find(|it| it.to_string_lossy().ends_with(name))
            .expect(name)
    };
    let text = |name: &str| fs::read_to_string(file(name)).expect("it can be read");
    let wanted = crates_of_the_program(&folder.join("target"));
    assert!(wanted.len() > 200, "{wanted:?}");
    let [machine, _] = MACHINES;
    let program = text(&format!("-linux-{machine}.cdx.json"));
    check_sbom(&program, &wanted, &[]);
    let in_deb = "dpkg-deb --fsys-tarfile \"$1\" | tar --extract --to-stdout \"./$2\"";
    assert_eq!(shell(in_deb, &[&file(".deb"), Path::new(SBOM)]), program);
    let in_rpm =
        "rpm --query --package --dump \"$1\" | awk -v file=\"/$2\" '$1 == file { print $4 }'";
    let beside = format!("-linux-{machine}.cdx.json");
    let sum = "sha256sum \"$1\" | cut -d ' ' -f 1";
    assert_eq!(
        shell(in_rpm, &[&file(".rpm"), Path::new(SBOM)]),
        shell(sum, &[&file(&beside)])
    );

    let image = text(&format!("-image-{machine}.cdx.json"));
    check_sbom(&image, &wanted, &["ca-certificates", "libc6", "libgcc-s1"]);
    let layout = folder.join("layout");
    fs::create_dir(&layout).expect("a folder");
    let in_image = "tar --extract --file \"$1\" --directory \"$2\"
        for blob in \"$2\"/blobs/sha256/*; do tar --extract --gzip --to-stdout --file \"$blob\" \"$3\" 2>/dev/null || true; done";
    let archive = file(&format!("-image-{machine}.tar"));
    assert_eq!(
        shell(in_image, &[&archive, &layout, Path::new(SBOM)]),
        image
    );
}

/// There are all files, each with its sum, and nothing else.
fn check_names(released: &Path) {
    let names = fs::read_dir(released).expect("a folder");
    let names = names.map(|it| it.expect("an entry").file_name());
    let names: BTreeSet<String> = names.map(|it| it.into_string().expect("text")).collect();
    let [debian, kernel] = MACHINES;
    let mut wanted = BTreeSet::from([
        format!("zonewright-{VERSION}-1.{kernel}.rpm"),
        format!("zonewright-{VERSION}-image-{debian}.cdx.json"),
        format!("zonewright-{VERSION}-image-{debian}.tar"),
        format!("zonewright-{VERSION}-linux-{debian}-debug.tar.gz"),
        format!("zonewright-{VERSION}-linux-{debian}.cdx.json"),
        format!("zonewright-{VERSION}-linux-{debian}.tar.gz"),
        format!("zonewright-{VERSION}-manual.tar.gz"),
        format!("zonewright-{VERSION}-notes.md"),
        format!("zonewright-{VERSION}.tgz"),
        format!("zonewright_{VERSION}-1_{debian}.deb"),
    ]);
    let sums = fs::read_to_string(released.join("SHA256SUMS")).expect("it can be read");
    let summed = sums.lines().map(|line| line[66..].to_owned());
    assert_eq!(summed.collect::<BTreeSet<_>>(), wanted);
    wanted.extend(["SHA256SUMS", "SHA256SUMS.sig"].map(str::to_owned));
    assert_eq!(names, wanted);
}

/// The commands of the manual find that two files of the release are as they were signed.
fn check_download(released: &Path, public: &Path) {
    let folder = tempfile::tempdir().expect("a folder");
    let [debian, _] = MACHINES;
    for name in [
        "SHA256SUMS".to_owned(),
        "SHA256SUMS.sig".to_owned(),
        format!("zonewright_{VERSION}-1_{debian}.deb"),
        format!("zonewright-{VERSION}-linux-{debian}.tar.gz"),
    ] {
        fs::copy(released.join(&name), folder.path().join(&name)).expect("it is there");
    }
    fs::copy(public, folder.path().join("public.pem")).expect("it is there");
    let mut shell = Shell::run_in(folder.path(), Shell::command(folder.path()));
    shell.say_instead("amd64", debian);
    check_sections(
        "docs/install.md",
        &["Verify a download"],
        &mut shell,
        &mut || (),
    );
}

/// One bit of a file is seen by its sum, one bit of the sums by the signature.
fn check_flips(released: &Path, public: &Path) {
    assert!(sums_hold(released) && signature_holds(released, public));
    let [debian, _] = MACHINES;
    let package = released.join(format!("zonewright_{VERSION}-1_{debian}.deb"));
    flip(&package);
    assert!(!sums_hold(released));
    flip(&package);
    let sums = released.join("SHA256SUMS");
    flip(&sums);
    assert!(!signature_holds(released, public));
    flip(&sums);
    assert!(sums_hold(released) && signature_holds(released, public));
}

#[test]
fn a_release_has_all_files_with_sums_a_signature_and_a_bill_of_materials() {
    if needs::lacks(&["image", "nfpm", "helm", "openssl", "rpm"]) {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let [key, public] = keys(folder.path());
    let caches = caches(&folder.path().join("caches"));
    let caches = ("XDG_CACHE_HOME", caches.to_str().expect("text"));
    // Without its debug information: much of it would only be compressed.
    let binary = folder.path().join("zonewright");
    let strip = "strip --strip-debug -o \"$2\" \"$1\"";
    shell(
        strip,
        &[Path::new(env!("CARGO_BIN_EXE_zonewright")), &binary],
    );

    // At two places, once with a tag and a signature, once without.
    let [tree, other] = [Tree::new(), Tree::new()];
    let key = [("ZW_RELEASE_KEY", key.to_str().expect("text")), caches];
    let [signed, unsigned] = std::thread::scope(|scope| {
        let first = scope.spawn(|| tree.release(&binary, &key));
        let second = scope.spawn(|| other.release(&binary, &[("NO_TAG", "1"), caches]));
        [first, second].map(|it| it.join().expect("it ends"))
    });
    assert!(signed.status.success(), "{signed:?}");
    assert!(unsigned.status.success(), "{unsigned:?}");
    let said = String::from_utf8(unsigned.stdout).expect("text");
    assert!(said.contains("NOTHING IS SIGNED"), "{said}");
    assert!(said.contains("without NO_TAG=1 again"), "{said}");
    assert_eq!(other.git(&["tag"]), "");
    let said = String::from_utf8(signed.stdout).expect("text");
    assert!(
        said.contains(&format!("git push REMOTE v{VERSION}")),
        "{said}"
    );
    assert!(!said.contains("####"), "{said}");
    let tag = format!("v{VERSION}");
    assert_eq!(tree.git(&["cat-file", "-t", &tag]), "tag");
    let commit = tree.git(&["rev-parse", &format!("{tag}^{{commit}}")]);
    assert_eq!(commit, tree.git(&["rev-parse", "HEAD"]));

    let released = tree.released();
    check_names(&released);
    let read = |name: &str| fs::read_to_string(released.join(name)).expect("it can be read");
    let notes = read(&format!("zonewright-{VERSION}-notes.md"));
    assert_eq!(notes.trim_end(), "### Fixed\n\n- It is fixed.");
    let sums = read("SHA256SUMS");
    let others = fs::read_to_string(other.released().join("SHA256SUMS"));
    assert_eq!(sums, others.expect("it can be read"), "the builds differ");
    check_sboms(&released, folder.path());

    check_download(&released, &public);
    check_flips(&released, &public);
}

#[test]
fn a_release_of_a_changed_tree_or_with_a_wrong_key_or_program_is_refused() {
    if needs::lacks(&["openssl"]) {
        return;
    }
    let tree = Tree::new();
    tree.write("new.txt", "not committed");
    tree.check_refused(
        &[],
        &["changes that are not committed", "commit or remove them"],
    );
    fs::remove_file(tree.path().join("new.txt")).expect("it is there");

    let key = [("ZW_RELEASE_KEY", "LICENSE")];
    tree.check_refused(&key, &["LICENSE is no Ed25519 key", "openssl genpkey"]);
    let rsa = tree.path().join("target/rsa.pem");
    shell("openssl genpkey -algorithm rsa -out \"$1\"", &[&rsa]);
    let key = [("ZW_RELEASE_KEY", "target/rsa.pem")];
    tree.check_refused(&key, &["target/rsa.pem is no Ed25519 key"]);

    let other = "#!/bin/sh\necho '{\"commit\":\"0123456789ab\",\"version\":\"VERSION\"}'\n";
    tree.write("target/other", &other.replace("VERSION", VERSION));
    shell("chmod 755 \"$1\"", &[&tree.path().join("target/other")]);
    let binary = [("ZW_RELEASE_BINARY", "target/other")];
    tree.check_refused(
        &binary,
        &["target/other is not of commit", "build it from this tree"],
    );
}

#[test]
fn a_release_of_a_version_that_is_not_prepared_is_refused() {
    let tree = Tree::new();
    tree.git(&["tag", &format!("v{VERSION}")]);
    tree.check_refused(
        &[],
        &[
            &format!("the tag v{VERSION} is there already"),
            "set the next version",
        ],
    );

    let line = |version: &str| format!("version = \"{version}\"");
    tree.replace("Cargo.toml", &line(VERSION), &line("99.0.0"));
    tree.commit();
    tree.check_refused(
        &[],
        &[
            "nothing about version 99.0.0",
            "put the heading \"## 99.0.0 (",
        ],
    );
    // A heading alone is not enough.
    let heading = format!("## {VERSION} (");
    tree.replace(
        "CHANGELOG.md",
        &heading,
        &format!("## 99.0.0 (2026-01-03)\n\n{heading}"),
    );
    tree.commit();
    tree.check_refused(&[], &["nothing about version 99.0.0"]);
    tree.replace("CHANGELOG.md", "(2026-01-03)\n", "(2026-01-03)\n\n- New.\n");
    tree.commit();
    for (file, line) in [
        ("deploy/chart/zonewright/Chart.yaml", "ersion: "),
        ("deploy/base/deployment.yaml", "image: zonewright:"),
        ("docs/coredns.md", "newTag: "),
        ("docs/install.md", "newTag: "),
        ("docs/quickstart-cluster.md", "newTag: "),
    ] {
        tree.check_refused(&[], &["has the version 99.0.0", file, line]);
        tree.replace(file, &format!("{line}{VERSION}"), &format!("{line}99.0.0"));
        tree.commit();
    }
    tree.check_refused(
        &[],
        &["is not of version 99.0.0", "build it from this tree"],
    );
    assert_eq!(tree.git(&["tag"]), format!("v{VERSION}"));
}
