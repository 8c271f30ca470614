//! The lists of one node from each state of the cluster to the next: what an event changes, and nothing else, is worked out
//! again.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use picket_engine::{Delta, Program};
use picket_policy::ObjectRef;
use smol_str::SmolStr;

use super::change::Change;
use super::model::Acls;
use super::node::NodeAcls;
use super::render::Options;
use crate::follow::{Follower, News, Target};
use crate::lists::Touched;
use crate::value::{Value, Values};
use crate::work::looked_at;

/// Renders the lists of one node again and again.
#[derive(Debug)]
pub struct Renderer(Follower<NodeAcls>);

impl Renderer {
    /// For the pods of `node`, or with `None` for one node that runs every pod.
    pub fn new(node: Option<&str>, options: Options) -> Self {
        Self(Follower::new(node, options))
    }

    /// Learns what changed in the program since the last step.
    pub fn note(&mut self, delta: &Delta) {
        self.0.note(delta);
    }

    /// Follows the program, and says what has changed of the lists. Everything that happened to it since the last time must
    /// have been noted; the first time that is nothing.
    pub fn advance(&mut self, program: &Program) -> Change {
        self.0.advance(program)
    }

    /// All lists, as they are since the last step.
    pub fn acls(&self) -> &Acls {
        const NONE: &Acls = &Acls::none();
        self.0.made().map_or(NONE, NodeAcls::acls)
    }

    /// The same, for good.
    pub fn into_acls(self) -> Acls {
        let lists = self.0.into_made();
        lists.map(NodeAcls::into_acls).unwrap_or_default()
    }

    /// Lets the next step work out everything.
    pub fn forget(&mut self) {
        self.0.forget();
    }
}

impl Target for NodeAcls {
    type Options = Options;
    type Change = Change;

    fn empty(options: &Options, floor: [Value; 2]) -> Self {
        Self::new(options.clone(), floor)
    }

    fn follow(&mut self, program: &Program, news: News<'_>, values: &mut Values) -> Change {
        let named_anew = news.has_services.then(|| named_by_services(program));
        let is_held = |address: IpAddr| news.places.held(address).is_some();
        let moved = news.moved.keys().inspect(|_| looked_at(1)).copied();
        let services = self.services_of(named_anew, moved, is_held);
        self.advance(&named(program, news.touched), services, values)
    }
}

/// The addresses that services say are theirs.
fn named_by_services(program: &Program) -> BTreeSet<IpAddr> {
    let services = program.services();
    services
        .flat_map(|service| service.addresses.iter().copied())
        .collect()
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
            most = most.max(renderer.0.values());
        }
        assert!((10..40).contains(&most), "{most}");
    }
}
