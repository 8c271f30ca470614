//! Security groups, their rules, tags and quotas.

use std::collections::BTreeSet;

use picket_net::{Family, PortRange, Protocol};
use picket_neutron::client::{Filter, Options, Tagged, normalised};
use picket_neutron::{Remote, SecurityGroupRule};
use picket_policy::Direction;
use picket_testing::neutron::Neutron;
use serde_json::json;

use crate::support::{client, options, prefix, set, tcp, wait};

/// Rules of every kind that picket has. The ids are of a group and an address group.
fn every_kind(group: &str, addresses: &str) -> BTreeSet<SecurityGroupRule> {
    let group = || Remote::Group(group.into());
    let rule = |ethertype, protocol, ports, remote| SecurityGroupRule {
        direction: Direction::Egress,
        ethertype,
        protocol,
        ports,
        remote,
    };
    [
        tcp(80, Remote::Anyone),
        tcp(80, prefix("10.0.0.9/32")),
        tcp(443, group()),
        tcp(444, Remote::AddressGroup(addresses.into())),
        rule(
            Family::Ipv6,
            Some(Protocol::UDP),
            PortRange::new(53, 5353),
            prefix("fd00::/64"),
        ),
        rule(Family::Ipv6, Some(Protocol::ICMP), None, Remote::Anyone),
        rule(Family::Ipv4, Some(Protocol::ICMP), None, Remote::Anyone),
        rule(
            Family::Ipv4,
            Some(Protocol::SCTP),
            Some(PortRange::ALL),
            prefix("0.0.0.0/0"),
        ),
        rule(Family::Ipv4, Some(Protocol::from_number(47)), None, group()),
        rule(Family::Ipv4, None, None, prefix("192.168.0.0/16")),
    ]
    .into()
}

#[test]
fn groups_and_rules_come_and_go() {
    let server = Neutron::start();
    let (neutron, calls) = client(&server.endpoint(), options());
    wait(async {
        let group = neutron.create_empty_security_group("web", "why").await.unwrap();
        assert_eq!((group.name.as_str(), group.description.as_str()), ("web", "why"));
        assert!(group.rules.is_empty() && group.stateful);
        assert_eq!(
            calls.words(),
            [
                "create_security_group done",
                "delete_security_group_rule done",
                "delete_security_group_rule done",
            ]
        );
        let addresses = neutron
            .create_address_group("a", "", &BTreeSet::new())
            .await
            .unwrap();
        let wanted = every_kind(&group.id, &addresses.id);
        let expected: BTreeSet<_> = wanted.iter().map(normalised).collect();
        let made = neutron.create_rules(&group.id, &wanted, "of web").await.unwrap();
        let read = |rules: &[picket_neutron::client::Rule]| -> BTreeSet<_> {
            rules
                .iter()
                .map(|rule| rule.rule.known().unwrap().clone())
                .collect()
        };
        assert_eq!(read(&made), expected);
        assert!(made.iter().all(|rule| rule.description == "of web"));
        let known = neutron.security_group(&group.id).await.unwrap().unwrap();
        assert_eq!(read(&known.rules), expected);
        assert!(known.revision_number > group.revision_number);
        assert_eq!(calls.words().len(), 3);

        // The same again, with one more: what is there is not made again.
        let more = BTreeSet::from([tcp(81, Remote::Anyone), tcp(80, Remote::Anyone)]);
        let made = neutron.create_rules(&group.id, &more, "").await.unwrap();
        assert_eq!(read(&made), more);
        assert_eq!(
            calls.words(),
            [
                "create_security_group_rules conflict",
                "show_security_group done",
                "create_security_group_rules done",
            ]
        );
        assert_eq!(server.list("security-group-rules").len(), expected.len() + 1 + 4);

        assert!(neutron.delete_rule(&made[0].id).await.unwrap());
        assert!(!neutron.delete_rule(&made[0].id).await.unwrap());
        assert!(neutron.delete_security_group(&group.id).await.unwrap());
        assert!(!neutron.delete_security_group(&group.id).await.unwrap());
        assert_eq!(neutron.security_group(&group.id).await.unwrap(), None);
    });
}

