//! Paths and queries: every endpoint, and what is no question.

use history::{Request, Streamed};
use proptest::prelude::*;

use super::*;
use crate::endpoint::Right;

fn parse(text: &str) -> Result<Target, Refusal> {
    Target::parse(&text.parse().expect("the tests' targets are URIs"))
}

/// The question of a target, or the text of its refusal.
fn asked(text: &str) -> Result<(Right, Streamed), String> {
    match parse(text).map_err(|refusal| refusal.to_string())? {
        Target::Question(Question { endpoint, values }) => {
            Ok((endpoint.right, endpoint.question(&values)?))
        }
        Target::Description(_) => Err("a description".to_owned()),
    }
}

fn some(text: &str) -> Option<String> {
    Some(text.to_owned())
}

#[test]
fn targets_are_questions_with_the_right_that_they_need() {
    let show = |zone: &str, name| Request::Show {
        zone: zone.to_owned(),
        name,
    };
    for (target, right, request) in [
        (
            "/v1/zones/Cluster.Local/show",
            Right::Zone,
            show("cluster.local.", None),
        ),
        (
            "/v1/zones/z./show?at=2+hours+ago&name=a.z",
            Right::Zone,
            show("z.@2 hours ago", some("a.z")),
        ),
        (
            "/v1/zones/%7A/show?at=held",
            Right::Zone,
            show("z.@held", None),
        ),
        (
            "/v1/log?count=3&object=svc%2Fshop%2Fweb",
            Right::All,
            Request::Log {
                zone: None,
                since: None,
                until: None,
                name: None,
                object: some("svc/shop/web"),
                count: Some(3),
            },
        ),
        (
            "/v1/zones/z/verify?anchor=a&anchor=b",
            Right::Zone,
            Request::Verify {
                zone: some("z."),
                anchors: vec!["a".to_owned(), "b".to_owned()],
                noted: Vec::new(),
            },
        ),
        (
            "/v1/zones/z/corefile",
            Right::All,
            Request::Corefile {
                zone: "z.".to_owned(),
            },
        ),
        ("/v1/status", Right::All, Request::Status),
    ] {
        assert_eq!(asked(target), Ok((right, Streamed::Request(request))));
    }
}

#[test]
fn what_is_no_question_is_refused_with_the_fix() {
    for (target, want) in [
        ("/", "no such endpoint"),
        ("/v1/zones/z/status", "no such endpoint"),
        ("/v1/reload", "no such endpoint"),
        ("/v1/zones//show", "the zone: "),
        ("/v1/zones/z%40held/show", "a zone has no @"),
        ("/v1/zones/z%FF/show", "the zone: invalid utf-8"),
        ("/v1/zones/z/show?serial=7", "it takes at, name"),
        ("/v1/zones/z/show?at=1&at=2", "at is given twice"),
        ("/v1/zones/z/show?at=x%40held", "at: a moment has no @"),
        ("/v1/zones/z/diff?to=2", "the parameter from is missing"),
        ("/v1/zones/z/log?count=many", "write 1 or more"),
        ("/v1/zones/z/log?count=0", "write 1 or more"),
        ("/v1/status?all", "it takes none"),
    ] {
        let said = asked(target).expect_err(target);
        assert!(said.contains(want), "{target}: {said}");
    }
    let long = format!("/v1/zones/z/show?at={}", "1".repeat(MOST_OCTETS));
    assert!(matches!(parse(&long), Err(Refusal::LongUrl)));
}

proptest! {
    /// No target asks for a zone other than that of its path: rights are checked for that one.
    #[test]
    fn a_question_is_about_the_zone_whose_right_is_checked(
        zone in "[a-z%0-9@.\\\\]{1,30}",
        endpoint in 0..ENDPOINTS.len(),
        value in "[ -~]{0,30}|[a-z@.]{0,9}@held",
    ) {
        let endpoint = &ENDPOINTS[endpoint];
        let query: Vec<String> = endpoint.parameters.iter().map(|it| {
            let value: String = form_urlencoded::byte_serialize(value.as_bytes()).collect();
            format!("{}={value}", it.name)
        }).collect();
        let target = format!("{}?{}", endpoint.path().replace("{zone}", &zone), query.join("&"));
        let Ok(uri) = target.parse() else { return Ok(()) };
        let Ok(Target::Question(question)) = Target::parse(&uri) else { return Ok(()) };
        let Ok(asked) = question.endpoint.question(&question.values) else { return Ok(()) };
        let apex = question.values.zone.map(|zone| zone.to_string());
        let about = match asked {
            Streamed::History { zone } => Some(zone),
            Streamed::WhyWithin { zone, .. } => Some(zone.to_string()),
            Streamed::Request(request) => match request {
                Request::Show { zone, .. } | Request::Blame { zone, .. }
                | Request::Corefile { zone } => {
                    // However it is split, the zone is the same.
                    prop_assert!(zone.matches('@').count() <= 1, "{}", zone);
                    Some(zone.split('@').next().unwrap_or_default().to_owned())
                }
                Request::Diff { zone, .. } | Request::Corefiles { zone, .. }
                | Request::Waiting { zone } => Some(zone),
                Request::Log { zone, .. } | Request::Verify { zone, .. } => zone,
                Request::Status | Request::Why { .. } => None,
                Request::Follow(_) | Request::History { .. } | Request::Standing
                | Request::Parts { .. } | Request::Part { .. }
                | Request::Reload | Request::Stop | Request::Promote | Request::Notify { .. }
                | Request::Order { .. } => panic!("no endpoint asks this: {request:?}"),
            },
        };
        prop_assert_eq!(about, apex);
    }
}
