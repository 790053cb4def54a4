//! Tests of whole replicas: election, replication, failover, handover.

use dns::testing::name;
use dns::{Name, Serial};
use kubernetes::source::api_server::Auth;
use replicas::chain::{Epoch, Tip};
use replicas::fixed::FixedRole;
use replicas::lease::Loss;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

use super::api::Api;
use crate::driver::{DriverError, Gone, Refused, Role};
use crate::links::Listener;
use crate::testing::{Installation, Member, MemoryJournal, Told};

/// Three replicas with a leader, all in sync.
struct Three {
    api: Api,
    installation: Installation,
    leader: Member,
    followers: Vec<Member>,
    epoch: Epoch,
}

async fn three() -> Three {
    let api = Api::start().await;
    let installation = Installation::new(api.auth());
    let leader = installation.start("a", &MemoryJournal::default()).await;
    let epoch = leader.until_leading(Epoch(0)).await;
    let mut followers = Vec::new();
    for id in ["b", "c"] {
        followers.push(installation.start(id, &MemoryJournal::default()).await);
    }
    leader.until_in_sync(3).await;
    Three {
        api,
        installation,
        leader,
        followers,
        epoch,
    }
}

/// The first of some replicas that leads in an epoch above this one, with its epoch.
async fn first_to_lead(members: Vec<Member>, above: Epoch) -> (Member, Epoch, Vec<Member>) {
    let waits = members.iter().map(|it| Box::pin(it.until_leading(above)));
    let (epoch, place, _) = futures_util::future::select_all(waits).await;
    let mut members = members;
    let leader = members.remove(place);
    (leader, epoch, members)
}

