//! A real kube-apiserver with its etcd, as children of a test.
//!
//! No controllers run: an EndpointSlice exists only if created, a Pod stays Pending until its status
//! is patched, a Namespace stays Terminating. A test creates exactly what it means.
//!
//! Two users have tokens: an administrator, and `zonewright`, who may nothing until a test binds a
//! role to the name.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use futures_util::{StreamExt, stream};
use http::{Method, Request};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::runtime::Runtime;

use super::process::{self, Process};
use super::{needs, ports};

/// How long a start or an end may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// As whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// May everything (group `system:masters`).
    Admin,
    /// User `zonewright`, in no group: to try our roles with.
    Limited,
}

impl Access {
    const ALL: [Self; 2] = [Self::Admin, Self::Limited];

    /// The user's name.
    pub fn user(self) -> &'static str {
        match self {
            Self::Admin => "admin",
            Self::Limited => "zonewright",
        }
    }

    fn token(self) -> String {
        format!("token-of-{}", self.user())
    }
}

/// What the server says when it does not do what it was asked.
#[derive(Clone, Debug)]
#[expect(dead_code, reason = "a failed test prints all of it")]
pub struct Refusal {
    pub code: u16,
    pub reason: String,
    pub message: String,
}

impl From<kube::Error> for Refusal {
    fn from(error: kube::Error) -> Self {
        if let kube::Error::Api(status) = error {
            return Self {
                code: status.code,
                reason: status.reason,
                message: status.message,
            };
        }
        Self {
            code: 0,
            reason: "Unreachable".to_owned(),
            message: format!("{error:?}"),
        }
    }
}

/// The two servers and a client. Dropping it kills both.
pub struct ApiServer {
    /// None while it is stopped.
    server: Option<Process>,
    etcd: Process,
    runtime: Runtime,
    admin: Client,
    limited: Client,
    folder: TempDir,
    port: u16,
    etcd_port: u16,
    etcd_peer_port: u16,
}

/// What the server makes by itself after its start, some of it only after it says that it is ready.
const OWN_OBJECTS: [&str; 3] = [
    "/api/v1/namespaces/default",
    "/api/v1/namespaces/default/services/kubernetes",
    "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/kubernetes",
];

/// The client that requests of persons are made with.
pub const PERSON_AGENT: &str = "kubectl";

/// The log of requests, in the folder.
const AUDIT: &str = "audit.log";
/// Each request of the limited user is logged when it arrives. So are the writes in some namespaces when they are done: without
/// their answers in `audited-briefly`, with them in `audited` and in those of the story.
const AUDIT_POLICY: &str = "\
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [ResponseStarted, Panic]
rules:
- level: Metadata
  users: [zonewright]
  omitStages: [ResponseComplete]
- level: RequestResponse
  namespaces: [audited, shop, staging, billing, partner]
  verbs: [create, update, patch, delete, deletecollection]
- level: Metadata
  namespaces: [audited-briefly]
  verbs: [create, update, patch, delete, deletecollection]
- level: None
";

impl ApiServer {
    /// The requests of the limited user so far: verb and kind, in order of arrival. Those of no kind, which everybody may
    /// make, such as for the version of the server, are left out.
    pub fn limited_requests(&self) -> Vec<(String, String)> {
        let text = fs::read_to_string(self.audit_log()).unwrap_or_default();
        let events = text
            .lines()
            .filter_map(|line| serde_json::from_str(line).ok());
        let text_of = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        events
            .filter(|event: &Value| event["user"]["username"] == Access::Limited.user())
            .filter(|event: &Value| !event["objectRef"]["resource"].is_null())
            .map(|event| {
                let kind = &event["objectRef"]["resource"];
                (text_of(&event["verb"]), text_of(kind))
            })
            .collect()
    }

    /// The file with the log of requests.
    pub fn audit_log(&self) -> PathBuf {
        self.folder.path().join(AUDIT)
    }

