//! A cloud that is nothing but a value, for tests.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::rc::Rc;
use std::time::Duration;

use picket_neutron::{Name, Objects, SecurityGroup};
use picket_policy::ObjectRef;

use crate::cloud::{Cloud, Failure, Plan, Reason, Step, Wanted};
use crate::gate::Gate;

/// How long a call of this cloud takes at most.
pub(crate) const CALL: Duration = Duration::from_secs(10);

/// What it has.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Has {
    pub(crate) groups: BTreeMap<Name, SecurityGroup>,
    pub(crate) ports: BTreeMap<ObjectRef, BTreeSet<Name>>,
}

impl Has {
    /// Whether it is what policies say, for the pods that have ports.
    pub(crate) fn is(&self, objects: &Objects) -> bool {
        let is_port = |(pod, groups): (&ObjectRef, &BTreeSet<Name>)| {
            objects
                .ports
                .get(pod)
                .is_some_and(|port| port.security_groups == *groups)
        };
        self.groups == objects.security_groups && self.ports.iter().all(is_port)
    }
}

/// What it has, and what it does.
#[derive(Default)]
pub(crate) struct World {
    pub(crate) has: Has,
    /// What becomes of steps about what is named so.
    pub(crate) failing: BTreeMap<String, Reason>,
    pub(crate) is_away: bool,
    /// The pods at a port of which no group counts, and why.
    pub(crate) unenforced: BTreeMap<ObjectRef, String>,
    /// Those of them that no rule means because of it.
    pub(crate) left_out: BTreeSet<ObjectRef>,
    /// What it was asked, in order.
    pub(crate) asked: Vec<String>,
}

#[derive(Clone)]
pub(crate) struct Fake {
    pub(crate) world: Rc<RefCell<World>>,
    pub(crate) gate: Gate,
}

#[derive(Clone, Debug)]
pub(crate) enum Act {
    Put(Name, SecurityGroup),
    /// Takes from a group what it should not have.
    Take(Name, SecurityGroup),
    Port(ObjectRef, BTreeSet<Name>),
    Drop(Name),
}

impl fmt::Display for Act {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Put(name, _) => write!(f, "put {name}"),
            Self::Take(name, _) => write!(f, "take from {name}"),
            Self::Port(pod, groups) => write!(f, "port {pod}: {}", groups.len()),
            Self::Drop(name) => write!(f, "drop {name}"),
        }
    }
}

impl Step for Act {
    fn kind(&self) -> &'static str {
        match self {
            Self::Put(..) => "put_group",
            Self::Take(..) => "delete_rules",
            Self::Port(..) => "update_port",
            Self::Drop(_) => "delete_group",
        }
    }

    fn group(&self) -> Option<Name> {
        match self {
            Self::Put(name, _) | Self::Take(name, _) | Self::Drop(name) => Some(name.clone()),
            Self::Port(..) => None,
        }
    }

    fn pod(&self) -> Option<ObjectRef> {
        match self {
            Self::Port(pod, _) => Some(pod.clone()),
            _ => None,
        }
    }

    fn removes(&self) -> bool {
        matches!(self, Self::Take(..) | Self::Drop(_))
    }
}

impl Act {
    fn carry_out(&self, has: &mut Has) {
        match self.clone() {
            Self::Put(name, group) | Self::Take(name, group) => _ = has.groups.insert(name, group),
            Self::Port(pod, groups) => _ = has.ports.insert(pod, groups),
            Self::Drop(name) => _ = has.groups.remove(&name),
        }
    }
}

impl Cloud for Fake {
    type State = Has;
    type Step = Act;
    type Done = ();

    async fn read(&self) -> Result<Has, Failure> {
        let mut world = self.world.borrow_mut();
        world.asked.push("read".to_owned());
        match world.is_away {
            true => Err(Failure::new(Reason::Away, "nobody answers")),
            false => Ok(world.has.clone()),
        }
    }

    async fn find(&self, state: &mut Has, pods: &BTreeSet<ObjectRef>) -> Result<(), Failure> {
        let mut world = self.world.borrow_mut();
        world.asked.push("find".to_owned());
        let found = pods
            .iter()
            .filter_map(|pod| Some((pod.clone(), world.has.ports.get(pod)?.clone())));
        state.ports.extend(found);
        Ok(())
    }

    fn plan(&self, state: &Has, wanted: &Wanted<'_>) -> Plan<Act> {
        let groups = &wanted.objects.security_groups;
        let is_used = |name: &Name| state.ports.values().any(|port| port.contains(name));
        let is_left = |name: &Name| wanted.held_removals.contains(name) && !is_used(name);
        let is_free = |name: &Name| !wanted.held_groups.contains(name) && !is_left(name);
        let puts = groups
            .iter()
            .filter(|(name, group)| is_free(name) && state.groups.get(*name) != Some(*group));
        let puts = puts.map(|(name, group)| {
            let known = state.groups.get(name);
            match known.is_some_and(|known| !known.rules.is_subset(&group.rules)) {
                true => Act::Take(name.clone(), group.clone()),
                false => Act::Put(name.clone(), group.clone()),
            }
        });
        let (mut ports, mut pending) = (Vec::new(), BTreeSet::new());
        for (pod, port) in &wanted.objects.ports {
            let Some(has) = state.ports.get(pod) else {
                pending.insert(pod.clone());
                continue;
            };
            let gets = port
                .security_groups
                .iter()
                .filter(|name| is_free(name) || state.groups.contains_key(*name) && !is_left(name));
            let gets: BTreeSet<_> = gets.cloned().collect();
            if *has != gets && !wanted.held_pods.contains(pod) {
                ports.push(Act::Port(pod.clone(), gets));
            }
        }
        let drops = state
            .groups
            .keys()
            .filter(|name| !groups.contains_key(*name) && is_free(name));
        let stages = [puts.collect(), ports, drops.cloned().map(Act::Drop).collect()];
        Plan {
            stages: stages.into_iter().filter(|stage| !stage.is_empty()).collect(),
            pending,
            unenforced: self.world.borrow().unenforced.clone(),
            left_out: self.world.borrow().left_out.clone(),
            ..Plan::default()
        }
    }

    async fn apply(&self, _: &Has, step: &Act) -> Result<(), Failure> {
        if !self.gate.permits(CALL) {
            return Err(Failure::new(Reason::Closed, "it may not begin"));
        }
        let mut world = self.world.borrow_mut();
        world.asked.push(step.to_string());
        let name = match step {
            Act::Port(pod, _) => pod.name.to_string(),
            Act::Put(name, _) | Act::Take(name, _) | Act::Drop(name) => name.to_string(),
        };
        match world.failing.get(&name) {
            Some(reason) => Err(Failure::new(*reason, "no")),
            None => {
                step.carry_out(&mut world.has);
                Ok(())
            }
        }
    }

    fn note(&self, state: &mut Has, step: &Act, (): ()) {
        step.carry_out(state);
    }

    fn id_of(&self, state: &Has, group: &Name) -> Option<String> {
        state.groups.contains_key(group).then(|| format!("id of {group}"))
    }
}
