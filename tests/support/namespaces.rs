//! Namespaces of its own (network, mounts) for a test whose Corefiles name fixed ports, `/etc/resolv.conf` or the account
//! of a pod: the test starts itself again in there.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;

use super::apiserver::{Access, ApiServer};

/// Set inside of the namespaces.
const INSIDE: &str = "ZW_INSIDE";

/// The API server's port, for the environment of pods.
static ACCOUNT: OnceLock<String> = OnceLock::new();

/// Runs a test again in namespaces of its own (`tests/stock/enter.sh`), by its full name. True in that run.
///
/// # Panics
/// When that run fails.
pub fn is_inside(test: &str) -> bool {
    if std::env::var_os(INSIDE).is_some() {
        return true;
    }
    let mut command = Command::new("unshare");
    command
        .args(["--map-root-user", "--net", "--mount", "--"])
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/stock/enter.sh"))
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "--nocapture", test])
        .env(INSIDE, "1");
    let done = command.output().unwrap();
    let (printed, errors) = (
        String::from_utf8_lossy(&done.stdout),
        String::from_utf8_lossy(&done.stderr),
    );
    let ran = printed.contains("test result: ok. 1 passed");
    assert!(ran && done.status.success(), "{printed}{errors}");
    eprint!("{errors}");
    false
}

/// Writes what a pod finds of its account.
pub fn write_account(api: &ApiServer) {
    let text = fs::read_to_string(api.kubeconfig(Access::Admin)).unwrap();
    let config: serde_json::Value = serde_json::from_str(&text).unwrap();
    let folder = Path::new("/var/run/secrets/kubernetes.io/serviceaccount");
    let authority = config["clusters"][0]["cluster"]["certificate-authority"].as_str();
    fs::copy(authority.unwrap(), folder.join("ca.crt")).unwrap();
    let token = config["users"][0]["user"]["token"].as_str().unwrap();
    fs::write(folder.join("token"), token).unwrap();
    fs::write(folder.join("namespace"), "kube-system").unwrap();
    ACCOUNT.set(api.address().port().to_string()).unwrap();
}

/// The variables of a pod that say where the API server is. None before [`write_account`].
pub fn variables() -> impl Iterator<Item = (&'static str, String)> {
    let port = ACCOUNT.get().into_iter();
    port.flat_map(|port| {
        [
            ("KUBERNETES_SERVICE_HOST", "127.0.0.1".to_owned()),
            ("KUBERNETES_SERVICE_PORT", port.clone()),
        ]
    })
}
