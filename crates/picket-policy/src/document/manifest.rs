//! Objects of a file: documents that have a kind, and the items of lists.

use smol_str::SmolStr;

use super::node::{Node, Value};
use super::source::Source;
use crate::{Code, Diagnostic, Position, Severity, code, name};

/// One object of a file, whatever its kind.
#[derive(Clone, Debug)]
pub struct Manifest {
    source: Source,
    root: Node,
    api_version: SmolStr,
    kind: SmolStr,
}

impl Manifest {
    /// The text that it comes from.
    pub fn source(&self) -> &Source {
        &self.source
    }

    /// Its fields.
    pub fn root(&self) -> &Node {
        &self.root
    }

    /// `apiVersion`, as in `networking.k8s.io/v1`. An item of a list of one kind, as `PodList`, has the list's.
    pub fn api_version(&self) -> &SmolStr {
        &self.api_version
    }

    /// `kind`. An item of a list of one kind, as `PodList`, has the kind that the list's name tells.
    pub fn kind(&self) -> &SmolStr {
        &self.kind
    }

    /// The line on which its first key stands.
    pub fn position(&self) -> Position {
        self.source.position(self.root.range.start)
    }
}

/// What a list says about its items.
struct Defaults {
    api_version: SmolStr,
    kind: SmolStr,
}

/// Turns a document into the objects it holds: itself, or the items of the list that it is.
pub(super) fn flatten(
    source: &Source,
    root: Node,
    manifests: &mut Vec<Manifest>,
    diagnostics: &mut Vec<Diagnostic>,
) {
    take(source, root, None, manifests, diagnostics);
}

fn take(
    source: &Source,
    root: Node,
    defaults: Option<&Defaults>,
    manifests: &mut Vec<Manifest>,
    diagnostics: &mut Vec<Diagnostic>,
) {
    let mut report = |code: Code, message: String, node: &Node| {
        let diagnostic = Diagnostic::new(code, Severity::Error, message);
        diagnostics.push(
            diagnostic
                .mark(source.span(node.range.clone()), "")
                .note("nothing of it is read"),
        );
    };
    match &root.value {
        Value::Mapping(_) => {}
        // Reported where it was found.
        Value::Unreadable => return,
        other => {
            let message = format!(
                "an object with `apiVersion` and `kind` must be a mapping, not a value of type {}",
                other.type_name()
            );
            return report(code::NOT_AN_OBJECT, message, &root);
        }
    }
    let (kind, api_version) = match kind_and_version(&root, defaults) {
        Ok(named) => named,
        Err(missing) => {
            let head = first_line(source, &root);
            return report(code::NO_KIND, format!("the object {missing}"), &head);
        }
    };
    let items = root.get("items");
    let (Some(item_kind), Some(items)) = (kind.strip_suffix("List"), items) else {
        manifests.push(Manifest {
            source: source.clone(),
            root,
            api_version,
            kind,
        });
        return;
    };
    let typed = Defaults {
        api_version,
        kind: item_kind.into(),
    };
    let defaults = (!item_kind.is_empty()).then_some(&typed);
    match &items.value {
        Value::Sequence(items) => {
            for item in items.iter() {
                take(source, item.clone(), defaults, manifests, diagnostics);
            }
        }
        Value::Null | Value::Unreadable => {}
        other => {
            let message = format!(
                "`items` must be a list, not a value of type {}",
                other.type_name()
            );
            report(code::NOT_AN_OBJECT, message, items);
        }
    }
}

/// `kind` and `apiVersion` of an object, or what is the matter with them.
fn kind_and_version(root: &Node, defaults: Option<&Defaults>) -> Result<(SmolStr, SmolStr), String> {
    let text = |field: &str, default: Option<&SmolStr>| match root.get(field).map(|node| &node.value) {
        Some(Value::String(text)) if !text.is_empty() => Ok(name::printable(text)),
        None | Some(Value::Null) => default.cloned().ok_or("has no"),
        Some(Value::Unreadable) => Err("has an unreadable"),
        Some(_) => Err("has an unusable"),
    };
    let kind = text("kind", defaults.map(|defaults| &defaults.kind));
    let api_version = text("apiVersion", defaults.map(|defaults| &defaults.api_version));
    match (kind, api_version) {
        (Ok(kind), Ok(api_version)) => Ok((kind, api_version)),
        (kind, api_version) => {
            let missing = [("kind", kind.err()), ("apiVersion", api_version.err())];
            let missing = missing
                .into_iter()
                .filter_map(|(field, problem)| Some(format!("{} `{field}`", problem?)));
            Err(missing.collect::<Vec<_>>().join(" and "))
        }
    }
}

/// A node that takes up the first line of another: marking a whole object would hide what is meant.
fn first_line(source: &Source, node: &Node) -> Node {
    let text = source.slice(node.range.clone());
    let width = text.lines().next().map_or(0, str::len);
    Node {
        value: Value::Null,
        range: node.range.start..node.range.start + width,
    }
}
