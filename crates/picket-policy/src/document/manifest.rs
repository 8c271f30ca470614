//! Objects of a file: documents that have a kind, and the items of lists.

use smol_str::SmolStr;

use super::compose::Root;
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
    is_broken: bool,
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

    /// Whether a part of it could not be parsed, which a diagnostic says: what its fields do not say, it may have said.
    pub fn is_broken(&self) -> bool {
        self.is_broken
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
    root: Root,
    manifests: &mut Vec<Manifest>,
    diagnostics: &mut Vec<Diagnostic>,
) {
    let mut flattening = Flattening {
        source,
        broken: &root.broken,
        manifests,
        diagnostics,
    };
    if root.is_list {
        flattening.take_rest_of_list(&root.node);
    } else {
        flattening.take(root.node, None);
    }
}

struct Flattening<'a> {
    source: &'a Source,
    /// Where the objects begin of which a part is missing.
    broken: &'a [usize],
    manifests: &'a mut Vec<Manifest>,
    diagnostics: &'a mut Vec<Diagnostic>,
}

impl Flattening<'_> {
    fn take(&mut self, root: Node, defaults: Option<&Defaults>) {
        let is_broken = self.broken.binary_search(&root.range.start).is_ok();
        match &root.value {
            Value::Mapping(_) => {}
            // Reported where it was found.
            Value::Unreadable => return,
            _ if is_broken => return,
            other => {
                let message = format!(
                    "an object with `apiVersion` and `kind` must be a mapping, not a value of type {}",
                    other.type_name()
                );
                return self.report(code::NOT_AN_OBJECT, message, &root);
            }
        }
        let (kind, api_version) = match kind_and_version(&root, defaults) {
            Ok(named) => named,
            // That they are missing follows from what has been reported.
            Err(_) if is_broken => return,
            Err(missing) => {
                let head = first_line(self.source, &root);
                return self.report(code::NO_KIND, format!("the object {missing}"), &head);
            }
        };
        let items = root.get("items");
        if let (Some(item_kind), Some(items)) = (kind.strip_suffix("List"), items) {
            self.take_items(items, item_kind, &api_version);
            return;
        }
        self.manifests.push(Manifest {
            source: self.source.clone(),
            root,
            api_version,
            kind,
            is_broken,
        });
    }

    fn take_items(&mut self, items: &Node, kind: &str, api_version: &SmolStr) {
        let typed = Defaults {
            api_version: api_version.clone(),
            kind: kind.into(),
        };
        let defaults = (!kind.is_empty()).then_some(&typed);
        match &items.value {
            Value::Sequence(items) => {
                for item in items.iter() {
                    self.take(item.clone(), defaults);
                }
            }
            Value::Null | Value::Unreadable => {}
            other => {
                let message = format!(
                    "`items` must be a list, not a value of type {}",
                    other.type_name()
                );
                self.report(code::NOT_AN_OBJECT, message, items);
            }
        }
    }

    /// The items of a list whose `kind` may stand in the part that could not be parsed. Nothing else has `items`.
    fn take_rest_of_list(&mut self, root: &Node) {
        let (kind, api_version) = kind_and_version(root, None).unwrap_or_default();
        let kind = kind.strip_suffix("List").unwrap_or_default();
        if let Some(items) = root.get("items") {
            self.take_items(items, kind, &api_version);
        }
    }

    fn report(&mut self, code: Code, message: String, node: &Node) {
        let diagnostic = Diagnostic::new(code, Severity::Error, message);
        self.diagnostics.push(
            diagnostic
                .mark(self.source.span(node.range.clone()), "")
                .note("nothing of it is read"),
        );
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
