//! What a VPP holds: interfaces, ACLs, their lists, sessions and the session layer.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use picket_net::Family;

use super::acl::{Acl, AclRule};
use super::layer::{Layer, Namespace, Transport};
use super::packet::{Direction, DroppedBy, Packet, Verdict};
use super::pool::Pool;
use super::retval;
use super::rules::{Connection, SessionRule};
use super::sessions::{Flow, Sessions};

/// An interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// Its name.
    pub name: String,
    /// Its tag, empty if none.
    pub tag: String,
    /// Whether it is up. Nothing passes one that is not.
    pub up: bool,
    /// The id of the FIB that it is in, of both families.
    pub fib: u32,
}

/// The ACLs on an interface, by index, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lists {
    /// What judges packets that enter VPP there.
    pub input: Vec<u32>,
    /// What judges packets that leave VPP there.
    pub output: Vec<u32>,
}

impl Lists {
    /// One of the two.
    pub fn of(&self, direction: Direction) -> &[u32] {
        match direction {
            Direction::In => &self.input,
            Direction::Out => &self.output,
        }
    }

    fn of_mut(&mut self, direction: Direction) -> &mut Vec<u32> {
        match direction {
            Direction::In => &mut self.input,
            Direction::Out => &mut self.output,
        }
    }
}

/// Everything that a VPP holds and that is gone when it is started again.
#[derive(Clone, Debug)]
pub struct State {
    pub(super) interfaces: Pool<Interface>,
    acls: Pool<Arc<Acl>>,
    lists: BTreeMap<u32, Lists>,
    sessions: Sessions,
    pub(super) layer: Option<Arc<Layer>>,
    pub(super) fibs: BTreeSet<u32>,
    reads_sctp: bool,
}

impl State {
    /// An empty VPP: `local0`, FIB 0, and room for so many sessions.
    pub(super) fn new(max_sessions: usize, reads_sctp: bool) -> Self {
        let mut interfaces = Pool::default();
        interfaces.insert(Interface {
            name: "local0".to_owned(),
            tag: String::new(),
            up: false,
            fib: 0,
        });
        Self {
            interfaces,
            acls: Pool::default(),
            lists: BTreeMap::new(),
            sessions: Sessions::new(max_sessions),
            layer: None,
            fibs: BTreeSet::from([0]),
            reads_sctp,
        }
    }

    /// The interfaces, by index.
    pub fn interfaces(&self) -> impl Iterator<Item = (u32, &Interface)> {
        self.interfaces.iter()
    }

    /// The index of the interface with a name.
    pub fn interface(&self, name: &str) -> Option<u32> {
        let mut found = self.interfaces.iter().filter(|(_, known)| known.name == name);
        found.next().map(|(index, _)| index)
    }

    /// The ACLs, by index.
    pub fn acls(&self) -> impl Iterator<Item = (u32, &Acl)> {
        self.acls.iter().map(|(index, acl)| (index, acl.as_ref()))
    }

    /// The ACL with an index.
    pub fn acl(&self, index: u32) -> Option<&Acl> {
        self.acls.get(index).map(Arc::as_ref)
    }

    /// The lists of an interface.
    pub fn lists(&self, sw_if_index: u32) -> Lists {
        self.lists.get(&sw_if_index).cloned().unwrap_or_default()
    }

    /// How many flows are remembered.
    pub fn sessions(&self) -> usize {
        self.sessions.len()
    }

    /// Whether the session layer is enabled.
    pub fn session_layer(&self) -> bool {
        self.layer.is_some()
    }

    /// The namespaces of applications, by index; none while the session layer is disabled.
    pub fn namespaces(&self) -> impl Iterator<Item = (u32, &Namespace)> {
        self.layer.iter().flat_map(|layer| layer.namespaces())
    }

    /// Enables the session layer, with a table of rules or without, unless it is enabled.
    pub fn enable_session_layer(&mut self, rules: bool) {
        self.layer.get_or_insert_with(|| Arc::new(Layer::new(rules)));
    }

    /// Adds a namespace of applications in a FIB, or moves the one of that name there. Its index; none while the session layer
    /// is disabled, or where there is no such FIB.
    pub fn add_namespace(&mut self, id: &str, fib: u32) -> Option<u32> {
        let layer = Arc::make_mut(self.layer.as_mut()?);
        layer.add_namespace(id, None, (fib, fib), &self.fibs).ok()
    }

    /// Removes a namespace of applications with its local rules; whether it was there.
    pub fn delete_namespace(&mut self, id: &str) -> bool {
        let layer = self.layer.as_mut().map(Arc::make_mut);
        layer.is_some_and(|layer| layer.delete_namespace(id).is_ok())
    }

    /// The session rules of a namespace, or of the global table of FIB 0, the one for everything first.
    pub fn session_rules(
        &self,
        namespace: Option<u32>,
        transport: Transport,
        family: Family,
    ) -> Vec<SessionRule> {
        let rules = self
            .layer
            .as_ref()
            .map(|layer| layer.rules(namespace, transport, family));
        rules.unwrap_or_default()
    }

