//! `hosts`.

use super::case::Case;

/// All cases.
pub const CASES: &[Case] = &[];
