//! Answers in pieces: their readers, their turns, and their time.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};

use tokio::sync::Semaphore;

use super::*;

/// How long a test waits for what comes at once.
const SOON: Duration = Duration::from_secs(60);

const TIMES: ReaderTimes = ReaderTimes {
    pause: SOON,
    most: SOON,
};

async fn next(pieces: &mut mpsc::Receiver<Piece>) -> Option<Piece> {
    let piece = tokio::time::timeout(SOON, pieces.recv()).await;
    piece.expect("a piece or the end comes")
}

/// Begins an answer of so many full pieces, with the only turn of all readers. The answer says how it ended.
async fn begun(
    count: usize,
    times: ReaderTimes,
) -> (
    mpsc::Receiver<Piece>,
    Arc<Semaphore>,
    Receiver<Result<(), AuditError>>,
) {
    let shared = Arc::new(Semaphore::new(1));
    let turns = Turns::within(&shared);
    let turn = turns.take().await;
    let (ended, end) = channel();
    let work = move |_: &Making, out: &mut dyn io::Write| {
        let written = (0..count).try_for_each(|_| out.write_all(&[7; PIECE]));
        let written = written.map_err(AuditError::from);
        ended.send(written).expect("the test waits for it");
        Ok(())
    };
    let pieces = begin(work, times, (turn, turns), ()).expect("a thread can be started");
    (pieces, shared, end)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_comes_in_pieces_with_its_end() {
    let (mut pieces, shared, _end) = begun(9, TIMES).await;
    let mut octets = 0;
    let end = loop {
        match next(&mut pieces).await.expect("it does not break off") {
            Piece::Text(text) => octets += text.len(),
            Piece::End(end) => break end,
        }
    };
    assert!(end.is_ok());
    assert_eq!(octets, 9 * PIECE);
    assert!(next(&mut pieces).await.is_none());
    let turn = tokio::time::timeout(SOON, shared.acquire()).await;
    assert!(turn.expect("the turn is given back").is_ok());
}

#[tokio::test(flavor = "multi_thread")]
async fn while_a_reader_takes_nothing_others_have_the_turn() {
    let (mut pieces, shared, end) = begun(9, TIMES).await;
    let turn = tokio::time::timeout(SOON, shared.acquire()).await;
    let turn = turn.expect("the thread waits without it").unwrap();
    // It holds no more than the queue and the piece that waits.
    assert_eq!(pieces.len(), QUEUE);
    assert!(next(&mut pieces).await.is_some());
    assert!(end.try_recv().is_err(), "it goes on only with a turn");
    drop(turn);
    while let Some(piece) = next(&mut pieces).await {
        if let Piece::End(answered) = piece {
            assert!(answered.is_ok());
        }
    }
    assert!(end.recv_timeout(SOON).unwrap().is_ok());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_that_pauses_too_long_gets_no_end() {
    for times in [
        ReaderTimes {
            pause: Duration::from_millis(1),
            most: SOON,
        },
        ReaderTimes {
            pause: SOON,
            most: Duration::from_millis(1),
        },
    ] {
        let (mut pieces, _shared, end) = begun(9, times).await;
        let error = end.recv_timeout(SOON).unwrap().unwrap_err();
        assert!(matches!(&error, AuditError::Write(why) if why.kind() == io::ErrorKind::TimedOut));
        while let Some(piece) = next(&mut pieces).await {
            assert!(matches!(piece, Piece::Text(_)), "{piece:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_thread_of_a_reader_that_left_ends() {
    let (pieces, _shared, end) = begun(9, TIMES).await;
    drop(pieces);
    let error = end.recv_timeout(SOON).unwrap().unwrap_err();
    assert!(matches!(&error, AuditError::Write(why) if why.kind() == io::ErrorKind::BrokenPipe));
}

/// Begins an answer that writes nothing, until it may not go on. It says why.
fn busy(times: ReaderTimes, turn: Option<Turn>, turns: Turns) -> mpsc::Receiver<Piece> {
    let work = |making: &Making, _: &mut dyn io::Write| {
        loop {
            making.go_on()?;
            std::thread::yield_now();
        }
    };
    begin(work, times, (turn, turns), ()).expect("a thread can be started")
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_writes_nothing_ends_when_its_time_is_over() {
    let times = ReaderTimes {
        pause: SOON,
        most: Duration::from_millis(20),
    };
    let mut pieces = busy(times, None, Turns::within(&Turns::of_all()));
    let Some(Piece::End(Err(why))) = next(&mut pieces).await else {
        panic!("it fails");
    };
    assert!(why.to_string().contains("longer than"), "{why}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_works_for_long_passes_its_turn_on_and_ends_without_its_reader() {
    let shared = Arc::new(Semaphore::new(1));
    let turns = Turns::within(&shared);
    let turn = turns.take().await;
    let pieces = busy(TIMES, turn, turns);
    for _ in 0..2 {
        let turn = tokio::time::timeout(SOON, shared.acquire()).await;
        drop(turn.expect("it passes the turn on").unwrap());
    }
    drop(pieces);
    let turn = tokio::time::timeout(SOON, shared.acquire()).await;
    drop(turn.expect("it has ended").unwrap());
}
