//! Reading ends of connections.

use picket_net::{Prefix, parse_address};
use picket_policy::{Cursor, Reader, Span, Unreadable, Value, label_selector};
use smol_str::SmolStr;

use super::super::{End, Ends, codes};
use super::{Sets, one_or_more};
use crate::directory::nearest;

/// The named sets of a document.
pub(super) fn sets(at: &Cursor<'_>, reader: &mut Reader<'_>) -> Result<Sets, Unreadable> {
    let mut sets = Sets::new();
    for (entry, value) in at.entries(reader)? {
        // A set is no part of another: what it names stands in one place.
        let items = items(&value, &Sets::new(), reader).ok();
        sets.insert(entry.key.clone(), items);
    }
    Ok(sets)
}

/// A field with ends that has to be there, and its exceptions.
pub(super) fn required(
    at: &Cursor<'_>,
    field: &'static str,
    value: Option<&Cursor<'_>>,
    except: Option<&Cursor<'_>>,
    sets: &Sets,
    reader: &mut Reader<'_>,
) -> Result<Ends, Unreadable> {
    match value {
        Some(value) => ends(value, except, sets, reader),
        None => Err(reader.missing(codes::FORM, at, field, "Required value: who it is about")),
    }
}

/// One end or a list of ends, but for others.
pub(super) fn ends(
    value: &Cursor<'_>,
    except: Option<&Cursor<'_>>,
    sets: &Sets,
    reader: &mut Reader<'_>,
) -> Result<Ends, Unreadable> {
    let named = items(value, sets, reader);
    let except = except.map_or(Ok(Vec::new()), |except| items(except, sets, reader));
    Ok(Ends {
        items: named?,
        except: except?,
    })
}

fn items(value: &Cursor<'_>, sets: &Sets, reader: &mut Reader<'_>) -> Result<Vec<(End, Span)>, Unreadable> {
    let mut found = Vec::new();
    let mut sound = Ok(());
    for item in one_or_more(value, reader)? {
        match one(&item, sets, &mut found, reader) {
            Ok(()) => {}
            Err(unreadable) => sound = Err(unreadable),
        }
    }
    if sound.is_ok() && found.is_empty() {
        return Err(reader.error(codes::END, value, "the list is empty: it names nothing"));
    }
    sound.map(|()| found)
}

fn one(
    at: &Cursor<'_>,
    sets: &Sets,
    found: &mut Vec<(End, Span)>,
    reader: &mut Reader<'_>,
) -> Result<(), Unreadable> {
    if matches!(at.node().value, Value::Mapping(_)) {
        return structured(at, sets, found, reader);
    }
    let text = at.string(reader)?;
    let span = reader.source().span(at.node().range.clone());
    match named(text) {
        Ok(end) => {
            found.push((end, span));
            Ok(())
        }
        Err(message) => Err(reader.error(codes::END, at, message)),
    }
}

/// What a text names, or what is wrong with it.
fn named(text: &SmolStr) -> Result<End, String> {
    match text.as_str() {
        "any" => return Ok(End::Any),
        "external" => {
            return Ok(End::External {
                within: Vec::new(),
                except: Vec::new(),
            });
        }
        _ => {}
    }
    if let Some(address) = parse_address(text) {
        return Ok(End::Block(Prefix::host(address)));
    }
    if let Ok((prefix, notes)) = Prefix::parse(text) {
        return if notes.is_empty() {
            Ok(End::Block(prefix))
        } else {
            Err(format!("`{text}` can be read in two ways: write `{prefix}`"))
        };
    }
    if let Some((node, address)) = text.split_once('@')
        && is_name(node)
        && parse_address(address).is_some()
    {
        return Ok(End::Named(text.clone()));
    }
    let parts: Vec<_> = text.split('/').collect();
    match parts.as_slice() {
        [namespace, "*"] if is_name(namespace) => Ok(End::Namespace((*namespace).into())),
        [_] | [_, _] | [_, _, _] if parts.iter().all(|part| is_name(part)) => Ok(End::Named(text.clone())),
        _ => Err(format!(
            "`{text}` is no end: write `any`, `external`, `namespace/pod`, `namespace/Kind/name`, `namespace/*`, the \
             name of a node, an address or a prefix"
        )),
    }
}

