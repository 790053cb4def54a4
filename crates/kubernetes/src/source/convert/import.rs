//! ServiceImports (multicluster.x-k8s.io), and the labels that link a slice to one.

use std::sync::Arc;

use super::field::{address, folded};
use super::{Named, Reader};
use crate::facts::{ImportForm, ImportOfSlice, ServiceImport};
use crate::source::objects::{ImportSpec, Labels};

impl Reader<'_> {
    pub(super) fn import(
        &mut self,
        named: &Named,
        spec: ImportSpec,
    ) -> Result<ServiceImport, String> {
        let ImportSpec { form, ips, ports } = spec;
        let form = match form.as_deref() {
            Some("ClusterSetIP") => {
                let mut addresses = Vec::new();
                for text in ips.unwrap_or_default() {
                    match address(&text) {
                        Ok(address) => addresses.push(address),
                        Err(why) => self.complain(format!("ip {text:?} left out: {why}")),
                    }
                }
                ImportForm::ClusterSetIp(addresses.into())
            }
            Some("Headless") => ImportForm::Headless,
            Some(other) => return Err(format!("unknown type {other:?}")),
            None => return Err("it has no spec.type".to_owned()),
        };
        Ok(ServiceImport {
            key: named.key.clone(),
            form,
            ports: self.service_ports(ports.unwrap_or_default()),
            created_s: named.created_s,
            origin: named.origin.clone(),
        })
    }

    /// The ServiceImport and the cluster named by a slice's labels.
    pub(super) fn import_of_slice(&mut self, labels: &mut Labels) -> Option<Arc<ImportOfSlice>> {
        let service = folded(labels.import_name.take())?;
        let cluster = folded(labels.source_cluster.take()).unwrap_or_default();
        Some(Arc::new(ImportOfSlice {
            service: self.interner.get(&service),
            cluster: self.interner.get(&cluster),
        }))
    }
}
