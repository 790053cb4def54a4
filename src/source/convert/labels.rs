//! Whether an object is selected, for sources that have to look themselves.

use super::Object;
use crate::cluster::Selector;
use crate::source::objects::Labelled;

/// Whether a selector wants an object, by its labels. Labels that do not read are none.
#[must_use]
pub fn is_selected(selector: &Selector, object: Object<'_>) -> bool {
    let labels = object.read::<Labelled>().unwrap_or_default();
    let labels = labels
        .metadata
        .unwrap_or_default()
        .labels
        .unwrap_or_default();
    // a label without a value (`app:` in YAML) has the empty one
    selector.matches(|key| Some(labels.get(key)?.as_deref().unwrap_or_default()))
}
