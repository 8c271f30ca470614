//! What must hold for everything that Neutron and Keystone say. Shared by the fuzz target and by
//! `crates/picket-neutron/tests/fuzz_corpus.rs`, which replays its corpus.

use picket_neutron::client::answer::{self, Listed};
use picket_neutron::client::{AddressGroup, Port, Rule, SecurityGroup, normalised};

/// Any answer is read without panic, as whatever it might be, and the same each time; an object that is read has an id that can
/// stand in a path, and a rule that is read is as Neutron would keep it.
pub(crate) fn neutron_answers(bytes: &[u8]) {
    listed::<SecurityGroup>(bytes);
    listed::<AddressGroup>(bytes);
    listed::<Port>(bytes);
    for group in answer::page::<SecurityGroup>(bytes)
        .into_iter()
        .flat_map(|page| page.items)
    {
        group.rules.iter().for_each(rule);
    }
    let rules = answer::rules(bytes);
    rules.iter().flatten().for_each(rule);
    refused(&rules);
    refused(&answer::extensions(bytes));
    let quotas = answer::quotas(bytes);
    refused(&quotas);
    for quota in quotas.iter().flatten().map(|(_, quota)| quota) {
        assert!(quota.left() <= quota.limit);
    }
    assert_eq!(answer::error(bytes), answer::error(bytes));
}

fn listed<T: Listed + Clone + PartialEq + std::fmt::Debug>(bytes: &[u8]) {
    let one = answer::one::<T>(bytes);
    refused(&one);
    assert_eq!(one, answer::one::<T>(bytes));
    let page = answer::page::<T>(bytes);
    refused(&page);
    assert_eq!(page, answer::page::<T>(bytes));
    let all = one
        .into_iter()
        .chain(page.into_iter().flat_map(|page| page.items));
    for object in all {
        id(object.id());
    }
}

fn rule(rule: &Rule) {
    id(&rule.id);
    if let Some(rule) = rule.rule.known() {
        assert_eq!(normalised(rule), *rule);
    }
}

fn id(id: &str) {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    assert!(!id.is_empty() && id.bytes().all(fits), "{id}");
}

/// What is wrong is said.
fn refused<T>(read: &Result<T, String>) {
    if let Err(why) = read {
        assert!(!why.is_empty());
    }
}
