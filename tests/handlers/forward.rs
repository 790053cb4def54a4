//! `forward`: upstreams that answer, fail, are slow, silent or gone.

use super::case::{Case, case};

/// All cases.
pub const CASES: &[Case] = &[case(
    "chaos stands in",
    "chaos one",
    "version.bind TXT CH\nversion.bind TXT CH +tcp",
)];
