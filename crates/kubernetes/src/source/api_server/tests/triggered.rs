//! When what a slice tells happened: told with a change that came by watch, and with nothing else.

use std::time::SystemTime;

use super::*;

/// A slice as the server writes it, changed at this time.
fn slice(time: &str, version: u32) -> String {
    format!(
        "{{\"metadata\":{{\"name\":\"web-1\",\"namespace\":\"shop\",\"resourceVersion\":\"{version}\",\
         \"annotations\":{{\"endpoints.kubernetes.io/last-change-trigger-time\":\"{time}\"}}}},\
         \"addressType\":\"IPv4\",\"endpoints\":[]}}"
    )
}

#[tokio::test]
async fn s99_only_what_came_by_watch_says_when_it_happened() {
    let (listed, watched) = ("2026-01-02T03:04:05Z", "2026-01-02T03:04:06.5Z");
    let fake = Fake::start(Arc::new(move |asked: &Asked, before| {
        let is_slices = asked.plural == "endpointslices";
        match (is_slices, asked.is_watch(), before) {
            (true, false, _) => Reply::page("1", "", &[&slice(listed, 1)]),
            (true, true, 0) => Reply::lines(&[
                &event("MODIFIED", &slice(watched, 2)),
                &event("DELETED", &slice(watched, 3)),
            ]),
            (_, true, _) => Reply::quiet(),
            (_, false, _) => Reply::page("1", "", &[]),
        }
    }))
    .await;
    let mut bench = Bench::of(&fake).await;
    let mut next = async || {
        let wanted = |event: &SourceEvent| match event {
            SourceEvent::Changed {
                change,
                triggered,
                seen: _,
            } => {
                let word = match change {
                    Change::Listed(Kind::EndpointSlice, _) => "listed",
                    Change::Applied(Fact::EndpointSlice(_)) => "applied",
                    Change::Deleted(key, _) if key.kind == Kind::EndpointSlice => "deleted",
                    Change::Listed(..) | Change::Applied(_) | Change::Deleted(..) => return None,
                };
                Some((word, *triggered))
            }
            SourceEvent::Stale { .. } | SourceEvent::Fresh(_) | SourceEvent::Problem(_) => None,
        };
        bench.next("change of a slice", wanted).await
    };
    let at = SystemTime::UNIX_EPOCH + Duration::from_millis(1_767_323_046_500);
    assert_eq!(next().await, ("listed", None));
    assert_eq!(next().await, ("applied", Some(at)));
    assert_eq!(next().await, ("deleted", None));
}
