//! Files: none orphaned, none too long, and every crate under the common lints.

use std::collections::BTreeSet;

use syn::spanned::Spanned;
use syn::visit::Visit;

use crate::assert_none;
use crate::modules::{Module, modules};
use crate::tree::{files_with, packages, read, text};

/// Lines of a file without those for tests.
const LONGEST_FILE: usize = 600;
/// Lines for tests in one file.
const LONGEST_TEST_FILE: usize = 900;
/// Lines of a function outside tests, from its signature to its end.
const LONGEST_FUNCTION: usize = 70;

#[test]
fn every_rust_file_is_compiled() {
    let compiled: BTreeSet<_> = modules().into_iter().map(|module| module.path).collect();
    // Fuzz targets are a workspace of their own, because they need a nightly compiler.
    let orphans = files_with("rs")
        .into_iter()
        .filter(|path| !compiled.contains(path) && !path.starts_with("fuzz"));
    let findings: Vec<_> = orphans.map(|path| path.display().to_string()).collect();
    assert_none("no `mod` leads to these files: declare or remove them", &findings);
}

#[test]
fn files_are_short() {
    let mut findings = Vec::new();
    for module in modules() {
        let tests: BTreeSet<_> = module.test_lines().into_iter().flatten().collect();
        let code = module.source.lines().count().saturating_sub(tests.len());
        for (lines, limit, what) in [
            (code, LONGEST_FILE, "code"),
            (tests.len(), LONGEST_TEST_FILE, "tests"),
        ] {
            if lines > limit {
                findings.push(format!(
                    "{}: {lines} lines of {what}, {limit} allowed",
                    module.path.display()
                ));
            }
        }
    }
    assert_none("split these files by what they are about", &findings);
}

#[test]
fn functions_fit_a_screen() {
    struct Functions<'a> {
        module: &'a Module,
        findings: Vec<String>,
    }
    impl Functions<'_> {
        fn note(&mut self, name: &syn::Ident, first: usize, last: usize) {
            let lines = last + 1 - first;
            let tested = self
                .module
                .test_lines()
                .iter()
                .any(|range| range.contains(&first));
            if lines > LONGEST_FUNCTION && !tested {
                self.findings.push(format!(
                    "{}: `{name}` has {lines} lines",
                    self.module.place(first)
                ));
            }
        }
    }
    impl Visit<'_> for Functions<'_> {
        fn visit_item_fn(&mut self, item: &syn::ItemFn) {
            self.note(
                &item.sig.ident,
                item.sig.span().start().line,
                item.block.span().end().line,
            );
            syn::visit::visit_item_fn(self, item);
        }
        fn visit_impl_item_fn(&mut self, item: &syn::ImplItemFn) {
            self.note(
                &item.sig.ident,
                item.sig.span().start().line,
                item.block.span().end().line,
            );
            syn::visit::visit_impl_item_fn(self, item);
        }
    }
    let mut findings = Vec::new();
    for module in &modules() {
        let mut functions = Functions {
            module,
            findings: Vec::new(),
        };
        functions.visit_file(&module.syntax);
        findings.extend(functions.findings);
    }
    assert_none(
        &format!("split these functions: {LONGEST_FUNCTION} lines are a screen"),
        &findings,
    );
}

#[test]
fn every_file_says_what_it_is_about() {
    let silent = modules()
        .into_iter()
        .filter(|module| !module.only_for_tests && !module.source.starts_with("//!"));
    let findings: Vec<_> = silent.map(|module| module.path.display().to_string()).collect();
    assert_none("begin these files with a `//!` sentence", &findings);
}

#[test]
fn every_crate_is_under_the_common_lints() {
    let mut findings = Vec::new();
    for package in packages(true) {
        let manifest = read(text(&package["manifest_path"]));
        if !manifest.contains("[lints]\nworkspace = true") {
            findings.push(format!(
                "{}: add `[lints] workspace = true`",
                text(&package["name"])
            ));
        }
    }
    let manifest = read("Cargo.toml");
    for lint in [
        "unsafe_code = \"deny\"",
        "missing_docs = \"warn\"",
        "undocumented_unsafe_blocks = \"warn\"",
        "iter_over_hash_type = \"warn\"",
        "unwrap_used = \"warn\"",
        "expect_used = \"warn\"",
        "indexing_slicing = \"warn\"",
        "panic = \"warn\"",
        "allow_attributes_without_reason = \"warn\"",
    ] {
        if !manifest.contains(lint) {
            findings.push(format!("Cargo.toml: `{lint}` is gone"));
        }
    }
    assert_none(
        "`cargo xtask test` denies warnings, so these lints hold the code only where they are on",
        &findings,
    );
}
