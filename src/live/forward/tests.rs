//! `forward` over sockets of this process.
