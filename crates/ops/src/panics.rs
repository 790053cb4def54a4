//! Work that may panic without taking others with it.

use std::panic::AssertUnwindSafe;

use futures_util::FutureExt;

use crate::panic_text;

/// Does work for one client or item; a panic ends that alone, is logged, and gives its text.
///
/// # Errors
/// The text of the panic.
pub async fn catch_panic<T>(work: impl Future<Output = T>) -> Result<T, String> {
    // What the work held is gone with it.
    let done = AssertUnwindSafe(work).catch_unwind().await;
    done.map_err(|panic| {
        let text = panic_text(&*panic);
        tracing::error!("Recovered from panic in server: {text}");
        text
    })
}
