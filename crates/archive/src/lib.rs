//! Segments of the history in a folder or a bucket.
//!
//! An archive is named by a URL: `file:///var/backups/dns`, `s3://bucket/dns`, `gs://bucket/dns`, `az://container/dns`. Keys,
//! tokens and endpoints come from the environment, under the names that the tools of each provider know:
//! `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY`, `AWS_REGION`, `AWS_ENDPOINT_URL`, and so on. So no secret is in a Corefile or in the
//! state folder.

mod address;
mod stores;

pub use address::{Address, BadAddress};
pub use stores::Stores;
