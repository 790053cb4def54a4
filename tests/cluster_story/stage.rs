//! The servers of a story, and what its people can do to them. All that is done goes into the record.

use std::collections::{BTreeMap, BTreeSet};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use http::Method;
use ring::digest::{Context, SHA512};
use ring::hmac;
use serde_json::{Value, json};

use super::record::{
    Act, CLOCK, Cause, Changes, Content, Entry, Object, Operator, Record, Request, Step, Version,
};
use super::record::{hour_after, time_of};
use crate::support::apiserver::{Access, ApiServer, paths, request};
use crate::support::needs;
use crate::support::process::{now, wait_for};
use crate::support::proxy::Proxy;
use crate::support::wire;
use crate::support::zonewright::Zonewright;

/// The zone of names.
pub const FORWARD: &str = "cluster.local.";
/// The zone of addresses.
pub const REVERSE: &str = "10.in-addr.arpa.";
/// Both.
pub const ZONES: [&str; 2] = [FORWARD, REVERSE];
/// How long the gate holds a change.
pub const HOLD_MS: u64 = 3000;
/// How long anything may take.
const PATIENCE: Duration = Duration::from_secs(60);
/// The command line of an operator is named up to here.
const COMMAND_CHARS: usize = 100;

/// Kind, namespace and name.
type Key = (&'static str, String, String);

/// What an object is, without its content.
pub fn identity(kind: &str, namespace: &str, name: &str) -> Value {
    let version = match kind {
        "EndpointSlice" => "discovery.k8s.io/v1",
        _ => "v1",
    };
    let mut object = json!({ "apiVersion": version, "kind": kind, "metadata": { "name": name } });
    if !namespace.is_empty() {
        object["metadata"]["namespace"] = namespace.into();
    }
    object
}

/// The Corefile's part that a story changes.
#[derive(Clone, Debug)]
pub struct Selection {
    pub ttl: Option<u32>,
    pub namespaces: &'static [&'static str],
    /// Of the gate: it changes no record.
    pub at_least: u32,
}

/// A freeze or a rollback of the forward zone.
#[derive(Clone, Debug)]
struct Hold {
    by: String,
    step: usize,
    rolled_back_to: Option<u32>,
}

/// What `why` told of a Service of `shop` after a step.
#[derive(Debug)]
pub struct Asked {
    pub step: usize,
    pub service: &'static str,
    pub address: &'static str,
    pub text: String,
    pub json: String,
}

/// What the current step has done.
#[derive(Debug, Default)]
struct Done {
    acts: Vec<Act>,
    /// The cause of records that no object has changed.
    of_records: Option<Cause>,
    of_version: BTreeSet<Cause>,
}

/// The servers, and the record.
pub struct Stage {
    pub server: ApiServer,
    pub zonewright: Zonewright,
    pub record: Record,
    pub asked: Vec<Asked>,
    /// The proxy between both.
    proxy: Proxy,
    /// Whether zonewright sees what happens in the cluster.
    is_watching: bool,
    /// When the API server came back last.
    returned: Instant,
    objects: BTreeMap<Key, Object>,
    /// What was done to objects, for the next version of each zone.
    waiting: BTreeMap<&'static str, Vec<Cause>>,
    hold: Option<Hold>,
    done: Done,
    requests: usize,
    /// Of the Corefile, see [`digest_of`].
    digest: String,
    /// The user who runs the test: uid and name.
    user: (u32, String),
}

impl Stage {
    /// The servers: zonewright is configured and not started.
    pub fn set(selection: &Selection) -> Self {
        let server = ApiServer::start();
        let proxy = Proxy::start(server.address());
        let zonewright = Zonewright::prepare(&ZONES.map(|zone| zone.trim_end_matches('.')));
        let file = zonewright.folder().join("kubeconfig");
        server.kubeconfig_at(Access::Admin, proxy.address, &file);
        let mut stage = Self {
            server,
            zonewright,
            record: Record::default(),
            asked: Vec::new(),
            proxy,
            is_watching: false,
            returned: now(),
            objects: BTreeMap::new(),
            waiting: BTreeMap::new(),
            hold: None,
            done: Done::default(),
            requests: 0,
            digest: String::new(),
            user: (printed("-u").parse().unwrap(), printed("-un")),
        };
        stage.write_corefile(selection);
        stage
    }

