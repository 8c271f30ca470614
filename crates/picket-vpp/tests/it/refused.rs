//! What VPP refuses on interfaces that have nothing yet: they are closed until it can be had.

use picket_cluster::{Semantics, Snapshot};
use picket_testing::generate::{Shape, snapshot};
use picket_vpp::acl::Acls;
use picket_vpp::client::Connector;
use picket_vpp::fake::{Fake, Fault, When};
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;

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

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn nothing_opens_where_a_list_is_refused(snapshot in snapshot(Shape::V1, 4)) {
        check(&snapshot)?;
    }
}
