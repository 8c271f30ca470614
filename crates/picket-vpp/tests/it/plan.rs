//! What becomes of packets while lists change.

use std::collections::BTreeMap;
use std::sync::Arc;

use picket_cluster::{Flow, Object, Semantics, Snapshot};
use picket_net::{Family, Protocol};
use picket_policy::Direction;
use picket_testing::build::{ip, pod, policy};
use picket_testing::flows::representative_flows;
use picket_testing::generate::{Shape, cluster, policies, together};
use picket_vpp::acl::meaning::{Interpreter, Packet, Way};
use picket_vpp::acl::plan::{Handle, Installed, InstalledLists, Operation, plan};
use picket_vpp::acl::{Acl, AclAction, AclRule, Acls, Role, Tag};
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;
use smol_str::SmolStr;

use crate::installed::beside_cuts;
use crate::journey::{Cluster, Hop, Running};
use crate::replaced::{Restricted, pods, replaced};

/// A VPP that carries out operations, and refuses what VPP refuses.
#[derive(Clone, Debug, Default)]
pub(crate) struct Vpp {
    pub(crate) installed: Installed,
    created: BTreeMap<Tag, u32>,
    next: u32,
}

impl Vpp {
    /// One with these interfaces and no lists.
    pub(crate) fn with_interfaces<'a>(names: impl Iterator<Item = &'a SmolStr>) -> Self {
        let interfaces = names.map(|name| (name.clone(), InstalledLists::default()));
        Self {
            installed: Installed {
                interfaces: interfaces.collect(),
                ..Installed::default()
            },
            ..Self::default()
        }
    }

    fn add(&mut self, acl: Acl) -> u32 {
        self.next += 1;
        self.installed.acls.insert(self.next, acl);
        self.next
    }

    fn index(&self, handle: &Handle) -> u32 {
        let index = match handle {
            Handle::Installed(index) => *index,
            Handle::Created(tag) => self.created[tag],
        };
        assert!(self.installed.acls.contains_key(&index), "no list {index}");
        index
    }

    pub(crate) fn carry_out(&mut self, operation: &Operation) {
        match operation {
            Operation::Create(acl) => {
                let index = self.add(Acl::clone(acl));
                self.created.insert(acl.tag.clone(), index);
            }
            Operation::Replace { index, acl } => {
                let before = self.installed.acls.insert(*index, Acl::clone(acl));
                assert!(before.is_some(), "no list {index}");
                self.created.insert(acl.tag.clone(), *index);
            }
            Operation::Set {
                interface,
                input,
                output,
            } => {
                let indices = |handles: &[Handle]| handles.iter().map(|handle| self.index(handle)).collect();
                let lists = InstalledLists {
                    input: indices(input),
                    output: indices(output),
                };
                let known = self.installed.interfaces.insert(interface.clone(), lists);
                assert!(known.is_some(), "no interface {interface}");
            }
            Operation::Delete(index) => {
                let mut lists = self.installed.interfaces.values();
                assert!(
                    !lists.any(|lists| lists.input.contains(index) || lists.output.contains(index)),
                    "list {index} is in use"
                );
                assert!(self.installed.acls.remove(index).is_some(), "no list {index}");
            }
        }
    }

    /// Its lists by the names that they were rendered with, but for those of what was cut.
    fn by_tag(&self) -> BTreeMap<SmolStr, [Vec<Tag>; 2]> {
        let tags = |indices: &[u32]| {
            let acls = indices.iter().map(|index| &self.installed.acls[index]);
            let acls = acls.filter(|acl| !acl.is_cut());
            acls.map(|acl| acl.tag.clone()).collect()
        };
        let interfaces = self.installed.interfaces.iter();
        interfaces
            .map(|(name, lists)| (name.clone(), [tags(&lists.input), tags(&lists.output)]))
            .collect()
    }
}

