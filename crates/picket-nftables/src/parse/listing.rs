//! A whole listing: one table of ours, and what others have beside it.

use serde_json::Value as Json;

use super::{ParseError, array, collected, text};
use crate::model::Table;

/// What a listing holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listing {
    /// Our table, if it is there.
    pub table: Option<Table>,
    /// The tables of others, in the order of the listing. They may drop what ours lets pass, and cannot let pass what
    /// ours drops.
    pub others: Vec<Other>,
}

/// A table of somebody else.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Other {
    /// Its family.
    pub family: String,
    /// Its name.
    pub name: String,
    /// The hooks at which it has base chains, sorted.
    pub hooks: Vec<String>,
}

/// Why a listing cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ListingError {
    /// The text is wrong.
    #[error(transparent)]
    Text(#[from] super::text::Error),
    /// The JSON is wrong.
    #[error(transparent)]
    Json(#[from] ParseError),
}

/// Reads what `nft list ruleset` or `nft -j list ruleset` prints, or less of it; of its tables `inet` `name` in full.
pub fn listing(text: &str, name: &str) -> Result<Listing, ListingError> {
    if text.trim_start().starts_with('{') {
        Ok(from_json(text, name)?)
    } else {
        Ok(super::text::listing(text, name)?)
    }
}

fn from_json(json: &str, name: &str) -> Result<Listing, ParseError> {
    let document: Json = serde_json::from_str(json)?;
    let items = array(document.get("nftables").unwrap_or(&Json::Null), "list of objects")?;
    let mut found = Listing::default();
    let mut ours = Vec::new();
    for item in items {
        let inner = item.get("add").unwrap_or(item);
        let Some((kind, object)) = inner.as_object().and_then(|fields| fields.iter().next()) else {
            return Err(ParseError::unknown("object", item));
        };
        if matches!(kind.as_str(), "metainfo" | "delete") {
            continue;
        }
        let family = text(object, "family")?;
        let table = text(object, if kind == "table" { "name" } else { "table" })?;
        if (family, table) == ("inet", name) {
            ours.push(without_counts(inner.clone()));
            continue;
        }
        let at = match found
            .others
            .iter()
            .position(|other| other.family == family && other.name == table)
        {
            Some(at) => at,
            None => {
                found.others.push(Other {
                    family: family.to_owned(),
                    name: table.to_owned(),
                    hooks: Vec::new(),
                });
                found.others.len() - 1
            }
        };
        let hook = object.get("hook").and_then(Json::as_str);
        if let (Some(other), Some(hook)) = (found.others.get_mut(at), hook) {
            other.hooks.push(hook.to_owned());
        }
    }
    for other in &mut found.others {
        other.hooks.sort();
        other.hooks.dedup();
    }
    if !ours.is_empty() {
        found.table = Some(collected(&ours)?);
    }
    Ok(found)
}

/// A rule without counters that have no name: no verdict hangs on them.
fn without_counts(mut item: Json) -> Json {
    let statements = item.get_mut("rule").and_then(|rule| rule.get_mut("expr"));
    if let Some(statements) = statements.and_then(Json::as_array_mut) {
        statements.retain(|statement| statement.get("counter").is_none_or(Json::is_string));
    }
    item
}
