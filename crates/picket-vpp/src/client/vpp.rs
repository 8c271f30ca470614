//! What VPP is asked for.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use super::connection::Connection;
use super::definition::{Definition, Message};
use super::error::Error;
use super::field::Engine;
use super::message::*;
use super::refusal::Refusal;
use super::request::{Change, changed, membership, replacement, setting};
use super::table::Feature;
use super::value::*;

/// What came of each request of a batch.
pub type Outcomes<T> = Result<Vec<Result<T, Refusal>>, Error>;

/// What switches the session layer on in VPPs that have several ways to look rules up.
const NEWER_SWITCH: [Definition; 2] = [
    SessionEnableDisableV2::DEFINITION,
    SessionEnableDisableV2Reply::DEFINITION,
];

/// What lists session rules in VPPs that know of several namespaces for one.
const NEWER_LIST: [Definition; 2] = [SessionRulesV2Dump::DEFINITION, SessionRulesV2Details::DEFINITION];

/// A connected VPP. Each request waits for its answer; those of a batch are sent without waiting, so VPP carries out
/// what follows even when it has refused what came before.
///
/// After an error that [`Error::ends_connection`] every request fails: connect again, and read back what VPP has.
#[derive(Debug)]
pub struct Vpp {
    connection: Connection,
}

impl Vpp {
    pub(super) fn new(connection: Connection) -> Self {
        Self { connection }
    }

    /// Whether VPP has the messages of a feature as they are known.
    pub fn has(&self, feature: Feature) -> bool {
        self.connection.table().lacks(&[feature]).is_empty()
    }

    /// The version of the ACL plugin's API.
    ///
    /// # Errors
    /// [`Error`].
    pub fn version(&mut self) -> Result<Version, Error> {
        let reply = self.connection.call(AclPluginGetVersion {})?;
        Ok(Version {
            major: reply.major,
            minor: reply.minor,
        })
    }

    /// Asks for an answer and nothing else.
    ///
    /// # Errors
    /// [`Error`].
    pub fn ping(&mut self) -> Result<(), Error> {
        self.connection.call(ControlPing {}).map(|_| ())
    }

    /// All interfaces, by index.
    ///
    /// # Errors
    /// [`Error`].
    pub fn interfaces(&mut self) -> Result<BTreeMap<u32, Interface>, Error> {
        let all = SwInterfaceDump {
            sw_if_index: ANY,
            name_filter_valid: false,
            name_filter: Vec::new(),
        };
        let details = self.connection.dump(&all)?;
        let interfaces = details.into_iter().map(|one| Interface {
            index: one.sw_if_index,
            parent: one.sup_sw_if_index,
            address: one.l2_address,
            state: one.flags,
            name: one.interface_name,
            device: one.interface_dev_type,
            tag: one.tag,
        });
        Ok(interfaces.map(|one| (one.index, one)).collect())
    }

    /// From now on, changes of interfaces are told ([`Vpp::events`]).
    ///
    /// # Errors
    /// [`Error`].
    pub fn watch_interfaces(&mut self) -> Result<(), Error> {
        let pid = std::process::id();
        let want = WantInterfaceEvents {
            enable_disable: 1,
            pid,
        };
        self.connection.call(want).map(|_| ())
    }

    /// What has happened since this was asked last: as soon as there is something, or nothing after `limit`. With
    /// [`Duration::ZERO`] what is known now.
    ///
    /// # Errors
    /// [`Error`], also when VPP ends meanwhile.
    pub fn events(&mut self, limit: Duration) -> Result<Vec<Event>, Error> {
        self.connection.events(limit)
    }

    /// Gives an interface a tag; an empty one takes it away.
    ///
    /// # Errors
    /// [`Error`].
    pub fn tag_interface(&mut self, interface: u32, tag: &Label) -> Result<(), Error> {
        let call = SwInterfaceTagAddDel {
            is_add: !tag.as_bytes().is_empty(),
            sw_if_index: interface,
            tag: tag.clone(),
        };
        self.connection.call(call).map(|_| ())
    }

    /// All ACLs, by index.
    ///
    /// # Errors
    /// [`Error`].
    pub fn acls(&mut self) -> Result<BTreeMap<u32, Acl>, Error> {
        let details = self.connection.dump(&AclDump { acl_index: ANY })?;
        let acls = details.into_iter().map(|one| {
            let acl = Acl {
                tag: one.tag,
                rules: one.r,
            };
            (one.acl_index, acl)
        });
        Ok(acls.collect())
    }

    /// Gives the ACL of an index other rules, at once wherever it is used; or makes a new one. Its index.
    ///
    /// # Errors
    /// [`Error`].
    pub fn replace_acl(&mut self, index: Option<u32>, acl: &Acl) -> Result<u32, Error> {
        let reply = self.connection.call(replacement(index, acl))?;
        Ok(reply.acl_index)
    }

    /// [`Vpp::replace_acl`] of many.
    ///
    /// # Errors
    /// [`Error`].
    pub fn replace_acls<'a>(
        &mut self,
        acls: impl IntoIterator<Item = (Option<u32>, &'a Acl)>,
    ) -> Outcomes<u32> {
        let calls = acls.into_iter().map(|(index, acl)| replacement(index, acl));
        let outcomes = self.connection.call_all(calls)?;
        Ok(each(outcomes, |reply| reply.acl_index))
    }

