//! What VPP refuses on interfaces that have nothing yet: they are closed until it can be had.

use std::collections::BTreeSet;

use picket_cluster::{Semantics, Snapshot};
use picket_testing::generate::{Shape, snapshot};
use picket_vpp::acl::Acls;
use picket_vpp::client::Connector;
use picket_vpp::fake::{Fake, Fault, When};
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;

use crate::acl::open_at;
use crate::faults::{ANY, Journey, journeys, passes};
use crate::installed::{carry_out, lists_beside_cuts, start};
use crate::journey::Cluster;

/// Has VPP make lists and give them to interfaces, once; whether it refused something.
fn put(connector: &mut Connector, acls: &Acls) -> bool {
    !carry_out(connector, acls).1.is_empty()
}

/// Has VPP refuse the list that comes behind so many others; whether there is one.
fn refuse(acls: &Acls, sent: &[Journey], before: usize) -> Result<bool, TestCaseError> {
    let (fake, mut connector) = start(acls, 17);
    fake.fail(
        When::Named("acl_add_replace".to_owned(), before),
        Fault::Refuse(-1),
    );
    let was_refused = put(&mut connector, acls);
    prop_assert_eq!(was_refused, fake.faults() == 0);
    let refused = fake.state();
    while put(&mut connector, acls) {}
    for journey in sent.iter().filter(|journey| !passes(&fake.state(), journey)) {
        prop_assert!(!passes(&refused, journey), "{} {:?}", before, journey);
    }
    expect_lists(&fake, acls, &mut connector)?;
    Ok(was_refused)
}

/// What is there is what should be, and nothing that stood in for it.
fn expect_lists(fake: &Fake, acls: &Acls, connector: &mut Connector) -> Result<(), TestCaseError> {
    prop_assert!(!put(connector, acls));
    prop_assert_eq!(lists_beside_cuts(fake), acls.acls.len());
    prop_assert_eq!(fake.complaints(), Vec::<String>::new());
    Ok(())
}

fn check(snapshot: &Snapshot) -> Result<(), TestCaseError> {
    let semantics = Semantics::default();
    let cluster = Cluster::new(snapshot, &semantics);
    for (node, acls) in &cluster.acls {
        let sent = journeys(&cluster, snapshot, node.as_ref(), ANY);
        for before in 0.. {
            if !refuse(acls, &sent, before)? {
                break;
            }
        }
    }
    Ok(())
}

/// The lists of the one node of [`open_at`].
fn lists(ports: [u16; 2]) -> Acls {
    let (snapshot, semantics) = (open_at(ports), Semantics::default());
    let mut acls = Cluster::new(&snapshot, &semantics).acls.into_values();
    acls.next().expect("lists")
}

/// Whichever list is refused, those that no interface has any more go.
#[test]
fn lists_that_nothing_has_go_also_while_vpp_refuses_another() {
    let (old, new) = (lists([80, 80]), lists([81, 82]));
    let mut refused = 0;
    for before in 0.. {
        let (fake, mut connector) = start(&old, 17);
        assert!(!put(&mut connector, &old));
        let create = When::Named("acl_add_replace".to_owned(), before);
        fake.fail(create, Fault::Refuse(-1));
        if !put(&mut connector, &new) {
            break;
        }
        refused += 1;
        let state = fake.state();
        let lists = state.interfaces().map(|(index, _)| state.lists(index));
        let used: BTreeSet<u32> = lists
            .flat_map(|lists| [lists.input, lists.output].concat())
            .collect();
        let known = |acls: &Acls, tag: &str| acls.acls.keys().any(|known| known.as_str() == tag);
        let idle: Vec<_> = state
            .acls()
            .filter(|(index, acl)| !used.contains(index) && !known(&new, &acl.tag))
            .collect();
        assert!(idle.is_empty(), "{before}: {idle:?}");
        let is_new = |tag: &str| known(&new, tag) && !known(&old, tag);
        assert!(
            state.acls().any(|(_, acl)| is_new(&acl.tag)),
            "nothing has changed"
        );
    }
    assert!(refused > 2, "{refused}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn nothing_opens_where_a_list_is_refused(snapshot in snapshot(Shape::V1, 4)) {
        check(&snapshot)?;
    }
}
