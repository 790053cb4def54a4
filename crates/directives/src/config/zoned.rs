//! Directives that are for some zones: which of several is meant for a zone, and which is for none.

use corefile::place::{Place, Report};
use dns::Name;

use crate::config::block::{Directive, ServerBlock};

/// A directive that is for some zones and those below them.
pub trait Zoned: Directive {
    /// Whether a second one for a zone is an error; else the first counts, as in CoreDNS.
    const IS_UNIQUE: bool = true;

    /// The zones.
    fn zones(&self) -> &[Name];
    /// Where it stands.
    fn place(&self) -> &Place;
    /// The zones of a block that it may be for.
    fn candidates(block: &ServerBlock) -> Vec<&Name>;

    /// How many labels its closest zone at or above `zone` has; `None` when it has none.
    fn closeness(&self, zone: &Name) -> Option<usize> {
        let above = self.zones().iter().filter(|own| zone.is_within(own));
        above.map(Name::label_count).max()
    }
}

impl ServerBlock {
    /// Of several directives the one with the closest zone at or above `zone`; of those that are equally close
    /// the first.
    #[must_use]
    pub fn for_zone<T: Zoned>(&self, zone: &Name) -> Option<&T> {
        self.all::<T>()
            .rev()
            .max_by_key(|directive| directive.closeness(zone))
            .filter(|directive| directive.closeness(zone).is_some())
    }
}

/// Reports a zone that stands in two directives of one word, and warns about a directive that is for
/// none of the zones.
pub(crate) fn check<T: Zoned>(blocks: &[ServerBlock], report: &mut Report) {
    for block in blocks {
        let candidates = T::candidates(block);
        for (index, directive) in block.all::<T>().enumerate() {
            let (word, place) = (T::WORD, directive.place());
            for zone in directive.zones() {
                let mut earlier = block.all::<T>().take(index);
                if let Some(other) = earlier.find(|other| other.zones().contains(zone)) {
                    let line = other.place().line;
                    let message = format!("there is a {word} for {zone} in line {line} already");
                    let fix = "join the two, or name other zones";
                    match T::IS_UNIQUE {
                        false => report.warn(place, message + ", that one counts", fix),
                        true => report.error(place, message, fix),
                    }
                    break;
                }
            }
            if !candidates
                .iter()
                .any(|zone| directive.closeness(zone).is_some())
            {
                let message = format!("{word} is for no zone that this block writes");
                report.warn(place, message, "name one of the zones of kubernetes");
            }
        }
    }
}

/// Warns about zones for which no query comes to their block.
pub(crate) fn warn_of_unasked<'z>(
    block: &ServerBlock,
    place: &Place,
    zones: impl Iterator<Item = &'z Name>,
    report: &mut Report,
) {
    for zone in zones {
        if !block.zones.iter().any(|key| zone.is_within(&key.apex)) {
            let message = format!("no query for {zone} comes to this block");
            report.warn(place, message, "add the zone to the keys of the block");
        }
    }
}
