//! From what each pod may exchange to the lists of the interfaces of its node.
//!
//! VPP judges what a pod sends before it translates the addresses of services, and what it sends to a pod afterwards. So
//! what counts is judged on the way to a pod, or out of the node, where both ends have their own addresses: the list to a
//! pod holds what the pod may receive and what other pods of the node may send to it, and the global list of the interfaces
//! that lead out holds what each pod of the node may send. On the way from a pod its own egress rules are judged too, but
//! for addresses of services; what passes there is reflected, so that replies pass on the way back.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use picket_engine::{PodRef, Program};
use picket_net::{Family, Prefix};
use picket_policy::{Direction, ObjectRef};
use smol_str::SmolStr;

use super::model::{Acl, AclAction, AclRule, Acls, InterfaceLists, Role, Tag};
use crate::combine::Others;
use crate::layer4::{Layer4, Selector};
use crate::lists::{Compiler, Lists};
use crate::peers::{PeerRule, Peers};
use crate::place::Places;
use crate::rule::Action;
use crate::value::{Value, Values};

/// What lists depend on besides the policies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The interfaces that lead out of the node, or to the node itself.
    pub uplinks: Vec<SmolStr>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            uplinks: vec!["uplink".into()],
        }
    }
}

/// How many lists the global one is cut into, so that a change of one pod sends a small part of it.
const GLOBAL_PARTS: usize = 64;

/// The lists of one node, or with `None` of one node that runs every pod.
///
/// Interfaces of pods have the names of the pods.
pub fn render(program: &Program, node: Option<&str>, options: &Options) -> Acls {
    let mut values = Values::default();
    let places = Places::of(program);
    let pods = Compiler::new(program, &places, node).pods(node, &mut values);
    let services = program
        .services()
        .flat_map(|service| service.addresses.iter().copied());
    let services: Vec<_> = services.collect();
    let name = |pod: &ObjectRef| {
        let found = program.pod(pod);
        found.map_or_else(
            || pod.name.as_str().into(),
            |pod: PodRef<'_>| pod.pod().id().into(),
        )
    };
    let floor = Family::BOTH.map(|family| values.number(Layer4::necessary(family)));
    lists(&pods, &services, floor, name, options, &mut values)
}

/// The lists of pods of which it is known what each may receive and send, and of services with these addresses.
pub fn render_lists(
    pods: &BTreeMap<ObjectRef, Lists>,
    services: &[IpAddr],
    options: &Options,
    values: &mut Values,
) -> Acls {
    let name = |pod: &ObjectRef| format!("{}/{}", pod.namespace, pod.name).into();
    lists(pods, services, [Value::NOTHING; 2], name, options, values)
}

fn lists(
    pods: &BTreeMap<ObjectRef, Lists>,
    services: &[IpAddr],
    floor: [Value; 2],
    name: impl Fn(&ObjectRef) -> SmolStr,
    options: &Options,
    values: &mut Values,
) -> Acls {
    let mut made = Acls::default();
    let others = Others::of(pods, Direction::Ingress, floor);
    let mut global: BTreeMap<IpAddr, (usize, &Arc<Peers>)> = BTreeMap::new();
    for (pod, lists) in pods {
        let received = Family::BOTH.map(|family| others.combined(pod, lists, family, values));
        let is_open = received.iter().flatten().all(|peers| peers.is_everything());
        let sends_less = lists.is_restricted(Direction::Egress) || lists.is_unknown;
        let mut interface = InterfaceLists {
            pod: Some(pod.clone()),
            ..InterfaceLists::default()
        };
        if !is_open || sends_less {
            interface
                .output
                .push(made.add(Role::ToPod, to_pod(&received, sends_less, values)));
            interface
                .input
                .push(made.add(Role::FromPod, from_pod(lists, services, values)));
        }
        if sends_less {
            for &address in &lists.addresses {
                let peers = lists.peers(Direction::Egress, Family::of(address));
                if let Some(peers) = peers.filter(|peers| !peers.is_everything()) {
                    global.insert(address, (part(pod), peers));
                }
            }
        }
        made.interfaces.insert(name(pod), interface);
    }
    let (input, output) = match global.is_empty() {
        true => (Vec::new(), Vec::new()),
        false => made.add_global(&global, values),
    };
    for uplink in &options.uplinks {
        let interface = InterfaceLists {
            pod: None,
            input: input.clone(),
            output: output.clone(),
        };
        made.interfaces.insert(uplink.clone(), interface);
    }
    made
}

impl Acls {
    fn add(&mut self, role: Role, rules: Vec<AclRule>) -> Tag {
        let acl = Acl::new(role, rules);
        let tag = acl.tag.clone();
        self.acls.entry(tag.clone()).or_insert_with(|| Arc::new(acl));
        tag
    }

