//! Reading assertions.

mod end;
mod port;

use std::collections::BTreeMap;

use picket_net::Family;
use picket_policy::name::printable;
use picket_policy::{Cursor, Diagnostic, Manifest, NetworkName, Reader, Span, Unreadable, Value, code};
use smol_str::SmolStr;

use super::{Assertion, Claim, End, Ends, Sides, codes};

/// The kind of a document of assertions.
pub const KIND: &str = "ConnectivityTest";

/// The version of that kind.
pub const API_VERSION: &str = "picket.dev/v1";

/// The named sets of ends of a document; `None` for one that cannot be read.
type Sets = BTreeMap<SmolStr, Option<Vec<(End, Span)>>>;

/// Reads the assertions of one object. What cannot be read is left out, and has an error.
pub fn parse(manifest: &Manifest) -> (Vec<Assertion>, Vec<Diagnostic>) {
    let (mut reader, root) = manifest.reader();
    let mut assertions = Vec::new();
    // What is wrong has been reported.
    let _ = document(manifest, &root, &mut assertions, &mut reader);
    (assertions, reader.finish())
}

fn document(
    manifest: &Manifest,
    root: &Cursor<'_>,
    assertions: &mut Vec<Assertion>,
    reader: &mut Reader<'_>,
) -> Result<(), Unreadable> {
    let mut fields = root.fields(reader)?;
    for (field, written, expected) in [
        ("kind", manifest.kind(), KIND),
        ("apiVersion", manifest.api_version(), API_VERSION),
    ] {
        if let Some(at) = fields.get(field).filter(|_| written != expected) {
            reader.unsupported(code::UNSUPPORTED_VALUE, &at, written, &[expected]);
            return Err(Unreadable);
        }
    }
    let (network, sets, tests) = (fields.get("network"), fields.get("sets"), fields.get("tests"));
    fields.unknown(&["metadata"], reader);
    let network = network.map(|network| self::network(&network, reader)).transpose();
    let sets = sets.map_or(Ok(Sets::new()), |sets| end::sets(&sets, reader));
    let Some(tests) = tests else {
        return Err(reader.missing(codes::FORM, root, "tests", "Required value: a list of assertions"));
    };
    let (network, sets) = (network?, sets?);
    for test in tests.items(reader)? {
        let read = assertion(&test, &sets, reader);
        assertions.extend(read.map(|assertion| Assertion {
            network: assertion.network.or_else(|| network.clone()),
            ..assertion
        }));
    }
    Ok(())
}

fn assertion(at: &Cursor<'_>, sets: &Sets, reader: &mut Reader<'_>) -> Result<Assertion, Unreadable> {
    let mut fields = at.fields(reader)?;
    let name = fields.get("name");
    let said = ["allow", "deny", "reach"].map(|field| Some((fields.get(field)?, field)));
    let (exact, through) = (fields.get("exact"), fields.get("through"));
    let written = ["from", "to", "notFrom", "notTo"].map(|field| fields.get(field));
    let (ports, family, network) = (fields.get("ports"), fields.get("family"), fields.get("network"));
    let known = fields.unknown(&[], reader).is_empty();

    let name = name.map(|name| name.string(reader).cloned()).transpose();
    let through = through
        .map(|through| end::ends(&through, None, sets, reader))
        .transpose();
    let exact = exact.map(|exact| Ok((sides(&exact, reader)?, exact))).transpose();
    let claim = claim(at, said, exact, through, reader);
    let [from, to, not_from, not_to] = &written;
    let from = end::required(at, "from", from.as_ref(), not_from.as_ref(), sets, reader);
    let to = end::required(at, "to", to.as_ref(), not_to.as_ref(), sets, reader);
    let ports = ports.map_or(Ok(Vec::new()), |ports| port::ports(&ports, reader));
    let family = family.map(|family| self::family(&family, reader)).transpose();
    let network = network.map(|network| self::network(&network, reader)).transpose();
    let (name, claim, from, to) = (name?, claim?, from?, to?);
    let (ports, family, network) = (ports?, family?, network?);
    if !known {
        return Err(Unreadable);
    }
    let place = at.node().range.start;
    let text = reader.source().slice(at.node().range.clone());
    let width = text.lines().next().map_or(0, str::len);
    let position = reader.source().position(place);
    Ok(Assertion {
        name: name
            .map(|name| printable(&name))
            .unwrap_or_else(|| SmolStr::from(format!("the test at line {}", position.line))),
        claim,
        from,
        to,
        ports,
        family,
        network,
        position,
        span: reader.source().span(place..place + width),
    })
}

