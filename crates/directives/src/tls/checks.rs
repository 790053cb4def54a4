//! Checks `tls`, `tls://` keys and `transfer` of each listener against each other.

use corefile::place::Report;
use dns::Name;
use transfer::TlsDemand;

use crate::config::block::ServerBlock;
use crate::config::listener::{Listener, listeners};
use crate::config::zone::Scheme;
use crate::tls::{ClientAuth, Tls};
use crate::transfer::Transfer;

/// Reports what does not go together.
pub(super) fn check(blocks: &[ServerBlock], report: &mut Report) {
    for (listener, blocks) in listeners(blocks) {
        if listener.scheme.encrypted().is_some() {
            check_certificate(&listener, &blocks, report);
        }
    }
    for block in blocks {
        let has = |of: &dyn Fn(Scheme) -> bool| block.zones.iter().any(|key| of(key.scheme));
        let has_tls = has(&|scheme| scheme == Scheme::Tls);
        if let Some(tls) = block.get::<Tls>()
            && !has(&|scheme| scheme.encrypted().is_some())
        {
            let message = "no key of this block begins with tls://, https://, https3:// or quic://: \
                           the certificate is not used";
            let fix = "write tls://ZONE as a key, or remove it";
            report.warn(&tls.place, message, fix);
        }
        if let Some(transfer) = block.get::<Transfer>()
            && !has_tls
            && !has(&|scheme| scheme == Scheme::Dns)
        {
            let message = "zones are transferred only over TCP and TLS, but no key of this block is for these";
            let fix = "write ZONE or tls://ZONE as a key too";
            report.warn(&transfer.place, message, fix);
        }
        check_demands(block, has_tls, report);
    }
}

/// Reports peers that must use TLS for a zone that is not served over TLS.
fn check_demands(block: &ServerBlock, has_tls: bool, report: &mut Report) {
    for transfer in block.all::<Transfer>() {
        let is_of_this = |zone: &&Name| {
            let closest = block.for_zone::<Transfer>(zone);
            closest.is_some_and(|closest| std::ptr::eq(closest, transfer))
        };
        let mut zones = block.zones_written().filter(is_of_this);
        let plain = zones.find(|zone| !block.hears(zone, Scheme::Tls));
        for (place, demand) in transfer.demands() {
            if *demand == TlsDemand::Free {
                continue;
            }
            if !has_tls {
                let message = "tls is required here, but no key of this block begins with tls://";
                report.warn(place, message, "write tls://ZONE as a key too");
            } else if let Some(zone) = plain {
                let message =
                    format!("tls is required here, but no key with tls:// matches {zone}");
                report.warn(place, message, format!("write tls://{zone} as a key too"));
            }
        }
    }
}

/// Reports a listener without a certificate, with several, or without the authority that its peers' certificates need.
fn check_certificate(listener: &Listener, blocks: &[&ServerBlock], report: &mut Report) {
    let keys = blocks.iter().flat_map(|block| &block.zones);
    let key = keys.filter(|key| key.scheme == listener.scheme && key.port == listener.port);
    let Some(first) = blocks.iter().find_map(|block| block.get::<Tls>()) else {
        for key in key {
            let message = format!("{}:// needs a certificate", key.scheme.as_str());
            report.error(&key.place, message, "write in this block: tls CERT KEY");
        }
        return;
    };
    for tls in blocks.iter().filter_map(|block| block.get::<Tls>()) {
        if !tls.is_same(first) {
            let message = format!("this listener has another tls at {}", first.place);
            report.error(
                &tls.place,
                message,
                "a listener has one certificate: write the same in both",
            );
        }
    }
    let transfers = blocks.iter().flat_map(|block| block.all::<Transfer>());
    for (place, demand) in transfers.flat_map(|transfer| transfer.demands()) {
        let is_named = matches!(demand, TlsDemand::Named(_));
        if is_named && first.client_auth == ClientAuth::Never {
            let message = "no client is asked for a certificate, so none has this name";
            let fix = "write: tls CERT KEY CA { client_auth verify_if_given }, with the option on a line of its own";
            report.error(place, message, fix);
        }
    }
}
