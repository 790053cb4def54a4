//! Serials of peers for the writer: secondaries are asked when they are configured, at the start before anything new is
//! published; later each peer that asks for what comes after a serial that is ahead of ours.

use std::convert::Infallible;
use std::sync::Arc;

use ops::{Clock, Tasks};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use transfer::{AskSettings, AskedSecondary, SecondaryTable, ask_serials};
use writer::{AskId, Input};

/// Asks secondaries for their serials and tells the writer, which may wait for that; where there are none, too.
pub(crate) fn ask_secondaries(
    ask: AskId,
    asked: Vec<AskedSecondary>,
    table: &Arc<SecondaryTable>,
    inputs: &mpsc::Sender<Input>,
    stop: &CancellationToken,
    tasks: &mut Tasks,
    clock: &Arc<dyn Clock>,
) {
    let (inputs, clock, table) = (inputs.clone(), Arc::clone(clock), Arc::clone(table));
    let (stop, done) = (stop.clone(), stop.child_token());
    tasks.spawn_until("asking of secondaries", &done.clone(), async move {
        let asking = ask_serials(asked, AskSettings::default(), clock);
        tokio::select! {
            serials = asking => {
                for reported in &serials {
                    table.heard(&reported.zone, reported.peer, reported.serial);
                }
                // A writer that is gone has said why.
                inputs.send(Input::Secondaries { ask, serials }).await.ok();
            }
            () = stop.cancelled() => {}
        }
        done.cancel();
        Ok::<_, Infallible>(())
    });
}

/// Tells the writer of peers that have a later serial than ours, until it ends.
pub(crate) fn follow_peers(
    table: &Arc<SecondaryTable>,
    inputs: &mpsc::Sender<Input>,
    stop: &CancellationToken,
    tasks: &mut Tasks,
) {
    // This task does not keep the writer alive.
    let (inputs, table, cancelled) = (inputs.downgrade(), Arc::clone(table), stop.clone());
    tasks.spawn_until("peers ahead of us", stop, async move {
        loop {
            let reports = tokio::select! {
                reports = table.ahead.take() => reports,
                () = cancelled.cancelled() => return Ok::<_, Infallible>(()),
            };
            for report in reports {
                let Some(inputs) = inputs.upgrade() else {
                    return Ok(());
                };
                // A writer that is gone has said why.
                inputs.send(Input::Ahead(report)).await.ok();
            }
        }
    });
}
