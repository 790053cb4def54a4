//! Three replicas in one process, over TLS on loopback, with journals in memory and an API server that knows one Lease.

mod api;
mod installation;
mod lease;
