//! Keys and signatures as a person makes and checks them with openssl.

use std::path::Path;
use std::process::{Command, Output};

use base64::Engine as _;

use super::needs;
use super::product::Site;

/// What a command wrote, on both streams.
pub fn said(output: &Output) -> String {
    let [out, err] = [&output.stdout, &output.stderr].map(|it| String::from_utf8_lossy(it));
    format!("{out}{err}")
}

/// Runs a program in the folder of a site.
pub fn run(site: &Site, program: &Path, args: &[&str]) -> Output {
    run_in(&site.path(""), program, args)
}

fn run_in(folder: &Path, program: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(program);
    command.args(args).current_dir(folder);
    command.output().expect("it can be run")
}

/// Makes a key, `key.pem`, and its public half, `public.pem`.
pub fn make_keys(site: &Site) {
    make_keys_in(&site.path(""));
}

/// The same in a folder.
pub fn make_keys_in(folder: &Path) {
    let openssl = needs::program("openssl");
    for args in [
        &["genpkey", "-algorithm", "ed25519", "-out", "key.pem"][..],
        &["pkey", "-in", "key.pem", "-pubout", "-out", "public.pem"],
    ] {
        let made = run_in(folder, &openssl, args);
        assert!(made.status.success(), "{}", said(&made));
    }
}

/// Has openssl check the signature of a text, given in base64, with `public.pem` of a folder.
pub fn check_with_openssl_in(folder: &Path, text: &str, signature: &str, is_good: bool) {
    let engine = base64::engine::general_purpose::STANDARD;
    let signature = engine.decode(signature).expect("it is base64");
    std::fs::write(folder.join("note.json"), text).expect("it can be written");
    std::fs::write(folder.join("note.json.sig"), signature).expect("it can be written");
    let args = [
        "pkeyutl",
        "-verify",
        "-rawin",
        "-pubin",
        "-inkey",
        "public.pem",
        "-in",
        "note.json",
        "-sigfile",
        "note.json.sig",
    ];
    let output = run_in(folder, &needs::program("openssl"), &args);
    assert_eq!(output.status.success(), is_good, "{}", said(&output));
}

/// The same in the folder of a site.
pub fn check_with_openssl(site: &Site, text: &str, signature: &str, is_good: bool) {
    check_with_openssl_in(&site.path(""), text, signature, is_good);
}
