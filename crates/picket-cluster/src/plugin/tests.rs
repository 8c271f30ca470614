use super::*;

#[test]
fn the_first_plugin_is_the_one_that_counts() {
    let deep = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    let long = "x".repeat(1_000_000);
    for (config, plugin) in [
        (r#"{"type": "macvlan"}"#, Some("macvlan")),
        (
            r#"{"cniVersion": "1.0.0", "plugins": [{"type": "bond"}, {"type": "tuning"}]}"#,
            Some("bond"),
        ),
        (
            r#"{"type": "bridge", "plugins": [{"type": "bridge"}, {"type": "tuning"}]}"#,
            Some("bridge"),
        ),
        (r#"{"type": "bridge", "plugins": [{"type": "macvlan"}]}"#, None),
        (r#"{"type": "bridge", "plugins": [{}]}"#, None),
        (r#"{"Type": "bridge"}"#, Some("bridge")),
        (r#"{"type": "bridge", "TYPE": "macvlan"}"#, None),
        (r#"{"type": "bridge", "type": "macvlan"}"#, None),
        (
            r#"{"plugins": [{"type": "bridge"}], "pluginſ": [{"type": "macvlan"}]}"#,
            None,
        ),
        (
            r#"{"type": "macvlan", "plugıns": [{"type": "bridge"}]}"#,
            Some("macvlan"),
        ),
        (r#"{"plugins": [{"type": "bridge", "Type": "macvlan"}]}"#, None),
        (r#"{"type": "bridge", "plugins": []}"#, None),
        (r#"{"type": "bridge", "plugins": null}"#, None),
        (r#"{"plugins": [{}, {"type": "bridge"}]}"#, None),
        (r#"{"plugins": ["bridge"]}"#, None),
        (r#"{"plugins": {"type": "bridge"}}"#, None),
        (r#"{"type": 1}"#, None),
        (r#"{"type": ""}"#, None),
        (r#"{"type": "bridge"} {"type": "macvlan"}"#, None),
        (r#"[{"type": "bridge"}]"#, None),
        (r#"{"type": "bridge""#, None),
        ("type: bridge", None),
        ("", None),
        (&format!(r#"{{"type": "{long}"}}"#), None),
        (
            &format!(r#"{{"ipam": "{long}", "type": "bridge"}}"#),
            Some("bridge"),
        ),
        (
            &format!(r#"{{"ipam": {}, "type": "bridge"}}"#, deep(100_000)),
            Some("bridge"),
        ),
        (&format!(r#"{{"type": {}}}"#, deep(100_000)), None),
        (
            &format!(
                r#"{}"type": "bridge"{}"#,
                r#"{"plugins": [{"#.repeat(50_000),
                "}]}".repeat(50_000)
            ),
            None,
        ),
        (
            &format!(
                r#"{}{{}}{}"#,
                r#"{"plugins": ["#.repeat(100_000),
                "]}".repeat(100_000)
            ),
            None,
        ),
    ] {
        assert_eq!(
            NetworkConfig::read(config).plugin.as_deref(),
            plugin,
            "{}",
            config.get(..80).unwrap_or(config)
        );
    }
}

#[test]
fn a_wire_is_told_by_the_type_of_the_plugin_and_what_it_is_told() {
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    for (config, wire) in [
        (r#"{"type": "macvlan", "master": "eth1"}"#, Some("macvlan/eth1")),
        (
            r#"{"type": "macvlan", "master": "eth1", "mode": "private", "mtu": 9000}"#,
            Some("macvlan/eth1"),
        ),
        (
            r#"{"type": "macvlan", "master": "eth1", "vlan": 10}"#,
            Some("macvlan/eth1/10"),
        ),
        (
            r#"{"type": "macvlan", "MASTER": "eth1", "linkInContainer": false}"#,
            Some("macvlan/eth1"),
        ),
        // The link of the default route.
        (r#"{"type": "macvlan"}"#, Some("macvlan/")),
        (r#"{"type": "macvlan", "master": ""}"#, Some("macvlan/")),
        (r#"{"type": "macvlan", "master": null}"#, Some("macvlan/")),
        (
            r#"{"type": "ipvlan", "master": "eth1", "mode": "l3"}"#,
            Some("ipvlan/eth1"),
        ),
        (
            r#"{"type": "vlan", "master": "eth1", "vlanId": 10}"#,
            Some("vlan/eth1/10"),
        ),
        (r#"{"type": "vlan", "master": "eth1"}"#, None),
        (r#"{"type": "vlan", "vlanId": 10}"#, None),
        (r#"{"type": "bridge", "bridge": "br0"}"#, Some("bridge/br0")),
        (r#"{"type": "bridge"}"#, Some("bridge/cni0")),
        (
            r#"{"type": "bridge", "bridge": "br0", "vlan": 0}"#,
            Some("bridge/br0"),
        ),
        (
            r#"{"type": "bridge", "bridge": "br0", "vlan": 10, "vlanTrunk": []}"#,
            Some("bridge/br0/10"),
        ),
        (
            r#"{"type": "bridge", "bridge": "br0", "vlanTrunk": [{"id": 10}]}"#,
            None,
        ),
        (r#"{"type": "bridge", "bridge": "br0", "vlanTrunk": 10}"#, None),
        // Plugins that nobody has told picket about.
        (r#"{"type": "bond", "master": "eth1"}"#, None),
        (r#"{"type": "Macvlan", "master": "eth1"}"#, None),
        (r#"{"type": "", "master": "eth1"}"#, None),
        (r#"{"master": "eth1"}"#, None),
        // The link is the pod's, or nobody knows which it is.
        (
            r#"{"type": "macvlan", "master": "eth1", "linkInContainer": true}"#,
            None,
        ),
        (
            r#"{"type": "macvlan", "master": "eth1", "linkInKontainer": true}"#,
            Some("macvlan/eth1"),
        ),
        (
            r#"{"type": "macvlan", "master": "eth1", "linKInContainer": true}"#,
            None,
        ),
        (r#"{"type": "macvlan", "master": "eth1", "Master": "eth1"}"#, None),
        (r#"{"type": "macvlan", "master": 1}"#, None),
        (r#"{"type": "macvlan", "master": "a/b"}"#, None),
        (r#"{"type": "macvlan", "master": "a-name-that-is-long"}"#, None),
        (r#"{"type": "macvlan", "master": "eth1", "vlan": "10"}"#, None),
        (r#"{"type": "macvlan", "master": "eth1", "vlan": -1}"#, None),
        (r#"{"type": "bridge", "vlan": 4095}"#, None),
        (&format!(r#"{{"type": "macvlan", "master": {deep}}}"#), None),
        // The first of a list decides; beside a type nobody knows.
        (
            r#"{"plugins": [{"type": "macvlan", "master": "eth1"}, {"type": "tuning", "master": "eth2"}]}"#,
            Some("macvlan/eth1"),
        ),
        (
            r#"{"master": "eth2", "plugins": [{"type": "macvlan", "master": "eth1"}]}"#,
            Some("macvlan/eth1"),
        ),
        (
            r#"{"type": "macvlan", "master": "eth1", "plugins": [{"type": "macvlan", "master": "eth1"}]}"#,
            None,
        ),
        (r#"{"type": "macvlan", "master": "eth1""#, None),
        ("", None),
    ] {
        let found = NetworkConfig::read(config);
        let shown = config.get(..80).unwrap_or(config);
        assert_eq!(
            found.wire.as_ref().map(ToString::to_string).as_deref(),
            wire,
            "{shown}"
        );
        if let Some(wire) = found.wire {
            assert_eq!(wire.to_string().parse(), Ok(wire), "{shown}");
        }
    }
}

#[test]
fn what_is_wrong_with_a_wire_says_nothing_about_the_plugin() {
    for config in [
        r#"{"type": "macvlan", "master": [[1]]}"#,
        r#"{"type": "macvlan", "master": "a", "Master": "b"}"#,
        r#"{"type": "macvlan", "vlan": {}, "linkInContainer": "yes"}"#,
    ] {
        let found = NetworkConfig::read(config);
        assert_eq!(
            (found.plugin.as_deref(), found.wire),
            (Some("macvlan"), None),
            "{config}"
        );
    }
}