    /// Adds an ACL, or replaces the one with an index. Sessions stay.
    pub fn add_acl(&mut self, index: Option<u32>, tag: &str, rules: Vec<AclRule>) -> Result<u32, i32> {
        let acl = Arc::new(Acl {
            tag: tag.to_owned(),
            rules,
        });
        let Some(index) = index else {
            return Ok(self.acls.insert(acl));
        };
        let place = self.acls.get_mut(index).ok_or(retval::NO_SUCH_ENTRY)?;
        *place = acl;
        Ok(index)
    }

    /// Removes an ACL that is in no list.
    pub fn delete_acl(&mut self, index: u32) -> Result<(), i32> {
        if self.acls.get(index).is_none() {
            return Err(retval::NO_SUCH_ENTRY);
        }
        for (direction, number) in [
            (Direction::In, retval::ACL_IN_USE_INBOUND),
            (Direction::Out, retval::ACL_IN_USE_OUTBOUND),
        ] {
            if self
                .lists
                .values()
                .any(|lists| lists.of(direction).contains(&index))
            {
                return Err(number);
            }
        }
        self.acls.remove(index);
        Ok(())
    }

    /// Puts other lists on an interface, and forgets its sessions if either list has other ACLs than before; order does not
    /// count there. As in VPP the output list is changed first, and stays changed when the input list is refused.
    pub fn set_acl_list(&mut self, sw_if_index: u32, lists: &Lists) -> Result<(), i32> {
        if self.interfaces.get(sw_if_index).is_none() {
            return Err(retval::INVALID_SW_IF_INDEX);
        }
        let mut named = lists.input.iter().chain(&lists.output);
        if named.any(|index| self.acls.get(*index).is_none()) {
            return Err(retval::NO_SUCH_ENTRY);
        }
        for direction in [Direction::Out, Direction::In] {
            let after = lists.of(direction);
            let members: BTreeSet<u32> = after.iter().copied().collect();
            if members.len() < after.len() {
                return Err(retval::TWICE_IN_LIST);
            }
            let list = self.lists.entry(sw_if_index).or_default().of_mut(direction);
            if members != list.iter().copied().collect() {
                self.sessions.forget(sw_if_index);
            }
            *list = after.to_vec();
        }
        Ok(())
    }

    /// Adds an interface that is down. VPP sends no event of that.
    pub(super) fn add_interface(&mut self, name: &str, tag: &str, up: bool) -> u32 {
        self.interfaces.insert(Interface {
            name: name.to_owned(),
            tag: tag.to_owned(),
            up,
            fib: 0,
        })
    }

    /// Removes an interface with its lists and sessions.
    pub(super) fn remove_interface(&mut self, sw_if_index: u32) -> bool {
        self.lists.remove(&sw_if_index);
        self.sessions.forget(sw_if_index);
        self.interfaces.remove(sw_if_index).is_some()
    }

    /// What becomes of a packet on an interface; a flow that a rule reflects is remembered.
    pub fn packet(&mut self, sw_if_index: u32, direction: Direction, packet: &Packet) -> Verdict {
        let (verdict, reflected) = self.judge(sw_if_index, direction, packet);
        if let Some(flow) = reflected {
            self.sessions.insert(flow);
        }
        verdict
    }

    /// What would become of a packet, and the flow that would be remembered.
    pub fn judge(&self, sw_if_index: u32, direction: Direction, packet: &Packet) -> (Verdict, Option<Flow>) {
        let dropped = |by| (Verdict::Dropped { by }, None);
        match self.interfaces.get(sw_if_index) {
            None => return dropped(DroppedBy::NoInterface),
            Some(interface) if !interface.up => return dropped(DroppedBy::InterfaceDown),
            Some(_) => {}
        }
        let list = self.lists.get(&sw_if_index).map(|lists| lists.of(direction));
        let list = list.unwrap_or_default();
        let packet = &packet.as_read(self.reads_sctp);
        let flow = Flow::new(sw_if_index, packet);
        if list.is_empty() || self.sessions.contains(&flow) {
            return (Verdict::Passed, None);
        }
        for acl in list {
            let rules = self.acl(*acl).map(|acl| acl.rules.as_slice()).unwrap_or_default();
            let Some(rule) = rules.iter().position(|rule| rule.matches(packet)) else {
                continue;
            };
            return match rules.get(rule).map(|rule| rule.action) {
                Some(super::AclAction::Deny) | None => dropped(DroppedBy::Rule { acl: *acl, rule }),
                Some(super::AclAction::Reflect) if self.sessions.is_full() => {
                    dropped(DroppedBy::SessionTableFull)
                }
                Some(super::AclAction::Reflect) => (Verdict::Passed, Some(flow)),
                Some(_) => (Verdict::Passed, None),
            };
        }
        dropped(DroppedBy::EndOfList)
    }

    /// What the local rules of a namespace say of the first packet of a connection that an application there begins.
    pub fn connects(&self, namespace: u32, packet: &Packet) -> Connection {
        let layer = self.layer.as_ref();
        layer.map_or(Connection::Allowed, |layer| layer.connects(namespace, packet))
    }

    /// What the global rules of FIB 0 say of the first packet of a connection that comes from outside.
    pub fn accepts(&self, packet: &Packet) -> Connection {
        let layer = self.layer.as_ref();
        layer.map_or(Connection::Allowed, |layer| layer.accepts(packet))
    }
}
