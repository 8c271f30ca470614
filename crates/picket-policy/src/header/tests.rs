use super::{Header, OwnerReference, Scope, header};
use crate::{Diagnostic, Unreadable, read};

fn of(metadata: &str, scope: Scope) -> (Result<Header, Unreadable>, Vec<Diagnostic>) {
    let text = format!("# a comment\n---\nkind: K\napiVersion: v1\nmetadata: {metadata}\n");
    let (manifests, _) = read(&"k.yaml".into(), text.as_bytes());
    let (mut reader, root) = manifests[0].reader();
    let mut fields = root.fields(&mut reader).unwrap();
    let header = header(&manifests[0], scope, &mut fields, &mut reader);
    (header, reader.finish())
}

fn messages(diagnostics: &[Diagnostic]) -> Vec<&str> {
    diagnostics
        .iter()
        .map(|diagnostic| diagnostic.message.as_str())
        .collect()
}

#[test]
fn an_object_has_names_labels_and_owners() {
    let metadata = "{name: a, namespace: b, uid: u, labels: {k: v, empty: }, annotations: {note: é é}, \
                    creationTimestamp: null, managedFields: [], ownerReferences: [{apiVersion: apps/v1, kind: \
                    ReplicaSet, name: r, uid: w, controller: true, blockOwnerDeletion: true}, {kind: X, name: s}]}";
    let (header, diagnostics) = of(metadata, Scope::Namespaced);
    let header = header.unwrap();
    assert_eq!(messages(&diagnostics), [""; 0]);
    assert_eq!(
        (header.object.to_string(), header.object.uid.as_str()),
        ("K b/a".to_owned(), "u")
    );
    assert_eq!(header.position.line, 3);
    assert_eq!(header.labels, [("k", "v"), ("empty", "")].into_iter().collect());
    assert_eq!(header.annotations, [("note", "é é")].into_iter().collect());
    assert!(header.labels_complete && !header.name_made_up);
    let owner = |kind: &str, name: &str, uid: &str, controller| OwnerReference {
        kind: kind.into(),
        name: name.into(),
        uid: uid.into(),
        controller,
    };
    assert_eq!(
        header.owners,
        [owner("ReplicaSet", "r", "w", true), owner("X", "s", "", false)]
    );
}

#[test]
fn the_namespace_is_a_default_for_some_kinds_and_forbidden_for_others() {
    for (metadata, scope, expected, problems) in [
        ("{name: a}", Scope::Namespaced, "K default/a", 0),
        ("{name: a, namespace: ''}", Scope::Namespaced, "K default/a", 0),
        ("{name: a, namespace: null}", Scope::Namespaced, "K default/a", 0),
        ("{name: a.b}", Scope::Cluster, "K a.b", 0),
        ("{name: a.b}", Scope::Namespace, "K a.b", 1),
        ("{name: a, namespace: b}", Scope::Cluster, "K a", 1),
        ("{name: a, namespace: ''}", Scope::Cluster, "K a", 0),
    ] {
        let (header, diagnostics) = of(metadata, scope);
        assert_eq!(header.unwrap().object.to_string(), expected, "{metadata}");
        assert_eq!(diagnostics.len(), problems, "{metadata}: {diagnostics:?}");
    }
}

#[test]
fn a_namespace_that_cannot_be_told_is_unreadable() {
    for metadata in [
        "{name: a, namespace: [b]}",
        "{name: a, namspace: b}",
        "{name: a, Namespace: b}",
        "{name: a, namespace: b, namespace: c}",
        "[]",
        "{name: a}\nnamespace: b",
        "null\nnamespace: b",
        "null\nmetdata: {namespace: b}",
    ] {
        let (header, _) = of(metadata, Scope::Namespaced);
        assert_eq!(header, Err(Unreadable), "{metadata}");
    }
}

#[test]
fn labels_that_cannot_be_read_are_left_out_and_told() {
    for (labels, expected, complete) in [
        ("{a: b, c: 1}", vec![("a", "b")], false),
        ("[a]", vec![], false),
        ("{a: b c}", vec![("a", "b c")], true),
        ("null", vec![], true),
    ] {
        let (header, diagnostics) = of(&format!("{{name: a, labels: {labels}}}"), Scope::Namespaced);
        let header = header.unwrap();
        assert_eq!(header.labels, expected.into_iter().collect(), "{labels}");
        assert_eq!(header.labels_complete, complete, "{labels}");
        assert_eq!(diagnostics.len(), usize::from(labels != "null"), "{labels}");
    }
}