/// What is asserted: exactly one of `allow`, `deny` and `reach`, with its quantifier.
fn claim<'a>(
    at: &Cursor<'_>,
    said: [Option<(Cursor<'a>, &'static str)>; 3],
    exact: Result<Option<(Sides, Cursor<'a>)>, Unreadable>,
    through: Result<Option<Ends>, Unreadable>,
    reader: &mut Reader<'_>,
) -> Result<Claim, Unreadable> {
    let mut said = said.into_iter().flatten();
    let (Some((value, field)), None) = (said.next(), said.next()) else {
        let message = "an assertion has exactly one of `allow`, `deny` and `reach`";
        return Err(reader.error(codes::FORM, at, message));
    };
    let word = match &value.node().value {
        // YAML reads a plain `no` as a truth value.
        Value::Boolean(false) => "none",
        _ => value.string(reader)?.as_str(),
    };
    let (exact, through) = (exact?, through?);
    let sides = exact.as_ref().map_or(
        Sides {
            from: true,
            to: false,
            ports: false,
        },
        |(sides, _)| *sides,
    );
    let claim = match (field, word) {
        ("allow", "exactly") => return with(Claim::Exactly(sides), at, through.is_some(), reader),
        ("allow", "only") => return with(Claim::Only(sides), at, through.is_some(), reader),
        ("allow", "every") | ("deny", "none" | "no") => Claim::Allowed,
        ("allow", "none" | "no") | ("deny", "every") => Claim::Denied,
        ("reach", "never") => Claim::Unreachable(through.clone()),
        ("allow", _) => {
            return Err(unknown_word(
                &value,
                word,
                &["every", "none", "exactly", "only"],
                reader,
            ));
        }
        ("deny", _) => return Err(unknown_word(&value, word, &["every", "none"], reader)),
        _ => return Err(unknown_word(&value, word, &["never"], reader)),
    };
    if let Some((_, exact)) = exact {
        let message =
            "`exact` says on which sides `allow: exactly` and `allow: only` are exact; here it means nothing";
        return Err(reader.error(codes::FORM, &exact, message));
    }
    with(claim, at, field != "reach" && through.is_some(), reader)
}

fn unknown_word(at: &Cursor<'_>, word: &str, words: &[&'static str], reader: &mut Reader<'_>) -> Unreadable {
    reader.unsupported(code::UNSUPPORTED_VALUE, at, word, words)
}

/// The claim, unless it has a `through` that is not for it.
fn with(
    claim: Claim,
    at: &Cursor<'_>,
    misplaced: bool,
    reader: &mut Reader<'_>,
) -> Result<Claim, Unreadable> {
    if misplaced {
        let message =
            "`through` says through whom the steps of `reach: never` may lead; here it means nothing";
        return Err(reader.error(codes::FORM, at, message));
    }
    Ok(claim)
}

fn sides(at: &Cursor<'_>, reader: &mut Reader<'_>) -> Result<Sides, Unreadable> {
    let mut sides = Sides {
        from: false,
        to: false,
        ports: false,
    };
    for item in one_or_more(at, reader)? {
        match item.string(reader)?.as_str() {
            "from" => sides.from = true,
            "to" => sides.to = true,
            "ports" => sides.ports = true,
            other => return Err(unknown_word(&item, other, &["from", "to", "ports"], reader)),
        }
    }
    if !sides.from && !sides.to && !sides.ports {
        let message = "the list is empty: name `from`, `to` or `ports`, or leave `exact` out for `from`";
        return Err(reader.error(codes::FORM, at, message));
    }
    Ok(sides)
}

fn family(at: &Cursor<'_>, reader: &mut Reader<'_>) -> Result<Family, Unreadable> {
    match at.string(reader)?.as_str() {
        "ipv4" => Ok(Family::Ipv4),
        "ipv6" => Ok(Family::Ipv6),
        other => Err(unknown_word(at, other, &["ipv4", "ipv6"], reader)),
    }
}

fn network(at: &Cursor<'_>, reader: &mut Reader<'_>) -> Result<(NetworkName, Span), Unreadable> {
    let text = at.string(reader)?;
    let span = reader.source().span(at.node().range.clone());
    match NetworkName::parse(text, "default") {
        Some(network) => Ok((network, span)),
        None => Err(reader.error(
            codes::FORM,
            at,
            format!("`{text}` is no network: write `namespace/name`"),
        )),
    }
}

/// The items of a list, or a value that stands for a list of one.
fn one_or_more<'a>(value: &Cursor<'a>, reader: &mut Reader<'_>) -> Result<Vec<Cursor<'a>>, Unreadable> {
    match &value.node().value {
        Value::Sequence(_) => value.items(reader),
        _ => Ok(vec![value.clone()]),
    }
}
