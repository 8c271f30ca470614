//! Between an event and a plan there is no I/O, no clock and no randomness.

use syn::visit::Visit;

use crate::assert_none;
use crate::modules::{Module, modules};

/// The crates that only compute.
const PURE: [&str; 10] = [
    "picket-net",
    "picket-policy",
    "picket-cluster",
    "picket-reference",
    "picket-engine",
    "picket-dataplane",
    "picket-analysis",
    "picket-nftables",
    "picket-vpp",
    "picket-neutron",
];

/// What speaks to others all the same, behind features that are off by default.
const RIM: [&str; 3] = [
    "crates/picket-vpp/src/client",
    "crates/picket-vpp/src/fake",
    "crates/picket-neutron/src/client",
];

/// What they must not name.
const FORBIDDEN: [&str; 18] = [
    "std::fs",
    "std::env",
    "std::process",
    "std::thread",
    "std::os",
    "std::io::stdin",
    "std::io::stdout",
    "std::io::stderr",
    "std::time::Instant",
    "std::time::SystemTime",
    "std::net::TcpStream",
    "std::net::TcpListener",
    "std::net::UdpSocket",
    "std::net::ToSocketAddrs",
    "std::hash::RandomState",
    "std::collections::hash_map::RandomState",
    "std::collections::HashMap",
    "std::collections::HashSet",
];

#[test]
fn the_core_computes_and_does_nothing_else() {
    let mut findings = Vec::new();
    let pure = |module: &Module| {
        PURE.contains(&module.package) && !RIM.iter().any(|rim| module.path.starts_with(rim))
    };
    for module in modules().iter().filter(|module| pure(module)) {
        let mut paths = Paths::default();
        paths.visit_file(&module.syntax);
        let tests = module.test_lines();
        for (path, line) in paths.0 {
            let forbidden = FORBIDDEN.iter().any(|start| {
                path.strip_prefix(start)
                    .is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
            });
            if forbidden && !tests.iter().any(|range| range.contains(&line)) {
                findings.push(format!("{}: `{path}`", module.place(line)));
            }
        }
    }
    assert_none(
        "these crates are pure: move I/O to the rim; hash with rustc_hash, whose order is the same in every run",
        &findings,
    );
}

/// Every path in code and in `use`, written out.
#[derive(Default)]
struct Paths(Vec<(String, usize)>);

impl Visit<'_> for Paths {
    fn visit_path(&mut self, path: &syn::Path) {
        let names: Vec<_> = path
            .segments
            .iter()
            .map(|segment| segment.ident.to_string())
            .collect();
        let line = path
            .segments
            .first()
            .map_or(0, |segment| segment.ident.span().start().line);
        self.0.push((names.join("::"), line));
        syn::visit::visit_path(self, path);
    }

    fn visit_item_use(&mut self, item: &syn::ItemUse) {
        self.use_tree("", &item.tree);
    }
}

impl Paths {
    fn use_tree(&mut self, prefix: &str, tree: &syn::UseTree) {
        let joined = |name: &syn::Ident| {
            if prefix.is_empty() {
                name.to_string()
            } else {
                format!("{prefix}::{name}")
            }
        };
        match tree {
            syn::UseTree::Path(path) => self.use_tree(&joined(&path.ident), &path.tree),
            syn::UseTree::Name(name) => self.0.push((joined(&name.ident), name.ident.span().start().line)),
            syn::UseTree::Rename(rename) => self
                .0
                .push((joined(&rename.ident), rename.ident.span().start().line)),
            syn::UseTree::Group(group) => group.items.iter().for_each(|tree| self.use_tree(prefix, tree)),
            syn::UseTree::Glob(glob) => {
                let line = glob.star_token.spans.first().map_or(0, |span| span.start().line);
                self.0.push((prefix.to_owned(), line));
            }
        }
    }
}
