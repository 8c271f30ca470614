//! Address groups.

use std::collections::BTreeSet;

use picket_net::Prefix;
use picket_neutron::Remote;
use picket_neutron::client::Filter;
use picket_testing::neutron::Neutron;

use crate::support::{client, options, tcp, wait};

fn prefixes<const N: usize>(of: [&str; N]) -> BTreeSet<Prefix> {
    of.into_iter().map(|text| text.parse().unwrap()).collect()
}

#[test]
fn address_groups_come_change_and_go() {
    let server = Neutron::start();
    let (neutron, calls) = client(&server.endpoint(), options());
    wait(async {
        let first = prefixes(["10.0.0.1/32", "fd00::/64"]);
        let made = neutron
            .create_address_group("blocks", "why", &first)
            .await
            .unwrap();
        assert_eq!(
            (made.name.as_str(), made.description.as_str(), &made.addresses),
            ("blocks", "why", &first)
        );
        let listed = neutron.address_groups(&Filter::default()).await.unwrap();
        assert_eq!(listed, std::slice::from_ref(&made));
        calls.words();

        let more = prefixes(["10.1.0.0/16", "10.0.0.1/32"]);
        let now = neutron.add_addresses(&made.id, &more).await.unwrap();
        assert_eq!(now.addresses, first.union(&more).copied().collect());
        // Neutron adds nothing where a part is there.
        assert_eq!(
            calls.words(),
            [
                "add_addresses refused",
                "show_address_group done",
                "add_addresses done"
            ]
        );
        let less = prefixes(["10.1.0.0/16", "10.9.0.0/16"]);
        let now = neutron.remove_addresses(&made.id, &less).await.unwrap();
        assert_eq!(now.addresses, first);
        assert_eq!(
            calls.words(),
            [
                "remove_addresses not_found",
                "show_address_group done",
                "remove_addresses done"
            ]
        );

        let group = neutron.create_empty_security_group("web", "").await.unwrap();
        let rules = BTreeSet::from([tcp(80, Remote::AddressGroup(made.id.clone()))]);
        neutron.create_rules(&group.id, &rules, "").await.unwrap();
        let error = neutron.delete_address_group(&made.id).await.unwrap_err();
        assert!(error.is_in_use(), "{error}");
        neutron.delete_security_group(&group.id).await.unwrap();
        assert!(neutron.delete_address_group(&made.id).await.unwrap());
        assert!(!neutron.delete_address_group(&made.id).await.unwrap());
        assert_eq!(neutron.address_group(&made.id).await.unwrap(), None);
        let error = neutron.add_addresses(&made.id, &more).await.unwrap_err();
        assert!(error.is_not_found(), "{error}");
    });
}
