//! What stands in for a list that a VPP will not take.

use std::collections::BTreeSet;

use picket_net::Prefix;

use super::model::{Acl, AclAction, AclRule, Role};
use super::rules::everything;
use crate::layer4::Selector;

impl Acl {
    /// The list that lets nothing pass.
    pub fn closed() -> Self {
        Self::new(Role::ToPod, everything(AclAction::Deny))
    }

    /// A short list that lets nothing pass that this one does not, for where this one cannot be had: of what pods may send out of
    /// the node it denies what these pods send, and everything else stays as it is; `None` where it may just as well be left
    /// away, as it denies nothing.
    pub fn stricter(&self) -> Option<Self> {
        if self.tag.is_for(Role::FromOutside) || self.tag.is_for(Role::Cut) {
            return None;
        }
        if !self.tag.is_for(Role::Global) {
            return Some(Self::closed());
        }
        let sources: BTreeSet<_> = self.rules.iter().map(|rule| rule.source).collect();
        let denied = sources.into_iter().flat_map(|source| {
            let any = Prefix::all(source.family());
            AclRule::of(AclAction::Deny, source, any, &Selector::Any)
        });
        Some(Self::new(Role::Global, denied.collect()))
    }
}

#[cfg(test)]
mod tests {
    use picket_net::Family;

    use super::*;

    fn acl(role: Role, rules: &[(AclAction, &str, &str)]) -> Acl {
        let prefix = |text: &str| text.parse().unwrap();
        let rules = rules.iter().flat_map(|(action, source, destination)| {
            AclRule::of(*action, prefix(source), prefix(destination), &Selector::Any)
        });
        Acl::new(role, rules.collect())
    }

    #[test]
    fn what_stands_in_for_a_list_lets_less_pass() {
        use AclAction::{Deny, Permit, PermitReflect};
        for role in [Role::ToPod, Role::FromPod, Role::BeforeOthers] {
            let list = acl(role, &[(PermitReflect, "10.0.0.1/32", "0.0.0.0/0")]);
            assert_eq!(list.stricter(), Some(Acl::closed()), "{role}");
        }
        let closed = Acl::closed();
        assert!(
            closed
                .rules
                .iter()
                .all(|rule| rule.action == Deny && rule.is_everything())
        );
        assert_eq!(
            closed.rules.iter().map(AclRule::family).collect::<Vec<_>>(),
            Family::BOTH
        );
        let part = acl(
            Role::Global,
            &[
                (Permit, "10.0.0.1/32", "192.0.2.0/24"),
                (Deny, "10.0.0.1/32", "0.0.0.0/0"),
                (Deny, "2001:db8::1/128", "::/0"),
            ],
        );
        let pods_alone = [
            (Deny, "10.0.0.1/32", "0.0.0.0/0"),
            (Deny, "2001:db8::1/128", "::/0"),
        ];
        assert_eq!(part.stricter(), Some(acl(Role::Global, &pods_alone)));
        let into = acl(Role::FromOutside, &[(PermitReflect, "0.0.0.0/0", "10.0.0.1/32")]);
        assert_eq!(into.stricter(), None);
    }
}
