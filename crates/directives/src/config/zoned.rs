//! Directives that are for some zones: finds the one that applies to a zone, and those that apply to none.

use corefile::place::{Place, Report};
use dns::Name;

use crate::config::block::{Directive, ServerBlock};

/// A directive that applies to some zones and all zones below them.
pub trait Zoned: Directive {
    /// Whether a second one for a zone is an error. If not, the first counts, as in CoreDNS.
    const IS_UNIQUE: bool = true;

    /// The zones of the directive.
    fn zones(&self) -> &[Name];
    /// Its place in the Corefile.
    fn place(&self) -> &Place;
    /// The zones of a block that it may apply to.
    fn candidates(block: &ServerBlock) -> Vec<&Name>;

    /// The label count of its closest zone at or above `zone`, if it has one.
    fn closeness(&self, zone: &Name) -> Option<usize> {
        let above = self.zones().iter().filter(|own| zone.is_within(own));
        above.map(Name::label_count).max()
    }
}

impl ServerBlock {
    /// The directive with the closest zone at or above `zone`. Of several that are equally close, the first counts.
    #[must_use]
    pub fn for_zone<T: Zoned>(&self, zone: &Name) -> Option<&T> {
        self.all::<T>()
            .rev()
            .max_by_key(|directive| directive.closeness(zone))
            .filter(|directive| directive.closeness(zone).is_some())
    }
}

/// Reports a zone that two directives of one word have, and warns about a directive that applies to no zone.
pub(crate) fn check<T: Zoned>(blocks: &[ServerBlock], report: &mut Report) {
    for block in blocks {
        let candidates = T::candidates(block);
        for (index, directive) in block.all::<T>().enumerate() {
            let (word, place) = (T::WORD, directive.place());
            for zone in directive.zones() {
                let mut earlier = block.all::<T>().take(index);
                if let Some(other) = earlier.find(|other| other.zones().contains(zone)) {
                    let line = other.place().line;
                    let message = format!("{zone} already has a {word} in line {line}");
                    let fix = "join the two, or name other zones";
                    match T::IS_UNIQUE {
                        false => report.warn(place, message + ", which counts", fix),
                        true => report.error(place, message, fix),
                    }
                    break;
                }
            }
            if !candidates
                .iter()
                .any(|zone| directive.closeness(zone).is_some())
            {
                let message = format!("{word} names no zone of this block");
                report.warn(place, message, "name one of the zones of kubernetes");
            }
        }
    }
}

/// Warns about zones of which no query reaches the block.
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
