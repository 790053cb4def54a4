//! `publish`: `_version` tells the served version of a zone. No version can contain it, for it would change with each
//! version.

use std::any::Any;

use dns::{Rdata, Rtype, Ttl};
use server::{Synthesized, SynthesizedNames};
use zone::Version;

/// The label of the name, in wire form.
const LABEL: &[u8] = b"\x08_version";

/// Answers for `_version`.
#[derive(Debug)]
pub struct VersionName;

impl SynthesizedNames for VersionName {
    fn answer(&self, version: &Version, name: &[u8]) -> Synthesized {
        let apex = version.contents.apex();
        if name.strip_prefix(LABEL) != Some(apex.as_wire()) {
            return Synthesized::Missing;
        }
        let data = Rdata::txt(&version_text(version));
        // Nobody may cache it: the next version has another one.
        let record = (Rtype::TXT, Ttl::ZERO, data);
        Synthesized::record("`publish` of `history`", name, apex, record)
    }

    fn is_same(&self, other: &dyn SynthesizedNames) -> bool {
        (other as &dyn Any).is::<Self>()
    }
}

/// The serial of a version, and the hash that covers all versions up to it.
fn version_text(version: &Version) -> String {
    let hash = version.link.map(|link| format!(" hash={}", link.hash));
    format!("serial={}{}", version.serial, hash.unwrap_or_default())
}