    /// Removes an ACL, which no interface may have then.
    ///
    /// # Errors
    /// [`Error`].
    pub fn delete_acl(&mut self, index: u32) -> Result<(), Error> {
        self.connection.call(AclDel { acl_index: index }).map(|_| ())
    }

    /// [`Vpp::delete_acl`] of many.
    ///
    /// # Errors
    /// [`Error`].
    pub fn delete_acls(&mut self, indices: impl IntoIterator<Item = u32>) -> Outcomes<()> {
        let calls = indices.into_iter().map(|acl_index| AclDel { acl_index });
        let outcomes = self.connection.call_all(calls)?;
        Ok(each(outcomes, |_| ()))
    }

    /// The ACLs of every interface that has some, by its index.
    ///
    /// # Errors
    /// [`Error`].
    pub fn interface_lists(&mut self) -> Result<BTreeMap<u32, InterfaceLists>, Error> {
        let details = self.connection.dump(&AclInterfaceListDump { sw_if_index: ANY })?;
        let lists = details.into_iter().map(|one| {
            let (input, output) = one.acls.into_parts();
            let interface = one.sw_if_index;
            (
                interface,
                InterfaceLists {
                    interface,
                    input,
                    output,
                },
            )
        });
        Ok(lists
            .filter(|(_, lists)| !lists.input.is_empty() || !lists.output.is_empty())
            .collect())
    }

    /// Gives an interface other ACLs, of both directions at once.
    ///
    /// # Errors
    /// [`Error`]; [`Error::TooManyAcls`] before anything is sent.
    pub fn set_interface_list(&mut self, lists: &InterfaceLists) -> Result<(), Error> {
        self.connection.call(setting(lists)?).map(|_| ())
    }

    /// [`Vpp::set_interface_list`] of many.
    ///
    /// # Errors
    /// [`Error`]; [`Error::TooManyAcls`] before anything is sent.
    pub fn set_interface_lists<'a>(
        &mut self,
        lists: impl IntoIterator<Item = &'a InterfaceLists>,
    ) -> Outcomes<()> {
        let calls: Result<Vec<_>, _> = lists.into_iter().map(setting).collect();
        let outcomes = self.connection.call_all(calls?)?;
        Ok(each(outcomes, |_| ()))
    }

    /// Switches the session layer on, with its table of rules.
    ///
    /// # Errors
    /// [`Error`].
    pub fn enable_sessions(&mut self) -> Result<(), Error> {
        if self.connection.knows(&NEWER_SWITCH) {
            let rt_engine_type = Engine::RuleTable;
            let call = SessionEnableDisableV2 { rt_engine_type };
            return self.connection.call(call).map(|_| ());
        }
        let call = SessionEnableDisable { is_enable: true };
        self.connection.call(call).map(|_| ())
    }

    /// All rules of the session layer, in VPP's order, and with them the rules for everything else, which are always
    /// there.
    ///
    /// # Errors
    /// [`Error`].
    pub fn session_rules(&mut self) -> Result<Vec<InstalledRule>, Error> {
        if self.connection.knows(&NEWER_LIST) {
            let details = self.connection.dump(&SessionRulesV2Dump {})?;
            return Ok(details.into_iter().map(InstalledRule::from).collect());
        }
        let details = self.connection.dump(&SessionRulesDump {})?;
        Ok(details.into_iter().map(InstalledRule::from).collect())
    }

    /// Adds or removes a rule in the tables of a namespace.
    ///
    /// # Errors
    /// [`Error`].
    pub fn change_session_rule(
        &mut self,
        change: Change,
        namespace: u32,
        rule: &SessionRule,
    ) -> Result<(), Error> {
        self.connection.call(changed(change, namespace, rule)).map(|_| ())
    }

    /// [`Vpp::change_session_rule`] of many, in this order.
    ///
    /// # Errors
    /// [`Error`].
    pub fn change_session_rules<'a>(
        &mut self,
        changes: impl IntoIterator<Item = (Change, u32, &'a SessionRule)>,
    ) -> Outcomes<()> {
        let calls = changes
            .into_iter()
            .map(|(change, namespace, rule)| changed(change, namespace, rule));
        let outcomes = self.connection.call_all(calls)?;
        Ok(each(outcomes, |_| ()))
    }

    /// Makes an application namespace; its index. The session layer must be on.
    ///
    /// # Errors
    /// [`Error`].
    pub fn add_namespace(&mut self, namespace: &Namespace) -> Result<u32, Error> {
        let reply = self.connection.call(membership(true, namespace))?;
        Ok(reply.appns_index)
    }

    /// Removes an application namespace.
    ///
    /// # Errors
    /// [`Error`].
    pub fn delete_namespace(&mut self, namespace: &Namespace) -> Result<(), Error> {
        self.connection.call(membership(false, namespace)).map(|_| ())
    }

    /// Takes leave of VPP, which notices it also when this is dropped.
    ///
    /// # Errors
    /// [`Error`].
    pub fn close(self) -> Result<(), Error> {
        self.connection.close()
    }
}

impl AsFd for Vpp {
    /// What becomes readable when VPP says something, or ends: then there is something for [`Vpp::events`].
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.connection.socket()
    }
}

fn each<R, T>(outcomes: Vec<Result<R, Refusal>>, of: impl Fn(R) -> T) -> Vec<Result<T, Refusal>> {
    outcomes.into_iter().map(|outcome| outcome.map(&of)).collect()
}
