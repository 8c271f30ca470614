//! Lists that were rendered, as the client takes them.

use super::value::{Acl, AclAction, AclRule, Label};
use crate::acl;

impl From<&acl::Acl> for Acl {
    fn from(list: &acl::Acl) -> Self {
        Self {
            // Tags are short and hold no zero; a list without one would be nobody's.
            tag: Label::new(list.tag.as_str()).unwrap_or_default(),
            rules: list.rules.iter().map(AclRule::from).collect(),
        }
    }
}

impl From<&acl::AclRule> for AclRule {
    fn from(rule: &acl::AclRule) -> Self {
        Self {
            action: match rule.action {
                acl::AclAction::Deny => AclAction::Deny,
                acl::AclAction::Permit => AclAction::Permit,
                acl::AclAction::PermitReflect => AclAction::PermitReflect,
            },
            source: rule.source,
            destination: rule.destination,
            protocol: rule.protocol,
            source_ports: rule.first,
            destination_ports: rule.second,
            tcp_flags: rule.tcp_flags,
        }
    }
}

impl From<&AclRule> for acl::AclRule {
    fn from(rule: &AclRule) -> Self {
        Self {
            action: match rule.action {
                AclAction::Deny => acl::AclAction::Deny,
                AclAction::Permit => acl::AclAction::Permit,
                AclAction::PermitReflect => acl::AclAction::PermitReflect,
            },
            source: rule.source,
            destination: rule.destination,
            protocol: rule.protocol,
            first: rule.source_ports,
            second: rule.destination_ports,
            tcp_flags: rule.tcp_flags,
        }
    }
}
