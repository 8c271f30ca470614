//! What is asked of VPP, in the words of the API.

use super::peer::{ALL, Peer, connected, listen, numbers};
use super::wire::label;
use crate::client::definition::{Message, Reply};
use crate::client::field::{Engine, Lists, ToldScope};
use crate::client::message::*;
use crate::client::value::*;
use crate::client::{Change, Error, Feature};

/// Hears a request, and answers it.
fn answers<M: Message, R: Reply>(peer: &mut Peer, answer: impl FnOnce(M) -> R) {
    let (context, asked) = peer.expect::<M>();
    peer.say(context, &answer(asked));
}

fn acl() -> Acl {
    let rule = AclRule {
        action: AclAction::PermitReflect,
        source: "10.0.0.0/8".parse().unwrap(),
        destination: "0.0.0.0/0".parse().unwrap(),
        protocol: 6,
        source_ports: (0, 65535),
        destination_ports: (80, 80),
        tcp_flags: (0, 0),
    };
    Acl {
        tag: label("web"),
        rules: vec![rule],
    }
}

fn rule(tag: &str) -> SessionRule {
    SessionRule {
        transport: Transport::Udp,
        local: "0.0.0.0/0".parse().unwrap(),
        remote: "10.1.0.0/16".parse().unwrap(),
        local_port: 0,
        remote_port: 53,
        action: SessionAction::Deny,
        scope: SessionScope::Local,
        tag: label(tag),
    }
}

#[test]
fn acls_are_made_replaced_listed_and_deleted() {
    let (mut vpp, served) = connected(|peer| {
        for (asked_index, acl_index) in [(ANY, 5), (5, 5)] {
            answers(peer, |asked: AclAddReplace| {
                assert_eq!(asked.acl_index, asked_index);
                assert_eq!((asked.tag, asked.r), (acl().tag, acl().rules));
                AclAddReplaceReply { acl_index, retval: 0 }
            });
        }
        let (context, _) = peer.expect::<AclDump>();
        for acl_index in [5, 6] {
            let Acl { tag, rules: r } = acl();
            peer.say(context, &AclDetails { acl_index, tag, r });
        }
        peer.pong();
        for retval in [0, -142] {
            answers(peer, |asked: AclDel| {
                assert!(asked.acl_index >= 5);
                AclDelReply { retval }
            });
        }
    });
    assert_eq!(vpp.replace_acl(None, &acl()).unwrap(), 5);
    assert_eq!(vpp.replace_acl(Some(5), &acl()).unwrap(), 5);
    assert_eq!(vpp.acls().unwrap(), [(5, acl()), (6, acl())].into());
    vpp.delete_acl(5).unwrap();
    let refused = vpp.delete_acl(6).unwrap_err();
    assert!(!refused.ends_connection());
    assert_eq!(
        refused.to_string(),
        "VPP refuses `acl_del` of ACL 6: an interface has the ACL among those for input (-142)"
    );
    drop(vpp);
    served.finish();
}

#[test]
fn a_batch_goes_on_after_what_is_refused() {
    let (mut vpp, served) = connected(|peer| {
        for (acl_index, retval) in [(5, 0), (ANY, -57), (6, 0)] {
            answers(peer, |_: AclAddReplace| AclAddReplaceReply { acl_index, retval });
        }
    });
    let (new, old) = (acl(), acl());
    let outcomes = vpp
        .replace_acls([(None, &new), (None, &new), (Some(6), &old)])
        .unwrap();
    let outcomes: Vec<_> = outcomes
        .into_iter()
        .map(|outcome| outcome.map_err(|refusal| refusal.to_string()))
        .collect();
    let refused = "VPP refuses `acl_add_replace` of the new ACL `web`: invalid source address (-57)";
    assert_eq!(outcomes, [Ok(5), Err(refused.to_owned()), Ok(6)]);
    drop(vpp);
    served.finish();
}

