//! What VPP does when it is asked: the state changes, or it says why not.

use std::sync::Arc;

use super::acl::{AclRule, WireRule};
use super::answer::Answer;
use super::layer::{RuleError, Transport};
use super::request::{NamespaceAddDel, Request, RuleAddDel, text};
use super::retval;
use super::rules::RuleChange;
use super::state::{Lists, State};
use super::wire::terminated;

/// Every index of a dump, no index of a new thing.
const ALL: u32 = u32::MAX;

/// How a request went.
#[derive(Debug, Default)]
pub(super) struct Handled {
    pub(super) answers: Vec<Answer>,
    /// The number in the reply; dumps have none.
    pub(super) retval: Option<i32>,
    pub(super) changed: bool,
    /// VPP is dead.
    pub(super) crash: bool,
}

impl Handled {
    fn dump(answers: impl Iterator<Item = Answer>) -> Self {
        Self {
            answers: answers.collect(),
            ..Self::default()
        }
    }

    fn reply(answer: Answer, retval: i32) -> Self {
        Self {
            answers: vec![answer],
            retval: Some(retval),
            changed: retval == 0,
            ..Self::default()
        }
    }

    fn unchanged(self) -> Self {
        Self {
            changed: false,
            ..self
        }
    }
}

impl Request {
    /// The answer that refuses it, without having looked. Dumps cannot refuse: they say nothing.
    pub(super) fn refused(&self, name: &str, context: u32, client: u32, retval: i32) -> Handled {
        let answer = match self {
            Self::AclDump { .. }
            | Self::AclListDump { .. }
            | Self::RulesDump
            | Self::RulesV2Dump
            | Self::InterfaceDump { .. }
            | Self::PluginVersion => return Handled::default(),
            Self::ControlPing => Answer::control_ping(context, retval, client),
            Self::AclAddReplace { index, .. } => Answer::acl(context, *index, retval),
            Self::NamespaceAddDel(_) => Answer::namespace(context, retval, 0),
            _ => Answer::plain(reply_name(name), context, retval),
        };
        Handled::reply(answer, retval).unchanged()
    }
}

/// The name of the reply to a message that has a plain one.
fn reply_name(name: &str) -> &'static str {
    let replies = super::names::MESSAGES.iter().map(|(known, _)| *known);
    let mut replies = replies.filter(|known| known.strip_suffix("_reply") == Some(name));
    replies.next().unwrap_or_default()
}

impl State {
    /// Does what is asked for. `client` is the index of the connection.
    pub(super) fn handle(&mut self, name: &str, request: Request, context: u32, client: u32) -> Handled {
        let plain = |result: Result<(), i32>| {
            let retval = result.err().unwrap_or_default();
            Handled::reply(Answer::plain(reply_name(name), context, retval), retval)
        };
        match request {
            Request::ControlPing => Handled::reply(Answer::control_ping(context, 0, client), 0).unchanged(),
            Request::PluginVersion => Handled::dump([Answer::plugin_version(context)].into_iter()),
            Request::AclAddReplace { index, tag, rules } => {
                self.acl_add_replace(context, index, &tag, &rules)
            }
            Request::AclDel { index } => plain(self.delete_acl(index)),
            Request::SetAclList {
                sw_if_index,
                input,
                output,
            } => {
                let result = self.set_acl_list(sw_if_index, &Lists { input, output });
                let half_done = result == Err(retval::TWICE_IN_LIST);
                let mut handled = plain(result);
                handled.changed |= half_done;
                handled
            }
            Request::Setting | Request::WantEvents { .. } => plain(Ok(())).unchanged(),
            Request::SessionEnable { engine } => {
                self.set_session_layer(engine);
                plain(Ok(()))
            }
            Request::RuleAddDel(rule) => self.rule_add_del(name, context, &rule),
            Request::NamespaceAddDel(namespace) => {
                let result = self.namespace_add_del(&namespace);
                let retval = result.err().unwrap_or_default();
                let index = result.unwrap_or_default();
                Handled::reply(Answer::namespace(context, retval, index), retval)
            }
            Request::InterfaceTag {
                add,
                sw_if_index,
                tag,
            } => plain(self.tag_interface(sw_if_index, if add { tag } else { String::new() }, add)),
            Request::AclDump { .. }
            | Request::AclListDump { .. }
            | Request::RulesDump
            | Request::RulesV2Dump
            | Request::InterfaceDump { .. } => self.dump(&request, context),
        }
    }

    fn acl_add_replace(&mut self, context: u32, index: u32, tag: &[u8; 64], rules: &[WireRule]) -> Handled {
        let result = terminated(tag).ok_or(retval::INVALID_VALUE).and_then(|tag| {
            let rules: Result<Vec<AclRule>, i32> = rules.iter().map(WireRule::checked).collect();
            self.add_acl((index != ALL).then_some(index), &text(tag), rules?)
        });
        let retval = result.err().unwrap_or_default();
        Handled::reply(Answer::acl(context, result.unwrap_or(index), retval), retval)
    }

