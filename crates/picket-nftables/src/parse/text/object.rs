//! Tables, counters, sets, maps and chains.

use super::token::{Cursor, TextError};
use super::{rule, value};
use crate::model::{
    Base, Chain, Comment, Counter, Datatype, Datum, Draft, Hook, Key, Map, MapType, Name, Policy, Set,
};
use crate::parse::names;

/// The name of something; quoted or not.
pub(super) fn name(cursor: &mut Cursor<'_, '_>) -> Result<Name, TextError> {
    let text = cursor.text("a name")?;
    Name::new(text).ok_or_else(|| cursor.error(format!("picket gives no object the name `{text}`")))
}

pub(super) fn comment(cursor: &mut Cursor<'_, '_>) -> Result<Comment, TextError> {
    Ok(Comment::of(cursor.text("a comment")?))
}

/// The table, from behind its opening brace on.
pub(super) fn table(cursor: &mut Cursor<'_, '_>, title: &str) -> Result<Draft, TextError> {
    let title = Name::new(title).ok_or_else(|| cursor.error(format!("no name: `{title}`")))?;
    let mut draft = Draft::new(title);
    while !cursor.closes() {
        match cursor.word("an object or `}`")? {
            "comment" => draft.comment = Some(comment(cursor)?),
            "counter" => {
                let counter = counter(cursor)?;
                draft.counters.push(counter);
            }
            "set" => draft.sets.push(set(cursor)?),
            "map" => draft.maps.push(map(cursor)?),
            "chain" => draft.chains.push(chain(cursor)?),
            "flags" => {
                // Who may change a table says nothing of what it does, and nft 1.0.6 prints nothing for `persist`.
                while !cursor.at_end() {
                    if cursor.next().is_some_and(|flag| flag.text == "dormant") {
                        return Err(cursor.error("the table is dormant: none of its rules is in force"));
                    }
                }
            }
            other => return Err(cursor.error(format!("picket writes no `{other}` into its table"))),
        }
    }
    Ok(draft)
}

fn counter(cursor: &mut Cursor<'_, '_>) -> Result<Counter, TextError> {
    let mut counter = Counter {
        name: name(cursor)?,
        comment: None,
    };
    cursor.open()?;
    while !cursor.closes() {
        match cursor.word("`comment`, `packets` or `}`")? {
            "comment" => counter.comment = Some(comment(cursor)?),
            "packets" => cursor.skip_statement(),
            other => return Err(cursor.error(format!("`{other}` is nothing that a counter has"))),
        }
    }
    Ok(counter)
}

/// What sets and maps have in common.
#[derive(Default)]
struct Header {
    key: Vec<Datatype>,
    gives: Option<MapType>,
    interval: bool,
    comment: Option<Comment>,
    elements: Vec<(Key, Option<Datum>)>,
}

fn header(cursor: &mut Cursor<'_, '_>) -> Result<Header, TextError> {
    let mut header = Header::default();
    cursor.open()?;
    while !cursor.closes() {
        match cursor.word("a property or `}`")? {
            "type" => types(cursor, &mut header)?,
            "flags" => match cursor.word("flags")? {
                "interval" => header.interval = true,
                "constant" => {}
                other => return Err(cursor.error(format!("picket gives no set the flag `{other}`"))),
            },
            "comment" => header.comment = Some(comment(cursor)?),
            "size" | "counter" => cursor.skip_statement(),
            "elements" => elements(cursor, &mut header)?,
            other => return Err(cursor.error(format!("picket gives no set `{other}`"))),
        }
        if !cursor.at_end() {
            let found = cursor.next().map_or("", |token| token.text);
            return Err(cursor.error(format!("`{found}` is more than picket writes here")));
        }
    }
    Ok(header)
}

fn types(cursor: &mut Cursor<'_, '_>, header: &mut Header) -> Result<(), TextError> {
    loop {
        let text = cursor.word("a type")?;
        let datatype = value::datatype(text);
        header
            .key
            .push(datatype.ok_or_else(|| cursor.error(format!("picket makes no sets of type `{text}`")))?);
        if cursor.take(".") {
            continue;
        }
        if cursor.take(":") {
            let text = cursor.word("a type")?;
            header.gives = Some(match text {
                "verdict" => MapType::Verdict,
                "mark" => MapType::Mark,
                "classid" => MapType::Priority,
                _ => return Err(cursor.error(format!("picket makes no maps that give `{text}`"))),
            });
        }
        return Ok(());
    }
}

