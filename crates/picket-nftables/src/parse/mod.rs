//! From libnftables JSON to the model: what `nft -n -j list table` prints, and what [`crate::print::json`] writes.
//!
//! nft 1.0.6 prints no comments of tables and chains in JSON; [`shown`] is a table without them.

mod listing;
mod names;
mod statement;
mod text;
mod value;

use serde_json::Value as Json;

use crate::model::{
    Base, Chain, Comment, Counter, Draft, Hook, InterfaceName, Map, MapType, ModelError, Name, Policy, Set,
    Table,
};

pub use listing::{Listing, ListingError, Other, listing};
pub use text::Error as TextError;

/// Why a JSON listing is no table of the model.
#[derive(Debug, thiserror::Error)]
pub enum ParseError {
    /// It is no JSON.
    #[error("not JSON: {0}")]
    Json(#[from] serde_json::Error),
    /// A part of it is nothing that the model has.
    #[error("not a {what} that picket writes: `{found}`")]
    Unknown {
        /// What was expected.
        what: &'static str,
        /// What is there, cut to 200 bytes.
        found: String,
    },
    /// The listing holds no table, or more than one.
    #[error("expected one table, found {0}")]
    Tables(usize),
    /// The parts do not make a table.
    #[error(transparent)]
    Model(#[from] ModelError),
}

impl ParseError {
    fn unknown(what: &'static str, found: &Json) -> Self {
        let mut found = found.to_string();
        let cut = (0..=200)
            .rev()
            .find(|&at| found.is_char_boundary(at))
            .unwrap_or(0);
        found.truncate(cut);
        Self::Unknown { what, found }
    }
}

type Result<T> = std::result::Result<T, ParseError>;

/// The one table of a listing. Handles, counter values and commands other than `add` are passed over.
pub fn table(json: &str) -> Result<Table> {
    let document: Json = serde_json::from_str(json)?;
    collected(array(
        document.get("nftables").unwrap_or(&Json::Null),
        "list of objects",
    )?)
}

/// The one table that these objects make.
fn collected(items: &[Json]) -> Result<Table> {
    let mut drafts: Vec<Draft> = Vec::new();
    for item in items {
        let item = item.get("add").unwrap_or(item);
        let Some((kind, object)) = item.as_object().and_then(|fields| fields.iter().next()) else {
            return Err(ParseError::unknown("object", item));
        };
        if matches!(kind.as_str(), "metainfo" | "delete") {
            continue;
        }
        if kind == "table" {
            let named = Draft::new(name(object, "name")?);
            // Our own JSON names the table twice: to make sure that there is one to delete, and to create it.
            drafts.retain(|draft| draft.name != named.name);
            drafts.push(Draft {
                comment: comment(object)?,
                ..named
            });
            continue;
        }
        let count = drafts.len();
        let [draft] = drafts.as_mut_slice() else {
            return Err(ParseError::Tables(count));
        };
        read(draft, kind, object)?;
    }
    let count = drafts.len();
    let [draft] = <[Draft; 1]>::try_from(drafts).map_err(|_| ParseError::Tables(count))?;
    Ok(draft.check()?)
}

/// A table as a JSON listing shows it: without the comments of the table and its chains.
pub fn shown(table: &Table) -> Table {
    let mut draft = table.clone().into_draft();
    draft.comment = None;
    for chain in &mut draft.chains {
        chain.comment = None;
    }
    // INVARIANT: comments are not what a table is checked for.
    draft.check().unwrap_or_else(|_| table.clone())
}

fn read(draft: &mut Draft, kind: &str, object: &Json) -> Result<()> {
    match kind {
        "counter" => draft.counters.push(Counter {
            name: name(object, "name")?,
            comment: comment(object)?,
        }),
        "set" => draft.sets.push(set(object)?),
        "map" => draft.maps.push(map(object)?),
        "chain" => draft.chains.push(chain(object)?),
        "rule" => {
            let owner = name(object, "chain")?;
            let rule = statement::rule(object)?;
            match draft.chains.iter_mut().find(|chain| chain.name == owner) {
                Some(chain) => chain.rules.push(rule),
                None => return Err(ParseError::unknown("rule of a chain listed before", object)),
            }
        }
        _ => return Err(ParseError::unknown("kind of object", &Json::from(kind))),
    }
    Ok(())
}

fn set(object: &Json) -> Result<Set> {
    let (key, interval) = value::key_type(object)?;
    let elements = elements(object)?
        .iter()
        .map(|one| value::key(one, &key))
        .collect::<Result<Vec<_>>>()?;
    let set = Set::new(name(object, "name")?, key, interval, elements)?;
    Ok(match comment(object)? {
        Some(comment) => set.commented(comment),
        None => set,
    })
}

fn map(object: &Json) -> Result<Map> {
    let (key, interval) = value::key_type(object)?;
    let gives = match text(object, "map")? {
        "verdict" => MapType::Verdict,
        "mark" => MapType::Mark,
        "classid" => MapType::Priority,
        _ => return Err(ParseError::unknown("map type", object)),
    };
    let mut pairs = Vec::new();
    for element in elements(object)? {
        match array(element, "element of a map")? {
            [from, to] => pairs.push((value::key(from, &key)?, value::datum(to, gives)?)),
            _ => return Err(ParseError::unknown("element of a map", element)),
        }
    }
    let map = Map::new(name(object, "name")?, key, gives, interval, pairs)?;
    Ok(match comment(object)? {
        Some(comment) => map.commented(comment),
        None => map,
    })
}

fn chain(object: &Json) -> Result<Chain> {
    let mut chain = Chain::regular(name(object, "name")?);
    chain.comment = comment(object)?;
    if object.get("hook").is_some() {
        let hook = Hook::from_keyword(text(object, "hook")?);
        let priority = object
            .get("prio")
            .and_then(Json::as_i64)
            .and_then(|prio| i32::try_from(prio).ok());
        let policy = match object.get("policy").and_then(Json::as_str) {
            Some("drop") => Some(Policy::Drop),
            Some("accept") | None => Some(Policy::Accept),
            Some(_) => None,
        };
        let filter = text(object, "type")? == "filter";
        let (Some(hook), Some(priority), Some(policy), true) = (hook, priority, policy, filter) else {
            return Err(ParseError::unknown("base chain", object));
        };
        chain.base = Some(Base {
            hook,
            priority,
            policy,
        });
    }
    Ok(chain)
}

fn elements(object: &Json) -> Result<&[Json]> {
    object
        .get("elem")
        .map_or(Ok(&[]), |elements| array(elements, "list of elements"))
}

fn array<'j>(json: &'j Json, what: &'static str) -> Result<&'j [Json]> {
    json.as_array()
        .map(Vec::as_slice)
        .ok_or_else(|| ParseError::unknown(what, json))
}

fn text<'j>(object: &'j Json, field: &'static str) -> Result<&'j str> {
    object
        .get(field)
        .and_then(Json::as_str)
        .ok_or_else(|| ParseError::unknown(field, object))
}

fn name(object: &Json, field: &'static str) -> Result<Name> {
    named(text(object, field)?)
}

fn named(text: &str) -> Result<Name> {
    Name::new(text).ok_or_else(|| ParseError::unknown("name", &Json::from(text)))
}

fn interface(text: &str) -> Result<InterfaceName> {
    InterfaceName::new(text).ok_or_else(|| ParseError::unknown("interface name", &Json::from(text)))
}

/// The comment of an object; one that picket would not write is an error, since it cannot be one of ours.
fn comment(object: &Json) -> Result<Option<Comment>> {
    let Some(text) = object.get("comment") else {
        return Ok(None);
    };
    let comment = text
        .as_str()
        .map(Comment::of)
        .filter(|comment| Some(comment.as_str()) == text.as_str());
    comment
        .map(Some)
        .ok_or_else(|| ParseError::unknown("comment", text))
}
