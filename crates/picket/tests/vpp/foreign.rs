//! What others have put into VPP stays, behind ours.

use picket_net::Family;
use picket_vpp::fake::{AclAction, AclRule, Lists};

use crate::agent::{Agent, run};
use crate::scene::{ACL, API, DB, Scene, WEB, WORLD, only_from, only_to};

#[test]
fn lists_of_others_stay_behind_ours() {
    let scene = Scene::new(&only_from("one", "db", "web"));
    let theirs = scene.vpp.change("somebody adds a list", |state| {
        let list = state
            .add_acl(
                None,
                "theirs",
                vec![AclRule::all(AclAction::Permit, Family::Ipv4)],
            )
            .unwrap();
        let of_db = state.interface("tap2").unwrap();
        let lists = Lists {
            input: Vec::new(),
            output: vec![list],
        };
        state.set_acl_list(of_db, &lists).unwrap();
        let outside = state.interface("ge0").unwrap();
        state.set_acl_list(outside, &lists).unwrap();
        list
    });
    let agent = Agent::start(scene.manifests(), &scene.arguments());
    let status = agent.until_in_force(ACL, &["NetworkPolicy shop/one"]);
    let state = scene.vpp.state();
    let output = state.lists(state.interface("tap2").unwrap()).output;
    assert_eq!((output.len(), output.last()), (2, Some(&theirs)));
    assert!(scene.reaches(WEB, DB) && !scene.reaches(API, DB) && !scene.reaches(WORLD, DB));
    assert_eq!(
        status.foreign,
        [
            format!("ge0, output: {theirs} `theirs`; they decide alone"),
            format!(
                "tap2, output: {theirs} `theirs`; they decide nothing: what picket's lists before them do not let pass is denied"
            )
        ]
    );
    scene.put("");
    agent.until_in_force(ACL, &[]);
    let state = scene.vpp.state();
    assert_eq!(state.lists(state.interface("tap2").unwrap()).output, [theirs]);
    assert_eq!(state.acls().count(), 1);
}

#[test]
fn lists_that_others_add_while_an_agent_runs_stay_too() {
    let scene = Scene::new(&only_from("one", "db", "web"));
    let agent = Agent::start(scene.manifests(), &scene.arguments());
    agent.until_in_force(ACL, &["NetworkPolicy shop/one"]);
    let theirs = scene.vpp.change("somebody adds a list", |state| {
        let rules = vec![AclRule::all(AclAction::Permit, Family::Ipv4)];
        let list = state.add_acl(None, "theirs", rules).unwrap();
        for name in ["tap2", "ge0"] {
            let interface = state.interface(name).unwrap();
            let mut lists = state.lists(interface);
            lists.output.push(list);
            state.set_acl_list(interface, &lists).unwrap();
        }
        list
    });
    scene.put(&only_from("two", "db", "api"));
    agent.until_in_force(ACL, &["NetworkPolicy shop/two"]);
    let state = scene.vpp.state();
    let output = state.lists(state.interface("tap2").unwrap()).output;
    assert_eq!((output.len(), output.last()), (2, Some(&theirs)));
    let outside = state.lists(state.interface("ge0").unwrap()).output;
    assert!(outside.contains(&theirs), "{outside:?}");
    assert!(scene.reaches(API, DB) && !scene.reaches(WEB, DB));
}

#[test]
fn lists_of_others_keep_their_order() {
    let scene = Scene::new(&only_from("one", "db", "web"));
    let theirs = scene.vpp.change("somebody adds lists", |state| {
        let [first, second] = ["first", "second"].map(|tag| {
            let rules = vec![AclRule::all(AclAction::Permit, Family::Ipv4)];
            state.add_acl(None, tag, rules).unwrap()
        });
        let lists = Lists {
            input: vec![second, first],
            output: vec![second, first],
        };
        for name in ["tap2", "ge0"] {
            let interface = state.interface(name).unwrap();
            state.set_acl_list(interface, &lists).unwrap();
        }
        lists.output
    });
    assert!(theirs[0] > theirs[1]);
    let ends_with_theirs = |count: usize| {
        let state = scene.vpp.state();
        for name in ["tap2", "ge0"] {
            let lists = state.lists(state.interface(name).unwrap());
            for way in [&lists.input, &lists.output] {
                assert!(way.ends_with(&theirs), "{name}: {lists:?}");
            }
        }
        let of_db = state.lists(state.interface("tap2").unwrap());
        assert_eq!(of_db.output.len(), count + theirs.len(), "{of_db:?}");
    };
    let agent = Agent::start(scene.manifests(), &scene.arguments());
    agent.until_in_force(ACL, &["NetworkPolicy shop/one"]);
    ends_with_theirs(1);
    scene.put(&only_from("two", "db", "api"));
    agent.until_in_force(ACL, &["NetworkPolicy shop/two"]);
    ends_with_theirs(1);
    scene.put("");
    agent.until_in_force(ACL, &[]);
    ends_with_theirs(0);
}

