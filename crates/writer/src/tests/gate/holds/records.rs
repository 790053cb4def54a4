//! Each record of a version that waited has the cause of its own change.

use super::*;

impl Subject {
    /// A person gives `a/sN` these cluster IPs, 10.0.0.X.
    fn set(&mut self, number: u8, hosts: &[u8], person: &str) {
        let Fact::Service(service) = service_number(number) else {
            unreachable!("it is a Service");
        };
        let addresses: Vec<IpAddr> = (hosts.iter())
            .map(|host| IpAddr::from([10, 0, 0, *host]))
            .collect();
        let service = Service {
            form: ServiceForm::ClusterIp(addresses.into()),
            origin: Origin {
                manager: person.into(),
                ..Origin::default()
            },
            ..service
        };
        feed(&mut self.pipeline, Change::Applied(Fact::Service(service)));
        assert!(self.pipeline.commit());
    }

    /// The records of the newest version, each with who is named for it.
    fn named(&self) -> Vec<String> {
        let version = self.zone().current().unwrap();
        let step = version.history.last().unwrap();
        let lists = [("-", &step.removed), ("+", &step.added)];
        let mut named = Vec::new();
        for (sign, list) in lists {
            for rr in list {
                let who = |cause: &Cause| match &*cause.origin.manager {
                    "" => cause.verb.as_str().to_owned(),
                    person => person.to_owned(),
                };
                let group = step.causes_of(rr.tag);
                let who: Vec<String> = group.iter().map(who).collect();
                let host = rr.data.last().unwrap();
                named.push(format!("{sign}{host} {}", who.join("+")));
            }
        }
        named
    }
}

#[test]
fn causes_03_04_changes_during_a_freeze_keep_the_cause_of_each_record() {
    let (mut subject, _) = grown();
    let _answer = subject.order(None);
    assert!(subject.pipeline.commit());
    subject.set(0, &[0, 100], "alice");
    subject.set(0, &[101, 100], "bob");
    // Not there any more, and there again.
    subject.set(1, &[1, 102, 103], "alice");
    subject.set(1, &[1, 103], "bob");
    subject.set(1, &[1, 103, 102], "carol");
    let _answer = subject.release("cluster.local.");
    assert!(subject.pipeline.commit());
    let want = [
        "-0 bob",
        "+100 alice",
        "+101 bob",
        "+102 carol",
        "+103 alice",
    ];
    assert_eq!(subject.named(), want);
}

#[test]
fn causes_05_what_returns_after_a_rollback_names_its_end_and_what_came_meanwhile_its_own_cause() {
    let (mut subject, old) = grown();
    let _answer = subject.order(Some(&old));
    assert!(subject.pipeline.commit());
    subject.set(8, &[8, 108], "carol");
    // Changed before and after the rollback.
    subject.set(0, &[0, 100], "alice");
    let _answer = subject.release("cluster.local.");
    assert!(subject.pipeline.commit());
    let want = ["+100 alice", "+108 carol", "+8 someone", "+9 someone"];
    let mut named = subject.named();
    named.sort();
    assert_eq!(named, want);
}

#[test]
fn causes_05_a_rollback_over_a_freeze_keeps_what_was_known() {
    let (mut subject, old) = grown();
    let _answer = subject.order(None);
    assert!(subject.pipeline.commit());
    subject.set(8, &[8, 108], "carol");
    subject.set(0, &[0, 100], "alice");
    let _answer = subject.order(Some(&old));
    assert!(subject.pipeline.commit());
    let _answer = subject.release("cluster.local.");
    assert!(subject.pipeline.commit());
    let mut named = subject.named();
    named.sort();
    let want = ["+100 alice", "+108 carol", "+8 someone", "+9 someone"];
    assert_eq!(named, want);
}
