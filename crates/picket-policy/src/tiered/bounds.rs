//! How many and how big: constraints of a schema, in the words of kube-openapi and `apiextensions-apiserver`.

use crate::reader::{Cursor, Fields, Reader, Unreadable};
use crate::{Code, code};

/// A number between two others.
pub(crate) fn number(
    at: &Cursor<'_>,
    least: u16,
    most: u16,
    code: Code,
    reader: &mut Reader<'_>,
) -> Result<u16, Unreadable> {
    let written = at.integer(reader)?;
    let number = u16::try_from(written)
        .ok()
        .filter(|number| (least..=most).contains(number));
    number.ok_or_else(|| {
        let bound = if written < i64::from(least) {
            format!("greater than or equal to {least}")
        } else {
            format!("less than or equal to {most}")
        };
        let message = format!(
            "Invalid value: {written}: {} in body should be {bound}",
            at.path()
        );
        reader.error(code, at, message)
    })
}

/// The only field of a mapping that has to have exactly one of these.
pub(crate) fn one_of<'a, const N: usize>(
    fields: &mut Fields<'a>,
    names: [&'static str; N],
    code: Code,
    reader: &mut Reader<'_>,
) -> Result<(&'static str, Cursor<'a>), Unreadable> {
    let found: Vec<_> = names
        .into_iter()
        .filter_map(|name| Some((name, fields.get(name)?)))
        .collect();
    if !fields.unknown(&[], reader).is_empty() {
        return Err(Unreadable);
    }
    let at = fields.cursor();
    let several = found.len();
    let mut found = found.into_iter();
    match (found.next(), several) {
        (Some(only), 1) => Ok(only),
        (None, _) => {
            let message = format!(
                "Invalid value: 0: {} in body should have at least 1 properties",
                at.path()
            );
            Err(reader.error(code, at, message))
        }
        (Some(_), _) => {
            let message = format!("Too many: {several}: must have at most 1 items");
            Err(reader.error(code, at, message))
        }
    }
}

/// The items of a list that must have at least one. Too many are reported, and read all the same: what they mean is
/// clear.
pub(crate) fn items<'a>(
    at: &Cursor<'a>,
    most: usize,
    reader: &mut Reader<'_>,
) -> Result<Vec<Cursor<'a>>, Unreadable> {
    let items = at.items(reader)?;
    if items.is_empty() {
        let message = format!(
            "Invalid value: 0: {} in body should have at least 1 items",
            at.path()
        );
        return Err(reader.error(code::COUNT, at, message));
    }
    at_most(at, items.len(), most, reader);
    Ok(items)
}

/// Reports a list that is too long.
pub(crate) fn at_most(at: &Cursor<'_>, length: usize, most: usize, reader: &mut Reader<'_>) {
    if length > most {
        let message = format!("Too many: {length}: must have at most {most} items");
        let diagnostic = reader.report(code::COUNT, crate::Severity::Error, at, message);
        diagnostic.notes.push("all of them are read".to_owned());
    }
}
