//! From what Neutron has to what [`render`](crate::render()) wants: which calls, and in which order.
//!
//! # What must hold
//!
//! Groups, rules and ports change one call at a time, so there are moments when some are as before and some as after. At none
//! of them may a connection pass that passes neither before nor after. And what passes both before and after should pass all
//! the while.
//!
//! What an end of a connection allows comes from *facts* of three sorts: a port holds a group, a group has a rule, and an
//! address belongs to what the rule is about (a port that holds the group, or an address in an address group). Three of them
//! that fit let a port do something: a *grant*. A connection of two ports passes by a grant at each. Two traps follow:
//!
//! - A grant of which one fact is old and another new is one that there was not before and will not be after.
//! - The ends are judged apart. Where a port may not receive any more what another may now send, the call for the one and the call
//!   for the other leave open, between them, what is closed before and after.
//!
//! # The order
//!
//! There are three phases. In each, facts come first on which what is changed next depends, then
//! ports get their groups, then facts go. Before the phases groups are made and filled that no port has, and after them what
//! no port has is removed: neither counts for anything.
//!
//! Of a connection of which only one end changes, the changed end may allow in every phase what it does before or after. An end
//! of one of which both ends change (they *cross*) is held closer, where one direction is chosen to be firm:
//!
//! | phase | firm direction allows at most | the other one allows at most |
//! |---|---|---|
//! | narrow | what it does before | what it does before |
//! | change | what it does before and after | what it does before or after |
//! | widen | what it does after | what it does after |
//!
//! So what passes in the first phase passes before, what passes in the last passes after, and what passes in the second does one
//! of both, as one end is within both sides and the other within one.
//!
//! That these bounds hold is seen fact by fact, never pair by pair:
//!
//! - A new fact may appear in a phase if whatever it can grant is within the bound. With a port that gets a group, all rules
//!   and members that the group has on either side count; with a rule, all that it is about, for ports that have the group
//!   before; with an address, the rules of ports that have them before. A grant of old and new facts has one new fact of
//!   which the others are counted there, so that it is within the bound. In the last phase all may appear.
//! - A fact that is to go may stay into a phase on the same condition, with what there is after in the place of before; in the first
//!   phase all may stay. In the second that is asked of the firm direction only: grants of the other are of old facts, or
//!   have a new one.
//!
//! Where nothing but the groups of one port changes, one call does all.
//!
//! # How many calls, and what is cut
//!
//! For each group that a port gets or loses that gives a first and a last moment, and a port is given its groups at the fewest
//! moments that hit all of these. So a port needs one call unless
//!
//! - it becomes a peer by rules that come to count in the same plan, for what passes already: then it is a peer before;
//! - it ceases to be one by rules that cease to count, for what goes on passing: then it is one until after;
//! - it is one of several whose connections change at both ends, and must narrow before any widens.
//!
//! In the last case what it may do before and after by different groups is cut between its calls; so is what a rule that changes
//! lets pass by two rules of which neither covers the other. And ports that leave a group of others by whose rules about
//! itself they reach each other leave it one after another. Nothing else is cut.
//!
//! Ports that cannot be changed keep what they should lose. What is new and would meet that is taken out of what is wanted before
//! (`stuck`), so that the end of the plan is within what passes before and by the policies.

mod emit;
mod half;
mod ids;
mod installed;
mod judge;
mod keys;
mod lending;
mod order;
mod print;
mod step;
mod stuck;
mod transition;
mod withhold;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use picket_policy::ObjectRef;
use smol_str::SmolStr;

pub use ids::Ids;
pub use installed::{
    Id, Installed, InstalledAddressGroup, InstalledGroup, InstalledPort, InstalledRule, RuleFields, prefix,
};
pub use print::text;
pub use step::{Finding, Handle, MOST_RULES, Plan, Step};
pub use withhold::without;

use crate::model::{Name, Objects};
use emit::Emitter;
use keys::Keys;
use transition::Transition;

/// What there is to be.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    /// The groups of all policies, and those of the port of each pod.
    pub objects: &'a Objects,
    /// The ports of each pod. A port of two pods is the first one's.
    pub ports: &'a BTreeMap<ObjectRef, BTreeSet<Id>>,
    /// The tag of all groups of ours ([`Options::cluster`](crate::Options)).
    pub cluster: &'a str,
    /// What becomes of groups of others on ports of pods.
    pub foreign_groups: ForeignGroups,
    /// By what ports must be attached so that their groups count.
    pub enforced_vnic_types: &'a BTreeSet<SmolStr>,
    /// The addresses of nodes, and of pods that have those of their node.
    pub nodes: &'a BTreeSet<IpAddr>,
    /// What cannot be changed now.
    pub held: &'a Held,
}

/// What cannot be changed now: everything else is planned for as if it were to stay so.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// The groups and address groups that cannot be made, or to which nothing can be added. What they have and should not have still
    /// goes.
    pub groups: BTreeSet<Name>,
    /// The groups and address groups from which something cannot be taken away. A group that no port has and keeps, and an address group
    /// that no rule of such a group is about, is left as it is, and nothing gets to depend on it.
    pub removals: BTreeSet<Name>,
    /// The ports that keep the groups that they have. What would let more pass because of that waits.
    pub ports: BTreeSet<Id>,
    /// The ports that had groups and lost them ([`Plan::emptied`]): they are not taken for those of new pods.
    pub emptied: BTreeSet<Id>,
}

/// What becomes of groups of others on ports of pods.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ForeignGroups {
    /// They are taken away.
    #[default]
    Remove,
    /// They stay beside ours, and the port is [reported](Finding::ForeignGroups).
    Refuse,
}

/// What is to be done so that there is what is wanted.
pub fn plan(installed: &Installed, wanted: &Wanted<'_>) -> Plan {
    let keys = Keys::of(installed, wanted);
    let mut possible = withhold::possible(installed, wanted, &keys);
    let waiting = stuck::wait(installed, wanted, &keys, &mut possible);
    let wanted = &Wanted {
        objects: &possible,
        ..*wanted
    };
    let transition = Transition::of(installed, wanted, &keys, &waiting);
    let emitter = Emitter::new(installed, wanted, &keys, &transition);
    let stages = emitter.stages();
    let mut findings = transition.findings;
    findings.sort();
    Plan {
        stages,
        groups: keys.groups,
        address_groups: keys.address_groups,
        findings,
        waiting: waiting.groups,
        emptied: waiting.emptied,
    }
}