#[test]
fn lists_of_interfaces_are_set_whole_and_empty_ones_not_listed() {
    let (mut vpp, served) = connected(|peer| {
        answers(peer, |asked: AclInterfaceSetAclList| {
            assert_eq!(asked.sw_if_index, 3);
            assert_eq!(asked.acls.into_parts(), (vec![1, 2], vec![4]));
            AclInterfaceSetAclListReply { retval: 0 }
        });
        let (context, _) = peer.expect::<AclInterfaceListDump>();
        for (sw_if_index, input) in [(3, vec![1]), (4, vec![])] {
            let acls = Lists::new(input, vec![]).unwrap();
            peer.say(context, &AclInterfaceListDetails { sw_if_index, acls });
        }
        peer.pong();
    });
    let lists = |input: &[u32], output: &[u32]| InterfaceLists {
        interface: 3,
        input: input.to_vec(),
        output: output.to_vec(),
    };
    vpp.set_interface_list(&lists(&[1, 2], &[4])).unwrap();
    assert_eq!(vpp.interface_lists().unwrap(), [(3, lists(&[1], &[]))].into());
    // What no message can say is noticed before, and leaves the connection as it is.
    let many = lists(&[1; 200], &[2; 56]);
    let error = vpp.set_interface_lists([&lists(&[], &[]), &many]).unwrap_err();
    assert!(
        matches!(
            error,
            Error::TooManyAcls {
                interface: 3,
                count: 256
            }
        ) && !error.ends_connection()
    );
    assert_eq!(
        error.to_string(),
        "interface 3 would have 256 ACLs, at most 255 are possible"
    );
    drop(vpp);
    served.finish();
}

#[test]
fn interfaces_are_listed_and_tagged() {
    let interface = Interface {
        index: 3,
        parent: 3,
        address: [2, 0, 0, 0, 0, 1],
        state: LinkState {
            is_up: true,
            has_link: true,
        },
        name: label("tap0"),
        device: label("virtio"),
        tag: label("pod"),
    };
    let told = interface.clone();
    let (mut vpp, served) = connected(move |peer| {
        let (context, asked) = peer.expect::<SwInterfaceDump>();
        assert_eq!((asked.sw_if_index, asked.name_filter_valid), (ANY, false));
        let details = SwInterfaceDetails {
            sw_if_index: told.index,
            sup_sw_if_index: told.parent,
            l2_address: told.address,
            flags: told.state,
            skipped: Default::default(),
            interface_name: told.name,
            interface_dev_type: told.device,
            tag: told.tag,
        };
        peer.say(context, &details);
        peer.pong();
        for (is_add, tag) in [(true, "pod"), (false, "")] {
            answers(peer, |asked: SwInterfaceTagAddDel| {
                assert_eq!(
                    (asked.is_add, asked.sw_if_index, asked.tag),
                    (is_add, 3, label(tag))
                );
                SwInterfaceTagAddDelReply { retval: 0 }
            });
        }
    });
    assert_eq!(vpp.interfaces().unwrap(), [(3, interface)].into());
    vpp.tag_interface(3, &label("pod")).unwrap();
    vpp.tag_interface(3, &label("")).unwrap();
    drop(vpp);
    served.finish();
}

#[test]
fn session_rules_are_changed_in_order() {
    let (mut vpp, served) = connected(|peer| {
        for (is_add, retval) in [(true, 0), (true, -1), (false, 0)] {
            answers(peer, |asked: SessionRuleAddDel| {
                assert_eq!((asked.is_add, asked.appns_index), (is_add, 4));
                assert_eq!(asked.scope.0, SessionScope::Local);
                SessionRuleAddDelReply { retval }
            });
        }
    });
    let (a, b) = (rule("a"), rule("b"));
    let changes = [
        (Change::Add, 4, &a),
        (Change::Add, 4, &b),
        (Change::Delete, 4, &a),
    ];
    let outcomes = vpp.change_session_rules(changes).unwrap();
    let refusals: Vec<_> = outcomes
        .iter()
        .map(|outcome| outcome.as_ref().err().map(ToString::to_string))
        .collect();
    let refused = "VPP refuses `session_rule_add_del` of the UDP rule `b` for 10.1.0.0/16 in namespace 4: invalid, \
                   as a tag is that another rule has, or a namespace that there is not (-1)";
    assert_eq!(refusals, [None, Some(refused.to_owned()), None]);
    drop(vpp);
    served.finish();
}

/// A rule as both generations tell it.
fn told(appns_index: u32) -> SessionRulesDetails {
    let rule = rule("dns");
    SessionRulesDetails {
        transport_proto: rule.transport,
        lcl: rule.local,
        rmt: rule.remote,
        lcl_port: rule.local_port,
        rmt_port: rule.remote_port,
        action_index: rule.action,
        appns_index,
        scope: ToldScope(rule.scope),
        tag: rule.tag,
    }
}