async fn publish_many(member: &Member, zones: &[Name], count: u32) -> BTreeMap<Name, Tip> {
    let mut newest = BTreeMap::new();
    for number in 0..count {
        for zone in zones {
            let tip = member.publish(zone, &number.to_be_bytes()).await;
            newest.insert(zone.clone(), tip.expect("it leads"));
        }
    }
    newest
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn versions_of_the_leader_are_shown_on_all_replicas_with_equal_tips() {
    let three = three().await;
    let zones = three.installation.zones.clone();
    let newest = publish_many(&three.leader, &zones, 20).await;
    for member in &three.followers {
        for (zone, tip) in &newest {
            member.until_shown(zone, *tip).await;
        }
        assert_eq!(member.visible(), newest);
        let told = member.told();
        assert!(
            !told
                .iter()
                .any(|it| matches!(it, Told::Lead(..) | Told::Notify(..))),
            "{told:?}"
        );
        assert!(member.handle.permit(zones[0].clone()).await == Err(Refused::NotLeading));
    }
    for zone in &zones {
        let versions = three.leader.journal.versions(zone);
        assert_eq!(versions.len(), 20);
        for member in &three.followers {
            assert_eq!(member.journal.versions(zone), versions);
        }
        let notified = Told::Notify(zone.clone(), newest[zone].serial);
        let is_notified = |told: &[Told]| told.contains(&notified).then_some(());
        three.leader.until("NOTIFY is due", is_notified).await;
    }
    let status = three.leader.handle.status();
    assert!(
        status.is_leading && status.epoch == three.epoch,
        "{status:?}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_replica_gets_the_whole_history_and_a_large_version() {
    let api = Api::start().await;
    let installation = Installation::new(api.auth());
    let leader = installation.start("a", &MemoryJournal::default()).await;
    leader.until_leading(Epoch(0)).await;
    let zone = name("a.");
    leader.publish(&zone, b"first").await.expect("it leads");
    let large = vec![7; 8 << 20];
    let tip = leader.publish(&zone, &large).await.expect("it leads");
    // One that has nothing, and one whose disk has another history.
    let other = MemoryJournal::default();
    let elsewhere = Api::start().await;
    let alone = Installation::new(elsewhere.auth());
    let stranger = alone.start("x", &other).await;
    stranger.until_leading(Epoch(0)).await;
    stranger
        .publish(&zone, b"of another installation")
        .await
        .expect("it leads");
    stranger.kill().await;
    for (id, journal) in [("b", &MemoryJournal::default()), ("x", &other)] {
        let follower = installation.start(id, journal).await;
        follower.until_shown(&zone, tip).await;
        assert_eq!(journal.versions(&zone), leader.journal.versions(&zone));
        follower.kill().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_the_death_of_the_leader_another_one_leads_in_time_and_nothing_is_lost() {
    let three = three().await;
    let zones = three.installation.zones.clone();
    let newest = publish_many(&three.leader, &zones, 5).await;
    three.installation.forget(&three.leader);
    let begin = tokio::time::Instant::now();
    three.leader.kill().await;
    let (leader, epoch, others) = first_to_lead(three.followers, three.epoch).await;
    let took = begin.elapsed();
    println!("a new leader after {} ms", took.as_millis());
    let limit = three.installation.settings.lease_duration + Duration::from_secs(3);
    assert!(took < limit, "{took:?}");
    assert!(epoch > three.epoch);
    for (zone, before) in &newest {
        leader.until_shown(zone, *before).await;
        let tip = leader.publish(zone, b"after").await.expect("it leads");
        assert!(tip.serial.is_after(before.serial) && tip.seq == before.seq + 1);
        others[0].until_shown(zone, tip).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_planned_handover_takes_less_than_half_a_second() {
    let three = three().await;
    let zones = three.installation.zones.clone();
    publish_many(&three.leader, &zones, 3).await;
    let begin = tokio::time::Instant::now();
    three.leader.handle.leave().await.expect("it runs");
    let released = begin.elapsed();
    let told = three.leader.told();
    assert!(told.contains(&Told::Stop(Loss::Released)), "{told:?}");
    let (leader, epoch, _others) = first_to_lead(three.followers, three.epoch).await;
    let took = begin.elapsed();
    println!("released after {released:?}, another leads after {took:?}");
    assert!(took < Duration::from_millis(500), "{took:?}");
    assert!(epoch > three.epoch);
    leader.publish(&zones[0], b"after").await.expect("it leads");
    // A replica that follows leaves at once.
    leader.handle.leave().await.expect("it runs");
    assert!(three.leader.end().await.is_none());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_that_was_deleted_is_made_again_from_what_the_disks_know() {
    let three = three().await;
    let zones = three.installation.zones.clone();
    let newest = publish_many(&three.leader, &zones, 3).await;
    three.api.delete();
    let deleted = |told: &[Told]| told.contains(&Told::Stop(Loss::Deleted)).then_some(());
    three.leader.until("it stops", deleted).await;
    let mut members = three.followers;
    members.push(three.leader);
    let (leader, epoch, others) = first_to_lead(members, three.epoch).await;
    assert!(epoch > three.epoch);
    let lease = three.api.current_lease().expect("it is there again");
    assert_eq!(lease["metadata"]["uid"], json!("uid-2"));
    for (zone, before) in &newest {
        let tip = leader.publish(zone, b"after").await.expect("it leads");
        assert!(tip.serial.is_after(before.serial) && tip.seq > before.seq);
        for member in &others {
            member.until_shown(zone, tip).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_does_not_reach_the_api_server_stops_and_goes_on_later() {
    let three = three().await;
    three.api.set_away(true);
    let expired = |told: &[Told]| told.contains(&Told::Stop(Loss::Expired)).then_some(());
    three.leader.until("it stops", expired).await;
    let zone = three.installation.zones[0].clone();
    assert_eq!(
        three.leader.publish(&zone, b"x").await,
        Err(Refused::NotLeading)
    );
    three.api.set_away(false);
    let mut members = three.followers;
    members.push(three.leader);
    let (leader, _, _others) = first_to_lead(members, three.epoch).await;
    leader.publish(&zone, b"y").await.expect("it leads");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_follower_whose_disk_is_full_leaves_the_set_and_comes_back() {
    let mut three = three().await;
    let zone = three.installation.zones[0].clone();
    let follower = three.followers.remove(0);
    follower.journal.set_full(true);
    three
        .leader
        .publish(&zone, b"without it")
        .await
        .expect("it leads");
    three.leader.until_in_sync(2).await;
    follower.journal.set_full(false);
    three.leader.until_in_sync(3).await;
    let tip = three
        .leader
        .publish(&zone, b"with it")
        .await
        .expect("it leads");
    follower.until_shown(&zone, tip).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_whose_sync_fails_ends() {
    let api = Api::start().await;
    let installation = Installation::new(api.auth());
    let journal = MemoryJournal::default();
    let mut alone = installation.start("a", &journal).await;
    alone.until_leading(Epoch(0)).await;
    let permit = alone.handle.permit(name("a.")).await.expect("it leads");
    journal.break_sync();
    let step = crate::testing::step_after(&permit, b"x");
    // A vow may have met the broken disk before: then it has ended already.
    alone.handle.propose(step).await.ok();
    let error = alone.ended().await;
    assert!(matches!(error, Some(DriverError::Disk(_))), "{error:?}");
    assert!(journal.versions(&name("a.")).is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_burst_of_changes_waits_for_the_ceiling_and_goes_on() {
    let three = three().await;
    let zone = three.installation.zones[0].clone();
    // More than the reserve of the ceiling.
    let count = 400;
    let begin = tokio::time::Instant::now();
    let newest = publish_many(&three.leader, std::slice::from_ref(&zone), count).await;
    println!("{count} versions in {} ms", begin.elapsed().as_millis());
    let tip = newest[&zone];
    assert_eq!(tip.seq, u64::from(count));
    for member in &three.followers {
        member.until_shown(&zone, tip).await;
    }
    let lease = three.api.current_lease().expect("it is there");
    let ceiling = lease["metadata"]["annotations"]["zonewright.dev/ceiling"].as_str();
    let ceiling: u32 = ceiling
        .and_then(|it| it.parse().ok())
        .expect("it is a number");
    assert!(
        !tip.serial.is_after(Serial::decode(ceiling)),
        "{tip:?} {ceiling}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_was_restarted_leads_again_at_once_in_a_new_epoch() {
    let three = three().await;
    let zones = three.installation.zones.clone();
    let newest = publish_many(&three.leader, &zones, 3).await;
    three.installation.forget(&three.leader);
    let journal = three.leader.journal.clone();
    three.leader.kill().await;
    let begin = tokio::time::Instant::now();
    let again = three.installation.start("a", &journal).await;
    let epoch = again.until_leading(three.epoch).await;
    let took = begin.elapsed();
    println!("leads again after {} ms", took.as_millis());
    assert!(epoch > three.epoch && took < three.installation.settings.lease_duration);
    let tip = again.publish(&zones[0], b"after").await.expect("it leads");
    assert!(tip.serial.is_after(newest[&zones[0]].serial));
    for member in &three.followers {
        member.until_shown(&zones[0], tip).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fixed_roles_need_no_api_server_and_a_follower_finds_the_epoch_by_itself() {
    let nowhere = Auth::Endpoint {
        url: "http://127.0.0.1:1".to_owned(),
        tls: None,
    };
    let installation = Installation::new(nowhere);
    let zone = installation.zones[0].clone();
    let journal = MemoryJournal::default();
    for start in 1..=2_u8 {
        let primary = Role::Fixed(FixedRole::Primary);
        let primary = installation.start_as("p", &journal, primary).await;
        let epoch = primary.until_leading(Epoch(0)).await;
        assert_eq!(epoch, Epoch(start.into()));
        let role = FixedRole::Follow(primary.address.clone());
        let follower = MemoryJournal::default();
        let follower = installation
            .start_as("f", &follower, Role::Fixed(role))
            .await;
        primary.until_in_sync(2).await;
        let tip = primary.publish(&zone, &[start]).await.expect("it leads");
        follower.until_shown(&zone, tip).await;
        assert_eq!(follower.journal.versions(&zone), journal.versions(&zone));
        installation.forget(&follower);
        installation.forget(&primary);
        assert!(follower.end().await.is_none() && primary.end().await.is_none());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_that_has_ended_says_so() {
    let api = Api::start().await;
    let installation = Installation::new(api.auth());
    let alone = installation.start("a", &MemoryJournal::default()).await;
    alone.until_leading(Epoch(0)).await;
    let handle = alone.handle.clone();
    assert!(alone.end().await.is_none());
    assert_eq!(handle.leave().await, Err(Gone));
    assert_eq!(handle.permit(name("a.")).await, Err(Refused::Gone(Gone)));
}

/// Bytes a second of the slow network.
const RATE: usize = 2 << 20;

/// Forwards connections; what comes back from the target is slow.
async fn slow_proxy(listener: TcpListener, target: String) {
    let mut connections = JoinSet::new();
    while let Ok((near, _)) = listener.accept().await {
        let target = target.clone();
        connections.spawn(async move {
            let far = TcpStream::connect(target).await?;
            let (mut from_near, mut to_near) = near.into_split();
            let (mut from_far, mut to_far) = far.into_split();
            let slow = async {
                let mut bytes = vec![0; RATE / 20];
                loop {
                    let count = from_far.read(&mut bytes).await?;
                    if count == 0 {
                        return io::Result::Ok(());
                    }
                    let micros = count * 1_000_000 / RATE;
                    let wait = Duration::from_micros(micros.try_into().expect("it is short"));
                    tokio::time::sleep(wait).await;
                    to_near.write_all(&bytes[..count]).await?;
                }
            };
            tokio::select! {
                end = slow => end,
                end = tokio::io::copy(&mut from_near, &mut to_far) => end.map(drop),
            }
        });
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_snapshot_that_takes_longer_than_the_patience_of_a_follower_arrives() {
    let api = Api::start().await;
    let installation = Installation::new(api.auth());
    let listener = Listener::bind("127.0.0.1:0".parse().expect("an address")).await;
    let listener = listener.expect("a port is free");
    let target = listener.address().expect("it is bound").to_string();
    let front = TcpListener::bind("127.0.0.1:0")
        .await
        .expect("a port is free");
    let address = front.local_addr().expect("it is bound").to_string();
    let mut proxies = JoinSet::new();
    proxies.spawn(slow_proxy(front, target));
    let role = installation.lease_role().await;
    let journal = MemoryJournal::default();
    let leader = installation.start_at("a", &journal, role, listener, address);
    leader.until_leading(Epoch(0)).await;
    let zone = name("a.");
    // Four seconds; a follower gives up after two without a frame.
    let tip = leader
        .publish(&zone, &vec![7; 4 * RATE])
        .await
        .expect("it leads");
    let begin = tokio::time::Instant::now();
    let follower = installation.start("b", &MemoryJournal::default()).await;
    follower.until_shown(&zone, tip).await;
    let took = begin.elapsed();
    assert!(
        took > Duration::from_secs(3) && took < Duration::from_secs(20),
        "{took:?}"
    );
    leader.until_in_sync(2).await;
}
