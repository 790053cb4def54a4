//! Caches steps while the same names are looked up again and again.

use std::collections::HashMap;
use std::sync::Arc;

use dns::Name;

use crate::Step;
use crate::journal::partial_step::PartialStep;

/// The most cached steps.
const MOST: usize = 64;

/// Steps of one zone, as far as one name needs them. Steps that were read whole serve other names too.
#[derive(Debug, Default)]
pub struct StepCache {
    name: Option<Name>,
    /// Steps by number, each with a flag that says whether it is whole.
    steps: HashMap<u64, (Arc<Step>, bool)>,
}

impl StepCache {
    /// Returns what a step does to a name, from the cache or from `read`.
    ///
    /// # Errors
    /// The error of `read`.
    pub fn get<E>(
        &mut self,
        name: &Name,
        seq: u64,
        read: impl FnOnce() -> Result<PartialStep, E>,
    ) -> Result<Arc<Step>, E> {
        if self.name.as_ref() != Some(name) {
            self.name = Some(name.clone());
            self.steps.retain(|_, (_, is_whole)| *is_whole);
        }
        if let Some((step, _)) = self.steps.get(&seq) {
            return Ok(Arc::clone(step));
        }
        let part = read()?;
        let is_whole = part.is_whole();
        let step = Arc::new(part.step);
        if self.steps.len() >= MOST {
            self.steps.clear();
        }
        self.steps.insert(seq, (Arc::clone(&step), is_whole));
        Ok(step)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dns::testing::soa;
    use dns::{Rdata, RrList, RrRef, Serial, Ttl};

    /// A step that adds an address to these names; of it that of one name alone, where there is one.
    fn part(names: &[&Name], only: Option<&Name>) -> PartialStep {
        let mut added = RrList::default();
        let (rtype, data) = Rdata::address([192, 0, 2, 1].into());
        let wanted = names
            .iter()
            .filter(|name| only.is_none_or(|only| only == **name));
        for owner in wanted {
            added.push(RrRef {
                owner: owner.as_wire(),
                rtype,
                ttl: Ttl::ZERO,
                data: data.as_octets(),
                tag: 0,
            });
        }
        let soa = soa(&Name::root(), 5);
        let step = Step {
            seq: 1,
            time_ms: 0,
            from: None,
            serial: Serial::decode(1),
            soa,
            removed: RrList::default(),
            added,
            causes: Vec::new(),
            records: names.len() + 1,
            link: None,
        };
        PartialStep {
            step,
            removed: 0,
            added: names.len(),
        }
    }

    #[test]
    fn a_step_is_read_once_for_a_name_and_once_for_all_where_it_was_read_whole() {
        let [a, b]: [Name; 2] = ["a.z.", "b.z."].map(|text| text.parse().unwrap());
        let names = [&a, &b];
        let mut cache = StepCache::default();
        let mut reads = Vec::new();
        for (name, seq) in [
            (&a, 1),
            (&a, 2),
            (&a, 1),
            (&b, 1),
            (&b, 2),
            (&b, 1),
            (&a, 1),
            (&a, 2),
        ] {
            let step = cache.get(name, seq, || {
                reads.push((name.clone(), seq));
                Ok::<_, String>(part(&names, (seq == 1).then_some(name)))
            });
            let step = step.unwrap();
            assert!(
                step.added.iter().any(|rr| rr.owner == name.as_wire()),
                "{name} {seq}"
            );
        }
        let wanted = [(&a, 1), (&a, 2), (&b, 1), (&a, 1)];
        assert_eq!(reads, wanted.map(|(name, seq)| (name.clone(), seq)));
        for seq in 0..1000 {
            cache
                .get(&a, seq, || Ok::<_, String>(part(&names, None)))
                .unwrap();
        }
        assert!(cache.steps.len() <= MOST);
    }
}