#[test]
fn rules_of_others_are_read_too() {
    let server = Neutron::start();
    let (neutron, _) = client(&server.endpoint(), options());
    wait(async {
        let group = neutron.create_empty_security_group("web", "").await.unwrap();
        for fields in [
            json!({"protocol": "icmp", "port_range_min": 8}),
            json!({"protocol": "dccp", "port_range_min": 8, "port_range_max": 9}),
            json!({"protocol": "TCP", "port_range_min": 1, "port_range_max": 65535, "remote_ip_prefix": "10.0.2.7/23"}),
            json!({"protocol": "vrrp", "ethertype": "IPv4"}),
            json!({"protocol": "icmp", "ethertype": "IPv6", "remote_ip_prefix": "fd00::1"}),
        ] {
            let mut rule = json!({"security_group_id": group.id, "direction": "ingress"});
            rule.as_object_mut()
                .unwrap()
                .extend(fields.as_object().unwrap().clone());
            server.ask(
                "POST",
                "security-group-rules",
                &json!({"security_group_rule": rule}),
            );
        }
        let rules = neutron.security_group(&group.id).await.unwrap().unwrap().rules;
        let read: BTreeSet<_> = rules
            .iter()
            .filter_map(|rule| rule.rule.known().cloned())
            .collect();
        let ingress = |ethertype, protocol, remote| SecurityGroupRule {
            direction: Direction::Ingress,
            ethertype,
            protocol: Some(protocol),
            ports: None,
            remote,
        };
        let expected = BTreeSet::from([
            ingress(Family::Ipv4, Protocol::TCP, prefix("10.0.2.0/23")),
            ingress(Family::Ipv4, Protocol::from_number(112), Remote::Anyone),
            ingress(Family::Ipv6, Protocol::ICMPV6, prefix("fd00::1/128")),
        ]);
        assert_eq!(read, expected);
        assert_eq!(rules.len(), 5);
    });
}

#[test]
fn lists_of_several_pages_are_whole_and_only_what_fits_is_in_them() {
    let server = Neutron::start();
    let options = Options { page: 3, ..options() };
    let (neutron, calls) = client(&server.endpoint(), options);
    wait(async {
        for number in 0..7 {
            let group = neutron
                .create_security_group(&format!("g{number}"), "")
                .await
                .unwrap();
            let tags = if number < 5 {
                set(["picket", "x y&z=1/2"])
            } else {
                set(["picket"])
            };
            neutron
                .replace_tags(Tagged::SecurityGroup, &group.id, &tags)
                .await
                .unwrap();
        }
        calls.words();
        let all = neutron.security_groups(&Filter::default()).await.unwrap();
        assert_eq!(all.len(), 8, "with the default group");
        assert_eq!(calls.words().len(), 3);
        assert!(all.is_sorted_by(|a, b| a.id < b.id));
        let listed = async |filter: Filter| -> Vec<_> {
            let groups = neutron.security_groups(&filter).await.unwrap();
            let mut names: Vec<_> = groups.into_iter().map(|group| group.name).collect();
            names.sort();
            names
        };
        let both = Filter {
            tags: vec!["picket".into(), "x y&z=1/2".into()],
            ..Filter::default()
        };
        assert_eq!(listed(both).await, ["g0", "g1", "g2", "g3", "g4"]);
        let any = Filter {
            tags_any: vec!["picket".into(), "nobody".into()],
            project: Some("fake_project_id".into()),
            ..Filter::default()
        };
        assert_eq!(listed(any).await.len(), 7);
        let named = Filter {
            name: Some("g3".to_owned()),
            ids: all.iter().map(|group| group.id.clone()).collect(),
            ..Filter::default()
        };
        assert_eq!(listed(named).await, ["g3"]);
        let g3 = all.iter().find(|group| group.name == "g3").unwrap();
        assert_eq!(g3.tags, set(["picket", "x y&z=1/2"]));
        neutron
            .replace_tags(Tagged::SecurityGroup, &g3.id, &BTreeSet::new())
            .await
            .unwrap();
        let now = neutron.security_group(&g3.id).await.unwrap().unwrap();
        assert!(now.tags.is_empty());
    });
}