    /// Engine 1 keeps rules, others do not; 0 disables, and then everything that the layer held is gone. A layer that is
    /// enabled keeps its engine.
    fn set_session_layer(&mut self, engine: u8) {
        match engine {
            0 => self.layer = None,
            engine => self.enable_session_layer(engine == 1),
        }
    }

    fn rule_add_del(&mut self, name: &str, context: u32, rule: &RuleAddDel) -> Handled {
        let result = match self.layer.as_mut() {
            None => Err(RuleError::Refused(retval::FEATURE_DISABLED)),
            Some(layer) => match rule.change() {
                None => Err(RuleError::Refused(retval::UNSPECIFIED)),
                Some(change) => Arc::make_mut(layer).change_rule(
                    rule.namespace,
                    rule.scope,
                    Transport::from_wire(rule.transport),
                    rule.add,
                    change,
                ),
            },
        };
        let retval = match result {
            Ok(()) => 0,
            Err(RuleError::Refused(retval)) => retval,
            Err(RuleError::Crash) => {
                return Handled {
                    crash: true,
                    ..Handled::default()
                };
            }
        };
        Handled::reply(Answer::plain(reply_name(name), context, retval), retval)
    }

    fn namespace_add_del(&mut self, request: &NamespaceAddDel) -> Result<u32, i32> {
        let interface = match request.sw_if_index {
            ALL => None,
            index => Some((
                index,
                self.interfaces
                    .get(index)
                    .map(|interface| interface.fib)
                    .ok_or(retval::INVALID_SW_IF_INDEX),
            )),
        };
        let layer = self.layer.as_mut().ok_or(retval::FEATURE_DISABLED)?;
        let layer = Arc::make_mut(layer);
        if !request.add {
            return layer.delete_namespace(&request.id).map(|()| 0);
        }
        let interface = interface
            .map(|(index, fib)| fib.map(|fib| (index, fib)))
            .transpose()?;
        let fibs = (request.ipv4_fib, request.ipv6_fib);
        layer.add_namespace(&request.id, interface, fibs, &self.fibs)
    }

    fn tag_interface(&mut self, sw_if_index: u32, tag: String, add: bool) -> Result<(), i32> {
        let interface = self.interfaces.get_mut(sw_if_index);
        let interface = interface.ok_or(retval::INVALID_SW_IF_INDEX)?;
        if add && tag.is_empty() {
            return Err(retval::INVALID_VALUE);
        }
        interface.tag = tag;
        Ok(())
    }

    fn dump(&self, request: &Request, context: u32) -> Handled {
        let wanted = |asked: u32, index: u32| asked == ALL || asked == index;
        match request {
            Request::AclDump { index: asked } => {
                let acls = self.acls().filter(|(index, _)| wanted(*asked, *index));
                Handled::dump(acls.map(|(index, acl)| Answer::acl_details(context, index, acl)))
            }
            Request::AclListDump { sw_if_index: asked } => {
                let interfaces = self.interfaces().filter(|(index, _)| wanted(*asked, *index));
                let details = |index| Answer::acl_list_details(context, index, &self.lists(index));
                Handled::dump(interfaces.map(|(index, _)| details(index)))
            }
            Request::InterfaceDump {
                sw_if_index: asked,
                filter,
            } => {
                let named = |name: &str| {
                    let filter = filter.as_deref().unwrap_or_default();
                    name.to_lowercase().contains(&filter.to_lowercase())
                };
                let interfaces = self
                    .interfaces()
                    .filter(|(index, known)| wanted(*asked, *index) && named(&known.name));
                Handled::dump(interfaces.map(|(index, known)| Answer::interface(context, index, known)))
            }
            Request::RulesDump => self.dump_rules(|dumped| Answer::session_rule(context, dumped)),
            Request::RulesV2Dump => self.dump_rules(|dumped| Answer::session_rule_v2(context, dumped)),
            _ => Handled::default(),
        }
    }

    fn dump_rules(&self, answer: impl Fn(&super::layer::Dumped) -> Answer) -> Handled {
        let dumped = self.layer.as_ref().map(|layer| layer.dump());
        Handled::dump(dumped.unwrap_or_default().iter().map(answer))
    }
}

impl RuleAddDel {
    /// The rule in VPP's terms, or `None` when its two sides are no addresses of one family. VPP does not look: of another
    /// family it would take the wrong bytes. In the local scope the own side does not count.
    fn change(&self) -> Option<RuleChange> {
        let remote = self.remote.address()?;
        let local = self.local.address()?;
        if local.is_ipv4() != remote.is_ipv4() {
            return None;
        }
        Some(RuleChange::new(
            (local, self.local.length, self.local_port),
            (remote, self.remote.length, self.remote_port),
            self.action,
            self.tag.clone(),
        ))
    }
}
