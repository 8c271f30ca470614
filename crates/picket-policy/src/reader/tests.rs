use super::{Cursor, Reader, Unreadable};
use crate::document::Manifest;
use crate::{Diagnostic, Severity, code, read};

fn manifest(lines: &str) -> Manifest {
    let text = format!("apiVersion: v1\nkind: K\nmetadata: {{name: a, namespace: b}}\n{lines}\n");
    let (mut manifests, diagnostics) = read(&"k.yaml".into(), text.as_bytes());
    assert_eq!(diagnostics, []);
    manifests.remove(0)
}

/// What reading `x` of an object gives, and what is reported.
fn x<T>(
    lines: &str,
    read: impl FnOnce(&Cursor<'_>, &mut Reader<'_>) -> Result<T, Unreadable>,
) -> (Result<T, Unreadable>, Vec<Diagnostic>) {
    let manifest = manifest(lines);
    let (mut reader, root) = manifest.reader();
    let x = root.fields(&mut reader).unwrap().get("x").unwrap();
    let result = read(&x, &mut reader);
    (result, reader.finish())
}

#[test]
fn values_of_the_right_type_are_read_silently() {
    assert_eq!(
        x("x: a", |x, reader| x.string(reader).cloned()),
        (Ok("a".into()), vec![])
    );
    assert_eq!(x("x: 80", |x, reader| x.integer(reader)), (Ok(80), vec![]));
    assert_eq!(x("x: true", |x, reader| x.boolean(reader)), (Ok(true), vec![]));
    assert_eq!(
        x("x: [a, b]", |x, reader| Ok(x.items(reader)?.len())),
        (Ok(2), vec![])
    );
    assert_eq!(
        x("x: {a: b}", |x, reader| Ok(x.entries(reader)?.len())),
        (Ok(1), vec![])
    );
}

#[test]
fn wrong_types_name_both_and_offer_a_certain_edit() {
    type Read = fn(&Cursor<'_>, &mut Reader<'_>) -> Option<Unreadable>;
    let string: Read = |x, reader| x.string(reader).err();
    let integer: Read = |x, reader| x.integer(reader).err();
    let boolean: Read = |x, reader| x.boolean(reader).err();
    let items: Read = |x, reader| x.items(reader).err();
    let fields: Read = |x, reader| x.fields(reader).err();
    for (lines, read, message, edit) in [
        (
            "x: 80",
            string,
            "must be a string, not an integer",
            Some("\"80\""),
        ),
        (
            "x: yes",
            string,
            "must be a string, not a boolean",
            Some("\"yes\""),
        ),
        (
            "x: 1.5",
            string,
            "must be a string, not a number",
            Some("\"1.5\""),
        ),
        ("x: [a]", string, "must be a string, not an array", None),
        ("x: '80'", integer, "must be an integer, not a string", Some("80")),
        ("x: eighty", integer, "must be an integer, not a string", None),
        (
            "x: 'true'",
            boolean,
            "must be a boolean, not a string",
            Some("true"),
        ),
        ("x: a", items, "must be an array, not a string", None),
        ("x: {}", items, "must be an array, not an object", None),
        ("x: []", fields, "must be an object, not an array", None),
    ] {
        let (result, diagnostics) = x(lines, |x, reader| Ok(read(x, reader)));
        assert_eq!(result, Ok(Some(Unreadable)), "{lines}");
        assert_eq!(diagnostics.len(), 1, "{lines}");
        assert_eq!(
            (diagnostics[0].message.as_str(), diagnostics[0].field.as_str()),
            (message, "x")
        );
        let edits = diagnostics[0].fixes.iter().flat_map(|fix| &fix.edits);
        assert_eq!(
            edits.map(|edit| edit.replacement.as_str()).next(),
            edit,
            "{lines}"
        );
    }
}

