//! The EDNS options of a reply. Each needs an option of the request, except for extended errors.

use std::sync::atomic::Ordering;

use dns::Rtype;
use dns::edns::{
    COOKIE, EXPIRE, EXTENDED_ERROR, KEEPALIVE, MOST_EXTENDED_ERRORS, MOST_EXTENDED_OCTETS, NSID,
    OPTION_HEAD_OCTETS, Wishes, ZONEVERSION, cut, push_option,
};
use dns::{HEADER_OCTETS, OPT_OCTETS};
use transfer::unix_seconds;
use zone::Version;

use crate::Proto;
use crate::chain::NOT_AUTHORITATIVE;
use crate::exchange::Exchange;
use crate::zones::{NOT_READY, STALE};

/// An extended error (RFC 8914 section 5.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Extended(pub(super) u16);

impl Extended {
    /// Another error, which a text describes.
    pub(super) const OTHER: Self = Self(0);
    /// The source is away or a change is held back, so the data may be old.
    pub(crate) const STALE: Self = Self(STALE);
    /// The zone has no version yet.
    pub(crate) const NOT_READY: Self = Self(NOT_READY);
    /// The peer has no access.
    pub(super) const PROHIBITED: Self = Self(18);
    /// The server has no such zone.
    pub(super) const NOT_AUTHORITATIVE: Self = Self(NOT_AUTHORITATIVE);
    /// The server does not support the request, or not over this transport.
    pub(super) const NOT_SUPPORTED: Self = Self(21);
}

/// The contents of a reply's options.
#[derive(Clone, Copy, Default)]
pub(crate) struct Said<'a> {
    /// An extended error.
    pub(super) ede: Option<Extended>,
    /// Extended errors of handlers, with text.
    pub more: &'a [(u16, String)],
    /// The version that the answer comes from.
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
    /// Replaces the options of the reply, without padding. If the request has no OPT, there are none.
    pub(super) fn collect_options(&self, options: &mut Vec<u8>, said: Said<'_>) {
        options.clear();
        if self.query.opt.is_none() {
            return;
        }
        if let Some(ede) = said.ede {
            push_option(options, EXTENDED_ERROR, &ede.0.to_be_bytes());
        }
        if self.wishes != Wishes::default() {
            self.grant_wishes(options, said.version);
        }
        if !said.more.is_empty() {
            self.push_errors(options, said.more);
        }
    }

    /// What handlers say of errors, as far as it fits behind the question: a server behind us may say much.
    fn push_errors(&self, options: &mut Vec<u8>, errors: &[(u16, String)]) {
        let rest = HEADER_OCTETS + self.query.question.len() + OPT_OCTETS + self.tsig_octets();
        let room = self.most_octets().saturating_sub(rest + options.len());
        let end = options.len() + room.min(MOST_EXTENDED_OCTETS);
        for (code, text) in errors.iter().take(MOST_EXTENDED_ERRORS) {
            let head = OPTION_HEAD_OCTETS + size_of_val(code);
            let Some(room) = end.checked_sub(options.len() + head) else {
                return;
            };
            let data = [&code.to_be_bytes(), cut(text, room).as_bytes()].concat();
            push_option(options, EXTENDED_ERROR, &data);
        }
    }

    /// Adds the options that the client asked for.
    fn grant_wishes(&self, options: &mut Vec<u8>, version: Option<&Version>) {
        let shared = self.shared;
        // Padding is added at the end.
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
        // RFC 7828 section 3.2: never over UDP; in units of 100 ms; 0 asks the client to close. HTTP has its own
        // timeouts.
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
        // RFC 7314 section 3.2: on SOA, AXFR and IXFR. A primary sends the SOA's value.
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

    /// Whether the question is for the whole zone: its SOA, or a transfer.
    fn asks_for_zone(&self, version: &Version) -> bool {
        let apex = version.contents.apex().as_wire();
        let qtype = self.query.qtype();
        [Rtype::SOA, Rtype::AXFR, Rtype::IXFR].contains(&qtype)
            && self.query.name().eq_ignore_ascii_case(apex)
    }
}
