//! The commands of `docs/install.md` that need no cluster: the image into a registry, packages, and the program on a machine.
//!
//! `cargo build` gives the program under test: a build of a release takes minutes, and `tools/release` makes one.

use std::fs;
use std::path::Path;
use std::process::Command;

use tempfile::TempDir;

use crate::support::machine::Machine;
use crate::support::page::{Shell, check_sections};
use crate::support::process::{Process, wait_for};
use crate::support::product::copy_folder;
use crate::support::tree::{Tree, VERSION, run, shell, write_script};
use crate::support::{needs, ports};

const PAGE: &str = "docs/install.md";
/// The processor, as the page names it, and as Debian names ours.
const MACHINE: [&str; 2] = match cfg!(target_arch = "x86_64") {
    true => ["amd64", "amd64"],
    false => ["amd64", "arm64"],
};
/// Cargo, which gives a program that is there already in place of one that it builds.
const CARGO: &str = r#"#!/bin/sh
case "$*" in
"build --profile dist --locked") mkdir -p target/dist && exec cp PROGRAM target/dist/zonewright ;;
"build --release --locked") mkdir -p target/release && exec cp PROGRAM target/release/zonewright ;;
*) exec CARGO "$@" ;;
esac
"#;
/// An editor that names the example cluster in place of an API server.
const EDITOR: &str = "#!/bin/sh
exec sed -i 's,kubeconfig /etc/zonewright/kubeconfig,manifests /etc/zonewright/cluster,' \"$1\"
";

/// The source, and a shell in its folder.
fn source() -> (Tree, TempDir, Shell) {
    let (tree, programs) = (Tree::new(), tempfile::tempdir().expect("a folder"));
    let program = programs.path().join("zonewright");
    // Without its debug information: much of it would only be compressed.
    shell(
        "strip --strip-debug -o \"$2\" \"$1\"",
        &[Path::new(env!("CARGO_BIN_EXE_zonewright")), &program],
    );
    let cargo = CARGO
        .replace("PROGRAM", &program.display().to_string())
        .replace("CARGO", env!("CARGO"));
    write_script(&programs.path().join("cargo"), &cargo);
    let mut bash = Shell::command(programs.path());
    // The program of a test is larger than that of a release.
    bash.env("MAX_MB", "60").env("NO_INSTALL", "1");
    let mut shell = Shell::run_in(tree.path(), bash);
    shell.say_instead(MACHINE[0], MACHINE[1]);
    (tree, programs, shell)
}

/// A registry on this machine, without TLS; what skopeo has to know of it.
fn start_registry(folder: &Path) -> (Process, String) {
    let address = ports::free_address();
    let name = format!("localhost:{}", address.port());
    let config = format!(
        "version: 0.1\nstorage: {{ filesystem: {{ rootdirectory: {} }} }}\nhttp: {{ addr: '{address}' }}\n",
        folder.join("registry").display()
    );
    let file = folder.join("registry.yaml");
    fs::write(&file, config).expect("a file");
    let insecure = format!("[[registry]]\nlocation = \"{name}\"\ninsecure = true\n");
    let settings = folder.join(".config/containers");
    fs::create_dir_all(&settings).expect("a folder");
    fs::write(settings.join("registries.conf"), insecure).expect("a file");
    let mut command = Command::new(needs::program("docker-registry"));
    let mut registry = Process::spawn(
        "docker-registry",
        command.arg("serve").arg(file),
        &folder.join("registry.log"),
    );
    registry.wait_for("a connection", crate::support::machine::PATIENCE, || {
        std::net::TcpStream::connect(address).ok()
    });
    (registry, name)
}

#[test]
fn the_image_is_built_and_is_in_a_registry_afterwards() {
    if needs::lacks(&["image", "python", "registry"]) {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let (_registry, name) = start_registry(folder.path());
    let (tree, _programs, mut shell) = source();
    let home = folder.path();
    // What it reads of its user's settings.
    let settings = format!(
        "skopeo() {{ HOME={} command skopeo \"$@\"; }}",
        home.display()
    );
    assert_eq!(shell.run(&settings), "");
    shell.say_instead("REGISTRY", &name);
    check_sections(PAGE, &["The image"], &mut shell, &mut || ());
    let digest = |image: &str| {
        run(Command::new(needs::program("skopeo"))
            .args(["inspect", "--format", "{{.Digest}}", image])
            .env("HOME", home)
            .current_dir(tree.path()))
    };
    let built = digest(&format!("oci:target/image/oci:{VERSION}"));
    assert_eq!(
        digest(&format!("docker://{name}/zonewright:{VERSION}")),
        built
    );
}

/// A shell of root on a machine, in a folder with a source from which something was built.
fn shell_on(machine: &Machine, tree: &Tree) -> Shell {
    let folder = machine.path("root/zonewright");
    for part in ["target/package", "target/release", "deploy"] {
        copy_folder(&tree.path().join(part), &folder.join(part));
    }
    fs::write(folder.join("kubeconfig"), "{}").expect("a file");
    write_script(&machine.path("usr/local/bin/editor"), EDITOR);
    let mut bash = machine.command(&["bash", "--noprofile", "--norc"]);
    bash.env("HOME", "/root");
    let mut shell = Shell::run_in(machine.root.path(), bash);
    shell.run("cd /root/zonewright");
    shell.say_instead(MACHINE[0], MACHINE[1]);
    shell
}

#[test]
fn the_program_is_built_and_runs_on_a_machine_with_and_without_a_package() {
    if needs::lacks(&["debian", "nfpm", "image", "python"]) {
        return;
    }
    let (tree, _programs, mut shell) = source();
    check_sections(PAGE, &["Build"], &mut shell, &mut || ());
    let example = Path::new("zones/quickstart/cluster");

    let machine = Machine::boot();
    copy_folder(example, &machine.path("etc/zonewright/cluster"));
    let mut shell = shell_on(&machine, &tree);
    check_sections(PAGE, &["With a package"], &mut shell, &mut || ());
    drop(shell);
    drop(machine);

    let machine = Machine::boot();
    let mut shell = shell_on(&machine, &tree);
    check_sections(PAGE, &["Without a package"], &mut shell, &mut || ());
    // As the page says: the rest is as with the package.
    copy_folder(example, &machine.path("etc/zonewright/cluster"));
    for command in [
        "install -m 640 kubeconfig /etc/zonewright/",
        "editor /etc/zonewright/Corefile",
        "zonewright check /etc/zonewright/Corefile",
        "systemctl enable --now zonewright",
    ] {
        let said = shell.run(&format!("{command} && echo done"));
        assert!(said.ends_with("done"), "{command}: {said}");
    }
    let mut status = String::new();
    wait_for(
        "a version",
        crate::support::machine::PATIENCE,
        String::new,
        || {
            status = shell.run("zonewright status --state /var/lib/zonewright");
            status.contains("zone cluster.local. serial").then_some(())
        },
    );
}
