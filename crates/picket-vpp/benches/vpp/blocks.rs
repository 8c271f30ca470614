//! Many blocks with exceptions, as the generator of the original's policies makes them.

use std::time::Instant;

use picket_cluster::{Event, Object, Semantics};
use picket_engine::Engine;
use picket_net::Protocol;
use picket_policy::Policy;
use picket_testing::build::{self, accept, block};
use picket_vpp::acl::{Options, Renderer};
use picket_vpp::session;

/// One policy: 1,000 blocks with 5 exceptions each, and 20 ports, in each direction. The ports are next to each other, or not.
fn policy(distance: u16) -> Policy {
    let rule = |network: u8| {
        let mut rule = accept();
        for at in 0..1000u32 {
            // None next to another.
            let [.., high, low] = (2 * at).to_be_bytes();
            let exceptions: Vec<_> = (0..5)
                .map(|except| format!("{network}.{high}.{low}.{}/28", except * 48))
                .collect();
            let exceptions: Vec<_> = exceptions.iter().map(String::as_str).collect();
            rule = rule.peer(block(&format!("{network}.{high}.{low}.0/24"), &exceptions));
        }
        (0..20).fold(rule, |rule, at| rule.port(Protocol::TCP, 8000 + at * distance))
    };
    let policy = build::policy("bench/blocks").selects("app=blocks");
    policy.ingress(rule(20)).egress(rule(30)).build()
}

/// One pod with such a policy.
pub(crate) fn measure() {
    for (ports, distance) in [("20 ports", 2), ("20 adjacent ports", 1)] {
        let mut engine = Engine::new(Semantics::default());
        let pod = build::pod("bench/a")
            .label("app", "blocks")
            .on("node-0")
            .ip("10.1.0.1");
        engine.apply(Event::Apply(Object::from(pod.build())));
        let mut acls = Renderer::new(Some("node-0"), Options::default());
        let mut rules = session::Renderer::new(Some("node-0"), session::Options::default());
        acls.advance(engine.program());
        rules.advance(engine.program());
        let delta = engine.apply(Event::Apply(Object::Policy(policy(distance))));
        let start = Instant::now();
        acls.note(&delta);
        let change = acls.advance(engine.program());
        let took = start.elapsed();
        let made: usize = change.created.values().map(|acl| acl.rules.len()).sum();
        println!("1,000 blocks × 5 exceptions × {ports} in each direction, for one pod");
        println!("  {made} rules of lists after {took:.1?}");
        let start = Instant::now();
        rules.note(&delta);
        rules.advance(engine.program());
        let took = start.elapsed();
        let made = rules.rules();
        let count = made.global.len() + made.local.values().map(Vec::len).sum::<usize>();
        let missing: usize = rules.missing().iter().map(|missing| missing.missing).sum();
        println!("  {count} session rules after {took:.1?}, and no room for {missing} more");
    }
}
