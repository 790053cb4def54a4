//! Secondaries are asked for their serials when they are configured: at the start, before anything new is published.

use std::sync::Arc;

use ops::{Clock, Tasks};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use transfer::{AskSettings, AskedSecondary, SecondaryTable, ask_serials};
use writer::Input;

/// Asks secondaries for their serials and tells the writer, which may wait for that; where there are none, too.
pub(crate) fn ask_secondaries(
    told: Vec<AskedSecondary>,
    table: &Arc<SecondaryTable>,
    inputs: &mpsc::Sender<Input>,
    stop: &CancellationToken,
    tasks: &mut Tasks,
    clock: &Arc<dyn Clock>,
) {
    let (inputs, clock, table) = (inputs.clone(), Arc::clone(clock), Arc::clone(table));
    let (stop, done) = (stop.clone(), stop.child_token());
    tasks.spawn_until("asking of secondaries", &done.clone(), async move {
        let asking = ask_serials(told, AskSettings::default(), clock);
        tokio::select! {
            heard = asking => {
                for (secondary, serial) in &heard {
                    table.heard(&secondary.zone, secondary.target, *serial);
                }
                let serials = heard.into_iter().map(|(secondary, serial)| (secondary.zone, serial));
                let serials = serials.collect();
                // A writer that is gone has said why.
                inputs.send(Input::Secondaries(serials)).await.ok();
            }
            () = stop.cancelled() => {}
        }
        done.cancel();
        Ok::<_, std::convert::Infallible>(())
    });
}
