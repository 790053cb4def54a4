//! Who is a reader, and what a reader may read.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use futures_util::future::BoxFuture;
use kubernetes::source::api_server::reviews::ReviewError;
use rcgen::{CertificateParams, KeyPair};

use super::*;
use crate::reviewer::{BAD_FOR, GOOD_FOR};

/// Knows the token `good` of `alice`, who may read `z`. Notes what it is asked.
#[derive(Debug, Default)]
struct Fake {
    asked: Mutex<Vec<String>>,
    is_away: Mutex<bool>,
    is_revoked: Mutex<bool>,
}

impl Fake {
    fn note(&self, what: String) -> Result<(), ReviewError> {
        self.asked.lock().unwrap().push(what);
        match *self.is_away.lock().unwrap() {
            true => Err(ReviewError::Late),
            false => Ok(()),
        }
    }

    fn asked(&self) -> Vec<String> {
        std::mem::take(&mut self.asked.lock().unwrap())
    }
}

impl Reviewer for Fake {
    fn account<'a>(
        &'a self,
        token: &'a str,
    ) -> BoxFuture<'a, Result<Option<Account>, ReviewError>> {
        let known = self.note(format!("token {token}")).map(|()| {
            let is_good = token == "good" && !*self.is_revoked.lock().unwrap();
            is_good.then(|| Account {
                name: "alice".to_owned(),
                uid: None,
                groups: Vec::new(),
                extra: BTreeMap::new(),
            })
        });
        Box::pin(async { known })
    }

    fn may_read<'a>(
        &'a self,
        account: &'a Account,
        zone: Option<&'a str>,
    ) -> BoxFuture<'a, Result<bool, ReviewError>> {
        let may = self.note(format!("{} {zone:?}", account.name));
        let may = may.map(|()| zone == Some("z") && !*self.is_revoked.lock().unwrap());
        Box::pin(async move { may })
    }
}

struct Door {
    fake: Arc<Fake>,
    access: Access,
    counts: Counts,
}

impl Door {
    fn with_tokens() -> Self {
        let fake = Arc::new(Fake::default());
        Self {
            access: Access::new(Some(Arc::clone(&fake) as Arc<dyn Reviewer>), None),
            fake,
            counts: Counts::default(),
        }
    }

    /// The outcome of a request with these headers from this source: the reader's name, or the word of the refusal.
    async fn identify(&self, headers: &[&str], source: u8) -> Result<Reader, &'static str> {
        let mut map = HeaderMap::new();
        for value in headers {
            map.append(header::AUTHORIZATION, value.parse().unwrap());
        }
        let source = IpAddr::from([192, 0, 2, source]);
        let none = TlsPeer::default();
        let reader = self.access.identify(&map, &none, source, &self.counts);
        reader.await.map_err(|refusal| refusal.word())
    }

    async fn permit(&self, reader: &Reader, zone: &str) -> Result<(), &'static str> {
        let zone: Option<Name> = (!zone.is_empty()).then(|| zone.parse().unwrap());
        let permit = self.access.permit(reader, zone.as_ref(), &self.counts);
        permit.await.map_err(|refusal| refusal.word())
    }
}

