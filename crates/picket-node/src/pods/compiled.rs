//! The networks of one wire, compiled and led from state to state.

use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};

use picket_cluster::{Event, Interfaces, Object, Seen, Semantics};
use picket_engine::{Engine, Program};
use picket_nftables::custom::{self, CustomRules};
use picket_nftables::render::documented::OtherEnds;
use picket_policy::{NetworkName, ObjectRef, Policy};

use super::touched::Touched;

/// Of how many objects one has to have changed before it is cheaper to compile all of them anew.
const FRACTION: usize = 4;

/// What some networks of a wire see. The engine alone knows it: with 100,000 pods there, a snapshot of them is a lot to keep too.
pub(super) struct Compiled {
    wire: BTreeSet<NetworkName>,
    engine: Engine,
    /// Who is at the other end of rules, for all pods of the node.
    ends: OtherEnds,
    /// The same where custom rules are policies like others, once somebody asks.
    judged: OnceLock<Box<Engine>>,
}

impl Compiled {
    pub(super) fn new(seen: &Seen<'_>, interfaces: &mut Interfaces, semantics: &Semantics) -> Self {
        let pods = seen.pods(interfaces);
        Self::of(
            seen.wire().clone(),
            Engine::compile_with(&seen.without_pods(), pods, semantics.clone()),
        )
    }

    fn of(wire: BTreeSet<NetworkName>, engine: Engine) -> Self {
        Self {
            wire,
            engine,
            ends: OtherEnds::default(),
            judged: OnceLock::new(),
        }
    }

    /// The same where some policies say something else, or nothing.
    pub(super) fn where_others_hold(&self, policies: &[(ObjectRef, Option<Arc<Policy>>)]) -> Self {
        let program = self.program();
        let mut others = program.without_pods();
        for (policy, says) in policies {
            match says {
                Some(says) => others.policies.insert(policy.clone(), Arc::clone(says)),
                None => others.policies.remove(policy),
            };
        }
        let pods = program.pods().map(|pod| Arc::clone(pod.pod()));
        let engine = Engine::compile_with(&others, pods, program.semantics().clone());
        Self::of(self.wire.clone(), engine)
    }

    /// Whether this was compiled for the wire that is seen.
    pub(super) fn is_of(&self, seen: &Seen<'_>) -> bool {
        self.wire == *seen.wire()
    }

    /// What is known.
    pub(super) fn program(&self) -> &Program {
        self.engine.program()
    }

    /// Who is at the other end of rules, as far as anybody has asked.
    pub(super) fn ends(&self) -> &OtherEnds {
        &self.ends
    }

    /// The same in which custom rules are policies like others.
    pub(super) fn judged(&self, custom: &[CustomRules]) -> &Program {
        if custom.is_empty() {
            return self.program();
        }
        let engine = self.judged.get_or_init(|| {
            let mut snapshot = self.program().snapshot();
            custom::add(custom, &mut snapshot, "");
            Box::new(Engine::compile(&snapshot, self.program().semantics().clone()))
        });
        engine.program()
    }

    /// The custom rules are others now.
    pub(super) fn forget_judged(&mut self) {
        self.judged = OnceLock::new();
    }

    /// The events that lead to what is seen now, if only what is touched can have changed; `None` if that is nearly everything.
    pub(super) fn events_to(
        &self,
        seen: &Seen<'_>,
        touched: &Touched,
        interfaces: &mut Interfaces,
    ) -> Option<Vec<Event>> {
        let events = match touched {
            // Where several networks are on a wire, what one object shows may depend on others.
            Touched::These(objects) if self.is_of(seen) && self.wire.len() == 1 => {
                let mut events = Events::default();
                for object in objects {
                    events.lead(object, self.program(), seen, interfaces);
                }
                events.in_order()
            }
            Touched::These(_) | Touched::Anything => {
                self.program().snapshot().events_to(&seen.snapshot(interfaces))
            }
        };
        (events.len() <= self.program().object_count() / FRACTION).then_some(events)
    }

    /// Takes in what leads to what is seen now.
    pub(super) fn take(&mut self, seen: &Seen<'_>, events: Vec<Event>) {
        self.wire.clone_from(seen.wire());
        self.forget_judged();
        self.ends = OtherEnds::default();
        for event in events {
            self.engine.apply(event);
        }
    }
}

/// Events about single objects.
#[derive(Default)]
struct Events {
    gone: Vec<Event>,
    /// What pods need.
    others: Vec<Event>,
    pods: Vec<Event>,
}

impl Events {
    /// What goes, then what pods need, then pods.
    fn in_order(self) -> Vec<Event> {
        let Self { gone, others, pods } = self;
        gone.into_iter().chain(others).chain(pods).collect()
    }

    /// Leads from what is known of an object to what is seen of it.
    fn lead(&mut self, object: &ObjectRef, known: &Program, seen: &Seen<'_>, interfaces: &mut Interfaces) {
        if object.kind == "Namespace" {
            // The policy that some are too is about the cluster network.
            let namespace = seen.namespace(&object.name).cloned();
            return self.change(
                object,
                known.namespace(&object.name),
                namespace,
                Object::Namespace,
            );
        }
        let policy = known.policy(object).map(|policy| Policy::clone(policy));
        self.change(object, policy, seen.policy(object), Object::Policy);
        let endpoints = seen.pod(object);
        let endpoints = endpoints.map_or_else(Vec::new, |pod| seen.endpoints(pod, interfaces));
        let before = known.endpoints_of(object).map(|endpoint| &endpoint.pod().object);
        let gone = before.filter(|before| endpoints.iter().all(|now| now.object != **before));
        self.gone.extend(gone.cloned().map(Event::Delete));
        let comes = endpoints.into_iter().filter(|endpoint| {
            let before = known.pod(&endpoint.object);
            before.is_none_or(|before| before.pod() != endpoint)
        });
        self.pods
            .extend(comes.map(|endpoint| Event::Apply(Object::Pod(endpoint))));
    }

    /// An object that was this is that now.
    fn change<T: PartialEq>(
        &mut self,
        object: &ObjectRef,
        before: Option<T>,
        now: Option<T>,
        wrap: impl FnOnce(T) -> Object,
    ) {
        if before == now {
            return;
        }
        match now {
            Some(now) => self.others.push(Event::Apply(wrap(now))),
            None => self.gone.push(Event::Delete(object.clone())),
        }
    }
}
