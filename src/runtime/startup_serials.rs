//! What secondaries have is asked when they are configured: at the start, before anything new is published.

use std::sync::Arc;

use ops::{Clock, Tasks};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use transfer::{AskSettings, AskedSecondary, SecondaryTable, ask_serials};
use writer::Input;

/// Asks the secondaries what they have, and tells the writer, which publishes nothing before.
pub(crate) fn ask_secondaries(
    told: Vec<AskedSecondary>,
    table: &Arc<SecondaryTable>,
    inputs: &mpsc::Sender<Input>,
    stop: &CancellationToken,
    tasks: &mut Tasks,
    clock: &Arc<dyn Clock>,
) {
    if told.is_empty() {
        return;
    }
    let (inputs, clock, cancel) = (inputs.clone(), Arc::clone(clock), stop.clone());
    let table = Arc::clone(table);
    tasks.spawn_until("asking of secondaries", stop, async move {
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
            () = cancel.cancelled() => {}
        }
        drop(inputs);
        // A task ends when it is told to, not before.
        cancel.cancelled().await;
        Ok::<_, std::convert::Infallible>(())
    });
}