fn is_there(acls: &Acls, vpp: &Vpp) -> bool {
    let none = [Vec::new(), Vec::new()];
    vpp.by_tag().into_iter().all(|(name, lists)| {
        let wanted = acls.interfaces.get(&name);
        let wanted = wanted.map_or_else(
            || none.clone(),
            |lists| [lists.input.clone(), lists.output.clone()],
        );
        lists == wanted
    })
}

/// Whether each flow passes, with VPPs that have these lists and have seen no packet.
fn passing(flows: &[(Flow, Vec<Hop>, Packet)], vpps: &BTreeMap<Option<SmolStr>, Vpp>) -> Vec<bool> {
    let acls: BTreeMap<_, _> = vpps
        .iter()
        .map(|(node, vpp)| (node.clone(), vpp.installed.lists(|_| None)))
        .collect();
    let fresh = || -> BTreeMap<_, _> {
        let nodes = acls.iter();
        nodes
            .map(|(node, acls)| (node.clone(), Interpreter::new(acls)))
            .collect()
    };
    let pass = |(_, hops, packet): &(Flow, Vec<Hop>, Packet)| Running(fresh()).passes(hops, packet);
    flows.iter().map(pass).collect()
}

/// Gives each VPP the lists of one snapshot and then those of another, and looks after each operation; how many lists became
/// others.
fn check(before: &Snapshot, after: &Snapshot) -> Result<usize, TestCaseError> {
    let mut count = 0;
    let semantics = Semantics::default();
    let (old, new) = (Cluster::new(before, &semantics), Cluster::new(after, &semantics));
    let mut vpps: BTreeMap<_, _> = old
        .acls
        .iter()
        .map(|(node, acls)| (node.clone(), Vpp::with_interfaces(acls.interfaces.keys())))
        .collect();
    for (node, acls) in &old.acls {
        let vpp = vpps.get_mut(node).expect("a node");
        for operation in plan(&vpp.installed, acls).operations() {
            vpp.carry_out(operation);
        }
        prop_assert!(is_there(acls, vpp));
    }
    let flows = representative_flows(after).into_iter().filter_map(|flow| {
        let hops = new.hops(&flow).filter(|_| flow.source != flow.destination)?;
        let ends = [&flow.source, &flow.destination].map(|end| new.address(end, &flow));
        let packet = Packet::opening(ends[0], ends[1], flow.protocol, flow.port);
        Some((flow, hops, packet))
    });
    let flows: Vec<_> = flows.step_by(7).collect();
    for (node, acls) in &new.acls {
        let operations = plan(&vpps[node].installed, acls);
        count += replaced(&operations);
        let start = passing(&flows, &vpps);
        let mut end = vpps.clone();
        for operation in operations.operations() {
            end.get_mut(node).expect("a node").carry_out(operation);
        }
        let end = passing(&flows, &end);
        for operation in operations.operations() {
            vpps.get_mut(node).expect("a node").carry_out(operation);
            for (((now, start), end), flow) in passing(&flows, &vpps)
                .into_iter()
                .zip(&start)
                .zip(&end)
                .zip(&flows)
            {
                prop_assert!(!now || *start || *end, "{operation:?}\n{flow:?}");
            }
        }
        let vpp = vpps.get(node).expect("a node");
        prop_assert!(is_there(acls, vpp));
        prop_assert_eq!(beside_cuts(&vpp.installed), acls.acls.len());
        prop_assert!(plan(&vpp.installed, acls).is_empty());
    }
    Ok(count)
}

