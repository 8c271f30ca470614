//! Policies as Kuryr's document writes them: `KuryrNetPolicy`, to be read.

use std::collections::BTreeMap;

use picket_policy::{Direction, ObjectRef};
use serde_json::{Map, Value, json};

use crate::builder::Rendered;
use crate::model::{Name, Remote, SecurityGroupRule};
use crate::plan::Ids;
use crate::print::{ethertype, protocol};

/// What picket's rules say of themselves.
const DESCRIPTION: &str = "";
/// The groups of a policy but for the first: their names, or their ids, parted by commas.
const OTHERS: &str = "picket.dev/security-groups";

/// The policies that have groups of their own, each as a `KuryrNetPolicy`. Without `ids` names of groups stand for ids, and a rule
/// is told by its place in its group. With them, what Neutron does not have has the id `null`. `specs` are the specs of the policies
/// as they were written, as far as they are known, by policies without uid.
pub fn kuryr_net_policies(
    rendered: &Rendered,
    specs: &BTreeMap<ObjectRef, Value>,
    ids: Option<&Ids<'_>>,
) -> Vec<Value> {
    let view = View { rendered, ids };
    let policies = rendered.policies.iter();
    let views = policies.map(|(policy, groups)| {
        let written = specs.get(&ObjectRef::new(&policy.kind, &policy.namespace, &policy.name));
        view.of_policy(policy, groups, written)
    });
    views.collect()
}

/// What policies are in Neutron, and what it calls that.
#[derive(Clone, Copy)]
struct View<'a> {
    rendered: &'a Rendered,
    ids: Option<&'a Ids<'a>>,
}

impl View<'_> {
    fn group(&self, name: &Name) -> Value {
        match self.ids {
            None => name.as_str().into(),
            Some(ids) => ids.group(name).map(|id| id.as_str()).into(),
        }
    }

    fn address_group(&self, name: &Name) -> Value {
        match self.ids {
            None => name.as_str().into(),
            Some(ids) => ids.address_group(name).map(|id| id.as_str()).into(),
        }
    }

    fn rule(&self, group: &Name, number: usize, rule: &SecurityGroupRule) -> Value {
        match self.ids {
            None => format!("{group}#{number}").into(),
            Some(ids) => ids.rule(group, rule).map(|id| id.as_str()).into(),
        }
    }

    fn of_policy(&self, policy: &ObjectRef, groups: &[Name], written: Option<&Value>) -> Value {
        let mut annotations = Map::new();
        annotations.insert("networkpolicy_name".to_owned(), policy.name.as_str().into());
        annotations.insert(
            "networkpolicy_namespace".to_owned(),
            policy.namespace.as_str().into(),
        );
        if !policy.uid.is_empty() {
            annotations.insert("networkpolicy_uid".to_owned(), policy.uid.as_str().into());
        }
        let first = groups.first().cloned().unwrap_or_default();
        let id = self.group(&first);
        if let [_, others @ ..] = groups
            && !others.is_empty()
        {
            let others: Vec<_> = others.iter().map(|name| self.group(name)).collect();
            let others: Vec<_> = others.iter().filter_map(Value::as_str).collect();
            annotations.insert(OTHERS.to_owned(), others.join(",").into());
        }
        let mut spec = Map::new();
        for (key, direction) in [
            ("egressSgRules", Direction::Egress),
            ("ingressSgRules", Direction::Ingress),
        ] {
            let rules = groups.iter().flat_map(|group| self.rules(group, direction));
            spec.insert(key.to_owned(), rules.collect());
        }
        if let Some(written) = written {
            spec.insert("networkpolicy_spec".to_owned(), written.clone());
            let selector = written.get("podSelector").cloned();
            spec.insert("podSelector".to_owned(), selector.unwrap_or_else(|| json!({})));
        }
        spec.insert("securityGroupId".to_owned(), id);
        spec.insert("securityGroupName".to_owned(), first.as_str().into());
        json!({
            "apiVersion": "openstack.org/v1",
            "kind": "KuryrNetPolicy",
            "metadata": {
                "annotations": annotations,
                "name": format!("np-{}", policy.name),
                "namespace": policy.namespace.as_str(),
            },
            "spec": spec,
        })
    }

    /// The rules of one direction of a group.
    fn rules(&self, group: &Name, direction: Direction) -> Vec<Value> {
        let Some(rules) = self
            .rendered
            .objects
            .security_groups
            .get(group)
            .map(|group| &group.rules)
        else {
            return Vec::new();
        };
        let own = rules
            .iter()
            .enumerate()
            .filter(|(_, rule)| rule.direction == direction);
        let each = own.map(|(number, rule)| {
            let mut shown = Map::new();
            let named = self.rendered.named.get(group);
            if named.is_some_and(|named| named.contains(rule)) {
                shown.insert(
                    "remote_ip_prefixes".to_owned(),
                    holders(self.rendered, group, rule),
                );
            }
            shown.insert(
                "security_group_rule".to_owned(),
                self.of_rule(group, number, rule),
            );
            Value::Object(shown)
        });
        each.collect()
    }

    fn of_rule(&self, group: &Name, number: usize, rule: &SecurityGroupRule) -> Value {
        let mut shown = Map::new();
        let mut set = |key: &str, value: Value| drop(shown.insert(key.to_owned(), value));
        set("description", DESCRIPTION.into());
        set("direction", rule.direction.to_string().into());
        set("ethertype", ethertype(rule.ethertype).into());
        set("id", self.rule(group, number, rule));
        if let Some(ports) = rule.ports {
            set("port_range_max", ports.last().into());
            set("port_range_min", ports.first().into());
        }
        set("protocol", rule.protocol.map(protocol).into());
        match &rule.remote {
            Remote::Anyone => {}
            Remote::Prefix(prefix) => set("remote_ip_prefix", prefix.to_string().into()),
            Remote::Group(remote) => set("remote_group_id", self.group(remote)),
            Remote::AddressGroup(remote) => set("remote_address_group_id", self.address_group(remote)),
        }
        set("security_group_id", self.group(group));
        Value::Object(shown)
    }
}

/// Whose ports by name a rule is there for: each address, with a colon as the document has it, and the namespace.
///
/// Those are the pods that have the group, where the rule is about what they receive, and its other ends, where it is about what
/// they send.
fn holders(rendered: &Rendered, group: &Name, rule: &SecurityGroupRule) -> Value {
    let counts = |groups: &crate::Port| match (rule.direction, &rule.remote) {
        (Direction::Ingress, _) => groups.security_groups.contains(group),
        (Direction::Egress, Remote::Group(remote)) => groups.security_groups.contains(remote),
        (Direction::Egress, Remote::Prefix(prefix)) => {
            groups.fixed_ips.iter().any(|own| prefix.contains(*own))
        }
        (Direction::Egress, Remote::AddressGroup(remote)) => {
            let addresses = rendered.objects.address_groups.get(remote);
            let mut prefixes = addresses.into_iter().flat_map(|group| &group.addresses);
            prefixes.any(|prefix| groups.fixed_ips.iter().any(|own| prefix.contains(*own)))
        }
        (Direction::Egress, Remote::Anyone) => false,
    };
    let ports = rendered.objects.ports.iter().filter(|(_, port)| counts(port));
    let addresses = ports.flat_map(|(pod, port)| {
        let own = port.fixed_ips.iter();
        let own = own.filter(|own| picket_net::Family::of(**own) == rule.ethertype);
        own.map(|own| (format!("{own}:"), Value::from(pod.namespace.as_str())))
    });
    Value::Object(addresses.collect())
}