    /// Something happens that brings a version to these zones and to no other.
    pub fn step(
        &mut self,
        what: &'static str,
        zones: &[&'static str],
        act: impl FnOnce(&mut Self),
    ) {
        self.begin(what);
        act(self);
        self.end(zones);
    }

    /// Waits until the log has an act: it is stored after the version that came with it.
    pub fn wait_for_act(&self, what: &str) {
        let log = || self.zonewright.command(&["log", FORWARD]);
        wait_for(what, PATIENCE, log, || log().contains(what).then_some(()));
    }

    /// Asks why a Service of `shop` is not there yet.
    pub fn ask_why(&mut self, service: &'static str, address: &'static str) {
        let name = format!("{service}.shop.svc.{FORWARD}");
        let ask = |more: &[&str]| self.zonewright.command(&[&["why", &name], more].concat());
        self.asked.push(Asked {
            step: self.number(),
            service,
            address,
            text: ask(&[]),
            json: ask(&["--output", "json"]),
        });
    }

    /// The number of the current step.
    pub fn number(&self) -> usize {
        self.record.steps.len() - 1
    }

    fn begin(&mut self, what: &'static str) {
        self.expect_no_other_version(what);
        let last = self.record.steps.last().map_or(0, |step| step.end_ms);
        let begin_ms = wait_for("the next millisecond", PATIENCE, String::new, || {
            Some(now_ms()).filter(|now| *now > last)
        });
        let end_ms = begin_ms;
        self.record.steps.push(Step {
            what,
            begin_ms,
            end_ms,
        });
        self.done = Done::default();
    }

    /// No zone has a version that is not in the record.
    pub fn expect_no_other_version(&self, before: &str) {
        for (zone, entries) in &self.record.zones {
            if !entries.is_empty() {
                let known = Some(self.record.newest(zone).content.serial);
                let found = self.zonewright.serial(zone);
                assert_eq!(found, known, "{zone} before: {before}");
            }
        }
    }

    fn end(&mut self, zones: &[&'static str]) {
        for zone in zones {
            let address = self.zonewright.address();
            let known = self
                .record
                .versions(zone)
                .last()
                .map(|it| it.content.serial);
            let what = format!(
                "a version of {zone}: {}",
                self.record.steps[self.number()].what
            );
            self.zonewright.wait_for(&what, PATIENCE, || {
                wire::serial(address, zone).filter(|serial| Some(*serial) != known)
            });
            let version = self.version(zone);
            let entries = self.record.zones.entry(zone).or_default();
            entries.push(Entry::Version(version));
            self.waiting.remove(zone);
        }
        for zone in ZONES {
            let is_held = zone == FORWARD && self.hold.is_some();
            let is_served = self.record.zones.contains_key(zone);
            if is_served && !is_held {
                self.waiting.remove(zone);
            }
        }
        for mut act in std::mem::take(&mut self.done.acts) {
            act.serial = self.record.newest(FORWARD).content.serial;
            let entries = self.record.zones.entry(FORWARD).or_default();
            entries.push(Entry::Act(act));
        }
        self.record.steps.last_mut().expect("one began").end_ms = now_ms();
    }

    /// The version that a zone has now, with the causes of its changes.
    fn version(&self, zone: &'static str) -> Version {
        let content = self.content(zone);
        let before = self.record.versions(zone).last().map(|it| &it.content);
        let none = BTreeSet::new();
        let old = before.map_or(&none, |content| &content.records);
        let changes = |records: &mut dyn Iterator<Item = &String>| -> Changes {
            let each = records.map(|it| (it.clone(), self.causes(zone, it)));
            each.collect()
        };
        let removed = changes(&mut old.difference(&content.records));
        let added = changes(&mut content.records.difference(old));
        let is_of_zone = zone == FORWARD;
        Version {
            step: self.number(),
            previous: before.map(|content| content.serial),
            removed,
            added,
            of_version: match is_of_zone {
                true => self.done.of_version.clone(),
                false => BTreeSet::new(),
            },
            content,
        }
    }

    /// The zone by AXFR.
    fn content(&self, zone: &str) -> Content {
        let records = self.zonewright.zone(zone);
        let soa = records.iter().find(|it| it.rtype == wire::SOA);
        let soa = soa.expect("a zone has an SOA");
        let others = records.iter().filter(|it| it.rtype != wire::SOA);
        Content {
            serial: soa.serial().expect("an SOA has a serial"),
            soa: soa.text(),
            records: others.map(wire::Record::text).collect(),
        }
    }

    /// What was done to the objects of a record since the last version; otherwise the cause of the step.
    fn causes(&self, zone: &str, record: &str) -> BTreeSet<Cause> {
        let waiting = self.waiting.get(zone).into_iter().flatten();
        let own = waiting.filter(|cause| match cause {
            Cause::Object { object, .. } => object.concerns(record),
            Cause::Other { .. } => false,
        });
        let own: BTreeSet<Cause> = own.cloned().collect();
        if !own.is_empty() {
            return own;
        }
        let of_records = self.done.of_records.clone();
        let cause = of_records.unwrap_or_else(|| panic!("nothing was done to {record} of {zone}"));
        [cause].into()
    }

    /// Server-side apply of an object by a person.
    pub fn apply(&mut self, object: &Value, person: &str) {
        let path = format!("{}?fieldManager={person}&force=true", paths(object).1);
        let body = Some(("application/apply-patch+yaml", object));
        let (request, answer) = self.request(person, "patch", Method::PATCH, &path, body);
        let object = object_of(&answer, person, request);
        let verb = match self.is_watching {
            true => "applied",
            false => "listed",
        };
        self.changed(verb, object);
    }

    /// An object has a new state. A Namespace has no records of its own.
    fn changed(&mut self, verb: &'static str, object: Object) {
        let key = (object.kind, object.namespace.clone(), object.name.clone());
        self.objects.insert(key, object.clone());
        if object.kind != "Namespace" {
            let request = object.request.clone();
            let object = Box::new(object);
            self.note(Cause::Object {
                verb,
                object,
                request,
            });
        }
    }

    /// Something was done to an object, for the next version of each zone.
    fn note(&mut self, cause: Cause) {
        for zone in ZONES {
            self.waiting.entry(zone).or_default().push(cause.clone());
        }
    }

    /// A person deletes an object; a Namespace as its controller does, at once.
    pub fn delete(&mut self, kind: &'static str, namespace: &str, name: &str, person: &str) {
        let (collection, path) = paths(&identity(kind, namespace, name));
        let key = (kind, namespace.to_owned(), name.to_owned());
        let mut object = self.objects.remove(&key).expect("it is there");
        let since = self.server.resource_version();
        let at_once = format!("{path}?gracePeriodSeconds=0");
        let (request, _) = self.request(person, "delete", Method::DELETE, &at_once, None);
        if kind == "Namespace" {
            let mut terminating = self.server.get(&path).unwrap();
            terminating["spec"]["finalizers"] = json!([]);
            let body = Some(("application/json", &terminating));
            let path = format!("{path}/finalize");
            self.request(person, "update", Method::PUT, &path, body);
        }
        let mut verb = "vanished";
        if self.is_watching {
            verb = "deleted";
            object.resource_version = self.deleted_version(&collection, name, since);
        }
        self.note(Cause::Object {
            verb,
            object: Box::new(object),
            request,
        });
    }

    /// The resourceVersion of a deletion, as a watch has it.
    fn deleted_version(&self, collection: &str, name: &str, since: u64) -> String {
        let path = format!(
            "{collection}?watch=true&fieldSelector=metadata.name={name}&resourceVersion={since}&timeoutSeconds=1"
        );
        self.server.wait_for("the deletion", PATIENCE, || {
            let client = self.server.client(Access::Admin);
            let answer = client.request_text(request(Method::GET, &path, None));
            let text = self.server.block_on(answer).ok()?;
            let events = text.lines().map(|line| serde_json::from_str(line).unwrap());
            let deleted = { events }.find(|event: &Value| event["type"] == "DELETED")?;
            Some(text_of(&deleted["object"]["metadata"]["resourceVersion"]))
        })
    }

    /// A request of a person, for the record, and its answer.
    fn request(
        &mut self,
        person: &str,
        verb: &'static str,
        method: Method,
        path: &str,
        body: Option<(&str, &Value)>,
    ) -> (Request, Value) {
        self.requests += 1;
        let audit_id = format!("request-{}", self.requests);
        let answer = self
            .server
            .request_as(person, &audit_id, method, path, body);
        let request = Request {
            person: person.to_owned(),
            verb,
            audit_id,
            step: self.number(),
        };
        let answer = answer.unwrap_or_else(|refusal| panic!("{path}: {refusal:?}"));
        (request, answer)
    }

    /// Starts zonewright.
    pub fn start(&mut self) {
        self.zonewright.start();
        self.is_watching = true;
    }

    /// Stops zonewright.
    pub fn stop(&mut self) {
        self.zonewright.stop();
        self.is_watching = false;
    }

    /// The API server is away, and forgets its events meanwhile.
    pub fn while_away(&mut self, act: impl FnOnce(&mut Self)) {
        self.proxy.close();
        self.is_watching = false;
        act(self);
        self.server.expire_watches();
        self.returned = now();
        self.proxy.open();
        self.is_watching = true;
    }

    /// How long ago the API server came back.
    pub fn since_return(&self) -> Duration {
        now() - self.returned
    }

    /// The zones are configured for the first time.
    pub fn configured_from(&mut self, what: String) {
        self.done.of_records = Some(Cause::Other {
            verb: "configured",
            what,
            by: String::new(),
        });
    }

    /// Another Corefile, which zonewright reads.
    pub fn reload(&mut self, selection: &Selection) {
        let old = self.keyed_digest();
        self.write_corefile(selection);
        let by = self.run(&["reload"]);
        let new = self.keyed_digest();
        let what = format!("the Corefile, digest {new:.16}…, before {old:.16}…");
        for zone in ZONES {
            let about = format!("from {what}");
            let is_told = || {
                let log = self.zonewright.command(&["log", zone]);
                log.contains(&format!("configured {about}")).then_some(())
            };
            wait_for("the reload in the log", PATIENCE, String::new, is_told);
            // A version that it brings comes after it.
            let act = Act {
                step: self.number(),
                serial: self.record.newest(zone).content.serial,
                what: "configured",
                about,
                by: by.clone(),
                is_for_an_hour: false,
            };
            let entries = self.record.zones.entry(zone).or_default();
            entries.push(Entry::Act(act));
        }
        self.configured_from(what);
    }

    /// The digest of the Corefile as the history tells it: nobody without the key of the state folder can compute it.
    fn keyed_digest(&self) -> String {
        let file = std::fs::read(self.zonewright.state().join("corefile.key")).unwrap();
        // The checksum is after the key.
        let key = hmac::Key::new(hmac::HMAC_SHA512, &file[..32]);
        hex(hmac::sign(&key, self.digest.as_bytes()).as_ref())
    }

    fn write_corefile(&mut self, selection: &Selection) {
        let kubeconfig = self.zonewright.folder().join("kubeconfig");
        let mut options = format!("        kubeconfig {}\n", kubeconfig.display());
        if let Some(ttl) = selection.ttl {
            options += &format!("        ttl {ttl}\n");
        }
        options += &format!("        namespaces {}\n", selection.namespaces.join(" "));
        self.zonewright.configure(&format!(
            "    kubernetes {{\n{options}    }}\n    gate {{\n        shrink 50\n        at_least {}\n        hold {HOLD_MS}ms\n    }}\n    \
             transfer {{\n        allow 127.0.0.1\n    }}\n",
            selection.at_least
        ));
        let text = std::fs::read_to_string(self.zonewright.corefile()).unwrap();
        self.digest = digest_of(&text);
    }

    /// Freezes the forward zone.
    pub fn freeze(&mut self, is_for_an_hour: bool, reason: &str) {
        let time: &[&str] = match is_for_an_hour {
            true => &["--for", "1h"],
            false => &[],
        };
        let by = self.order(&[&["freeze", FORWARD], time].concat(), reason);
        let text = by.text.clone();
        self.act("frozen", String::new(), by, is_for_an_hour);
        self.hold = Some(Hold {
            by: text,
            step: self.number(),
            rolled_back_to: None,
        });
    }

    /// Rolls the forward zone back for an hour.
    pub fn roll_back(&mut self, to: u32, reason: &str) {
        let order = ["rollback", FORWARD, &to.to_string(), "--for", "1h"];
        let by = self.order(&order, reason);
        let text = by.text.clone();
        self.act("rolled_back", format!("to serial {to}"), by, true);
        let step = self.number();
        self.done.of_records = Some(Cause::Other {
            verb: "rolled back",
            what: format!("serial {to} until {}", hour_after(step)),
            by: text.clone(),
        });
        self.hold = Some(Hold {
            by: text,
            step,
            rolled_back_to: Some(to),
        });
    }

    /// Ends the freeze or the rollback.
    pub fn release(&mut self, reason: &str) {
        let by = self.order(&["release", FORWARD], reason);
        let hold = self.hold.take().expect("it is held");
        let (ordered, since) = (&hold.by, time_of(hold.step));
        let what = match hold.rolled_back_to {
            None => format!("the freeze of {ordered} since {since}"),
            Some(to) => format!("the rollback to serial {to}"),
        };
        let about = match hold.rolled_back_to {
            None => format!("after the freeze by {ordered}"),
            Some(to) => format!("after the rollback to serial {to} by {ordered}"),
        };
        let cause = Cause::Other {
            verb: "resumed",
            what,
            by: by.text.clone(),
        };
        self.act("resumed", about, by, false);
        match hold.rolled_back_to {
            None => _ = self.done.of_version.insert(cause),
            Some(_) => self.done.of_records = Some(cause),
        }
    }

    /// Nobody releases in time what the gate holds of a namespace: all of its records.
    pub fn expire(&mut self, namespace: &str) {
        let below = format!(".{namespace}.svc.{FORWARD}");
        let served = &self.record.newest(FORWARD).content.records;
        let lost = served.iter().filter(|it| it.contains(&below)).count();
        let about = "for all that was held".to_owned();
        self.act("expired", about, Operator::clock(), false);
        let time = time_of(self.number());
        self.done.of_version.insert(Cause::Other {
            verb: "resumed",
            what: format!("the gate held {lost} lost records since {time} until {time} at most"),
            by: CLOCK.to_owned(),
        });
    }

    fn act(&mut self, what: &'static str, about: String, by: Operator, is_for_an_hour: bool) {
        self.done.acts.push(Act {
            step: self.number(),
            serial: 0,
            what,
            about,
            by,
            is_for_an_hour,
        });
    }

    /// Runs the command of an operator, and gives the operator as zonewright names one.
    fn order(&self, arguments: &[&str], reason: &str) -> Operator {
        let by = self.run(&[arguments, &["--reason", reason]].concat());
        by.with_reason(reason)
    }

    /// Runs a command, and gives the one who ran it.
    fn run(&self, arguments: &[&str]) -> Operator {
        let (program, state) = (needs::zonewright(), self.zonewright.state());
        let (program, state) = (program.to_str().unwrap(), state.to_str().unwrap());
        let words = [arguments, &["--state", state]].concat();
        let mut command = Command::new(program);
        let child = command.args(&words).current_dir(self.zonewright.folder());
        let child = child.stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = child.spawn().unwrap();
        let id = child.id();
        let Output { status, stderr, .. } = child.wait_with_output().unwrap();
        let errors = String::from_utf8_lossy(&stderr);
        assert!(status.success(), "{words:?}: {errors}");
        let line = [&[program][..], &words].concat().join(" ");
        let line: String = line.chars().take(COMMAND_CHARS).collect();
        let (uid, name) = &self.user;
        Operator::user((*uid, name), id, &line)
    }
}

/// An object as the API server returned it.
fn object_of(answer: &Value, person: &str, request: Request) -> Object {
    let metadata = &answer["metadata"];
    let (namespace, name) = (text_of(&metadata["namespace"]), text_of(&metadata["name"]));
    let kind = ["Namespace", "Service", "EndpointSlice"].into_iter();
    let kind = { kind }.find(|kind| answer["kind"] == **kind);
    let kind = kind.expect("it is of a kind of the story");
    let (names, manager, operation) = match kind {
        "Namespace" => (format!("{name}.svc.{FORWARD}"), "", ""),
        "Service" => (format!("{name}.{namespace}.svc.{FORWARD}"), person, "Apply"),
        _ => {
            let service = text_of(&metadata["labels"]["kubernetes.io/service-name"]);
            let names = format!("{service}.{namespace}.svc.{FORWARD}");
            (names, person, "Apply")
        }
    };
    Object {
        kind,
        namespace,
        name,
        names,
        uid: text_of(&metadata["uid"]),
        resource_version: text_of(&metadata["resourceVersion"]),
        manager: manager.to_owned(),
        operation,
        request,
    }
}

/// The text of a JSON value; empty if it is none.
fn text_of(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// What `id` prints with an option.
fn printed(option: &str) -> String {
    let output = Command::new("id").arg(option).output().unwrap();
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// Milliseconds since 1970.
fn now_ms() -> u64 {
    u64::try_from(jiff::Timestamp::now().as_millisecond()).unwrap()
}

/// The digest that names a Corefile without comments and quotes: of the depth and the words of each line.
fn digest_of(corefile: &str) -> String {
    let mut context = Context::new(&SHA512);
    let mut depth = 1;
    for line in corefile.lines().map(str::trim) {
        if line == "}" {
            depth -= 1;
            continue;
        }
        context.update(&[depth]);
        for word in line.split_whitespace().filter(|word| *word != "{") {
            context.update(word.as_bytes());
            context.update(&[0]);
        }
        depth += u8::from(line.ends_with('{'));
    }
    hex(context.finish().as_ref())
}

fn hex(octets: &[u8]) -> String {
    octets.iter().map(|it| format!("{it:02x}")).collect()
}
