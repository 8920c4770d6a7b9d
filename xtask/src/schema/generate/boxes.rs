//! Where a box must be, because a type would contain itself, and where it should be, because a variant would make
//! all values of its enum large.

use std::collections::{BTreeMap, BTreeSet};

use super::shape::{Definition, Shape, Type};

type Definitions = BTreeMap<String, Definition>;

/// A variant that is larger than this goes into a box.
pub(super) const VARIANT_BYTES_MAX: usize = 160;

/// Boxes what needs it, in place.
pub(super) fn put(definitions: &mut Definitions) {
    let names: Vec<String> = definitions.keys().cloned().collect();
    for name in &names {
        let shape = &definitions[name].shape;
        let is_enum = matches!(shape, Shape::Tagged { .. } | Shape::Keyed { .. } | Shape::Choice(_));
        let boxed: Vec<bool> = shape
            .parts()
            .into_iter()
            .map(|part| {
                let is_recursive = held_by(part).is_some_and(|part| contains(definitions, part, name));
                is_recursive || (is_enum && bytes_of(definitions, part) > VARIANT_BYTES_MAX)
            })
            .collect();
        let definition = definitions.get_mut(name).expect("the names are its keys");
        for (part, _) in definition.shape.parts_mut().into_iter().zip(boxed).filter(|(_, boxed)| *boxed) {
            *part = part.clone().boxed();
        }
    }
}

/// How many bytes a value takes by itself, roughly.
pub(super) fn bytes_of(definitions: &Definitions, part: &Type) -> usize {
    match part {
        Type::Truth => 1,
        Type::Number("u16") => 2,
        Type::Number("i32" | "u32") => 4,
        Type::Number(_) | Type::Boxed(_) => 8,
        Type::Json => 16,
        Type::Text | Type::List(_) | Type::Map(_) => 24,
        Type::Optional(inner) => match inner.as_ref() {
            Type::Number(_) => 2 * bytes_of(definitions, inner),
            other => bytes_of(definitions, other),
        },
        Type::Named(name) => match definitions.get(name).map(|definition| &definition.shape) {
            None => 0,
            Some(Shape::Words(_)) => 16,
            Some(Shape::Alias(of)) => bytes_of(definitions, of),
            Some(shape @ Shape::Record(_)) => shape.parts().iter().map(|part| bytes_of(definitions, part)).sum(),
            Some(shape) => {
                let parts = shape.parts();
                let largest = parts.iter().map(|part| bytes_of(definitions, part).min(VARIANT_BYTES_MAX)).max();
                8 + largest.unwrap_or_default().max(16)
            }
        },
    }
}

/// Whether a value of one type lies within another's own bytes.
fn contains(definitions: &Definitions, outer: &str, inner: &str) -> bool {
    let mut seen = BTreeSet::new();
    let mut open = vec![outer];
    while let Some(name) = open.pop() {
        if name == inner {
            return true;
        }
        if let Some(definition) = definitions.get(name).filter(|_| seen.insert(name)) {
            open.extend(definition.shape.parts().into_iter().filter_map(held_by));
        }
    }
    false
}

/// The definition whose value lies within this one's own bytes.
fn held_by(part: &Type) -> Option<&str> {
    match part {
        Type::Named(name) => Some(name),
        Type::Optional(inner) => held_by(inner),
        _ => None,
    }
}