fn is_name(text: &str) -> bool {
    let allowed = |character: char| character.is_ascii_alphanumeric() || "-._@".contains(character);
    !text.is_empty() && text.chars().all(allowed)
}

/// Selectors, a named set, or a part of what is outside.
fn structured(
    at: &Cursor<'_>,
    sets: &Sets,
    found: &mut Vec<(End, Span)>,
    reader: &mut Reader<'_>,
) -> Result<(), Unreadable> {
    let mut fields = at.fields(reader)?;
    let (set, external, except) = (fields.get("set"), fields.get("external"), fields.get("except"));
    let (namespaces, pods) = (fields.get("namespaceSelector"), fields.get("podSelector"));
    if !fields.unknown(&[], reader).is_empty() {
        return Err(Unreadable);
    }
    let text = reader.source().slice(at.node().range.clone());
    let width = text.lines().next().map_or(0, str::len);
    let start = at.node().range.start;
    let span = reader.source().span(start..start + width);
    match (set, external, namespaces, pods) {
        (Some(set), None, None, None) if except.is_none() => found.extend(named_set(&set, sets, reader)?),
        (None, Some(external), None, None) => {
            let within = prefixes(&external, reader);
            let except = except.map_or(Ok(Vec::new()), |except| prefixes(&except, reader));
            found.push((
                End::External {
                    within: within?,
                    except: except?,
                },
                span,
            ));
        }
        (None, None, namespaces, pods) if except.is_none() && (namespaces.is_some() || pods.is_some()) => {
            let mut selector =
                |at: Option<Cursor<'_>>| at.map(|at| label_selector::read(&at, reader).whole()).transpose();
            let (namespaces, pods) = (selector(namespaces), selector(pods));
            found.push((
                End::Selected {
                    namespaces: namespaces?,
                    pods: pods?,
                },
                span,
            ));
        }
        _ => {
            let message = "an end has a `podSelector`, a `namespaceSelector` or both, or `external` with or without `except`, or \
                           a `set`";
            return Err(reader.error(codes::END, at, message));
        }
    }
    Ok(())
}

fn named_set(at: &Cursor<'_>, sets: &Sets, reader: &mut Reader<'_>) -> Result<Vec<(End, Span)>, Unreadable> {
    let name = at.string(reader)?;
    match sets.get(name) {
        Some(Some(items)) => Ok(items.clone()),
        // What is wrong with the set has been reported there.
        Some(None) => Err(Unreadable),
        None => {
            let (names, _) = nearest(name, sets.keys().map(SmolStr::to_string), 3);
            let names: Vec<_> = names.iter().map(|name| format!("`{name}`")).collect();
            let known = match names.len() {
                0 => "the file has no `sets` that could be named here".to_owned(),
                _ => format!("there are {}", names.join(", ")),
            };
            Err(reader.error(codes::END, at, format!("there is no set `{name}`: {known}")))
        }
    }
}

fn prefixes(at: &Cursor<'_>, reader: &mut Reader<'_>) -> Result<Vec<Prefix>, Unreadable> {
    let mut prefixes = Vec::new();
    for item in one_or_more(at, reader)? {
        let text = item.string(reader)?;
        match named(text) {
            Ok(End::Block(prefix)) => prefixes.push(prefix),
            Err(message) => return Err(reader.error(codes::END, &item, message)),
            Ok(_) => {
                let message =
                    format!("`{text}` is no prefix: write addresses and prefixes, such as `203.0.113.0/24`");
                return Err(reader.error(codes::END, &item, message));
            }
        }
    }
    if prefixes.is_empty() {
        let message = "the list is empty: write `external` for everything that is outside";
        return Err(reader.error(codes::END, at, message));
    }
    Ok(prefixes)
}
