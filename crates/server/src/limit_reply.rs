//! Applies the limit on replies to a reply that is ready for a datagram.

use std::net::IpAddr;

use dns::edns::Wishes;
use dns::{Query, Rcode, flags};
use transfer::unix_seconds;

use crate::exchange::{Asker, Exchange, Scratch, Signer};
use crate::rate_limit::{Kind, Verdict};
use crate::shared::Shared;

impl Shared {
    /// Applies the limit of its block to a reply that is ready for a datagram. Returns whether there is one to send.
    pub(crate) fn limit_reply(&self, scratch: &mut Scratch, raw: &[u8], asker: Asker<'_>) -> bool {
        let address = asker.address.ip();
        let found = scratch.noted.found;
        let block = found.and_then(|found| self.router.blocks().get(found.block));
        let limit = block.map_or(&self.rate_limit, |block| &block.rate_limit);
        if !limit.limits(address) || self.names(address) {
            return true;
        }
        // The reply to what cannot be read is not larger.
        let Ok(query) = Query::parse(raw) else {
            return true;
        };
        scratch.lower.clear();
        if !query.question.is_empty() {
            scratch.lower.extend_from_slice(query.name());
        }
        scratch.lower.make_ascii_lowercase();
        let rcode = scratch.noted.rcode;
        let kind = kind_of(
            scratch.writer.octets(),
            rcode,
            found.map(|found| found.key),
            &scratch.lower,
        );
        let now = unix_seconds(&*self.clock);
        let verdict = self.reply_rates.judge(limit, address, kind, now);
        let is_signed = query.tsig_at.is_some() && rcode != Rcode::NOTAUTH;
        let wishes = query.opt.and_then(|opt| opt.wishes()).unwrap_or_default();
        if verdict == Verdict::Send || is_signed || self.has_good_cookie(&wishes, address) {
            return true;
        }
        // It was counted as it was written.
        self.stats.replies(asker.proto, rcode).decrease();
        if verdict == Verdict::Drop {
            self.stats.rate_dropped.increase();
            return false;
        }
        self.stats.rate_slipped.increase();
        let exchange = Exchange {
            shared: self,
            query,
            asker,
            wishes,
            signer: Signer::None,
        };
        exchange.ask_over_tcp(scratch);
        true
    }

    /// Whether a request has a cookie of ours that is good.
    pub(crate) fn has_good_cookie(&self, wishes: &Wishes<'_>, address: IpAddr) -> bool {
        wishes.cookie.is_some_and(|(client, server)| {
            let now = unix_seconds(&*self.clock);
            self.identity.cookies.is_good(client, server, address, now)
        })
    }
}

/// The kind of a reply.
fn kind_of<'a>(reply: &[u8], rcode: Rcode, key: Option<usize>, name: &'a [u8]) -> Kind<'a> {
    let number = |at: usize| {
        reply
            .get(at..at + 2)
            .map_or(0, |two| u16::from_be_bytes([two[0], two[1]]))
    };
    let (flags, answers) = (number(2), number(6));
    match rcode {
        Rcode::NXDOMAIN => Kind::Missing(key),
        Rcode::NOERROR if answers > 0 => Kind::Positive(name),
        Rcode::NOERROR if flags & flags::AA != 0 => Kind::NoData(key),
        Rcode::NOERROR => Kind::Referral(key),
        other => Kind::Error(other),
    }
}
