//! What the running server gives up before it hears from anybody: writing outside of its folders, starting programs, and
//! the system calls that a DNS server does not need.
//!
//! Landlock forbids by place: see `landlock(7)`. Reading stays free, as a reload may name other files, and so does the
//! network, as it may name other ports. seccomp forbids by call. Its list names what is forbidden: one of what is
//! allowed would have to know each libc and kernel. What the kernel lacks is left out and reported.
//!
//! # Not implemented
//! - Changing the user or the root folder: the server need not start as root (`NET_BIND_SERVICE` is enough for port 53), and
//!   a container or a unit of systemd has both.
//! - Modes, owners, times and extended attributes of files: Landlock has no right for them, and seccomp does not see the path.
//!   Our own sockets and files get their modes by these calls, so they are not forbidden altogether.

use std::path::{Path, PathBuf};

use history::{RestrictionLine, SandboxLine};

/// Where the server writes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Places<'a> {
    /// The state folder, which exists.
    pub(crate) state: &'a Path,
    /// The file with our id, which is removed at the end.
    pub(crate) pidfile: Option<&'a Path>,
    /// The socket for readers, which is made and removed.
    pub(crate) read_socket: Option<&'a Path>,
    /// The folders of files that get signed notes.
    pub(crate) notes: &'a [PathBuf],
    /// The archives that are folders and exist.
    pub(crate) archives: &'a [PathBuf],
}

/// Gives up what is not needed, for this thread and those that it will start. Says what is in force, also in the log.
pub(crate) fn enter(places: &Places<'_>) -> SandboxLine {
    let line = |outcome: Result<Option<String>, String>| match outcome {
        Ok(detail) => RestrictionLine {
            is_in_force: true,
            detail,
        },
        Err(why) => RestrictionLine {
            is_in_force: false,
            detail: Some(why),
        },
    };
    let sandbox = SandboxLine {
        landlock: line(kernel::restrict_files(places).map(Some)),
        seccomp: line(kernel::restrict_calls().map(|()| None)),
    };
    if sandbox.landlock.is_in_force && sandbox.seccomp.is_in_force {
        tracing::info!("sandbox: {sandbox}");
    } else {
        tracing::warn!("sandbox: {sandbox}");
    }
    sandbox
}

/// With `--no-sandbox`: says so, also in the log.
pub(crate) fn left_out() -> SandboxLine {
    let line = RestrictionLine {
        is_in_force: false,
        detail: Some("--no-sandbox".to_owned()),
    };
    let sandbox = SandboxLine {
        landlock: line.clone(),
        seccomp: line,
    };
    tracing::info!("sandbox: {sandbox}");
    sandbox
}

/// Elsewhere than on Linux there is neither.
#[cfg(not(target_os = "linux"))]
mod kernel {
    use super::Places;

    pub(super) fn restrict_files(_: &Places<'_>) -> Result<String, String> {
        Err("only Linux has it".to_owned())
    }

    pub(super) fn restrict_calls() -> Result<(), String> {
        Err("only Linux has it".to_owned())
    }
}

#[cfg(target_os = "linux")]
mod kernel {
    use std::collections::BTreeMap;
    use std::path::Path;

    use landlock::{
        ABI, AccessFs, BitFlags, CompatLevel, Compatible, LandlockStatus, PathBeneath, PathFd,
        RestrictSelf, Ruleset, RulesetAttr, RulesetCreatedAttr, RulesetStatus, Scope,
    };
    use seccompiler::{
        BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
        SeccompRule, TargetArch, apply_filter_all_threads,
    };

    use super::Places;

    /// The first ABI with all accesses to files that are forbidden here. That of `SCOPED` is the next.
    const FILES: ABI = ABI::V5;

