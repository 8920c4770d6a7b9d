//! A page of items, as the lists of this API are read.

use std::collections::HashMap;

use serde::Deserialize;
use serde_json::{Value, json};

use crate::error::Error;
use crate::openai::read::Bad;

const ITEMS_DEFAULT: usize = 20;
const ITEMS_MAX: usize = 100;

/// Which page.
#[derive(Default, Deserialize)]
pub(crate) struct Page {
    limit: Option<String>,
    order: Option<String>,
    after: Option<String>,
    before: Option<String>,
}

/// The page of these items, which come in their order.
pub(super) fn list(items: Vec<Value>, page: &Page) -> Result<Value, Error> {
    let mut items = named_apart(items);
    let bad = |name: &str, why: String| Error::from(Bad::value(why).at(name));
    match page.order.as_deref() {
        None | Some("desc") => items.reverse(),
        Some("asc") => {}
        Some(other) => return Err(bad("order", format!("must be asc or desc, not {other:?}"))),
    }
    let limit = match page.limit.as_deref().map(|limit| (limit, limit.parse())) {
        None => ITEMS_DEFAULT,
        Some((_, Ok(limit @ 1..=ITEMS_MAX))) => limit,
        Some((other, _)) => return Err(bad("limit", format!("must be from 1 to {ITEMS_MAX}, not {other:?}"))),
    };
    let unknown = |name: &str, id: &str| bad(name, format!("names {id:?}, which is no item here"));
    let at = |name: &str, id: &str| items.iter().position(|item| item["id"] == *id).ok_or_else(|| unknown(name, id));
    let from = page.after.as_deref().map(|id| at("after", id)).transpose()?.map_or(0, |at| at + 1);
    let to = page.before.as_deref().map(|id| at("before", id)).transpose()?.unwrap_or(items.len());
    let all = &items[from.min(to)..to];
    let data = &all[..limit.min(all.len())];
    Ok(json!({
        "object": "list",
        "data": data,
        "first_id": data.first().map(|item| &item["id"]),
        "last_id": data.last().map(|item| &item["id"]),
        "has_more": data.len() < all.len(),
    }))
}

/// Items of two responses may have the same id, but whoever turns pages goes on behind one: the later ones are numbered.
fn named_apart(mut items: Vec<Value>) -> Vec<Value> {
    let mut seen: HashMap<String, usize> = HashMap::new();
    for item in &mut items {
        let Some(id) = item["id"].as_str().map(str::to_owned) else { continue };
        let count = seen.entry(id.clone()).or_default();
        *count += 1;
        if *count > 1 {
            item["id"] = format!("{id}_{count}").into();
        }
    }
    items
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{Page, list};

    #[test]
    fn pages_hold_every_item_also_where_ids_are_equal() {
        let items: Vec<Value> = ["a", "b", "a", "c"].map(|id| json!({"id": id})).into();
        let mut page = Page { limit: Some("1".into()), order: Some("asc".into()), ..Page::default() };
        let mut seen = String::new();
        for _ in &items {
            let listed = list(items.clone(), &page).unwrap();
            let last = listed["last_id"].as_str().unwrap();
            seen.push_str(last);
            page.after = Some(last.into());
            if listed["has_more"] == false {
                break;
            }
        }
        assert_eq!(seen, "aba_2c");
    }
}
