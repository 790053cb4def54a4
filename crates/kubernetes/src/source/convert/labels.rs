//! The labels of an object, and whether a selector matches them, for sources that select objects themselves.

use std::collections::BTreeMap;

use super::Object;
use crate::facts::Selector;
use crate::source::objects::Labelled;

/// All labels of an object; none if they cannot be read.
pub(super) fn all_labels(object: Object<'_>) -> BTreeMap<String, Option<String>> {
    let labelled = object.read::<Labelled>().unwrap_or_default();
    let metadata = labelled.metadata.unwrap_or_default();
    metadata.labels.unwrap_or_default()
}

/// Whether a selector matches the labels of an object.
#[must_use]
pub fn is_selected(selector: &Selector, object: Object<'_>) -> bool {
    let labels = all_labels(object);
    // A label without a value (`app:` in YAML) has the empty value.
    selector.matches(|key| Some(labels.get(key)?.as_deref().unwrap_or_default()))
}