    /// What interfaces that lead out of the node have, where pods of it may not send everything.
    fn add_global(
        &mut self,
        pods: &BTreeMap<IpAddr, (usize, &Arc<Peers>)>,
        values: &mut Values,
    ) -> (Vec<Tag>, Vec<Tag>) {
        let mut input = Vec::new();
        let mut parts: BTreeMap<usize, Vec<AclRule>> = BTreeMap::new();
        for (&address, (part, peers)) in pods {
            let own = Prefix::host(address);
            let any = Prefix::all(own.family());
            // What answers it passes on the way out, whatever the pod may send by itself.
            input.extend(AclRule::of(AclAction::PermitReflect, any, own, &Selector::Any));
            let rules = parts.entry(*part).or_default();
            rules.extend(halves(&peers.rules(values), |peer, action, selector| {
                AclRule::of(action.into(), own, peer, selector)
            }));
            for last in AclRule::of(AclAction::Deny, own, any, &Selector::Any) {
                close(rules, last);
            }
        }
        input.extend(everything(AclAction::Permit));
        let parts = parts.into_values().map(|rules| self.add(Role::Global, rules));
        let mut output: Vec<_> = parts.collect();
        output.push(self.add(Role::Global, everything(AclAction::Permit)));
        (vec![self.add(Role::FromOutside, input)], output)
    }
}

/// What may be sent to a pod. Where the pod may not send everything, replies need a session to pass.
fn to_pod(received: &[Option<Arc<Peers>>; 2], reflects: bool, values: &mut Values) -> Vec<AclRule> {
    let mut rules = Vec::new();
    for (family, peers) in Family::BOTH.into_iter().zip(received) {
        let any = Prefix::all(family);
        let Some(peers) = peers else { continue };
        rules.extend(halves(&peers.rules(values), |peer, action, selector| {
            let action = match action {
                Action::Permit if reflects => AclAction::PermitReflect,
                action => action.into(),
            };
            AclRule::of(action, peer, any, selector)
        }));
    }
    closed(rules)
}

/// What a pod may send: nothing with an address that is not its own.
fn from_pod(lists: &Lists, services: &[IpAddr], values: &mut Values) -> Vec<AclRule> {
    let mut rules = Vec::new();
    for &address in &lists.addresses {
        let (own, family) = (Prefix::host(address), Family::of(address));
        let Some(peers) = lists.peers(Direction::Egress, family) else {
            continue;
        };
        let through = services.iter().chain([&address]);
        let through = through.map(|&address| (Prefix::host(address), Value::EVERYTHING));
        let with_services = peers.with(through);
        rules.extend(halves(&with_services.rules(values), |peer, action, selector| {
            let action = match action {
                Action::Permit => AclAction::PermitReflect,
                Action::Deny => AclAction::Deny,
            };
            AclRule::of(action, own, peer, selector)
        }));
    }
    if lists.addresses.iter().any(IpAddr::is_ipv6) {
        // Neighbours are looked for from addresses that are not the pod's, or with none.
        let any = Prefix::all(Family::Ipv6);
        for (selector, _) in Layer4::necessary(Family::Ipv6).steps() {
            rules.extend(AclRule::of(AclAction::Permit, any, any, &selector));
        }
    }
    closed(rules)
}

fn halves(
    rules: &[PeerRule],
    whole: impl Fn(Prefix, Action, &Selector) -> Vec<AclRule>,
) -> impl Iterator<Item = AclRule> {
    rules
        .iter()
        .flat_map(move |rule| whole(rule.peer, rule.action, &rule.selector))
}

/// The same rules, and nothing else passes, whatever lists come after them.
fn closed(mut rules: Vec<AclRule>) -> Vec<AclRule> {
    for all in everything(AclAction::Deny) {
        close(&mut rules, all);
    }
    rules
}

/// Adds a last rule about everything between two networks, unless that is decided.
fn close(rules: &mut Vec<AclRule>, last: AclRule) {
    let about = |rule: &AclRule| (rule.source, rule.destination, rule.protocol);
    if !rules.iter().any(|rule| about(rule) == about(&last)) {
        rules.push(last);
    }
}

fn everything(action: AclAction) -> Vec<AclRule> {
    let families = Family::BOTH.into_iter();
    families
        .flat_map(|family| {
            let any = Prefix::all(family);
            AclRule::of(action, any, any, &Selector::Any)
        })
        .collect()
}

impl From<Action> for AclAction {
    fn from(action: Action) -> Self {
        match action {
            Action::Deny => Self::Deny,
            Action::Permit => Self::Permit,
        }
    }
}

/// The part of the global list that a pod is in, whatever other pods there are.
fn part(pod: &ObjectRef) -> usize {
    let bytes = pod.namespace.bytes().chain([0]).chain(pod.name.bytes());
    // FNV-1a.
    let hash = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
    });
    usize::try_from(hash % GLOBAL_PARTS as u64).unwrap_or_default()
}