#[test]
fn many_rules_are_made_in_parts_and_a_quota_is_an_error_of_its_own() {
    let server = Neutron::start();
    let options = Options {
        bulk: 10,
        ..options()
    };
    let (neutron, calls) = client(&server.endpoint(), options);
    wait(async {
        let group = neutron.create_empty_security_group("web", "").await.unwrap();
        calls.words();
        let rules = |from: u16, count: u16| -> BTreeSet<_> {
            (from..from + count)
                .map(|port| tcp(port, Remote::Anyone))
                .collect()
        };
        let made = neutron.create_rules(&group.id, &rules(1, 25), "").await.unwrap();
        assert_eq!(made.len(), 25);
        assert_eq!(calls.words(), vec!["create_security_group_rules done"; 3]);

        let quotas = neutron.quotas("fake_project_id").await.unwrap();
        let quota = quotas["security_group_rule"];
        // With the four of the default group.
        assert_eq!((quota.limit, quota.used, quota.left()), (None, 29, None));
        server.ask(
            "PUT",
            "quotas/fake_project_id",
            &json!({"quota": {"security_group_rule": 42}}),
        );
        calls.words();
        let error = neutron
            .create_rules(&group.id, &rules(100, 15), "")
            .await
            .unwrap_err();
        assert!(error.is_over_quota() && !error.is_temporary());
        assert_eq!(
            error.to_string(),
            format!(
                "cannot create rules of security group `{}` (POST): quota: Quota exceeded for resources: ['security_group_rule'].",
                group.id
            )
        );
        let words = calls.words();
        assert_eq!(
            words,
            [
                "create_security_group_rules done",
                "create_security_group_rules over_quota"
            ]
        );
        // Of the second part none was made.
        let quota = neutron.quotas("fake_project_id").await.unwrap()["security_group_rule"];
        assert_eq!((quota.limit, quota.used, quota.left()), (Some(42), 39, Some(3)));
        server.ask(
            "PUT",
            "quotas/fake_project_id",
            &json!({"quota": {"security_group": 2}}),
        );
        let error = neutron.create_security_group("more", "").await.unwrap_err();
        assert!(error.is_over_quota(), "{error}");
    });
}

#[test]
fn what_is_in_use_or_cannot_be_is_named() {
    let server = Neutron::start();
    let (neutron, calls) = client(&server.endpoint(), options());
    wait(async {
        let extensions = neutron.extensions().await.unwrap();
        for expected in [
            "security-group",
            "address-group",
            "standard-attr-tag",
            "port-security",
            "revision-if-match",
        ] {
            assert!(extensions.contains(expected), "{expected}");
        }
        let group = neutron.create_security_group("web", "").await.unwrap();
        let network = server.create_network(&["10.0.0.0/24"]);
        let port = server.create_port(&network, "x");
        let body = json!({"port": {"security_groups": [group.id]}});
        server.ask("PUT", &format!("ports/{port}"), &body);
        calls.words();
        let error = neutron.delete_security_group(&group.id).await.unwrap_err();
        assert!(error.is_in_use() && !error.is_temporary(), "{error}");
        assert_eq!(calls.words(), ["delete_security_group conflict"]);
        let absent = "11111111-2222-3333-4444-555555555555";
        let rules = BTreeSet::from([tcp(80, Remote::Group(absent.into()))]);
        let error = neutron.create_rules(&group.id, &rules, "").await.unwrap_err();
        assert!(error.is_not_found(), "{error}");
        let error = neutron
            .create_security_group(&"x".repeat(300), "")
            .await
            .unwrap_err();
        assert_eq!(error.refusal().unwrap().status, 400);
        assert!(error.to_string().len() < 600, "{error}");
    });
}
