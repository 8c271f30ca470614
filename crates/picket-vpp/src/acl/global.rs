//! The lists of the interfaces that lead out of a node: what its pods may send there, and what comes in for them.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use picket_policy::{Direction, ObjectRef};

use super::change::Register;
use super::model::{Acl, AclAction, AclRule, InterfaceLists, Role, Tag};
use super::rules::{everything, into_node, out_of_node};
use crate::lists::{Lists, Restricted};
use crate::peers::Peers;
use crate::value::Values;

/// What interfaces that lead out of the node have. A pod that may send everything is in none of it.
#[derive(Debug)]
pub(super) struct Global {
    senders: Restricted<ObjectRef>,
    receivers: Restricted<ObjectRef>,
    parts: BTreeMap<usize, Part>,
    /// The part of each address.
    part_of: BTreeMap<IpAddr, usize>,
    /// Those of which something is otherwise than when lists were made.
    changed: BTreeSet<usize>,
    /// What everything else that comes in meets, and what goes out, while there are parts.
    rest: Option<[Arc<Acl>; 2]>,
}

/// One of the parts that the lists of both ways are cut into.
#[derive(Debug, Default)]
struct Part {
    senders: BTreeMap<IpAddr, Sender>,
    /// What comes in, and what goes out.
    acls: Option<[Arc<Acl>; 2]>,
}

/// An address that may not send everything.
#[derive(Debug)]
struct Sender {
    /// What may be sent to it, where that is not everything.
    receives: Option<Arc<Peers>>,
    sends: Arc<Peers>,
    /// The rules of it where these are made: of what comes in, and of what goes out.
    rules: Option<[Vec<AclRule>; 2]>,
}

impl Sender {
    fn rules(&mut self, address: IpAddr, values: &mut Values) -> &[Vec<AclRule>; 2] {
        let Self {
            receives,
            sends,
            rules,
        } = self;
        rules.get_or_insert_with(|| {
            [
                into_node(address, receives.as_deref(), values),
                out_of_node(address, sends, values),
            ]
        })
    }
}

impl Global {
    /// Nobody.
    pub(super) fn new() -> Self {
        Self {
            senders: Restricted::new(Direction::Egress),
            receivers: Restricted::new(Direction::Ingress),
            parts: BTreeMap::new(),
            part_of: BTreeMap::new(),
            changed: BTreeSet::new(),
            rest: None,
        }
    }

    /// Takes in what a pod may exchange, before and now.
    pub(super) fn follow(&mut self, pod: &ObjectRef, lists: [Option<&Lists>; 2]) {
        let (mut sends, mut receives) = (Vec::new(), Vec::new());
        self.senders.follow(pod, lists, &mut sends);
        self.receivers.follow(pod, lists, &mut receives);
        let addresses: BTreeSet<_> = sends
            .into_iter()
            .chain(receives)
            .map(|(address, _)| address)
            .collect();
        for address in addresses {
            // Where several have an address, all are held to the same.
            let receives = self.receivers.at(address).map(|(_, peers)| Arc::clone(peers));
            let sender = self.senders.at(address).map(|(pod, sends)| {
                let sender = Sender {
                    receives,
                    sends: Arc::clone(sends),
                    rules: None,
                };
                (part(pod), sender)
            });
            self.set(address, sender);
        }
    }

    /// An address belongs to a part now, or with `None` to none.
    fn set(&mut self, address: IpAddr, now: Option<(usize, Sender)>) {
        let before = match &now {
            Some((part, _)) => self.part_of.insert(address, *part),
            None => self.part_of.remove(&address),
        };
        if let Some(part) = before {
            self.changed.insert(part);
            self.parts.entry(part).or_default().senders.remove(&address);
        }
        if let Some((part, sender)) = now {
            self.changed.insert(part);
            self.parts
                .entry(part)
                .or_default()
                .senders
                .insert(address, sender);
        }
    }

    /// Makes what has changed; whether something has.
    pub(super) fn make(&mut self, register: &mut Register, values: &mut Values) -> bool {
        let changed = std::mem::take(&mut self.changed);
        for number in &changed {
            let Some(part) = self.parts.get_mut(number) else {
                continue;
            };
            let mut rules = [const { Vec::new() }; 2];
            for (&address, sender) in &mut part.senders {
                for (all, own) in rules.iter_mut().zip(sender.rules(address, values)) {
                    all.extend_from_slice(own);
                }
            }
            let acls = (!part.senders.is_empty()).then(|| of_both_ways(rules));
            replace(register, &mut part.acls, acls);
            if part.acls.is_none() {
                self.parts.remove(number);
            }
        }
        let rest = || of_both_ways([AclAction::Permit; 2].map(everything));
        match (self.parts.is_empty(), self.rest.is_some()) {
            (true, true) => replace(register, &mut self.rest, None),
            (false, false) => replace(register, &mut self.rest, Some(rest())),
            _ => {}
        }
        !changed.is_empty()
    }

    /// What each interface that leads out has.
    pub(super) fn lists(&self) -> InterfaceLists {
        let parts = self.parts.values().filter_map(|part| part.acls.as_ref());
        let each = parts.chain(&self.rest);
        let (input, output): (Vec<Tag>, Vec<Tag>) = each
            .map(|[into, out]| (into.tag.clone(), out.tag.clone()))
            .unzip();
        InterfaceLists {
            pod: None,
            input,
            output,
        }
    }
}

fn of_both_ways([into, out]: [Vec<AclRule>; 2]) -> [Arc<Acl>; 2] {
    [(Role::FromOutside, into), (Role::Global, out)].map(|(role, rules)| Arc::new(Acl::new(role, rules)))
}

fn replace(register: &mut Register, known: &mut Option<[Arc<Acl>; 2]>, now: Option<[Arc<Acl>; 2]>) {
    let before = std::mem::replace(known, now);
    let each = |acls: &Option<[Arc<Acl>; 2]>| match acls {
        Some([into, out]) => [Some(Arc::clone(into)), Some(Arc::clone(out))],
        None => [None, None],
    };
    for (before, now) in each(&before).iter().zip(&each(known)) {
        register.replace(before.as_ref(), now.as_ref());
    }
}

/// How many lists each of the two is cut into, so that a change of one pod sends a small part of it.
const PARTS: usize = 64;

/// The part that a pod is in, whatever other pods there are.
fn part(pod: &ObjectRef) -> usize {
    let bytes = pod.namespace.bytes().chain([0]).chain(pod.name.bytes());
    // FNV-1a.
    let hash = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
    });
    usize::try_from(hash % PARTS as u64).unwrap_or_default()
}
