//! `any`: one record for questions of type ANY.

pub(crate) mod handler;
