//! This tree in a repository of its own, for what is built from a commit.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

/// The version of this tree.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

pub fn run(command: &mut Command) -> String {
    let output = command.output().expect("the program is there");
    assert!(output.status.success(), "{command:?}: {output:?}");
    String::from_utf8(output.stdout).expect("text")
}

/// What a line of shell prints, with arguments `$1` and so on.
pub fn shell(line: &str, arguments: &[&Path]) -> String {
    run(Command::new("sh")
        .args(["-euc", line, "sh"])
        .args(arguments))
}

/// Makes a program of a script. Nobody can run a half of it.
pub fn write_script(file: &Path, text: &str) {
    fs::create_dir_all(file.parent().expect("a folder")).expect("it can be made");
    let next = file.with_file_name(".next");
    fs::write(&next, text).expect("it is ours");
    fs::set_permissions(&next, Permissions::from_mode(0o755)).expect("it is ours");
    fs::rename(next, file).expect("it is ours");
}

/// This tree in a repository of its own, in one commit, with a changelog that has a section of its version.
pub struct Tree {
    folder: TempDir,
}

impl Tree {
    pub fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let tree = Self { folder };
        let copy = "git -c safe.directory='*' ls-files -z --cached --others --exclude-standard \
            | tar --create --null --files-from - | tar --extract --directory \"$1\"";
        shell(copy, &[tree.path()]);
        fs::create_dir(tree.path().join("target")).expect("a folder");
        let tools = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/tools");
        std::os::unix::fs::symlink(tools, tree.path().join("target/tools")).expect("a link");
        let changelog = format!(
            "# Changelog\n\n## Unreleased\n\n- Later.\n\n## {VERSION} (2026-01-02)\n\n### Fixed\n\n- It is fixed.\n\n## 0.0.1 (2026-01-01)\n\n- Before.\n"
        );
        tree.write("CHANGELOG.md", &changelog);
        tree.write(
            ".git/config",
            "[user]\n\tname = somebody\n\temail = somebody@example.org\n",
        );
        tree.git(&["init", "--quiet"]);
        tree.commit();
        tree
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    pub fn write(&self, name: &str, text: &str) {
        let file = self.path().join(name);
        fs::create_dir_all(file.parent().expect("a folder")).expect("a folder");
        fs::write(file, text).expect("a file");
    }

    pub fn replace(&self, name: &str, from: &str, to: &str) {
        let text = fs::read_to_string(self.path().join(name)).expect("it can be read");
        assert!(text.contains(from), "{name} has no {from:?}");
        self.write(name, &text.replace(from, to));
    }

    /// A program in the tree, which knows no settings of the user's.
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.current_dir(self.path());
        command.env("GIT_CONFIG_GLOBAL", "/dev/null");
        command.env("GIT_CONFIG_NOSYSTEM", "1");
        command
    }

    pub fn git(&self, arguments: &[&str]) -> String {
        let mut command = self.command("git");
        for name in ["GIT_AUTHOR_DATE", "GIT_COMMITTER_DATE"] {
            command.env(name, "2026-01-02T03:04:05Z");
        }
        run(command.args(arguments)).trim().to_owned()
    }

    pub fn commit(&self) {
        self.git(&["add", "--all"]);
        self.git(&["commit", "--quiet", "--message", "a commit"]);
    }

    /// `tools/release` with a program that is built already.
    pub fn release(&self, binary: &Path, more: &[(&str, &str)]) -> Output {
        let mut command = self.command(&self.path().join("tools/release").to_string_lossy());
        // The program of a test is larger than that of a release.
        command.env("MAX_MB", "60").env("NO_INSTALL", "1");
        command.env("ZW_RELEASE_BINARY", binary);
        command.envs(more.iter().copied());
        command.output().expect("it runs")
    }

    pub fn released(&self) -> PathBuf {
        self.path().join(format!("target/release-{VERSION}"))
    }

    /// `tools/release` refuses, and its sentence has these texts.
    pub fn check_refused(&self, more: &[(&str, &str)], texts: &[&str]) {
        let output = self.release(Path::new(env!("CARGO_BIN_EXE_zonewright")), more);
        assert!(!output.status.success(), "{output:?}");
        assert!(!self.released().exists());
        let said = String::from_utf8(output.stderr).expect("text");
        for text in texts {
            assert!(said.contains(text), "no {text:?} in\n{said}");
        }
    }
}
