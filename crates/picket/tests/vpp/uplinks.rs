//! Whatever connects the node with the rest of the world.

use picket_vpp::fake::Options;

use crate::agent::Agent;
use crate::scene::{ACL, API, Scene, WEB, no_egress};

const WORLD: &str = "192.0.2.1";

#[test]
fn what_leaves_the_node_is_judged_wherever_it_does() {
    let pods = [("tap1", "shop/web"), ("tap2", "shop/db"), ("tap3", "shop/api")];
    // An uplink, the bridge interface of an overlay, and the tap to the host, which is tagged by whoever made it.
    let ways = [("GigabitEthernet0/8/0", ""), ("loop0", ""), ("tap0", "host")];
    let options = pods
        .iter()
        .chain(&ways)
        .fold(Options::new(7), |options, (name, tag)| {
            options.interface(name, tag)
        });
    let scene = Scene::with(&no_egress("one", "web"), options);
    let agent = Agent::start(scene.manifests(), &scene.arguments());
    let status = agent.until_in_force(ACL, &["NetworkPolicy shop/one"]);
    assert_eq!(status.uplinks, ways.map(|(name, _)| name));
    assert!(status.unknown.is_empty() && status.pending.is_empty());
    let later = scene.vpp.add_interface("vxlan_tunnel0", "");
    assert!(scene.vpp.set_up(later, true));
    agent.until_vpp(ACL, "one more", |vpp| vpp.uplinks.len() == 4 && vpp.is_well());
    for (way, _) in ways.into_iter().chain([("vxlan_tunnel0", "")]) {
        let outside = (way, WORLD);
        assert!(!scene.reaches(WEB, outside), "{way}");
        assert!(
            scene.reaches(API, outside) && scene.reaches(outside, WEB),
            "{way}"
        );
        // Who is out there passes through the node as if there were no policies.
        assert!(scene.reaches(outside, ("loop0", "198.51.100.1")), "{way}");
        // Also a pod's own list lets nothing out: what counts here is the list of the way out.
        assert!(!scene.reaches((way, WEB.1), ("loop0", WORLD)), "{way}");
    }
    let state = scene.vpp.state();
    let local = state.lists(state.interface("local0").unwrap());
    assert!(local.input.is_empty() && local.output.is_empty());
    assert_eq!(scene.vpp.complaints(), Vec::<String>::new());
}
