//! Code that could stop the program says why it cannot.

use syn::spanned::Spanned;
use syn::visit::Visit;

use crate::assert_none;
use crate::modules::{Module, modules};

/// Lints against code that panics.
const LINTS: [&str; 4] = ["unwrap_used", "expect_used", "indexing_slicing", "panic"];

/// Crates that are for tests and developers only, where a wrong literal should stop the program.
const FOR_DEVELOPERS: [&str; 2] = ["picket-testing", "xtask"];

#[test]
fn whoever_may_panic_states_the_invariant() {
    let mut findings = Vec::new();
    for module in modules()
        .iter()
        .filter(|module| !FOR_DEVELOPERS.contains(&module.package))
    {
        let mut waivers = Waivers {
            module,
            findings: Vec::new(),
        };
        waivers.visit_file(&module.syntax);
        findings.extend(waivers.findings);
    }
    assert_none(
        "write `// INVARIANT:` at these waivers, or in their reason",
        &findings,
    );
}

struct Waivers<'a> {
    module: &'a Module,
    findings: Vec<String>,
}

impl Visit<'_> for Waivers<'_> {
    fn visit_attribute(&mut self, attribute: &syn::Attribute) {
        let syn::Meta::List(list) = &attribute.meta else {
            return;
        };
        if !list.path.is_ident("expect") && !list.path.is_ident("allow") {
            return;
        }
        let (first, last) = (attribute.span().start().line, attribute.span().end().line);
        let waived = list.tokens.to_string();
        let waived = LINTS
            .into_iter()
            .find(|lint| waived.contains(&format!("clippy :: {lint}")));
        let in_test = self
            .module
            .test_lines()
            .iter()
            .any(|range| range.contains(&first));
        // The comment may stand above the attribute or inside what it is about.
        let near = self
            .module
            .source
            .lines()
            .skip(first.saturating_sub(8))
            .take(last + 12 - first.saturating_sub(8));
        let stated = near.into_iter().any(|line| line.contains("INVARIANT"));
        if let Some(lint) = waived
            && !in_test
            && !stated
        {
            self.findings
                .push(format!("{}: `{lint}`", self.module.place(first)));
        }
    }
}
