//! `unsafe` stands in one crate only.
//!
//! That each one there carries its `// SAFETY:` is clippy's to check (`undocumented_unsafe_blocks`).

use proc_macro2::{TokenStream, TokenTree};

use crate::assert_none;
use crate::modules::modules;

/// The crate that talks to the kernel.
const ALLOWED: &str = "picket-linux";

#[test]
fn unsafe_code_stands_in_one_crate() {
    let mut findings = Vec::new();
    for module in modules().iter().filter(|module| module.package != ALLOWED) {
        let tokens: TokenStream = module.source.parse().expect("it was parsed before");
        for (word, line) in words(tokens) {
            if ["unsafe", "unsafe_code"].contains(&word.as_str()) {
                findings.push(format!("{}: `{word}`", module.place(line)));
            }
        }
    }
    assert_none("what needs `unsafe` belongs into picket-linux", &findings);
}

/// Every identifier and keyword, also inside macros, with its line.
pub(crate) fn words(tokens: TokenStream) -> Vec<(String, usize)> {
    let mut found = Vec::new();
    for token in tokens {
        match token {
            TokenTree::Group(group) => found.extend(words(group.stream())),
            TokenTree::Ident(ident) => found.push((ident.to_string(), ident.span().start().line)),
            TokenTree::Punct(_) | TokenTree::Literal(_) => {}
        }
    }
    found
}