/// Two interfaces lose the list that becomes another: that of a pod from which nothing is kept any more by it, and one to which
/// nothing may be sent.
#[test]
fn who_is_to_receive_less_does_before_the_list_of_others_lets_more_pass() {
    let mut after = pods(5, Restricted::AllButSecond);
    let closed = policy("x/closed")
        .selects("place=last")
        .isolates(Direction::Ingress);
    let closed = closed.build();
    after.policies.insert(closed.object.clone(), closed.into());
    let count = check(&pods(5, Restricted::All), &after).expect("less than before or after");
    assert!(count > 0);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn nothing_passes_meanwhile_that_passes_neither_before_nor_after(
        cluster in cluster(),
        before in policies(Shape::V1, 3),
        after in policies(Shape::V1, 3),
    ) {
        check(&together(&cluster, before), &together(&cluster, after))?;
    }
}

#[test]
fn lists_of_others_stay_behind_ours() {
    let deny = AclRule::everything(AclAction::Deny, Family::Ipv4);
    let foreign = Acl {
        tag: Tag::installed("of somebody"),
        rules: vec![deny],
    };
    let mut vpp = Vpp::with_interfaces([SmolStr::new("a")].iter());
    let theirs = vpp.add(foreign);
    vpp.installed.interfaces.get_mut("a").expect("an interface").input = vec![theirs];
    let ours = Arc::new(Acl::new(
        Role::FromPod,
        vec![deny, AclRule::everything(AclAction::Permit, Family::Ipv6)],
    ));
    let mut wanted = Acls::default();
    let lists = wanted.interfaces.entry("a".into()).or_default();
    lists.input.push(ours.tag.clone());
    wanted.acls.insert(ours.tag.clone(), ours);
    for operation in plan(&vpp.installed, &wanted).operations() {
        vpp.carry_out(operation);
    }
    let input = &vpp.installed.interfaces["a"].input;
    assert_eq!(input.last(), Some(&theirs));
    // What ours would let pass at last is theirs to decide.
    let first = &vpp.installed.acls[&input[0]];
    assert_eq!((input.len(), &first.rules), (2, &vec![deny]));
    assert!(plan(&vpp.installed, &wanted).is_empty());
    for operation in plan(&vpp.installed, &Acls::default()).operations() {
        vpp.carry_out(operation);
    }
    assert_eq!(vpp.installed.interfaces["a"].input, [theirs]);
    assert_eq!(vpp.installed.acls.len(), 1);
}

/// The lists of a pod with these addresses that nothing restricts, beside one that may send nothing.
fn beside_a_silent_one(open: &[&str], silent: &[&str]) -> Acls {
    let pod = |name: &str, addresses: &[&str]| {
        let pod = pod(name).label("name", name.trim_start_matches("x/"));
        let pod = addresses.iter().fold(pod, |pod, address| pod.ip(address));
        Object::from(pod.build())
    };
    let silenced = policy("x/silent")
        .selects("name=silent")
        .isolates(Direction::Egress);
    let objects = [
        pod("x/open", open),
        pod("x/silent", silent),
        Object::Policy(silenced.build()),
    ];
    let cluster = Snapshot::from_iter(objects);
    let mut acls = Cluster::new(&cluster, &Semantics::default()).acls;
    acls.remove(&None).expect("one node with every pod")
}

