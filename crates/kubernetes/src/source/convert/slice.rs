//! The endpoints of a slice, and the time of the change behind it.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::SystemTime;

use jiff::Timestamp;
use provenance::Kind;

use super::Reader;
use super::field::{address, filled};
use crate::facts::{Endpoint, EndpointNames, SliceForm};
use crate::source::Keep;
use crate::source::objects::{Annotations, EndpointObject, TRIGGER_TIME};

/// The longest label, in bytes.
const MAX_LABEL: usize = 63;

impl Reader<'_> {
    /// The time of the change behind a slice, if its controller gives it. It is no part of the fact, because records
    /// do not depend on it.
    pub(super) fn triggered(&mut self, annotations: Annotations) -> Option<SystemTime> {
        let is_slice = self.kind == Kind::EndpointSlice;
        let text = annotations.triggered.filter(|_| is_slice)?;
        match text.parse::<Timestamp>() {
            Ok(time) => Some(time.into()),
            Err(_) => {
                self.complain(format!(
                    "annotation {TRIGGER_TIME} left out: {text:?} is not a time as in RFC 3339"
                ));
                None
            }
        }
    }

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

    /// Adds one ready endpoint. In an FQDN slice each host name is an endpoint.
    fn endpoint(&mut self, form: SliceForm, endpoint: EndpointObject, kept: &mut Vec<Endpoint>) {
        let EndpointObject {
            addresses,
            hostname,
            target_ref,
            zone,
            conditions: _,
        } = endpoint;
        let Keep {
            pod_names,
            zones,
            pod_labels: _,
        } = self.setting.keep;
        let pod = target_ref
            .filter(|_| pod_names)
            .and_then(|target| filled(target.name));
        // A longer name, or one with a dot, is not a label. The endpoint is named by its address.
        let pod = pod.filter(|name| name.len() <= MAX_LABEL && !name.contains('.'));
        let names = EndpointNames {
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
                    self.complain(format!("address {text} left out: the slice has host names"));
                }
                (SliceForm::Fqdn, false, _) => {
                    let fqdn = Some(text.into());
                    let names = EndpointNames {
                        fqdn,
                        ..names.clone()
                    };
                    kept.push(Endpoint::new([], names));
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
            kept.push(Endpoint::new(parsed, names));
        }
    }
}
