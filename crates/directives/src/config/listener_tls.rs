//! What `tls`, `tls://` keys, `nsid` and `transfer` say together: checked for each listener.

use corefile::place::Report;
use dns::Name;
use transfer::TlsDemand;

use crate::config::blocks::{Config, ServerBlock};
use crate::config::listener::Listener;
use crate::config::zone::Scheme;
use crate::nsid::Nsid;
use crate::tls::{ClientAuth, Tls};

/// The certificate of a listener: that of the first of its blocks that has one.
#[must_use]
pub fn tls_of<'a>(blocks: &[&'a ServerBlock]) -> Option<&'a Tls> {
    blocks.iter().find_map(|block| block.tls.as_ref())
}

/// The name of a server of some blocks: that of the first that has one.
#[must_use]
pub fn nsid_of<'a>(blocks: &[&'a ServerBlock]) -> Option<&'a Nsid> {
    blocks.iter().find_map(|block| block.nsid.as_ref())
}

/// Reports what does not go together.
pub(crate) fn check(servers: &[ServerBlock], report: &mut Report) {
    let config = Config {
        servers: servers.to_vec(),
    };
    for (listener, blocks) in config.listeners() {
        if listener.scheme == Scheme::Tls {
            check_certificate(&listener, &blocks, report);
        }
        let first = nsid_of(&blocks);
        for block in &blocks {
            if block.nsid.is_some() && block.nsid.as_ref() != first {
                let message = "another block on this listener has another nsid, which counts";
                report.warn(&block.place, message, "write the same in both");
            }
        }
    }
    for block in servers {
        let has_tls = block.zones.iter().any(|key| key.scheme == Scheme::Tls);
        if let Some(tls) = &block.tls
            && !has_tls
        {
            let message = "no key of this block begins with tls://: the certificate is not used";
            report.warn(
                &tls.place,
                message,
                "write tls://ZONE as a key, or take it out",
            );
        }
        check_demands(block, has_tls, report);
    }
}

/// Reports who must use TLS for a zone that is not served over it.
fn check_demands(block: &ServerBlock, has_tls: bool, report: &mut Report) {
    for transfer in &block.transfers {
        let is_of_this = |zone: &&Name| {
            let closest = block.transfer_for(zone);
            closest.is_some_and(|closest| std::ptr::eq(closest, transfer))
        };
        let mut zones = block.zones_written().filter(is_of_this);
        let plain = zones.find(|zone| !block.hears(zone, Scheme::Tls));
        for (place, demand) in transfer.demands() {
            if *demand == TlsDemand::Free {
                continue;
            }
            if !has_tls {
                let message = "this asks for tls, and no key of this block begins with tls://";
                report.warn(place, message, "write tls://ZONE as a key too");
            } else if let Some(zone) = plain {
                let message = format!("this asks for tls, and no key with tls:// is for {zone}");
                report.warn(place, message, format!("write tls://{zone} as a key too"));
            }
        }
    }
}

/// Reports a listener without a certificate, with several, or without one for those who need it.
fn check_certificate(listener: &Listener, blocks: &[&ServerBlock], report: &mut Report) {
    let keys = blocks.iter().flat_map(|block| &block.zones);
    let key = keys.filter(|key| key.scheme == Scheme::Tls && key.port == listener.port);
    let Some(first) = tls_of(blocks) else {
        for key in key {
            let message = "tls:// needs a certificate";
            report.error(&key.place, message, "write in this block: tls CERT KEY");
        }
        return;
    };
    for tls in blocks.iter().filter_map(|block| block.tls.as_ref()) {
        if !tls.is_same(first) {
            let message = format!("another tls of this listener stands at {}", first.place);
            report.error(
                &tls.place,
                message,
                "a listener has one: write the same in both",
            );
        }
    }
    let transfers = blocks.iter().flat_map(|block| &block.transfers);
    for (place, demand) in transfers.flat_map(|transfer| transfer.demands()) {
        let is_named = matches!(demand, TlsDemand::Named(_));
        if is_named && first.client_auth == ClientAuth::Never {
            let message = "no client is asked for a certificate, so none has this name";
            let mend = "write: tls CERT KEY CA { client_auth verify_if_given }, on lines";
            report.error(place, message, mend);
        }
    }
}
