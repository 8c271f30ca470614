//! Policies that cannot be in force: what they are about is closed.

use std::collections::{BTreeMap, BTreeSet};

use picket_dataplane::Shortfall;
use picket_nftables::model::Table;
use picket_nftables::render::documented::{
    self, DocumentedError, Options, PodView, PolicyOnPod, ResolvedSide, policy_hash,
};
use picket_policy::{Direction, ObjectRef, Tier};

/// The rules of a pod, and what of it they cannot say.
pub(super) type Rendered = (Table, Vec<Shortfall>);

/// Renders a pod with these policies `closed`, and with those that the layout refuses, which are added; why it does is added to
/// `troubles`. `None` where nothing can be said at all.
pub(super) fn render(
    view: &PodView,
    options: &Options,
    closed: &mut BTreeSet<ObjectRef>,
    troubles: &mut Vec<String>,
) -> Option<Rendered> {
    loop {
        let error = match documented::render(&with_closed(view, closed), options) {
            Ok(rendered) => return Some(rendered),
            Err(error) => error,
        };
        troubles.push(format!("{error}; it is closed instead"));
        let before = closed.len();
        closed.extend(refused(view, &error, options));
        if closed.len() == before {
            closed.extend(view.policies.iter().map(|policy| policy.object.clone()));
            return documented::render(&all_closed(view), options).ok();
        }
    }
}

/// The policies because of which a pod cannot be rendered.
fn refused(view: &PodView, error: &DocumentedError, options: &Options) -> Vec<ObjectRef> {
    if let DocumentedError::Collision(one, other) = error {
        return vec![ObjectRef::clone(one), ObjectRef::clone(other)];
    }
    let policies = view.policies.iter();
    let refused = policies.filter(|policy| {
        let alone = PodView {
            policies: vec![PolicyOnPod::clone(policy)],
            ..view.clone()
        };
        documented::render(&alone, options).is_err()
    });
    refused.map(|policy| policy.object.clone()).collect()
}

/// The pod with nothing allowed by some of its policies. Those that would have one name are one.
fn with_closed(view: &PodView, closed: &BTreeSet<ObjectRef>) -> PodView {
    let mut same = BTreeMap::<_, Vec<_>>::new();
    for policy in view
        .policies
        .iter()
        .filter(|policy| closed.contains(&policy.object))
    {
        same.entry(policy_hash(&policy.object)).or_default().push(policy);
    }
    let policies = view.policies.iter();
    let policies = policies.filter_map(|policy| match closed.contains(&policy.object) {
        true => closing(&same.remove(&policy_hash(&policy.object))?),
        false => Some(policy.clone()),
    });
    PodView {
        policies: policies.collect(),
        ..view.clone()
    }
}

/// The pod with nothing allowed where policies restrict it: one policy stands for all.
fn all_closed(view: &PodView) -> PodView {
    let all: Vec<_> = view.policies.iter().collect();
    PodView {
        policies: closing(&all).into_iter().collect(),
        ..view.clone()
    }
}

/// What stands for policies that cannot be said: it isolates over their interfaces in their directions, and allows nothing.
fn closing(policies: &[&PolicyOnPod]) -> Option<PolicyOnPod> {
    let isolates = |direction: Direction| ResolvedSide {
        isolates: policies.iter().any(|policy| policy.side(direction).isolates),
        ..ResolvedSide::default()
    };
    let isolating = policies
        .iter()
        .filter(|policy| policy.ingress.isolates || policy.egress.isolates);
    let interfaces: BTreeSet<_> = isolating.flat_map(|policy| &policy.interfaces).collect();
    policies.first().map(|policy| PolicyOnPod {
        object: policy.object.clone(),
        tier: Tier::NetworkPolicy,
        interfaces: interfaces.into_iter().cloned().collect(),
        ingress: isolates(Direction::Ingress),
        egress: isolates(Direction::Egress),
    })
}

#[cfg(test)]
mod tests {
    use picket_net::AddressSet;
    use picket_nftables::model::InterfaceName;
    use picket_policy::Action;

    use super::*;

    /// What tells two policies apart that have the same hash.
    const TWINS: [&str; 2] = ["6cf2989cfd1b54fb", "ae095fe7bb6bcc45"];

    /// A pod with policies that allow everything to come over one of its interfaces.
    fn view(policies: &[(&str, &str)]) -> PodView {
        let interface = |name: &str| InterfaceName::new(name).unwrap();
        let policy = |&(name, over): &(&str, &str)| PolicyOnPod {
            object: ObjectRef::new("NetworkPolicy", "collide", name),
            tier: Tier::NetworkPolicy,
            interfaces: vec![interface(over)],
            ingress: ResolvedSide {
                isolates: true,
                audits: false,
                rules: vec![documented::ResolvedRule {
                    index: 0,
                    action: Action::Accept,
                    peers: documented::Peers::Anyone,
                    traffic: picket_net::TrafficSet::all(),
                    named: Vec::new(),
                }],
            },
            egress: ResolvedSide::default(),
        };
        let interfaces = ["net1", "net2"].map(|name| documented::Interface {
            name: interface(name),
            addresses: Vec::new(),
            cluster: false,
        });
        PodView {
            pod: ObjectRef::new("Pod", "collide", "a"),
            interfaces: interfaces.into(),
            own_node: AddressSet::empty(),
            policies: policies.iter().map(policy).collect(),
        }
    }

    #[test]
    fn policies_that_cannot_be_in_one_table_are_closed_and_no_other_is() {
        let [one, other] = TWINS;
        let view = view(&[(one, "net1"), ("third", "net1"), (other, "net2")]);
        let (mut closed, mut troubles) = (BTreeSet::new(), Vec::new());
        let (table, _) = render(&view, &Options::default(), &mut closed, &mut troubles).unwrap();
        let names: Vec<_> = closed.iter().map(|policy| policy.name.as_str()).collect();
        assert_eq!(names, [one, other]);
        assert!(
            troubles.len() == 1 && troubles[0].contains("have the same hash"),
            "{troubles:?}"
        );
        let mut expected = view.clone();
        expected.policies.pop();
        let closing = &mut expected.policies[0];
        closing.ingress.rules.clear();
        closing.interfaces.push(InterfaceName::new("net2").unwrap());
        assert_eq!(
            table,
            documented::render(&expected, &Options::default()).unwrap().0
        );
    }
}