    /// Starts both and waits until the server is ready and has all objects of its own.
    pub fn start() -> Self {
        let folder = tempfile::Builder::new()
            .prefix("zw-apiserver-")
            .tempdir()
            .unwrap();
        let [port, etcd_port, peer_port] = [ports::free(), ports::free(), ports::free()];
        write_credentials(folder.path(), port);
        let etcd = start_etcd(folder.path(), etcd_port, peer_port);
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let [admin, limited] = Access::ALL
            .map(|access| runtime.block_on(client(&kubeconfig_path(folder.path(), access))));
        let mut started = Self {
            server: None,
            etcd,
            runtime,
            admin,
            limited,
            folder,
            port,
            etcd_port,
            etcd_peer_port: peer_port,
        };
        started.resume();
        started
    }

    /// A kubeconfig file, for `--kubeconfig` or the variable `KUBECONFIG`.
    pub fn kubeconfig(&self, access: Access) -> PathBuf {
        kubeconfig_path(self.folder.path(), access)
    }

    /// Where the server listens, for a proxy before it.
    pub fn address(&self) -> SocketAddr {
        ports::loopback(self.port)
    }

    /// The kubeconfig file with another address of the server (a proxy's), written to `file`.
    pub fn kubeconfig_at(&self, access: Access, address: SocketAddr, file: &Path) {
        let text = fs::read_to_string(self.kubeconfig(access)).unwrap();
        let own = self.address().to_string();
        assert!(text.contains(&own), "{text}");
        fs::write(file, text.replace(&own, &address.to_string())).unwrap();
    }

    /// Copies the administrator's certificate (`NAME.pem`), its key (`NAME.key`) and the authority (`ca.pem`) to a folder.
    pub fn copy_certificates(&self, folder: &Path, name: &str) {
        for (from, to) in [
            ("client.crt", format!("{name}.pem")),
            ("client.key", format!("{name}.key")),
            ("ca.crt", "ca.pem".to_owned()),
        ] {
            fs::copy(self.folder.path().join(from), folder.join(to)).unwrap();
        }
    }

    /// A client, for asynchronous tests and for [`block_on`](Self::block_on).
    pub fn client(&self, access: Access) -> Client {
        match access {
            Access::Admin => self.admin.clone(),
            Access::Limited => self.limited.clone(),
        }
    }

    /// Runs a future on the server's own runtime.
    pub fn block_on<T>(&self, future: impl Future<Output = T>) -> T {
        self.runtime.block_on(future)
    }

    /// One request; `body` comes with its content type.
    pub fn request(
        &self,
        access: Access,
        method: Method,
        path: &str,
        body: Option<(&str, &Value)>,
    ) -> Result<Value, Refusal> {
        let request = request(method, path, body);
        self.block_on(self.client(access).request(request))
            .map_err(Refusal::from)
    }

    /// One request of a person, for whom the administrator acts. The log of requests has it with this id.
    pub fn request_as(
        &self,
        person: &str,
        audit_id: &str,
        method: Method,
        path: &str,
        body: Option<(&str, &Value)>,
    ) -> Result<Value, Refusal> {
        let mut request = request(method, path, body);
        for (name, value) in [
            ("impersonate-user", person),
            ("impersonate-group", "system:masters"),
            ("audit-id", audit_id),
            ("user-agent", PERSON_AGENT),
        ] {
            let value = value.parse().expect("the tests' names are valid");
            request.headers_mut().insert(name, value);
        }
        self.block_on(self.admin.request(request))
            .map_err(Refusal::from)
    }

    /// An object or a list, as it is.
    pub fn get(&self, path: &str) -> Result<Value, Refusal> {
        self.request(Access::Admin, Method::GET, path, None)
    }

    /// Creates an object where its `apiVersion`, `kind` and namespace say.
    ///
    /// # Panics
    /// When the server refuses.
    pub fn create(&self, object: &Value) -> Value {
        let body = Some(("application/json", object));
        let (path, _) = paths(object);
        self.request(Access::Admin, Method::POST, &path, body)
            .unwrap_or_else(|refusal| panic!("{path}: {refusal:?}"))
    }

    /// Creates many, over this many connections at a time.
    ///
    /// # Panics
    /// When the server refuses one.
    pub fn create_all(&self, objects: &[Value], connections: usize) {
        let requests = objects.iter().map(|object| {
            let (path, _) = paths(object);
            let request = request(Method::POST, &path, Some(("application/json", object)));
            async move {
                let answer = self.admin.request::<Value>(request).await;
                answer.unwrap_or_else(|error| panic!("{path}: {error}"));
            }
        });
        self.block_on(stream::iter(requests).for_each_concurrent(connections, |one| one));
    }

