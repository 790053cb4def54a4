//! Follows zone files as they change.
