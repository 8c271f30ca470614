//! The lists of one node from each state of the cluster to the next: what an event changes, and nothing else, is worked out
//! again.

use std::sync::Arc;

use picket_engine::{Delta, Program};
use picket_policy::ObjectRef;
use smol_str::SmolStr;

use super::change::Change;
use super::model::Acls;
use super::node::NodeAcls;
use super::render::Options;
use crate::changes::Changes;
use crate::layer4::Layer4;
use crate::lists::{Compiler, Touched};
use crate::value::Values;

/// Renders the lists of one node again and again.
#[derive(Debug)]
pub struct Renderer {
    node: Option<SmolStr>,
    options: Options,
    changes: Changes,
    state: Option<State>,
}

/// What the lists were made of.
#[derive(Debug)]
struct State {
    values: Values,
    most_values: usize,
    compiler: Compiler,
    lists: NodeAcls,
}

impl Renderer {
    /// For the pods of `node`, or with `None` for one node that runs every pod.
    pub fn new(node: Option<&str>, options: Options) -> Self {
        Self {
            node: node.map(SmolStr::from),
            options,
            changes: Changes::default(),
            state: None,
        }
    }

    /// Learns what changed in the program since the last step.
    pub fn note(&mut self, delta: &Delta) {
        if self.state.is_some() {
            self.changes.note(delta, self.node.as_ref());
        }
    }

    /// Follows the program, and says what has changed of the lists. Everything that happened to it since the last time must
    /// have been noted; the first time that is nothing.
    pub fn advance(&mut self, program: &Program) -> Change {
        let changes = std::mem::take(&mut self.changes);
        let Some(state) = &mut self.state else {
            return self.whole(program);
        };
        let change = state.advance(program, &changes);
        if state.values.count() > state.most_values {
            // What has changed has come out already; nothing but the numbers of sets is new.
            self.whole(program);
        }
        change
    }

    /// All lists, as they are since the last step.
    pub fn acls(&self) -> &Acls {
        const NONE: &Acls = &Acls::none();
        self.state.as_ref().map_or(NONE, |state| state.lists.acls())
    }

    /// The same, for good.
    pub fn into_acls(self) -> Acls {
        self.state
            .map(|state| state.lists.into_acls())
            .unwrap_or_default()
    }

    /// Lets the next step work out everything.
    pub fn forget(&mut self) {
        self.state = None;
        self.changes = Changes::default();
    }

    fn whole(&mut self, program: &Program) -> Change {
        let (state, change) = State::whole(program, self.node.as_deref(), &self.options);
        self.state = Some(state);
        change
    }
}

impl State {
    fn whole(program: &Program, node: Option<&str>, options: &Options) -> (Self, Change) {
        let mut values = Values::default();
        let floor = picket_net::Family::BOTH.map(|family| values.number(Layer4::necessary(family)));
        let (compiler, touched) = Compiler::new(program, node, &mut values);
        let mut lists = NodeAcls::new(options.clone(), floor);
        let pods = named(program, touched);
        let change = lists.advance(&pods, Some(services(program)), &mut values);
        let state = Self {
            most_values: values.most(),
            values,
            compiler,
            lists,
        };
        (state, change)
    }

    fn advance(&mut self, program: &Program, changes: &Changes) -> Change {
        let touched = self.compiler.advance(program, changes, &mut self.values);
        let services = changes.services.then(|| services(program));
        self.lists
            .advance(&named(program, touched), services, &mut self.values)
    }
}

/// The addresses of services, each once.
fn services(program: &Program) -> Vec<std::net::IpAddr> {
    let services = program.services();
    let mut addresses: Vec<_> = services
        .flat_map(|service| service.addresses.iter().copied())
        .collect();
    addresses.sort_unstable();
    addresses.dedup();
    addresses
}

/// Pods with the names of their interfaces.
fn named(program: &Program, touched: Touched) -> super::node::PodLists {
    let name = |pod: &ObjectRef| -> SmolStr {
        let found = program.pod(pod).map(|pod| pod.pod().id().into());
        found.unwrap_or_else(|| pod.name.clone())
    };
    let named = touched.into_iter().map(|(pod, lists)| {
        let lists = lists.map(|lists| (name(&pod), Arc::clone(&lists)));
        (pod, lists)
    });
    named.collect()
}

#[cfg(test)]
mod tests {
    use picket_cluster::{Event, Object, Semantics};
    use picket_engine::Engine;
    use picket_net::Protocol;
    use picket_testing::build::{accept, block, pod, policy};

    use super::*;

    #[test]
    fn sets_that_nothing_uses_any_more_do_not_pile_up() {
        let mut engine = Engine::new(Semantics::default());
        engine.apply(Event::Apply(Object::from(pod("x/a").ip("10.0.0.1").build())));
        let mut renderer = Renderer::new(None, Options::default());
        renderer.advance(engine.program());
        let mut most = 0;
        for port in 1..200 {
            let accept = accept().peer(block("10.0.0.0/8", &[])).port(Protocol::TCP, port);
            let policy = policy("x/a").ingress(accept).build();
            renderer.note(&engine.apply(Event::Apply(Object::Policy(policy))));
            let before = renderer.acls().clone();
            let change = renderer.advance(engine.program());
            assert_eq!(change, Change::between(&before, renderer.acls()));
            assert_eq!(change.created.len() + change.removed.len(), 2);
            let known = renderer.state.as_ref().map(|state| state.values.count());
            most = most.max(known.unwrap_or_default());
        }
        assert!((10..40).contains(&most), "{most}");
    }
}
