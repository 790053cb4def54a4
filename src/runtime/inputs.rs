//! The inputs of the writer, apart from who sends them.

use ops::Tasks;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use writer::Input;

/// Keeps the writer's inputs open until the sources end: a Corefile may have no zone, and then nobody else
/// does.
pub(crate) fn hold_inputs(
    inputs: mpsc::Sender<Input>,
    sources: &CancellationToken,
    tasks: &mut Tasks,
) {
    let end = sources.clone();
    tasks.spawn_until("inputs", sources, async move {
        end.cancelled().await;
        drop(inputs);
        Ok::<(), std::convert::Infallible>(())
    });
}
