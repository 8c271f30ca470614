//! Values as requests say them, and as answers do.

use super::error::Error;
use super::field::{AskedScope, Lists};
use super::message::*;
use super::value::{Acl, InstalledRule, InterfaceLists, Namespace, SessionRule};

/// Whether a session rule is added or removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Change {
    /// It is to be there.
    Add,
    /// It is not. VPP removes the rule with its tag whatever else it says, and without such a tag the one that matches
    /// the same.
    Delete,
}

/// What gives the ACL of an index other rules, or makes a new one.
pub(super) fn replacement(index: Option<u32>, acl: &Acl) -> AclAddReplace {
    AclAddReplace {
        acl_index: index.unwrap_or(ANY),
        tag: acl.tag.clone(),
        r: acl.rules.clone(),
    }
}

/// What gives an interface other ACLs, unless they are more than it can say.
pub(super) fn setting(lists: &InterfaceLists) -> Result<AclInterfaceSetAclList, Error> {
    let acls = Lists::new(lists.input.clone(), lists.output.clone());
    Ok(AclInterfaceSetAclList {
        sw_if_index: lists.interface,
        acls: acls.ok_or_else(|| Error::TooManyAcls {
            interface: lists.interface,
            count: lists.input.len() + lists.output.len(),
        })?,
    })
}

/// What adds or removes a rule in the tables of a namespace.
pub(super) fn changed(change: Change, namespace: u32, rule: &SessionRule) -> SessionRuleAddDel {
    SessionRuleAddDel {
        transport_proto: rule.transport,
        lcl: rule.local,
        rmt: rule.remote,
        lcl_port: rule.local_port,
        rmt_port: rule.remote_port,
        action_index: rule.action,
        is_add: change == Change::Add,
        appns_index: namespace,
        scope: AskedScope(rule.scope),
        tag: rule.tag.clone(),
    }
}

/// What adds or removes a namespace.
pub(super) fn membership(is_add: bool, namespace: &Namespace) -> AppNamespaceAddDelV4 {
    AppNamespaceAddDelV4 {
        secret: namespace.secret,
        is_add,
        sw_if_index: namespace.interface.unwrap_or(ANY),
        ip4_fib_id: namespace.ipv4_fib,
        ip6_fib_id: namespace.ipv6_fib,
        namespace_id: namespace.id.clone(),
        sock_name: Vec::new(),
    }
}

impl From<SessionRulesDetails> for InstalledRule {
    fn from(told: SessionRulesDetails) -> Self {
        Self {
            namespaces: vec![told.appns_index],
            rule: SessionRule {
                transport: told.transport_proto,
                local: told.lcl,
                remote: told.rmt,
                local_port: told.lcl_port,
                remote_port: told.rmt_port,
                action: told.action_index,
                scope: told.scope.0,
                tag: told.tag,
            },
        }
    }
}

impl From<SessionRulesV2Details> for InstalledRule {
    fn from(told: SessionRulesV2Details) -> Self {
        Self {
            namespaces: told.appns_index,
            rule: SessionRule {
                transport: told.transport_proto,
                local: told.lcl,
                remote: told.rmt,
                local_port: told.lcl_port,
                remote_port: told.rmt_port,
                action: told.action_index,
                scope: told.scope.0,
                tag: told.tag,
            },
        }
    }
}