#[test]
fn what_lists_leave_open_at_last_lists_of_others_decide_in_each_family() {
    let (v4, v6) = (("10.0.0.1", "192.0.2.1"), ("fd00::1", "2001:db8::1"));
    for families in [&[v4][..], &[v6], &[v4, v6]] {
        let open: Vec<_> = families.iter().map(|(own, _)| *own).collect();
        let silent: Vec<_> = families
            .iter()
            .map(|(own, _)| if own.contains(':') { "fd00::2" } else { "10.0.0.2" })
            .collect();
        let wanted = beside_a_silent_one(&open, &silent);
        let mut vpp = Vpp::with_interfaces(wanted.interfaces.keys());
        let passes = |vpp: &Vpp| -> Vec<bool> {
            let acls = vpp.installed.lists(|_| None);
            let each = families.iter().map(|(own, outside)| {
                let packet = Packet::opening(ip(outside), ip(own), Protocol::TCP, 80);
                Interpreter::new(&acls).passes("x/open", Way::Out, &packet)
            });
            each.collect()
        };
        let carry_out = |vpp: &mut Vpp| {
            for operation in plan(&vpp.installed, &wanted).operations() {
                vpp.carry_out(operation);
            }
        };
        carry_out(&mut vpp);
        assert_eq!(passes(&vpp), vec![true; families.len()], "{open:?}");
        let theirs = vpp.add(Acl {
            tag: Tag::installed("of somebody"),
            rules: Family::BOTH
                .map(|family| AclRule::everything(AclAction::Deny, family))
                .into(),
        });
        let lists = vpp.installed.interfaces.get_mut("x/open").expect("an interface");
        lists.output.push(theirs);
        carry_out(&mut vpp);
        assert_eq!(passes(&vpp), vec![false; families.len()], "{open:?}");
        assert!(plan(&vpp.installed, &wanted).is_empty());
        // What ours deny they do not let in.
        let lists = &vpp.installed.interfaces["x/open"];
        assert_eq!(lists.output.last(), Some(&theirs));
        let ours = &vpp.installed.acls[&lists.output[0]].rules;
        let denied = ours.iter().filter(|rule| rule.action == AclAction::Deny);
        assert!(denied.count() >= families.len(), "{ours:?}");
    }
}

/// Which lists an interface has on both ways, where they are the same ones.
fn both_ways(vpp: &Vpp) -> Vec<u32> {
    let lists = &vpp.installed.interfaces["a"];
    assert_eq!(lists.input, lists.output);
    lists.input.clone()
}

fn set_both_ways(vpp: &mut Vpp, indices: &[u32]) {
    let lists = vpp.installed.interfaces.get_mut("a").expect("an interface");
    (lists.input, lists.output) = (indices.to_vec(), indices.to_vec());
}

#[test]
fn lists_of_others_keep_their_order_wherever_ours_stand() {
    // Nothing that a connection would be cut by.
    let denial = |family| {
        vec![AclRule {
            protocol: Protocol::UDP.number(),
            ..AclRule::everything(AclAction::Deny, family)
        }]
    };
    let wanted = Family::BOTH.map(|family| {
        let ours = Arc::new(Acl::new(Role::ToPod, denial(family)));
        let mut wanted = Acls::default();
        let lists = wanted.interfaces.entry("a".into()).or_default();
        (lists.input, lists.output) = (vec![ours.tag.clone()], vec![ours.tag.clone()]);
        wanted.acls.insert(ours.tag.clone(), ours);
        wanted
    });
    let nothing = Acls::default();
    for at in 0..=3 {
        let mut vpp = Vpp::with_interfaces([SmolStr::new("a")].iter());
        let theirs = [1, 2, 3].map(|number| {
            vpp.add(Acl {
                tag: Tag::installed(&format!("theirs {number}")),
                rules: denial(Family::Ipv4),
            })
        });
        // Neither in the order of their numbers nor in the opposite one.
        let theirs = [theirs[2], theirs[0], theirs[1]];
        set_both_ways(&mut vpp, &theirs);
        for (acls, count) in [(&wanted[0], 1), (&wanted[0], 1), (&wanted[1], 1), (&nothing, 0)] {
            // Somebody has put ours elsewhere meanwhile.
            let mut there = both_ways(&vpp);
            if there.len() > theirs.len() {
                let ours = there.remove(0);
                there.insert(at, ours);
                set_both_ways(&mut vpp, &there);
            }
            for operation in plan(&vpp.installed, acls).operations() {
                vpp.carry_out(operation);
            }
            let there = both_ways(&vpp);
            assert_eq!(there.len(), count + theirs.len(), "{at}");
            assert_eq!(there[count..], theirs, "{at}");
            assert!(plan(&vpp.installed, acls).is_empty());
        }
        assert_eq!(vpp.installed.acls.len(), theirs.len());
    }
}