    /// Forbids to write elsewhere than in `places`, to start programs, and to reach other processes by signals and abstract
    /// sockets. Gives the kernel's ABI.
    pub(super) fn restrict_files(places: &Places<'_>) -> Result<String, String> {
        let abi = abi()?;
        if abi == ABI::V1 {
            // A file could not be moved from one folder to another at all, not even in the state folder.
            return Err("the kernel's is ABI 1, ABI 2 of Linux 5.19 is needed".to_owned());
        }
        let forbid = || {
            let mut rules = Ruleset::default()
                .set_compatibility(CompatLevel::BestEffort)
                .handle_access(AccessFs::from_write(FILES) | AccessFs::Execute)?
                .scope(Scope::Signal | Scope::AbstractUnixSocket)?
                .create()?;
            for (path, rights) in rights(places) {
                rules = rules.add_rule(PathBeneath::new(PathFd::new(path)?, rights))?;
            }
            Ok(rules.restrict_self()?)
        };
        let forbidden: Result<_, Box<dyn std::error::Error>> = forbid();
        match forbidden.map_err(|error| error.to_string())?.ruleset {
            RulesetStatus::FullyEnforced => Ok(format!("ABI {abi}")),
            RulesetStatus::PartiallyEnforced => {
                Ok(format!("in part: the kernel's is ABI {abi}, ABI 6 has all"))
            }
            RulesetStatus::NotEnforced => Err("the kernel did not take the rules".to_owned()),
        }
    }

    /// The kernel's ABI of Landlock.
    fn abi() -> Result<ABI, String> {
        // It sets nothing, so that it only asks.
        let asked = RestrictSelf::default().no_new_privs(false).apply();
        match asked.map_err(|error| error.to_string())?.landlock {
            LandlockStatus::NotEnabled => Err("the kernel has it but does not use it".to_owned()),
            LandlockStatus::NotImplemented => {
                Err("the kernel has none, or the container forbids it".to_owned())
            }
            LandlockStatus::Available { effective_abi, .. } => Ok(effective_abi),
        }
    }

