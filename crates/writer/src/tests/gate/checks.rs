//! What is said of content before it is out, and of secondaries that are ahead.

use super::*;

#[test]
fn a_secondary_ahead_of_us_gets_a_version_above_its_own() {
    let mut subject = Subject::new(plan());
    subject.pipeline = subject.pipeline.awaiting_secondaries(AskId(0));
    subject.relist(0..1);
    assert!(subject.zone().current().is_none());
    let apex: Name = "cluster.local.".parse().unwrap();
    let reported = |serial| reported(&apex, serial, Proof::Signature);
    let serials = vec![reported(4_000), reported(5_000)];
    subject.pipeline.take(secondaries(serials));
    assert!(subject.pipeline.commit());
    assert_eq!(subject.serial(), 5_001);
    // One that is behind changes nothing; one that is ahead has the same content under a later serial.
    subject.pipeline.take(secondaries(vec![reported(7)]));
    assert!(subject.pipeline.commit());
    assert_eq!(subject.serial(), 5_001);
    subject.pipeline.take(Input::Ahead(reported(2_000_000_000)));
    assert!(subject.pipeline.commit());
    assert_eq!(subject.serial(), 2_000_000_001);
    assert_eq!(subject.names(), 1);
    let step = Arc::clone(subject.zone().current().unwrap().history.last().unwrap());
    assert!(step.added.is_empty() && step.removed.is_empty());
    assert_eq!(step.causes[0][0].key.to_string(), "the secondaries");
    assert!(subject.pipeline.commit());
    assert_eq!(subject.zone().current().unwrap().seq, step.seq);
}

#[test]
fn an_operator_advances_a_zone_with_a_change_too_and_is_its_cause() {
    let mut subject = Subject::new(plan());
    subject.relist(0..1);
    let apex: Name = "cluster.local.".parse().unwrap();
    let order = |subject: &mut Subject, serial: u32, by: &str| {
        let (asked, answer) = oneshot::channel();
        subject.pipeline.take(Input::Advance {
            zone: apex.clone(),
            serial: Serial::decode(serial),
            by: by.into(),
            asked,
        });
        answer
    };
    let causes = |subject: &Subject| -> Vec<String> {
        let version = subject.zone().current().unwrap();
        let step = version.history.last().unwrap();
        step.causes
            .iter()
            .flatten()
            .map(|it| it.key.to_string())
            .collect()
    };
    let own = subject.serial();
    let mut refused = order(&mut subject, own, "nobody");
    let refusal = refused.try_recv().unwrap().unwrap_err();
    assert!(refusal.ends_with("is not after it"), "{refusal}");
    // The next serial would be half of the circle ahead.
    let farthest = own.wrapping_add(Serial::MAX_STEP);
    let mut refused = order(&mut subject, farthest, "nobody");
    let refusal = refused.try_recv().unwrap().unwrap_err();
    let most = format!("and {} is the largest", farthest.wrapping_sub(1));
    assert!(refusal.contains(&most), "{refusal}");
    // Two orders and a change of the cluster are one version.
    let answers = [(own + 500, "ann"), (own + 900, "bob")]
        .map(|(serial, by)| order(&mut subject, serial, by));
    subject.relist(0..2);
    assert!(subject.pipeline.commit());
    assert_eq!(subject.serial(), own + 901);
    for mut answer in answers {
        assert_eq!(answer.try_recv().unwrap(), Ok(Serial::decode(own + 901)));
    }
    assert_eq!(subject.names(), 2);
    let all = causes(&subject);
    for by in ["a later serial: ann", "a later serial: bob"] {
        assert!(all.iter().any(|cause| cause == by), "{all:?}");
    }
    // Without a change the order is the only cause.
    let mut answer = order(&mut subject, own + 2000, "cleo");
    assert!(subject.pipeline.commit());
    assert_eq!(answer.try_recv().unwrap(), Ok(Serial::decode(own + 2001)));
    assert_eq!(causes(&subject), ["a later serial: cleo"]);
}

#[test]
fn a_serial_that_anybody_could_forge_moves_ours_by_a_year_at_most() {
    // security 2: one unsigned answer at a start moved the serial by 2^31, or backwards at the second start.
    let mut subject = Subject::new(plan());
    subject.relist(0..1);
    let apex: Name = "cluster.local.".parse().unwrap();
    let first = subject.serial();
    for (step, proof, follows) in [
        (Serial::MAX_STEP, Proof::Exchange, false),
        (1 << 31, Proof::Exchange, false),
        (1 << 31, Proof::Signature, false),
        (40, Proof::Nothing, false),
        (50, Proof::Exchange, true),
        (Serial::MAX_STEP - 1, Proof::Signature, true),
    ] {
        let ours = subject.serial();
        let serial = ours.wrapping_add(step);
        let ahead = Input::Ahead(reported(&apex, serial, proof));
        subject.pipeline.take(ahead);
        assert!(subject.pipeline.commit());
        let want = if follows { serial + 1 } else { ours };
        assert_eq!(subject.serial(), want, "{step} {proof:?}");
        let heard = subject.heard();
        let said = format!("192.0.2.1:53 has {serial}, followed: {follows}");
        assert!(heard.contains(&said), "{said} in {heard:?}");
    }
    assert_ne!(subject.serial(), first);
}

#[test]
fn what_bind_refuses_is_said_once() {
    let mut subject = Subject::new(plan());
    let slice = |count: u8| {
        let endpoint = |number| Endpoint::at([IpAddr::from([10, 1, 0, number])]);
        Fact::EndpointSlice(EndpointSlice {
            key: ObjectKey::new("a", "x"),
            service: Some("s".into()),
            import: None,
            form: SliceForm::Ipv4,
            ports: Vec::new().into(),
            endpoints: (0..count).map(endpoint).collect(),
            created_s: 0,
            origin: Origin::default(),
        })
    };
    let headless = Fact::Service(Service {
        key: ObjectKey::new("a", "s"),
        form: ServiceForm::Headless,
        ports: Vec::new().into(),
        external: None,
        created_s: 0,
        origin: Origin::default(),
    });
    subject.list_all(0..0);
    feed(&mut subject.pipeline, Change::Applied(headless));
    for (count, want) in [
        (100, None),
        (101, Some("cluster.local. has 1 warnings")),
        (102, Some("cluster.local. has 1 warnings")),
        (100, Some("cluster.local. has 0 warnings")),
    ] {
        feed(&mut subject.pipeline, Change::Applied(slice(count)));
        assert!(subject.pipeline.commit());
        let mut heard = subject.heard();
        heard.retain(|line| line.starts_with("cluster.local."));
        assert_eq!(heard.last().map(String::as_str), want);
        let is_said = heard.iter().any(|line| line.contains("BIND refuses"));
        assert_eq!(is_said, count == 101, "{heard:?}");
    }
}
