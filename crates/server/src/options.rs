//! The EDNS options of a reply: each only when it was asked for, but for extended errors.

use std::sync::atomic::Ordering;

use dns::Rtype;
use dns::edns::{
    COOKIE, EXPIRE, EXTENDED_ERROR, KEEPALIVE, NSID, Wishes, ZONEVERSION, push_option,
};
use transfer::unix_seconds;
use zone::Version;

use crate::Proto;
use crate::chain::NOT_AUTHORITATIVE;
use crate::exchange::Exchange;
use crate::zones::{NOT_READY, STALE};

/// The most octets of an extended error.
const EXTENDED_TEXT_OCTETS: usize = 256;

/// An extended error (RFC 8914 section 5.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Extended(pub(super) u16);

impl Extended {
    /// Something else, which a text says.
    pub(super) const OTHER: Self = Self(0);
    /// The source is away or a change is held back, the data may be old.
    pub(crate) const STALE: Self = Self(STALE);
    /// The zone has no version yet.
    pub(crate) const NOT_READY: Self = Self(NOT_READY);
    /// The peer may not.
    pub(super) const PROHIBITED: Self = Self(18);
    /// The zone is not ours.
    pub(super) const NOT_AUTHORITATIVE: Self = Self(NOT_AUTHORITATIVE);
    /// What is asked for is not something we do, or not this way.
    pub(super) const NOT_SUPPORTED: Self = Self(21);
}

/// What the options of a reply may tell.
#[derive(Clone, Copy, Default)]
pub(crate) struct Said<'a> {
    /// An extended error.
    pub(super) ede: Option<Extended>,
    /// Extended errors of handlers, with text.
    pub more: &'a [(u16, String)],
    /// The version that the answer is from.
    pub version: Option<&'a Version>,
}

impl<'a> Said<'a> {
    /// An answer from a version.
    pub(crate) fn of(version: &'a Version) -> Self {
        Self {
            version: Some(version),
            ..Self::default()
        }
    }
}

impl Exchange<'_> {
    /// Puts the options of the reply in place of those that are there, padding left out. A request without
    /// OPT gets none.
    pub(super) fn collect_options(&self, options: &mut Vec<u8>, said: Said<'_>) {
        options.clear();
        if self.query.opt.is_none() {
            return;
        }
        if let Some(ede) = said.ede {
            push_option(options, EXTENDED_ERROR, &ede.0.to_be_bytes());
        }
        for (code, text) in said.more {
            let mut data = code.to_be_bytes().to_vec();
            data.extend_from_slice(text.as_bytes());
            // Longer ones are not ours, and no client reads them.
            data.truncate(EXTENDED_TEXT_OCTETS);
            push_option(options, EXTENDED_ERROR, &data);
        }
        if self.wishes != Wishes::default() {
            self.grant_wishes(options, said.version);
        }
    }

    /// What was asked for, as far as we have it.
    fn grant_wishes(&self, options: &mut Vec<u8>, version: Option<&Version>) {
        let shared = self.shared;
        // Padding is put in at the end.
        let Wishes {
            nsid,
            expire,
            cookie,
            keepalive,
            padding: _,
            zone_version,
        } = self.wishes;
        if nsid && let Some(nsid) = &shared.identity.nsid {
            push_option(options, NSID, nsid);
        }
        if let Some((client, server)) = cookie {
            let now = unix_seconds(&*shared.clock);
            let address = self.asker.address.ip();
            let cookies = &shared.identity.cookies;
            let server = cookies.server_cookie(client, server, address, now);
            let mut both = [0; 24];
            both[..8].copy_from_slice(client);
            both[8..].copy_from_slice(&server);
            push_option(options, COOKIE, &both);
        }
        // RFC 7828 section 3.2: never over UDP; in units of 100 ms; 0 asks the client to close. HTTP has its own way.
        if keepalive && matches!(self.asker.proto, Proto::Tcp | Proto::Tls) {
            let units = if shared.draining.load(Ordering::Relaxed) {
                0
            } else {
                let units = shared.settings.tcp.idle_timeout.as_millis() / 100;
                u16::try_from(units).unwrap_or(u16::MAX)
            };
            push_option(options, KEEPALIVE, &units.to_be_bytes());
        }
        let Some(version) = version else {
            return;
        };
        // RFC 7314 section 3.2: on SOA, AXFR and IXFR; a primary says what stands in the SOA.
        if expire && self.asks_for_zone(version) {
            let seconds = version.contents.soa().expire.seconds();
            push_option(options, EXPIRE, &seconds.to_be_bytes());
        }
        if zone_version {
            // RFC 9660 section 2: labels of the zone, type 0 (the SOA's serial), the serial.
            let mut data = [0; 6];
            let labels = version.contents.apex().label_count();
            data[0] = u8::try_from(labels).expect("a name has at most 127 labels");
            data[2..].copy_from_slice(&version.serial.encode().to_be_bytes());
            push_option(options, ZONEVERSION, &data);
        }
    }

    /// Whether the question is for the zone as a whole: its SOA, or a transfer.
    fn asks_for_zone(&self, version: &Version) -> bool {
        let apex = version.contents.apex().as_wire();
        let qtype = self.query.qtype();
        [Rtype::SOA, Rtype::AXFR, Rtype::IXFR].contains(&qtype)
            && self.query.name().eq_ignore_ascii_case(apex)
    }
}