#[tokio::test(start_paused = true)]
async fn a_token_is_reviewed_and_so_is_each_right_and_both_are_remembered_for_a_while() {
    let door = Door::with_tokens();
    let reader = door.identify(&["Bearer good"], 1).await.unwrap();
    assert_eq!(reader.name(), "alice");
    for _ in 0..3 {
        assert_eq!(door.permit(&reader, "z").await, Ok(()));
        assert_eq!(door.permit(&reader, "y").await, Err("forbidden"));
        assert_eq!(door.permit(&reader, "").await, Err("forbidden"));
        assert!(door.identify(&["bearer good"], 1).await.is_ok());
    }
    let asked = [
        "token good",
        "alice Some(\"z\")",
        "alice Some(\"y\")",
        "alice None",
    ];
    assert_eq!(door.fake.asked(), asked);
    *door.fake.is_revoked.lock().unwrap() = true;
    assert!(
        GOOD_FOR <= Duration::from_secs(60),
        "a promise of the manual"
    );
    tokio::time::advance(GOOD_FOR).await;
    assert_eq!(door.permit(&reader, "z").await, Err("forbidden"));
    let again = door.identify(&["Bearer good"], 1).await;
    assert_eq!(again.unwrap_err(), "unauthenticated");
    *door.fake.is_revoked.lock().unwrap() = false;
    tokio::time::advance(BAD_FOR).await;
    assert!(door.identify(&["Bearer good"], 1).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn what_is_no_good_token_is_refused() {
    let door = Door::with_tokens();
    let long = format!("Bearer {}", "x".repeat(TOKEN_OCTETS + 1));
    for headers in [
        &[][..],
        &["good"],
        &["Basic good"],
        &["Bearer "],
        &["Bearer good", "Bearer good"],
        &[long.as_str()],
    ] {
        let outcome = door.identify(headers, 1).await;
        assert_eq!(outcome.unwrap_err(), "unauthenticated", "{headers:?}");
    }
    assert!(door.fake.asked().is_empty(), "none of these costs a review");
    let outcome = door.identify(&["Bearer bad"], 1).await;
    assert_eq!(outcome.unwrap_err(), "unauthenticated");
}

#[tokio::test(start_paused = true)]
async fn without_a_verdict_nobody_reads_and_nothing_is_remembered() {
    let door = Door::with_tokens();
    *door.fake.is_away.lock().unwrap() = true;
    let outcome = door.identify(&["Bearer good"], 1).await;
    assert_eq!(outcome.unwrap_err(), "unavailable");
    *door.fake.is_away.lock().unwrap() = false;
    let reader = door.identify(&["Bearer good"], 1).await.unwrap();
    *door.fake.is_away.lock().unwrap() = true;
    assert_eq!(door.permit(&reader, "z").await, Err("unavailable"));
    *door.fake.is_away.lock().unwrap() = false;
    assert_eq!(door.permit(&reader, "z").await, Ok(()));
}

#[tokio::test(start_paused = true)]
async fn a_source_may_try_only_so_many_unknown_tokens() {
    let door = Door::with_tokens();
    let mut outcomes = Vec::new();
    for number in 0..100 {
        let token = format!("Bearer guess-{number}");
        outcomes.push(door.identify(&[&token], 1).await.unwrap_err());
    }
    assert_eq!(outcomes.iter().filter(|it| **it == "limited").count(), 50);
    assert_eq!(door.fake.asked().len(), 50);
    assert!(door.identify(&["Bearer good"], 2).await.is_ok());
    // A token that is remembered costs no review.
    assert!(door.identify(&["Bearer good"], 1).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_reader_is_reviewed_again_whatever_strangers_try() {
    let door = Door::with_tokens();
    assert!(door.identify(&["Bearer good"], 1).await.is_ok());
    tokio::time::advance(GOOD_FOR).await;
    let mut reviewed = 0;
    // The first source is the reader's own.
    for source in 1..=20 {
        for number in 0..100 {
            let token = format!("Bearer guess-{source}-{number}");
            let outcome = door.identify(&[&token], source).await;
            reviewed += usize::from(outcome.unwrap_err() != "limited");
        }
    }
    assert_eq!(reviewed, 500, "five seconds of a hundred, for all sources");
    assert!(door.identify(&["Bearer good"], 1).await.is_ok());
    // One that is not good any more is a stranger's.
    tokio::time::advance(GOOD_FOR).await;
    *door.fake.is_revoked.lock().unwrap() = true;
    let outcome = door.identify(&["Bearer good"], 1).await;
    assert_eq!(outcome.unwrap_err(), "unauthenticated");
    let reviewed = door.access.reviewed.as_ref().unwrap();
    assert!(matches!(reviewed.remembered("good").1, Remembered::Bad));
    tokio::time::advance(BAD_FOR).await;
    assert!(matches!(reviewed.remembered("good").1, Remembered::Nothing));
}

/// A client with a certificate for these names.
fn peer(names: &[&str]) -> TlsPeer {
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let params = CertificateParams::new(names).unwrap();
    let certificate = params.self_signed(&KeyPair::generate().unwrap()).unwrap();
    TlsPeer {
        has_dot: false,
        certificate: Some(certificate.der().clone()),
    }
}

#[tokio::test(start_paused = true)]
async fn a_certificate_reads_what_its_names_allow_and_one_without_rules_reads_nothing() {
    let rule = |name: &str, zones: &[&str]| AllowedName {
        name: ServerName::try_from(name.to_owned()).unwrap(),
        zones: zones.iter().map(|zone| zone.parse().unwrap()).collect(),
    };
    let rules = vec![rule("auditor", &[]), rule("shop", &["z", "y"])];
    let counts = Counts::default();
    let source = IpAddr::from([192, 0, 2, 1]);
    for (rules, names, readable) in [
        (CertificateRules::Any, "stranger", &["z", "x", ""][..]),
        (
            CertificateRules::Named(rules.clone()),
            "auditor",
            &["z", "x", ""],
        ),
        (CertificateRules::Named(rules.clone()), "shop", &["z"]),
        (CertificateRules::Named(rules), "stranger", &[]),
    ] {
        let access = Access::new(None, Some(rules));
        let headers = HeaderMap::new();
        let peer = peer(&[names]);
        let reader = access.identify(&headers, &peer, source, &counts).await;
        let reader = reader.unwrap();
        assert_eq!(reader.name(), format!("certificate {names}"));
        for zone in ["z", "x", ""] {
            let zone: Option<Name> = (!zone.is_empty()).then(|| zone.parse().unwrap());
            let may = access.permit(&reader, zone.as_ref(), &counts).await.is_ok();
            let text = zone.map(|zone| object_name(&zone)).unwrap_or_default();
            assert_eq!(may, readable.contains(&&*text), "{names} {text}");
        }
    }
    let closed = Access::new(None, None);
    let headers = HeaderMap::new();
    for peer in [peer(&["auditor"]), TlsPeer::default()] {
        let outcome = closed.identify(&headers, &peer, source, &counts).await;
        assert_eq!(outcome.unwrap_err().word(), "unauthenticated");
    }
}
