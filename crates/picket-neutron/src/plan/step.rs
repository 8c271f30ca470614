//! Calls to Neutron, and plans of them.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use picket_net::Prefix;
use picket_policy::ObjectRef;
use smol_str::SmolStr;

use super::installed::Id;
use crate::model::{Name, SecurityGroupRule};

/// The most rules of one call: a bulk of more takes Neutron too long.
pub const MOST_RULES: usize = 100;

/// A group of which a step speaks.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Handle {
    /// One that Neutron has.
    Installed(Id),
    /// One that a step of an earlier stage creates.
    Created(Name),
}

/// One thing to do. Names in rules are found in [`Plan::groups`] and [`Plan::address_groups`], or are created before.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Step {
    /// Makes a group without rules: those that Neutron adds by itself are deleted. Tags are set by a call of their own.
    CreateGroup {
        /// Its name.
        name: Name,
        /// For people.
        description: String,
        /// All its tags.
        tags: BTreeSet<SmolStr>,
    },
    /// Makes an address group.
    CreateAddressGroup {
        /// Its name.
        name: Name,
        /// Its addresses.
        addresses: BTreeSet<Prefix>,
    },
    /// Gives a group a description.
    SetDescription {
        /// Which.
        group: Id,
        /// For people.
        description: String,
    },
    /// Gives a group its tags: all that it has then.
    SetTags {
        /// Which.
        group: Id,
        /// All its tags.
        tags: BTreeSet<SmolStr>,
    },
    /// Adds rules to a group, at most [`MOST_RULES`], all of them or none.
    CreateRules {
        /// To which.
        group: Handle,
        /// The rules.
        rules: BTreeSet<SecurityGroupRule>,
    },
    /// Deletes rules of a group, by a call each.
    DeleteRules {
        /// Of which.
        group: Id,
        /// The rules.
        rules: BTreeSet<Id>,
    },
    /// Adds addresses to an address group.
    AddAddresses {
        /// To which.
        group: Id,
        /// The addresses.
        addresses: BTreeSet<Prefix>,
    },
    /// Removes addresses from an address group.
    RemoveAddresses {
        /// From which.
        group: Id,
        /// The addresses.
        addresses: BTreeSet<Prefix>,
    },
    /// Gives a port its groups: all that it has then.
    UpdatePort {
        /// Which.
        port: Id,
        /// Its groups.
        groups: BTreeSet<Handle>,
        /// The revision that the port must still have. `None` for the one that the step before on this port led to.
        revision: Option<u64>,
    },
    /// Deletes a group that no port has.
    DeleteGroup(Id),
    /// Deletes an address group that no rule is about.
    DeleteAddressGroup(Id),
}

/// What is not as it was asked for, and that no step mends.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Finding {
    /// A pod has no port yet.
    Pending {
        /// The pod.
        pod: ObjectRef,
    },
    /// A port has groups of others, and keeps them: what they allow passes too.
    ForeignGroups {
        /// Its pod.
        pod: ObjectRef,
        /// The port.
        port: Id,
        /// Those groups.
        groups: BTreeSet<Id>,
    },
    /// No group counts at a port, because its port security is off.
    PortSecurityOff {
        /// Its pod.
        pod: ObjectRef,
        /// The port.
        port: Id,
    },
    /// A port may send from addresses besides its own. It gets no group by which rules mean it, as they would mean these too.
    AddressPairs {
        /// Its pod.
        pod: ObjectRef,
        /// The port.
        port: Id,
        /// Those addresses.
        pairs: BTreeSet<Prefix>,
    },
    /// A port has addresses that others have too. It gets no group by which rules mean it, where they do not mean all of these.
    SharedAddresses {
        /// Its pod.
        pod: ObjectRef,
        /// The port.
        port: Id,
        /// Those addresses.
        addresses: BTreeSet<IpAddr>,
    },
    /// What a port is attached by is not known to enforce groups.
    VnicType {
        /// Its pod.
        pod: ObjectRef,
        /// The port.
        port: Id,
        /// How it is attached.
        vnic_type: SmolStr,
    },
}

/// What is to be done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// The steps of a stage may be done at once and in any order; a stage begins when all steps of those before are done. If one
    /// fails, no later stage may begin: read again, and plan again.
    pub stages: Vec<Vec<Step>>,
    /// The groups of ours that stay, by name.
    pub groups: BTreeMap<Name, Id>,
    /// The address groups of ours that stay, by name.
    pub address_groups: BTreeMap<Name, Id>,
    /// What is not as it was asked for.
    pub findings: Vec<Finding>,
    /// The groups and address groups of which something is not done as long as some port cannot be changed: not all of their rules or
    /// addresses are made, or not all ports get them that should.
    pub waiting: BTreeSet<Name>,
    /// The ports that lose all groups and get no other as long as some port cannot be changed. As long as that is so, later plans have
    /// to know of them ([`Held::emptied`](super::Held::emptied)).
    pub emptied: BTreeSet<Id>,
}

impl Plan {
    /// The steps in order.
    pub fn steps(&self) -> impl Iterator<Item = &Step> {
        self.stages.iter().flatten()
    }

    /// Whether there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.stages.is_empty()
    }

    /// How many calls of each kind the steps take.
    pub fn calls(&self) -> BTreeMap<&'static str, usize> {
        let mut calls = BTreeMap::new();
        for step in self.steps() {
            *calls.entry(step.kind()).or_default() += step.calls();
        }
        calls
    }
}

impl Finding {
    /// The pod that it is about.
    pub fn pod(&self) -> &ObjectRef {
        match self {
            Self::Pending { pod }
            | Self::ForeignGroups { pod, .. }
            | Self::PortSecurityOff { pod, .. }
            | Self::AddressPairs { pod, .. }
            | Self::SharedAddresses { pod, .. }
            | Self::VnicType { pod, .. } => pod,
        }
    }

    /// Whether a port has no group because of it by which rules mean its pod, or not all of them.
    pub fn leaves_out(&self) -> bool {
        match self {
            Self::PortSecurityOff { .. } | Self::AddressPairs { .. } | Self::SharedAddresses { .. } => true,
            Self::Pending { .. } | Self::ForeignGroups { .. } | Self::VnicType { .. } => false,
        }
    }
}

impl Step {
    /// What it does, in a word or two, as metrics call it.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::CreateGroup { .. } => "create_group",
            Self::CreateAddressGroup { .. } => "create_address_group",
            Self::SetDescription { .. } => "set_description",
            Self::SetTags { .. } => "set_tags",
            Self::CreateRules { .. } => "create_rules",
            Self::DeleteRules { .. } => "delete_rules",
            Self::AddAddresses { .. } => "add_addresses",
            Self::RemoveAddresses { .. } => "remove_addresses",
            Self::UpdatePort { .. } => "update_port",
            Self::DeleteGroup(_) => "delete_group",
            Self::DeleteAddressGroup(_) => "delete_address_group",
        }
    }

    /// How many calls it takes. Of a new group two are for the rules that Neutron adds by itself.
    pub fn calls(&self) -> usize {
        match self {
            Self::CreateGroup { tags, .. } => 3 + usize::from(!tags.is_empty()),
            Self::DeleteRules { rules, .. } => rules.len(),
            _ => 1,
        }
    }
}
