//! The parts of the comparison with CoreDNS: `cluster` makes clusters, `options` says what both servers are
//! told, `servers` starts them, `names` says what they are asked, `answer` how, `oracle` and `rules` what
//! we have to answer, given what CoreDNS does, and `plants` which faults the comparison is tried against.

pub mod answer;
pub mod cluster;
pub mod names;
pub mod options;
pub mod oracle;
pub mod plants;
pub mod rules;
pub mod servers;
pub mod shape;