fn elements(cursor: &mut Cursor<'_, '_>, header: &mut Header) -> Result<(), TextError> {
    cursor.expect("=")?;
    cursor.open()?;
    while !cursor.closes() {
        let mut values = Vec::new();
        for (index, &datatype) in header.key.iter().enumerate() {
            if index > 0 {
                cursor.expect(".")?;
            }
            values.push(value::value(cursor, datatype)?);
        }
        if values.is_empty() {
            return Err(cursor.error("elements of a set without a type before them"));
        }
        if cursor.take("counter") {
            for word in ["packets", "bytes"] {
                cursor.expect(word)?;
                cursor.word("a count")?;
            }
        }
        let datum = match header.gives {
            None => None,
            Some(gives) => {
                cursor.expect(":")?;
                Some(match gives {
                    MapType::Verdict => {
                        let word = cursor.word("a verdict")?;
                        Datum::Verdict(rule::verdict(cursor, word)?)
                    }
                    MapType::Mark => Datum::Mark(value::mark(cursor)?),
                    MapType::Priority => Datum::Priority(value::class(cursor)?),
                })
            }
        };
        header.elements.push((Key::of(values), datum));
        cursor.skip_ends();
        if !cursor.take(",") {
            cursor.skip_ends();
            if cursor.peek() != Some("}") {
                let found = cursor.next().map_or("the end", |token| token.text);
                return Err(cursor.error(format!("`{found}` is more than picket writes into an element")));
            }
        }
    }
    Ok(())
}

fn set(cursor: &mut Cursor<'_, '_>) -> Result<Set, TextError> {
    let title = name(cursor)?;
    let line = cursor.line();
    let header = header(cursor)?;
    let keys = header.elements.into_iter().map(|(key, _)| key);
    let set = Set::new(title, header.key, header.interval, keys)
        .map_err(|error| TextError::new(line, error.to_string()))?;
    Ok(match header.comment {
        Some(comment) => set.commented(comment),
        None => set,
    })
}

fn map(cursor: &mut Cursor<'_, '_>) -> Result<Map, TextError> {
    let title = name(cursor)?;
    let line = cursor.line();
    let header = header(cursor)?;
    let gives = header
        .gives
        .ok_or_else(|| TextError::new(line, format!("map `{title}` does not say what it gives")))?;
    let pairs = header.elements.into_iter();
    let pairs = pairs.filter_map(|(key, datum)| Some((key, datum?)));
    let map = Map::new(title, header.key, gives, header.interval, pairs)
        .map_err(|error| TextError::new(line, error.to_string()))?;
    Ok(match header.comment {
        Some(comment) => map.commented(comment),
        None => map,
    })
}

fn chain(cursor: &mut Cursor<'_, '_>) -> Result<Chain, TextError> {
    let mut chain = Chain::regular(name(cursor)?);
    cursor.open()?;
    while !cursor.closes() {
        if cursor.is_done() {
            return Err(cursor.error(format!("chain `{}` is not closed", chain.name)));
        }
        if cursor.take("comment") {
            chain.comment = Some(comment(cursor)?);
        } else if cursor.take("type") {
            chain.base = Some(base(cursor)?);
        } else if cursor.take("policy") {
            let policy = policy(cursor)?;
            match &mut chain.base {
                Some(base) => base.policy = policy,
                None => return Err(cursor.error("a policy of a chain that no packets enter")),
            }
        } else {
            chain.rules.push(rule::rule(cursor)?);
        }
    }
    Ok(chain)
}

fn base(cursor: &mut Cursor<'_, '_>) -> Result<Base, TextError> {
    let kind = cursor.word("the type of the chain")?;
    if kind != "filter" {
        return Err(cursor.error(format!("picket makes no chains of type `{kind}`")));
    }
    cursor.expect("hook")?;
    let text = cursor.word("a hook")?;
    let hook = Hook::from_keyword(text);
    let hook = hook.ok_or_else(|| cursor.error(format!("picket makes no chains at hook `{text}`")))?;
    cursor.expect("priority")?;
    let mut words = Vec::new();
    while !cursor.at_end() {
        words.push(cursor.word("a priority")?);
    }
    let priority = names::priority(&words)
        .ok_or_else(|| cursor.error(format!("`{}` is no priority", words.join(" "))))?;
    Ok(Base {
        hook,
        priority,
        policy: Policy::Accept,
    })
}

fn policy(cursor: &mut Cursor<'_, '_>) -> Result<Policy, TextError> {
    match cursor.word("a policy")? {
        "accept" => Ok(Policy::Accept),
        "drop" => Ok(Policy::Drop),
        other => Err(cursor.error(format!("`{other}` is no policy of a chain"))),
    }
}
