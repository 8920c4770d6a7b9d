//! Who says a type: we, the worker, or both. What we say needs to be comfortable to build.

use std::collections::{BTreeMap, BTreeSet};

use super::shape::{Definition, Type};

/// The definitions that a value of the given types can hold, with these themselves.
pub(super) fn reached<'a>(
    definitions: &'a BTreeMap<String, Definition>,
    from: impl IntoIterator<Item = &'a str>,
) -> BTreeSet<&'a str> {
    let mut reached = BTreeSet::new();
    let mut open: Vec<&str> = from.into_iter().collect();
    while let Some(name) = open.pop() {
        if let Some(definition) = definitions.get(name).filter(|_| reached.insert(name)) {
            open.extend(definition.shape.parts().into_iter().filter_map(Type::named));
        }
    }
    reached
}