#[test]
fn the_newer_list_of_session_rules_is_asked_for_where_there_is_one() {
    let (mut vpp, served) = connected(|peer| {
        answers(peer, |asked: SessionEnableDisableV2| {
            assert_eq!(asked.rt_engine_type, Engine::RuleTable);
            SessionEnableDisableV2Reply { retval: 0 }
        });
        let (context, _) = peer.expect::<SessionRulesV2Dump>();
        let told = told(0);
        let newer = SessionRulesV2Details {
            transport_proto: told.transport_proto,
            lcl: told.lcl,
            rmt: told.rmt,
            lcl_port: told.lcl_port,
            rmt_port: told.rmt_port,
            action_index: told.action_index,
            scope: told.scope,
            tag: told.tag,
            appns_index: vec![4, 5],
        };
        peer.say(context, &newer);
        peer.pong();
    });
    vpp.enable_sessions().unwrap();
    let installed = InstalledRule {
        namespaces: vec![4, 5],
        rule: rule("dns"),
    };
    assert_eq!(vpp.session_rules().unwrap(), [installed]);
    drop(vpp);
    served.finish();
}

#[test]
fn the_older_list_of_session_rules_is_asked_for_otherwise() {
    let mut older = numbers();
    let is_newer = |name: &Label| name.as_str().is_some_and(|name| name.contains("_v2_"));
    older.0.retain(|(_, name)| !is_newer(name));
    let mut served = listen(vec![Box::new(move |mut peer: Peer| {
        peer.greet(older);
        answers(&mut peer, |asked: SessionEnableDisable| {
            assert!(asked.is_enable);
            SessionEnableDisableReply { retval: 0 }
        });
        let (context, _) = peer.expect::<SessionRulesDump>();
        peer.say(context, &told(4));
        peer.pong();
        peer.end();
    })]);
    let mut vpp = served.connector.connect(&ALL).unwrap();
    vpp.enable_sessions().unwrap();
    let installed = InstalledRule {
        namespaces: vec![4],
        rule: rule("dns"),
    };
    assert_eq!(vpp.session_rules().unwrap(), [installed]);
    drop(vpp);
    served.finish();
}

#[test]
fn namespaces_are_made_and_removed() {
    let (mut vpp, served) = connected(|peer| {
        for (is_add, retval) in [(true, -30), (true, 0), (false, 0)] {
            answers(peer, |asked: AppNamespaceAddDelV4| {
                assert_eq!((asked.is_add, asked.sw_if_index), (is_add, ANY));
                assert_eq!((asked.ip4_fib_id, asked.ip6_fib_id, asked.secret), (1, 2, 3));
                assert!(asked.namespace_id == label("pod") && asked.sock_name.is_empty());
                AppNamespaceAddDelV4Reply {
                    retval,
                    appns_index: 9,
                }
            });
        }
    });
    let namespace = Namespace {
        id: label("pod"),
        secret: 3,
        interface: None,
        ipv4_fib: 1,
        ipv6_fib: 2,
    };
    assert_eq!(
        vpp.add_namespace(&namespace).unwrap_err().to_string(),
        "VPP refuses `app_namespace_add_del_v4` of the namespace `pod`: the feature is disabled (-30)"
    );
    assert_eq!(vpp.add_namespace(&namespace).unwrap(), 9);
    vpp.delete_namespace(&namespace).unwrap();
    drop(vpp);
    served.finish();
}

#[test]
fn a_list_ends_with_its_own_ping_and_has_only_its_own_entries() {
    for (entry, ping) in [(1, 0), (0, 1)] {
        let (mut vpp, served) = connected(move |peer| {
            let (context, _) = peer.expect::<AclDump>();
            let (pinged, _) = peer.expect::<ControlPing>();
            let acl = AclDetails {
                acl_index: 1,
                tag: label("web"),
                r: Vec::new(),
            };
            peer.say(context + entry * 5, &acl);
            let reply = ControlPingReply {
                retval: 0,
                client_index: 0,
                vpe_pid: 0,
            };
            peer.say(pinged + ping * 5, &reply);
        });
        assert!(matches!(vpp.acls(), Err(Error::Unexpected { .. })));
        drop(vpp);
        served.finish();
    }
}

#[test]
fn what_vpp_lacks_is_noticed_when_it_is_asked_and_ends_nothing() {
    let mut few = numbers();
    few.0
        .retain(|(_, name)| name.as_str().is_some_and(|name| name.starts_with("control_ping")));
    let mut served = listen(vec![Box::new(|mut peer: Peer| {
        peer.greet(few);
        peer.pong();
        peer.end();
    })]);
    let mut vpp = served.connector.connect(&[]).unwrap();
    assert!(!vpp.has(Feature::Acls));
    for error in [vpp.delete_acl(1).unwrap_err(), vpp.acls().unwrap_err()] {
        assert!(matches!(&error, Error::Incompatible(lacks) if lacks.len() == 1) && !error.ends_connection());
    }
    vpp.ping().unwrap();
    drop(vpp);
    served.finish();
}
