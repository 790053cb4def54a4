//! The endpoints of a slice.

use std::net::IpAddr;
use std::sync::Arc;

use super::Reader;
use super::field::{address, filled};
use crate::cluster::{Endpoint, SliceForm};
use crate::source::Keep;
use crate::source::objects::EndpointObject;

/// The most octets of a label.
const MAX_LABEL: usize = 63;

impl Reader<'_> {
    /// The ready endpoints of a slice.
    pub(super) fn endpoints(
        &mut self,
        form: SliceForm,
        endpoints: Vec<EndpointObject>,
    ) -> Arc<[Endpoint]> {
        let mut kept = Vec::with_capacity(endpoints.len());
        for endpoint in endpoints {
            let ready = endpoint
                .conditions
                .as_ref()
                .and_then(|conditions| conditions.ready);
            if ready.unwrap_or(true) {
                self.endpoint(form, endpoint, &mut kept);
            }
        }
        kept.into()
    }

    /// One ready endpoint; in an FQDN slice each host name is an endpoint.
    fn endpoint(&mut self, form: SliceForm, endpoint: EndpointObject, kept: &mut Vec<Endpoint>) {
        let EndpointObject {
            addresses,
            hostname,
            target_ref,
            zone,
            conditions: _,
        } = endpoint;
        let Keep { pod_names, zones } = self.setting.keep;
        let pod = target_ref
            .filter(|_| pod_names)
            .and_then(|target| filled(target.name));
        // a longer name, or one with a dot, is no label: the address stands for it
        let pod = pod.filter(|name| name.len() <= MAX_LABEL && !name.contains('.'));
        let common = Endpoint {
            addresses: Arc::new([]),
            hostname: filled(hostname).map(Into::into),
            fqdn: None,
            pod: pod.map(Into::into),
            zone: filled(zone.filter(|_| zones))
                .map(|zone| self.interner.get(&zone.to_ascii_lowercase())),
        };
        let texts = addresses.unwrap_or_default();
        let mut parsed = Vec::with_capacity(texts.len());
        for text in texts {
            match (form, text.parse::<IpAddr>().is_ok(), address(&text)) {
                (SliceForm::Fqdn, true, _) => {
                    self.complain(format!(
                        "address {text} left out: the slice is of host names"
                    ));
                }
                (SliceForm::Fqdn, false, _) => {
                    kept.push(Endpoint {
                        fqdn: Some(text.into()),
                        ..common.clone()
                    });
                }
                (SliceForm::Ipv4, _, Ok(address @ IpAddr::V4(_)))
                | (SliceForm::Ipv6, _, Ok(address @ IpAddr::V6(_))) => parsed.push(address),
                (SliceForm::Ipv4 | SliceForm::Ipv6, _, Ok(_)) => {
                    self.complain(format!(
                        "address {text} left out: not of the slice's family"
                    ));
                }
                (SliceForm::Ipv4 | SliceForm::Ipv6, _, Err(why)) => {
                    self.complain(format!("address {text:?} left out: {why}"));
                }
            }
        }
        if !parsed.is_empty() {
            kept.push(Endpoint {
                addresses: parsed.into(),
                ..common
            });
        }
    }
}