#[test]
fn paths_are_written_as_the_api_server_writes_them() {
    let manifest = manifest("spec: {ingress: [{}, {ports: [{}, {endPort: a}]}]}");
    let (mut reader, root) = manifest.reader();
    let reader = &mut reader;
    let mut at = root.fields(reader).unwrap().get("spec").unwrap();
    at = at
        .fields(reader)
        .unwrap()
        .get("ingress")
        .unwrap()
        .items(reader)
        .unwrap()
        .remove(1);
    at = at
        .fields(reader)
        .unwrap()
        .get("ports")
        .unwrap()
        .items(reader)
        .unwrap()
        .remove(1);
    at = at.fields(reader).unwrap().get("endPort").unwrap();
    assert_eq!(at.path().to_string(), "spec.ingress[1].ports[1].endPort");
    assert_eq!(root.path().to_string(), "");
}

#[test]
fn unknown_fields_are_those_neither_asked_for_nor_named() {
    let (found, diagnostics) = x("x: {name: a, image: b, prots: c, nothing: null}", |x, reader| {
        let mut fields = x.fields(reader)?;
        assert!(fields.get("name").is_some() && fields.get("ports").is_none());
        assert!(fields.has("image") && fields.is_misspelt("ports") && !fields.is_misspelt("name"));
        Ok(fields.unknown(&["image"], reader))
    });
    let found: Vec<_> = found
        .unwrap()
        .into_iter()
        .map(|field| (field.name, field.suggestion))
        .collect();
    assert_eq!(found, [("prots".into(), Some("ports")), ("nothing".into(), None)]);
    let fields: Vec<_> = diagnostics
        .iter()
        .map(|diagnostic| diagnostic.field.as_str())
        .collect();
    assert_eq!(fields, ["x.prots", "x.nothing"]);
    assert_eq!(diagnostics[0].fixes[0].title, "did you mean `ports`?");
    assert_eq!(diagnostics[0].object.as_ref().unwrap().to_string(), "K b/a");
    assert_eq!(
        (
            diagnostics[0].labels[0].span.line,
            diagnostics[0].labels[0].span.column
        ),
        (4, 24)
    );
}

#[test]
fn many_unknown_fields_do_not_cost_their_square() {
    let count = 20_000;
    let written: Vec<_> = (0..count).map(|number| format!("f{number}: 1")).collect();
    let (found, diagnostics) = x(&format!("x: {{{}}}", written.join(", ")), |x, reader| {
        let mut fields = x.fields(reader)?;
        assert!(
            ["name", "ports", "image", "env"]
                .into_iter()
                .all(|name| fields.get(name).is_none())
        );
        Ok(fields.unknown(&["args", "command"], reader))
    });
    assert_eq!((found.unwrap().len(), diagnostics.len()), (count, super::MOST));
}

#[test]
fn null_is_missing_and_what_the_parser_reported_is_not_reported_again() {
    let manifest = manifest("z: null");
    let (mut reader, root) = manifest.reader();
    assert!(root.fields(&mut reader).unwrap().get("z").is_none());

    let text = "apiVersion: v1\nkind: K\nx: {a: 1, a: 2}\n";
    let (manifests, diagnostics) = read(&"k.yaml".into(), text.as_bytes());
    assert_eq!(diagnostics.len(), 1);
    let (mut reader, root) = manifests[0].reader();
    let x = root.fields(&mut reader).unwrap().get("x").unwrap();
    let a = x.fields(&mut reader).unwrap().get("a").unwrap();
    assert_eq!(a.integer(&mut reader), Err(Unreadable));
    assert_eq!(reader.diagnostics(), []);
    reader.consequence(0, &a, "so it goes");
    assert_eq!(reader.diagnostics()[0].notes, ["so it goes"]);
}

#[test]
fn of_very_much_the_errors_come_first_and_the_rest_is_counted() {
    let manifest = manifest("x: a");
    let (mut reader, root) = manifest.reader();
    let x = root.fields(&mut reader).unwrap().get("x").unwrap();
    for number in 0..5000 {
        let severity = match number {
            4999 => Severity::Error,
            _ => Severity::Warning,
        };
        reader.report(code::UNREADABLE, severity, &x, number.to_string());
    }
    let found = reader.finish();
    let messages: Vec<_> = found.iter().map(|one| one.message.as_str()).collect();
    assert_eq!((messages.len(), &messages[..2]), (100, &["4999", "0"][..]));
    assert_eq!(found[99].notes, ["4900 more of this object are not listed"]);
    assert!(found[98].notes.is_empty());
}
