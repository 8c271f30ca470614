//! The Rust files that the compiler reads, found as it finds them: from the targets of each crate through `mod`.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use syn::spanned::Spanned;
use syn::visit::Visit;

use crate::tree::{self, packages, root, text};

/// One file of a crate.
pub(crate) struct Module {
    /// The crate it belongs to.
    pub(crate) package: &'static str,
    /// Relative to the root of the workspace.
    pub(crate) path: PathBuf,
    pub(crate) source: String,
    pub(crate) syntax: syn::File,
    /// Whether all of it is compiled for tests or benchmarks only.
    pub(crate) only_for_tests: bool,
}

impl Module {
    /// The lines of the items that are compiled for tests only.
    pub(crate) fn test_lines(&self) -> Vec<RangeInclusive<usize>> {
        let mut finder = TestItems::default();
        finder.visit_file(&self.syntax);
        if self.only_for_tests {
            finder.0.push(1..=self.source.lines().count());
        }
        finder.0
    }

    /// `path:line`, as a compiler would print it.
    pub(crate) fn place(&self, line: usize) -> String {
        format!("{}:{line}", self.path.display())
    }
}

#[derive(Default)]
struct TestItems(Vec<RangeInclusive<usize>>);

impl Visit<'_> for TestItems {
    fn visit_item(&mut self, item: &syn::Item) {
        let attributes = match item {
            syn::Item::Mod(item) => &item.attrs,
            syn::Item::Fn(item) => &item.attrs,
            syn::Item::Impl(item) => &item.attrs,
            syn::Item::Use(item) => &item.attrs,
            _ => return syn::visit::visit_item(self, item),
        };
        if attributes.iter().any(is_for_tests) {
            self.0.push(item.span().start().line..=item.span().end().line);
        } else {
            syn::visit::visit_item(self, item);
        }
    }
}

/// Whether an attribute is `#[test]` or `#[cfg(test)]`.
fn is_for_tests(attribute: &syn::Attribute) -> bool {
    attribute.path().is_ident("test")
        || attribute.path().is_ident("cfg")
            && attribute
                .parse_args::<syn::Path>()
                .is_ok_and(|condition| condition.is_ident("test"))
}

/// Every module of every crate of the workspace, sorted by path.
pub(crate) fn modules() -> Vec<Module> {
    let mut found = BTreeMap::new();
    for package in packages(true) {
        for target in package["targets"].as_array().expect("targets") {
            let kinds: Vec<_> = target["kind"]
                .as_array()
                .expect("kinds")
                .iter()
                .map(text)
                .collect();
            let only_for_tests = kinds.iter().any(|kind| ["test", "bench"].contains(kind));
            let path = Path::new(text(&target["src_path"]));
            let path = path
                .strip_prefix(root())
                .expect("targets lie in the workspace")
                .to_owned();
            let mut walk = Walk {
                package: text(&package["name"]),
                found: &mut found,
            };
            walk.file(path, true, only_for_tests);
        }
    }
    found.into_values().collect()
}

struct Walk<'a> {
    package: &'static str,
    found: &'a mut BTreeMap<PathBuf, Module>,
}

impl Walk<'_> {
    /// Reads a file and the files that it declares. `owns_folder`: its modules lie beside it, not in a folder of its name.
    fn file(&mut self, path: PathBuf, owns_folder: bool, only_for_tests: bool) {
        let known = self.found.get(&path).map(|module| module.only_for_tests);
        if known.is_some_and(|known| !known || only_for_tests) {
            return;
        }
        let source = tree::read(&path);
        let syntax = syn::parse_file(&source).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let folder = if owns_folder {
            path.with_file_name("")
        } else {
            path.with_extension("")
        };
        let items = syntax.items.clone();
        let package = self.package;
        self.found.insert(
            path.clone(),
            Module {
                package,
                path: path.clone(),
                source,
                syntax,
                only_for_tests,
            },
        );
        self.items(&items, &path, &folder, only_for_tests);
    }

    fn items(&mut self, items: &[syn::Item], file: &Path, folder: &Path, only_for_tests: bool) {
        for item in items {
            let syn::Item::Mod(module) = item else { continue };
            let only_for_tests = only_for_tests || module.attrs.iter().any(is_for_tests);
            let name = module.ident.to_string();
            let path = module.attrs.iter().find_map(path_attribute);
            let path = path.map(|path| file.with_file_name(path));
            if let Some((_, items)) = &module.content {
                let folder = path.unwrap_or_else(|| folder.join(name));
                self.items(items, file, &folder, only_for_tests);
            } else if let Some(path) = path {
                self.file(path, true, only_for_tests);
            } else if root().join(folder).join(format!("{name}.rs")).is_file() {
                self.file(folder.join(format!("{name}.rs")), false, only_for_tests);
            } else {
                self.file(folder.join(name).join("mod.rs"), true, only_for_tests);
            }
        }
    }
}

/// The file, or the folder of a module that is written out, named by `#[path = "…"]`.
fn path_attribute(attribute: &syn::Attribute) -> Option<String> {
    match &attribute.meta {
        syn::Meta::NameValue(pair) if pair.path.is_ident("path") => match &pair.value {
            syn::Expr::Lit(syn::ExprLit {
                lit: syn::Lit::Str(path),
                ..
            }) => Some(path.value()),
            _ => None,
        },
        _ => None,
    }
}
