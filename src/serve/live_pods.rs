//! Puts the answers of `pods insecure` where a version has none.

use crate::dns::{Rdata, Rtype};
use crate::live::{InsecurePods, PodAnswer};
use crate::serve::lookup::{Answer, LinkSet};
use crate::zone::Version;

/// Completes an answer whose last name does not exist in a version: that name may be a pod's. False when
/// nothing can be said yet. `lower_name` is the name asked for, in lower-case wire form.
pub(super) fn ask_pods<'v>(
    pods: &InsecurePods,
    version: &'v Version,
    lower_name: &[u8],
    qtype: Rtype,
    answer: &mut Answer<'v>,
) -> bool {
    let name = answer.end().unwrap_or(lower_name);
    match pods.answer(&version.contents, name) {
        PodAnswer::Address(address) => {
            let (rtype, _) = Rdata::address(address);
            answer.exists = true;
            if qtype == rtype || qtype == Rtype::ANY {
                answer.complete(LinkSet::Pod(address, pods.ttl));
            }
            true
        }
        PodAnswer::Empty => {
            answer.exists = true;
            true
        }
        PodAnswer::Missing => true,
        PodAnswer::Unknown => false,
    }
}
