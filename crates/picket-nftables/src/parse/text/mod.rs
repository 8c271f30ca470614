//! From nft's own language to the model: what `nft list ruleset` prints, and what [`crate::print::text`] writes.

mod object;
mod rule;
mod token;
mod value;

use super::listing::{Listing, Other};
use crate::model::Draft;
use token::{Cursor, TextError, tokens};

pub use token::TextError as Error;

/// Reads a listing; of its tables only `inet` `name` in full.
pub(super) fn listing(text: &str, name: &str) -> Result<Listing, TextError> {
    let tokens = tokens(text)?;
    let mut cursor = Cursor::new(&tokens);
    let mut found = Listing::default();
    let mut drafts: Vec<(Draft, usize)> = Vec::new();
    loop {
        cursor.skip_ends();
        let Some(word) = cursor.next_word() else { break };
        match word {
            // Our own text names the table twice before, to make sure that there is one to delete.
            "add" | "delete" | "flush" | "destroy" => cursor.skip_statement(),
            "table" => {
                let (family, line) = (cursor.word("a family")?, cursor.line());
                let table = cursor.word("the name of a table")?;
                cursor.open()?;
                if (family, table) == ("inet", name) {
                    if !drafts.is_empty() {
                        return Err(TextError::new(line, format!("table inet {name} is there twice")));
                    }
                    drafts.push((object::table(&mut cursor, table)?, line));
                } else {
                    found.others.push(other(&mut cursor, family, table)?);
                }
            }
            other => {
                let expected = format!("expected `table`, found `{other}`");
                return Err(TextError::new(cursor.line(), expected));
            }
        }
    }
    if let Some((draft, line)) = drafts.pop() {
        let table = draft
            .check()
            .map_err(|error| TextError::new(line, error.to_string()))?;
        found.table = Some(table);
    }
    Ok(found)
}

/// Passes over somebody else's table, and notes the hooks at which it looks at packets.
fn other(cursor: &mut Cursor<'_, '_>, family: &str, name: &str) -> Result<Other, TextError> {
    let mut other = Other {
        family: family.to_owned(),
        name: name.to_owned(),
        hooks: Vec::new(),
    };
    let mut depth = 1_usize;
    while depth > 0 {
        let Some(token) = cursor.next() else {
            return Err(TextError::new(
                cursor.line(),
                format!("table {family} {name} is not closed"),
            ));
        };
        match token.text {
            "{" if !token.quoted => depth += 1,
            "}" if !token.quoted => depth -= 1,
            "hook" if !token.quoted && depth == 2 => other.hooks.extend(cursor.peek().map(str::to_owned)),
            _ => {}
        }
    }
    other.hooks.sort();
    other.hooks.dedup();
    Ok(other)
}