    /// What may be done below which folder.
    fn rights<'a>(places: &Places<'a>) -> Vec<(&'a Path, BitFlags<AccessFs>)> {
        let Places {
            state,
            pidfile,
            read_socket,
            notes,
            archives,
        } = *places;
        let own = AccessFs::WriteFile
            | AccessFs::Truncate
            | AccessFs::MakeReg
            | AccessFs::MakeDir
            | AccessFs::MakeSock
            | AccessFs::RemoveFile
            | AccessFs::RemoveDir
            | AccessFs::Refer;
        let folder = |path: &'a Path| match path.parent() {
            Some(parent) if parent != Path::new("") => parent,
            _ => Path::new("."),
        };
        let mut all = vec![(state, own)];
        // A file is removed by a right on its folder.
        all.extend(pidfile.map(|path| (folder(path), AccessFs::RemoveFile.into())));
        let socket = AccessFs::MakeSock | AccessFs::RemoveFile;
        all.extend(read_socket.map(|path| (folder(path), socket)));
        let append = AccessFs::WriteFile | AccessFs::Truncate | AccessFs::MakeReg;
        // One that is not there cannot be named. Notes do not arrive then, and that is said where they are written.
        let notes = notes.iter().filter(|folder| folder.is_dir());
        all.extend(notes.map(|folder| (&**folder, append)));
        let existing = archives.iter().filter(|path| path.is_dir());
        all.extend(existing.map(|path| (path.as_path(), own)));
        all
    }

    /// Forbids system calls, for all threads.
    pub(super) fn restrict_calls() -> Result<(), String> {
        let machine = TargetArch::try_from(std::env::consts::ARCH);
        let machine = machine.map_err(|error| error.to_string())?;
        for (rules, error) in [
            (forbidden_calls()?, libc::EPERM),
            // libc tries `clone` then, whose flags a filter can read.
            (every(&[libc::SYS_clone3]), libc::ENOSYS),
        ] {
            let answer = SeccompAction::Errno(error.unsigned_abs());
            let filter = SeccompFilter::new(rules, SeccompAction::Allow, answer, machine);
            let program = filter.and_then(BpfProgram::try_from);
            let program = program.map_err(|error| error.to_string())?;
            apply_filter_all_threads(&program).map_err(|error| error.to_string())?;
        }
        Ok(())
    }

    /// Calls, each with the rules of which one must fit; with none it is forbidden whatever its arguments are.
    type Calls = BTreeMap<i64, Vec<SeccompRule>>;

    /// What fails with EPERM.
    fn forbidden_calls() -> Result<Calls, String> {
        let mut calls = every(NEVER);
        #[cfg(target_arch = "x86_64")]
        calls.extend(every(NEVER_ON_X86_64));
        let mut when = |call: i64, argument: u8, tests: &[(SeccompCmpOp, u64)]| {
            let tests = tests.iter().map(|(op, value)| {
                SeccompCondition::new(argument, SeccompCmpArgLen::Dword, op.clone(), *value)
            });
            let rule = tests.collect::<Result<_, _>>().and_then(SeccompRule::new);
            let rules = vec![rule.map_err(|error| error.to_string())?];
            calls.extend(numbers(call).map(|number| (number, rules.clone())));
            Ok::<_, String>(())
        };
        let thread = bits(libc::CLONE_THREAD);
        when(libc::SYS_clone, 0, &[(SeccompCmpOp::MaskedEq(thread), 0)])?;
        let families = [
            libc::AF_UNIX,
            libc::AF_INET,
            libc::AF_INET6,
            // For the addresses of interfaces.
            libc::AF_NETLINK,
        ];
        let others = families.map(|family| (SeccompCmpOp::Ne, bits(family)));
        when(libc::SYS_socket, 0, &others)?;
        Ok(calls)
    }

    /// A constant of C as an argument.
    fn bits(value: i32) -> u64 {
        u64::from(value.unsigned_abs())
    }

    /// Calls that are forbidden whatever their arguments are.
    fn every(calls: &[i64]) -> Calls {
        let all = calls.iter().flat_map(|call| numbers(*call));
        all.map(|number| (number, Vec::new())).collect()
    }

    /// The numbers of a call: on x86-64 also that for programs with pointers of 32 bits ("x32"), where the kernel has
    /// them.
    fn numbers(call: i64) -> impl Iterator<Item = i64> {
        let x32 = cfg!(target_arch = "x86_64").then_some(call | 0x4000_0000);
        std::iter::once(call).chain(x32)
    }

    /// What no DNS server does, and who breaks into one would like to.
    const NEVER: &[i64] = &[
        // Other programs and processes.
        libc::SYS_execve,
        libc::SYS_execveat,
        libc::SYS_ptrace,
        libc::SYS_process_vm_readv,
        libc::SYS_process_vm_writev,
        libc::SYS_process_madvise,
        libc::SYS_kcmp,
        libc::SYS_pidfd_getfd,
        libc::SYS_pidfd_send_signal,
        // Other users and rights.
        libc::SYS_setuid,
        libc::SYS_setgid,
        libc::SYS_setreuid,
        libc::SYS_setregid,
        libc::SYS_setresuid,
        libc::SYS_setresgid,
        libc::SYS_setfsuid,
        libc::SYS_setfsgid,
        libc::SYS_setgroups,
        libc::SYS_capset,
        libc::SYS_personality,
        // Mounts, roots and namespaces.
        libc::SYS_mount,
        libc::SYS_umount2,
        libc::SYS_move_mount,
        libc::SYS_open_tree,
        libc::SYS_mount_setattr,
        libc::SYS_fsopen,
        libc::SYS_fsconfig,
        libc::SYS_fsmount,
        libc::SYS_fspick,
        libc::SYS_pivot_root,
        libc::SYS_chroot,
        libc::SYS_setns,
        libc::SYS_unshare,
        // Around the checks of paths.
        libc::SYS_open_by_handle_at,
        libc::SYS_fanotify_init,
        // The machine.
        libc::SYS_reboot,
        libc::SYS_kexec_load,
        libc::SYS_init_module,
        libc::SYS_finit_module,
        libc::SYS_delete_module,
        libc::SYS_swapon,
        libc::SYS_swapoff,
        libc::SYS_acct,
        libc::SYS_quotactl,
        libc::SYS_syslog,
        libc::SYS_sethostname,
        libc::SYS_setdomainname,
        libc::SYS_settimeofday,
        libc::SYS_clock_settime,
        libc::SYS_clock_adjtime,
        libc::SYS_adjtimex,
        libc::SYS_vhangup,
        // Parts of the kernel that are often attacked.
        libc::SYS_bpf,
        libc::SYS_perf_event_open,
        libc::SYS_userfaultfd,
        libc::SYS_keyctl,
        libc::SYS_add_key,
        libc::SYS_request_key,
        libc::SYS_io_uring_setup,
        libc::SYS_io_uring_enter,
        libc::SYS_io_uring_register,
        libc::SYS_move_pages,
    ];

    /// The same, where other machines have no such call. The last ones are those of x32 with numbers of their own.
    #[cfg(target_arch = "x86_64")]
    const NEVER_ON_X86_64: &[i64] = &[
        libc::SYS_fork,
        libc::SYS_vfork,
        libc::SYS_kexec_file_load,
        libc::SYS_iopl,
        libc::SYS_ioperm,
        libc::SYS_modify_ldt,
        libc::SYS_uselib,
        // execve, ptrace, kexec_load, move_pages, process_vm_readv, process_vm_writev, execveat.
        520,
        521,
        528,
        533,
        539,
        540,
        545,
    ];
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use std::fs;
    use std::io::{self, ErrorKind, Write};
    use std::net::{TcpListener, UdpSocket};
    use std::os::unix::net::UnixListener;
    use std::os::unix::process::CommandExt;
    use std::process::Command;
    use std::sync::mpsc;
    use std::thread;

    use rustix::process::{Signal, getppid, kill_process};
    use socket2::{Domain, Socket, Type};
    use tempfile::TempDir;

    use super::*;

    /// Tells the test that it is the child, and names its folder.
    const CHILD: &str = "ZW_SANDBOXED";

    /// Whether something was forbidden, by one of the two errors that Landlock and seccomp give; other errors fail.
    fn is_forbidden<T>(what: &str, done: io::Result<T>) -> bool {
        match done {
            Ok(_) => false,
            Err(error) if error.kind() == ErrorKind::PermissionDenied => true,
            Err(error) => panic!("{what}: {error}"),
        }
    }

    /// Starts a program.
    fn start() -> io::Result<()> {
        Command::new("/bin/true").status().map(drop)
    }

    /// AF_ALG, the kernel's cryptography, which not every kernel has.
    fn kernel_cryptography() -> io::Result<()> {
        match Socket::new(Domain::from(libc::AF_ALG), Type::SEQPACKET, None) {
            Err(error) if error.raw_os_error() == Some(libc::EAFNOSUPPORT) => Ok(()),
            made => made.map(drop),
        }
    }

    /// Lays what is elsewhere, afresh.
    fn lay(root: &Path) {
        let elsewhere = root.join("elsewhere");
        if elsewhere.exists() {
            fs::remove_dir_all(&elsewhere).unwrap();
        }
        fs::create_dir(&elsewhere).unwrap();
        for file in ["read", "old"] {
            fs::write(elsewhere.join(file), file).unwrap();
        }
    }

    /// What the child does: the same before and after it has entered. Gives what was forbidden.
    fn try_all(root: &Path) -> Vec<&'static str> {
        let at = |path: &str| root.join(path);
        let tries: Vec<(&str, io::Result<()>)> = vec![
            ("a new file", fs::write(at("elsewhere/new"), "")),
            (
                "an old file",
                fs::OpenOptions::new()
                    .append(true)
                    .open(at("elsewhere/old"))
                    .map(drop),
            ),
            ("a folder", fs::create_dir_all(at("elsewhere/folder"))),
            ("a removal", fs::remove_file(at("elsewhere/old"))),
            (
                "a link",
                std::os::unix::fs::symlink("x", at("state/link"))
                    .and_then(|()| fs::remove_file(at("state/link"))),
            ),
            ("a file beside the pid file", fs::write(at("run/other"), "")),
            (
                "a removed note",
                fs::write(at("notes/old"), "").and_then(|()| fs::remove_file(at("notes/old"))),
            ),
            (
                "a socket",
                UnixListener::bind(at("elsewhere/socket"))
                    .and_then(|_| fs::remove_file(at("elsewhere/socket"))),
            ),
            ("a program", start()),
            (
                "a program, in a new thread",
                thread::spawn(start).join().expect("it ends"),
            ),
            ("another root", std::os::unix::fs::chroot("/")),
            ("another family of sockets", kernel_cryptography()),
            (
                "a signal",
                kill_process(getppid().expect("there is one"), Signal::CONT).map_err(Into::into),
            ),
        ];
        let forbidden = tries
            .into_iter()
            .filter_map(|(what, done)| is_forbidden(what, done).then_some(what));
        forbidden.collect()
    }

    /// What the server goes on doing.
    fn usual(root: &Path) -> io::Result<()> {
        let state = root.join("state");
        fs::create_dir_all(state.join("a/b"))?;
        fs::write(state.join("a/file"), "one")?;
        fs::write(state.join("a/file"), "two")?;
        fs::rename(state.join("a/file"), state.join("a/b/moved"))?;
        fs::remove_dir_all(state.join("a"))?;
        for socket in [state.join("socket"), root.join("readers/socket")] {
            drop(UnixListener::bind(&socket)?);
            fs::remove_file(&socket)?;
        }
        let notes = root.join("notes/notes");
        let mut options = fs::OpenOptions::new();
        let mut file = options.create(true).append(true).open(notes)?;
        file.write_all(b"a note\n")?;
        file.set_len(0)?;
        assert_eq!(fs::read_to_string(root.join("elsewhere/read"))?, "read");
        assert!(fs::read_dir("/etc")?.next().is_some());
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let sent = UdpSocket::bind("127.0.0.1:0")?.send_to(b"x", listener.local_addr()?)?;
        assert_eq!(sent, 1);
        assert!(nix::ifaddrs::getifaddrs()?.next().is_some());
        assert_eq!(thread::spawn(|| 7).join().expect("threads start"), 7);
        Ok(())
    }

    /// The part of the test that gives up its rights: in a process of its own.
    fn enter_and_try(root: &Path) {
        for folder in ["state", "run", "readers", "notes"] {
            fs::create_dir(root.join(folder)).unwrap();
        }
        lay(root);
        let pidfile = root.join("run/pid");
        fs::write(&pidfile, "1").unwrap();
        let before = try_all(root);
        // Only root may have another root.
        assert!(
            before.is_empty() || before == ["another root"],
            "{before:?}"
        );
        usual(root).unwrap();
        lay(root);
        fs::remove_file(root.join("run/other")).unwrap();
        let (go, wait) = mpsc::channel::<()>();
        let earlier = thread::spawn(move || wait.recv().map(|()| start()));
        let sandbox = enter(&Places {
            archives: &[],
            state: &root.join("state"),
            pidfile: Some(&pidfile),
            read_socket: Some(&root.join("readers/socket")),
            notes: &[root.join("notes"), root.join("nowhere")],
        });
        println!("{sandbox}");
        let forbidden = try_all(root);
        usual(root).unwrap();
        let (files, calls) = (sandbox.landlock.is_in_force, sandbox.seccomp.is_in_force);
        let is_whole = files
            && !sandbox
                .landlock
                .detail
                .is_some_and(|it| it.starts_with("in part"));
        let by_files = [
            "a new file",
            "an old file",
            "a folder",
            "a removal",
            "a link",
            "a file beside the pid file",
            "a removed note",
            "a socket",
        ];
        let by_either = ["a program", "a program, in a new thread"];
        let by_calls = ["another root", "another family of sockets"];
        let mut want: Vec<&str> = Vec::new();
        want.extend(by_files.iter().filter(|_| files));
        want.extend(by_either.iter().filter(|_| files || calls));
        want.extend(by_calls.iter().filter(|it| calls || before.contains(it)));
        want.extend(["a signal"].iter().filter(|_| is_whole));
        assert_eq!(forbidden, want);
        go.send(()).unwrap();
        let earlier = earlier.join().unwrap().unwrap();
        assert_eq!(is_forbidden("an earlier thread", earlier), calls);
        fs::remove_file(&pidfile).unwrap();
        if calls {
            // The only way to see `execve` alone: it would have replaced this process, and failed the test.
            assert!(is_forbidden(
                "exec",
                Err::<(), _>(Command::new("/bin/false").exec())
            ));
        }
    }

    #[test]
    fn what_is_given_up_fails_and_what_the_server_does_goes_on() {
        if let Some(root) = std::env::var_os(CHILD) {
            enter_and_try(Path::new(&root));
            return;
        }
        let root = TempDir::new().unwrap();
        let this =
            "runtime::sandbox::tests::what_is_given_up_fails_and_what_the_server_does_goes_on";
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", this, "--nocapture"])
            .env(CHILD, root.path())
            .output()
            .unwrap();
        let (said, errors) = (
            String::from_utf8_lossy(&child.stdout),
            String::from_utf8_lossy(&child.stderr),
        );
        eprintln!("{said}{errors}");
        assert!(child.status.success() && said.contains("1 passed"));
        // This kernel: what it has is in force.
        let actions = fs::read_to_string("/proc/sys/kernel/seccomp/actions_avail");
        assert_eq!(said.contains("seccomp in force"), actions.is_ok());
    }

    #[test]
    fn without_it_both_parts_say_why() {
        let text = left_out().to_string();
        assert_eq!(
            text,
            "landlock NOT in force (--no-sandbox), seccomp NOT in force (--no-sandbox)"
        );
    }
}
