//! Panics that end one piece of work and no other.

use std::any::Any;
use std::panic::AssertUnwindSafe;

use futures_util::FutureExt;

/// Does work for one client or item; a panic ends only this work, and is logged.
///
/// # Errors
/// The text of the panic.
pub async fn catch_panic<T>(work: impl Future<Output = T>) -> Result<T, String> {
    let done = AssertUnwindSafe(work).catch_unwind().await;
    done.map_err(|panic| {
        let text = panic_text(&*panic);
        tracing::error!("Recovered from panic in server: {text}");
        text
    })
}

/// The text of a panic.
#[must_use]
pub fn panic_text(payload: &(dyn Any + Send)) -> String {
    payload
        .downcast_ref::<&str>()
        .map(ToString::to_string)
        .or_else(|| payload.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "no text".into())
}