    /// Server-side apply of an object as this field manager.
    ///
    /// # Panics
    /// When the server refuses.
    pub fn apply(&self, object: &Value, manager: &str) -> Value {
        let path = format!("{}?fieldManager={manager}&force=true", paths(object).1);
        let body = Some(("application/apply-patch+yaml", object));
        self.request(Access::Admin, Method::PATCH, &path, body)
            .unwrap_or_else(|refusal| panic!("{path}: {refusal:?}"))
    }

    /// Merges `change` into what is at `path` (an [`object_path`], with `/status` for the status).
    ///
    /// # Panics
    /// When the server refuses.
    pub fn patch(&self, path: &str, change: &Value) -> Value {
        let body = Some(("application/merge-patch+json", change));
        self.request(Access::Admin, Method::PATCH, path, body)
            .unwrap_or_else(|refusal| panic!("{path}: {refusal:?}"))
    }

    /// Deletes at once, without a grace period.
    ///
    /// # Panics
    /// When the server refuses.
    pub fn delete(&self, path: &str) {
        let path = format!("{path}?gracePeriodSeconds=0");
        self.request(Access::Admin, Method::DELETE, &path, None)
            .unwrap_or_else(|refusal| panic!("{path}: {refusal:?}"));
    }

    /// The newest resourceVersion.
    pub fn resource_version(&self) -> u64 {
        let list = self.get("/api/v1/namespaces?limit=1").unwrap();
        list["metadata"]["resourceVersion"]
            .as_str()
            .unwrap()
            .parse()
            .unwrap()
    }

    /// Throws away etcd's history up to now. The server's own watch cache still knows what it saw:
    /// [`expire_watches`](Self::expire_watches) makes it forget too.
    pub fn compact(&self) {
        let revision = self.resource_version().to_string();
        let url = format!("http://127.0.0.1:{}", self.etcd_port)
            .parse()
            .unwrap();
        let body = json!({ "revision": revision, "physical": true });
        self.block_on(async {
            let etcd = Client::try_from(Config::new(url)).unwrap();
            let request = request(
                Method::POST,
                "/v3/kv/compaction",
                Some(("application/json", &body)),
            );
            etcd.request::<Value>(request).await.expect("etcd compacts");
        });
    }

    /// Compacts and restarts the server: a watch from any resourceVersion before now is answered 410.
    pub fn expire_watches(&mut self) {
        self.compact();
        self.restart();
    }

    /// SIGTERM to the server, and waits for the end; etcd goes on.
    pub fn stop(&mut self) {
        if let Some(mut server) = self.server.take() {
            server.terminate(PATIENCE);
        }
    }

    /// SIGKILL to the server; etcd goes on.
    pub fn kill(&mut self) {
        self.server = None;
    }

    /// Starts the server again on the same port, and waits until it is ready.
    pub fn resume(&mut self) {
        let log = self.folder.path().join("kube-apiserver.log");
        let mut command = server_command(self.folder.path(), self.port, self.etcd_port);
        let mut server = Process::spawn("kube-apiserver", &mut command, &log);
        server.wait_for("readiness", PATIENCE, || {
            let ready = self.block_on(self.admin.request_text(request(
                Method::GET,
                "/readyz",
                None,
            )));
            let is_ready = ready.is_ok_and(|text| text == "ok");
            (is_ready && OWN_OBJECTS.iter().all(|path| self.get(path).is_ok())).then_some(())
        });
        self.server = Some(server);
    }

    /// Puts an empty etcd behind the same address: as after a lost disk. Ends with the server down.
    pub fn lose_everything(&mut self) {
        self.swap_etcd("etcd", "etcd-kept");
    }

    /// Puts back what [`Self::lose_everything`] took. Ends with the server down.
    pub fn find_everything(&mut self) {
        self.swap_etcd("etcd-kept", "etcd");
    }

