//! The callers of orders, and their answers.

use dns::Serial;
use tokio::sync::oneshot;

/// The answer to an order: the serial of the version, or the reason for a refusal.
pub type Released = Result<Serial, String>;

/// Answers callers; some may be gone.
pub(super) fn answer(asked: Vec<oneshot::Sender<Released>>, answer: &Released) {
    for asked in asked {
        let _gone = asked.send(answer.clone());
    }
}