#[test]
fn what_others_break_is_mended_when_it_is_read_back() {
    let scene = Scene::new(&only_from("one", "db", "web"));
    let more = ["--verify-interval", "1"];
    let agent = Agent::start(scene.manifests(), &[&scene.arguments()[..], &more].concat());
    agent.until_in_force(ACL, &["NetworkPolicy shop/one"]);
    scene.vpp.change("somebody takes the lists away", |state| {
        let of_db = state.interface("tap2").unwrap();
        state.set_acl_list(of_db, &Lists::default()).unwrap();
    });
    assert!(scene.reaches(WORLD, DB));
    agent.until("repair", |_| !scene.reaches(WORLD, DB));
}

#[test]
fn own_orphans_go() {
    let scene = Scene::new(&only_from("one", "db", "web"));
    let orphan = scene.vpp.change("a list is left behind", |state| {
        let list = state.add_acl(
            None,
            "picket-to-pod-old",
            vec![AclRule::all(AclAction::Permit, Family::Ipv4)],
        );
        let list = list.unwrap();
        let lists = Lists {
            input: vec![list],
            output: Vec::new(),
        };
        state.set_acl_list(0, &lists).unwrap();
        list
    });
    assert_eq!(
        run(scene.manifests(), &[&scene.arguments()[..], &["--once"]].concat()).status,
        0
    );
    let state = scene.vpp.state();
    assert!(state.acl(orphan).is_none_or(|acl| acl.tag != "picket-to-pod-old"));
    assert_eq!(state.lists(0), Lists::default());
}

/// Nothing is known of what was there before but what VPP says.
#[test]
fn on_a_node_without_pods_who_begins_takes_away_what_was_for_pods() {
    let scene = Scene::new(&format!(
        "{}---\n{}",
        only_from("one", "db", "web"),
        only_to("two", "web", "db")
    ));
    let once = [&scene.arguments()[..], &["--once"]].concat();
    assert_eq!(run(scene.manifests(), &once).status, 0);
    let outside = |of: &[u32]| {
        let state = scene.vpp.state();
        of.iter()
            .filter(|index| state.acl(**index).unwrap().tag.starts_with("picket-global-"))
            .count()
    };
    let lists = |name: &str| {
        let state = scene.vpp.state();
        state.lists(state.interface(name).unwrap())
    };
    assert!(lists("tap2").output.len() == 1 && outside(&lists("ge0").output) > 0);
    scene.have(&[]);
    let ran = run(scene.manifests(), &once);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    // What is behind the interfaces may still run: of picket there is the list alone that lets nothing pass, and before it at most
    // what remembers that connections were cut.
    assert_eq!(lists("ge0"), Lists::default());
    let state = scene.vpp.state();
    let is_cut = |index: &u32| state.acl(*index).unwrap().tag.starts_with("picket-cut-");
    let left: Vec<_> = state
        .acls()
        .map(|(index, _)| index)
        .filter(|index| !is_cut(index))
        .collect();
    assert_eq!(left.len(), 1);
    for name in ["tap1", "tap2", "tap3"] {
        let Lists { input, output } = lists(name);
        let others = [input, output].map(|lists| {
            let lists = lists.into_iter().filter(|index| !is_cut(index));
            lists.collect::<Vec<_>>()
        });
        assert_eq!(others, [left.clone(), left.clone()]);
    }
    for (one, other) in [(WEB, DB), (WORLD, DB), (API, WORLD)] {
        assert!(!scene.reaches(one, other));
    }
    for name in ["tap1", "tap2", "tap3"] {
        let index = scene.vpp.state().interface(name).unwrap();
        assert!(scene.vpp.remove_interface(index));
    }
    assert_eq!(run(scene.manifests(), &once).status, 0);
    assert_eq!(scene.vpp.state().acls().count(), 0);
    assert_eq!(scene.vpp.complaints(), Vec::<String>::new());
}