    /// Ends both, moves etcd's data from one folder to another, starts etcd.
    fn swap_etcd(&mut self, from: &str, to: &str) {
        self.kill();
        self.etcd.kill();
        let folder = self.folder.path();
        // What is in the way is an etcd's that was empty at its start.
        let _none = fs::remove_dir_all(folder.join(to));
        fs::rename(folder.join(from), folder.join(to)).unwrap();
        self.etcd = start_etcd(folder, self.etcd_port, self.etcd_peer_port);
    }

    /// [`stop`](Self::stop), then [`resume`](Self::resume).
    pub fn restart(&mut self) {
        self.stop();
        self.resume();
    }

    /// Runs kubectl as the administrator and returns what it prints.
    ///
    /// # Panics
    /// When it fails.
    pub fn kubectl(&self, arguments: &[&str]) -> String {
        let output = Command::new(needs::program("kubectl"))
            .arg("--kubeconfig")
            .arg(self.kubeconfig(Access::Admin))
            .arg("--cache-dir")
            .arg(self.folder.path().join("kubectl-cache"))
            .args(arguments)
            .output()
            .unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "kubectl {arguments:?}: {errors}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Waits until `condition` gives a value, asking the server each time.
    ///
    /// # Panics
    /// When `limit` is over: with the end of the server's log.
    pub fn wait_for<T>(
        &self,
        what: &str,
        limit: Duration,
        condition: impl FnMut() -> Option<T>,
    ) -> T {
        let state = || {
            self.server
                .as_ref()
                .map(Process::log_tail)
                .unwrap_or_default()
        };
        process::wait_for(what, limit, state, condition)
    }
}

/// Where the object itself is.
pub fn object_path(object: &Value) -> String {
    paths(object).1
}

/// Where objects of its kind and namespace are created, and where this one is.
pub fn paths(object: &Value) -> (String, String) {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let version = text(&object["apiVersion"]).expect("an object has an apiVersion");
    let kind = text(&object["kind"])
        .expect("an object has a kind")
        .to_lowercase();
    let name = text(&object["metadata"]["name"]).expect("an object has a name");
    let group = if version.contains('/') { "apis" } else { "api" };
    let namespace = text(&object["metadata"]["namespace"])
        .map_or_else(String::new, |namespace| format!("/namespaces/{namespace}"));
    let plural = match kind.strip_suffix('y') {
        Some(stem) => format!("{stem}ies"),
        None if kind.ends_with("ss") => format!("{kind}es"),
        None if kind.ends_with('s') => kind,
        None => format!("{kind}s"),
    };
    let collection = format!("/{group}/{version}{namespace}/{plural}");
    let own = format!("{collection}/{name}");
    (collection, own)
}

/// A request with an optional body and its content type.
pub fn request(method: Method, path: &str, body: Option<(&str, &Value)>) -> Request<Vec<u8>> {
    let builder = Request::builder().method(method).uri(path);
    match body {
        None => builder.body(Vec::new()),
        Some((kind, value)) => builder
            .header("content-type", kind)
            .body(serde_json::to_vec(value).unwrap()),
    }
    .expect("the tests' paths are valid")
}

/// A client made of a kubeconfig file.
async fn client(kubeconfig: &Path) -> Client {
    let file = Kubeconfig::read_from(kubeconfig).unwrap();
    let config = Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await;
    Client::try_from(config.unwrap()).unwrap()
}

/// The kubeconfig's place.
fn kubeconfig_path(folder: &Path, access: Access) -> PathBuf {
    folder.join(format!("kubeconfig-{}", access.user()))
}

/// Starts etcd; it is up long before the server gives up connecting.
fn start_etcd(folder: &Path, port: u16, peer_port: u16) -> Process {
    let (url, peer) = (
        format!("http://127.0.0.1:{port}"),
        format!("http://127.0.0.1:{peer_port}"),
    );
    let mut command = Command::new(needs::program("etcd"));
    command
        .arg("--data-dir")
        .arg(folder.join("etcd"))
        .arg("--unsafe-no-fsync")
        .args([
            "--listen-client-urls",
            &url,
            "--advertise-client-urls",
            &url,
        ])
        .args([
            "--listen-peer-urls",
            &peer,
            "--initial-advertise-peer-urls",
            &peer,
        ])
        .args(["--initial-cluster", &format!("default={peer}")])
        .args([
            "--quota-backend-bytes",
            "8589934592",
            "--log-level",
            "error",
        ]);
    Process::spawn("etcd", &mut command, &folder.join("etcd.log"))
}

/// How the server is started.
fn server_command(folder: &Path, port: u16, etcd_port: u16) -> Command {
    let mut command = Command::new(needs::program("kube-apiserver"));
    let files = [
        ("--tls-cert-file", "server.crt"),
        ("--tls-private-key-file", "server.key"),
        ("--service-account-key-file", "account.pub"),
        ("--service-account-signing-key-file", "account.key"),
        ("--token-auth-file", "tokens.csv"),
        ("--client-ca-file", "ca.crt"),
        ("--cert-dir", "certificates"),
    ];
    for (flag, file) in files {
        command.arg(flag).arg(folder.join(file));
    }
    let (policy, audit) = (folder.join("audit.yaml"), folder.join(AUDIT));
    fs::write(&policy, AUDIT_POLICY).unwrap();
    command.arg("--audit-policy-file").arg(policy);
    command.arg("--audit-log-path").arg(audit);
    command
        .args(["--etcd-servers", &format!("http://127.0.0.1:{etcd_port}")])
        .args([
            "--secure-port",
            &port.to_string(),
            "--bind-address",
            "127.0.0.1",
        ])
        // What the Service `kubernetes` points to: the same everywhere, also without a network.
        .args(["--advertise-address", "192.0.2.10"])
        .args(["--service-account-issuer", "https://kubernetes.default.svc"])
        .args([
            "--service-cluster-ip-range",
            "10.96.0.0/12,fd00:10:96::/108",
        ])
        .args(["--authorization-mode", "RBAC"])
        // Without controllers no Pod would ever get its account.
        .args(["--disable-admission-plugins", "ServiceAccount"])
        .args([
            "--max-requests-inflight",
            "2000",
            "--max-mutating-requests-inflight",
            "1000",
        ]);
    command
}

/// Certificates, keys, tokens and the kubeconfig files.
fn write_credentials(folder: &Path, port: u16) {
    let settings = "[req]\ndistinguished_name = name\n[name]\n\
        [authority]\nbasicConstraints = critical, CA:TRUE\nkeyUsage = keyCertSign\n\
        [server]\nbasicConstraints = critical, CA:FALSE\nsubjectAltName = IP:127.0.0.1\n\
        extendedKeyUsage = serverAuth\n\
        [client]\nbasicConstraints = critical, CA:FALSE\nextendedKeyUsage = clientAuth\n";
    fs::write(folder.join("openssl.conf"), settings).unwrap();
    let new_key = "-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 30";
    let own = "req -x509 -config openssl.conf";
    let steps = [
        format!("{own} {new_key} -keyout ca.key -out ca.crt -extensions authority -subj /CN=tests"),
        format!(
            "{own} {new_key} -CA ca.crt -CAkey ca.key -keyout server.key -out server.crt \
             -extensions server -subj /CN=server"
        ),
        format!(
            "{own} {new_key} -CA ca.crt -CAkey ca.key -keyout client.key -out client.crt \
             -extensions client -subj /O=system:masters/CN=admin"
        ),
        "genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out account.key".to_owned(),
        "pkey -in account.key -pubout -out account.pub".to_owned(),
    ];
    for step in steps {
        let mut command = Command::new(needs::program("openssl"));
        let output = command
            .args(step.split_whitespace())
            .current_dir(folder)
            .output()
            .unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "openssl {step}: {errors}");
    }
    let mut tokens = String::new();
    for access in Access::ALL {
        let (user, token) = (access.user(), access.token());
        let groups = if access == Access::Admin {
            ",system:masters"
        } else {
            ""
        };
        tokens += &format!("{token},{user},{user}{groups}\n");
        let config = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "test",
            "clusters": [{ "name": "test", "cluster": {
                "server": format!("https://127.0.0.1:{port}"),
                "certificate-authority": folder.join("ca.crt"),
            }}],
            "users": [{ "name": user, "user": { "token": token } }],
            "contexts": [{ "name": "test", "context": { "cluster": "test", "user": user } }],
        });
        fs::write(kubeconfig_path(folder, access), config.to_string()).unwrap();
    }
    fs::write(folder.join("tokens.csv"), tokens).unwrap();
}
