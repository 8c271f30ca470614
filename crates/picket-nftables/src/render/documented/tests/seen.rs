//! What is dropped is counted and logged, where that is wanted.

use super::*;

/// Two policies, each in one direction of one interface.
fn view() -> PodView {
    let [to, from] = ["to", "from"].map(|name| ObjectRef::new("MultiNetworkPolicy", "default", name));
    pod(
        &[
            ("net1", &["10.0.0.1", "fd00::1"], false),
            ("net2", &["10.1.0.1"], false),
        ],
        vec![
            policy(to, &["net1"], side(vec![]), ResolvedSide::default()),
            policy(from, &["net1", "net2"], ResolvedSide::default(), side(vec![])),
        ],
    )
}

/// The last rules of a chain, the drop and those before it.
fn end_of(table: &Table, chain: &str, count: usize) -> Vec<String> {
    let text = print::block(table);
    let (_, chain) = text.split_once(&format!("chain {chain} {{")).expect("the chain");
    let rules = chain.lines().map(str::trim).take_while(|line| *line != "}");
    let rules: Vec<_> = rules.map(str::to_owned).collect();
    rules[rules.len() - count..].to_vec()
}

#[test]
fn what_is_dropped_is_logged_by_direction_and_interface_and_by_nobody_unless_that_is_wanted() {
    let options = Options {
        log_denied: Some(7),
        ..Options::default()
    };
    let table = rendered(&view(), options);
    let log = |interface: &str, prefix: &str| {
        format!(
            "{interface} limit rate 10/second burst 100 packets log prefix \"{prefix}\" group 7 comment \"Log of what is dropped\""
        )
    };
    let drop = "drop comment \"Drop rule\"".to_owned();
    assert_eq!(
        end_of(&table, "ingress", 2),
        [log("iifname \"net1\"", "picket ingress net1"), drop.clone()]
    );
    assert_eq!(
        end_of(&table, "egress", 3),
        [
            log("oifname \"net1\"", "picket egress net1"),
            log("oifname \"net2\"", "picket egress net2"),
            drop,
        ]
    );
    assert!(!print::block(&rendered(&view(), Options::default())).contains("log"));
}

#[test]
fn a_prefix_is_read_as_it_is_written_and_others_are_not() {
    for direction in Direction::BOTH {
        for audited in [false, true] {
            let prefix = log_prefix(direction, &interface("net-1$"), audited);
            assert_eq!(logged_as(prefix.as_str()), Some((direction, audited)));
        }
    }
    for other in ["", "picket ingress", "picket both net1", "ingress net1", "mine"] {
        assert_eq!(logged_as(other), None, "{other}");
    }
}

#[test]
fn what_comes_from_the_own_address_is_counted_as_spoofed() {
    let options = Options {
        count_drops: true,
        ..Options::default()
    };
    let counted = |view: &PodView| {
        let table = rendered(view, options.clone());
        let text = print::block(&table);
        let there = table.counters().iter();
        let there = there.filter(|counter| counter.name == drops::spoofed_counter());
        (
            there.count(),
            text.matches("counter name \"drop-spoofed\" drop").count(),
        )
    };
    // The policy for egress does not look at what arrives.
    assert_eq!(counted(&view()), (1, 2));
    let mut without = view();
    without.policies.remove(0);
    assert_eq!(counted(&without), (0, 0));
}
