//! What a subject allows: tiers, priorities and Pass folded into one map from traffic to identities.

use std::collections::BTreeMap;
use std::sync::Arc;

use picket_net::{IntervalSet, TrafficSet};

use crate::fold::{Cells, Judged};
use crate::identity::Signature;
use crate::policy::Stance;
use crate::subject::SubjectKey;
use crate::{Identity, IdentitySet, Program};

/// What a subject allows in its direction, and to or from whom. Everything else is denied.
///
/// Canonical: two values of one program are equal exactly when they allow the same.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AllowSet {
    entries: Arc<[(TrafficSet, IdentitySet)]>,
}

impl AllowSet {
    /// Distinct non-empty traffic, ascending, each with all identities for which exactly that is allowed. The sets of
    /// identities are disjoint; one that holds every identity there is, is [`IntervalSet::all`].
    pub fn entries(&self) -> &[(TrafficSet, IdentitySet)] {
        &self.entries
    }

    /// [`AllowSet::entries`], to keep.
    pub fn shared_entries(&self) -> Arc<[(TrafficSet, IdentitySet)]> {
        Arc::clone(&self.entries)
    }

    /// What is allowed with one identity.
    pub fn traffic(&self, peer: Identity) -> Option<&TrafficSet> {
        let entry = self
            .entries
            .iter()
            .find(|(_, peers)| peers.contains(peer.number()));
        entry.map(|(traffic, _)| traffic)
    }

    /// Whether everything is allowed with everybody.
    pub fn is_everything(&self) -> bool {
        matches!(&*self.entries, [(traffic, peers)] if traffic.is_all() && peers.is_all())
    }

    /// Whether nothing is allowed with anybody.
    pub fn is_nothing(&self) -> bool {
        self.entries.is_empty()
    }

    /// The set that allows everything with everybody.
    pub fn everything() -> Self {
        Self {
            entries: Arc::new([(TrafficSet::all(), IntervalSet::all())]),
        }
    }

    /// Turns a partition of the identities around.
    pub(crate) fn from_cells(
        cells: impl Iterator<Item = (IdentitySet, TrafficSet)>,
        live: &IdentitySet,
    ) -> Self {
        let mut by_traffic: BTreeMap<TrafficSet, IdentitySet> = BTreeMap::new();
        for (peers, traffic) in cells {
            if !traffic.is_empty() && !peers.is_empty() {
                let present = by_traffic.entry(traffic).or_default();
                *present = present.union(&peers);
            }
        }
        let entries = by_traffic.into_iter().map(|(traffic, peers)| {
            let peers = if peers == *live { IntervalSet::all() } else { peers };
            (traffic, peers)
        });
        Self {
            entries: entries.collect(),
        }
    }

    /// The set that says `now` about `touched`, each with something that is allowed, and what this one says about all others
    /// of `live`.
    fn patched(
        self: &Arc<Self>,
        touched: &IdentitySet,
        now: BTreeMap<u32, TrafficSet>,
        live: &IdentitySet,
    ) -> Arc<Self> {
        let stays = match &*self.entries {
            [(traffic, peers)] if peers.is_all() => touched
                .iter()
                .all(|one| !live.contains(one) || now.get(&one) == Some(traffic)),
            entries => {
                let is_everybody = matches!(entries, [(_, peers)] if peers == live);
                !is_everybody
                    && touched
                        .iter()
                        .all(|one| self.traffic(Identity::from_number(one)) == now.get(&one))
            }
        };
        if stays {
            return Arc::clone(self);
        }
        let mut entries = self.entries.to_vec();
        for (_, peers) in &mut entries {
            if peers.is_all() {
                peers.clone_from(live);
            }
            for one in touched.iter() {
                peers.remove(one);
            }
        }
        for (one, traffic) in now {
            match entries.binary_search_by(|(known, _)| known.cmp(&traffic)) {
                Ok(at) => drop(entries.get_mut(at).map(|(_, peers)| peers.insert(one))),
                Err(at) => entries.insert(at, (traffic, IdentitySet::from_iter([one]))),
            }
        }
        entries.retain(|(_, peers)| !peers.is_empty());
        if let [(_, peers)] = entries.as_mut_slice()
            && peers == live
        {
            *peers = IntervalSet::all();
        }
        Arc::new(Self {
            entries: entries.into(),
        })
    }
}

/// What a subject allows, and what it would allow if no policy were only audited.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Allowed {
    pub(crate) in_force: Granted,
    /// `None` where no audited policy can decide.
    if_enforced: Option<Granted>,
}

/// What a subject allows with everybody, and with its own node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Granted {
    pub(crate) peers: Arc<AllowSet>,
    /// What the tiers Custom, Admin and ClusterDefault leave of the exemption.
    pub(crate) own_node: Arc<AllowSet>,
}

impl Allowed {
    /// Works out what a subject allows.
    pub(crate) fn of(program: &Program, subject: &SubjectKey) -> Self {
        let in_stance = |stance| Granted::of(program, subject, stance);
        Self {
            in_force: in_stance(Stance::InForce),
            if_enforced: program.is_audited(subject).then(|| in_stance(Stance::IfEnforced)),
        }
    }

    pub(crate) fn if_enforced(self) -> Granted {
        self.if_enforced.unwrap_or(self.in_force)
    }

    /// What it allows now, where nothing but the identities that came or went has changed. Costs what they are, and not what
    /// there is. What does not change keeps its allocation.
    pub(crate) fn patched(&self, program: &Program, subject: &SubjectKey, touched: &IdentitySet) -> Self {
        let touched = Touched::of(program, touched);
        let patched = |granted: &Granted, stance| granted.patched(program, subject, stance, &touched);
        Self {
            in_force: patched(&self.in_force, Stance::InForce),
            if_enforced: self
                .if_enforced
                .as_ref()
                .map(|granted| patched(granted, Stance::IfEnforced)),
        }
    }
}

/// Identities that came or went.
struct Touched<'a> {
    all: &'a IdentitySet,
    /// Those that are there and no joint ones.
    fresh: IdentitySet,
    joints: Vec<(u32, &'a [Identity])>,
}

impl<'a> Touched<'a> {
    fn of(program: &'a Program, all: &'a IdentitySet) -> Self {
        let identities = &program.identities;
        let mut joints = Vec::new();
        let mut fresh = IdentitySet::empty();
        for one in all.iter().filter(|&one| identities.live().contains(one)) {
            match identities.signature(Identity::from_number(one)) {
                Some(Signature::Joint(members)) => joints.push((one, &**members)),
                Some(Signature::Class(..)) | None => drop(fresh.insert(one)),
            }
        }
        Self { all, fresh, joints }
    }
}

impl Granted {
    fn of(program: &Program, subject: &SubjectKey, stance: Stance) -> Self {
        let live = program.identities.live();
        let Judged { peers, own_node } = Judged::of(program, subject, stance, live);
        let set = |cells: Cells| {
            Arc::new(with_joints(
                AllowSet::from_cells(cells.into_iter(), live),
                program,
            ))
        };
        Self {
            peers: set(peers),
            own_node: own_node.map_or_else(|| Arc::new(AllowSet::everything()), set),
        }
    }

    fn patched(
        &self,
        program: &Program,
        subject: &SubjectKey,
        stance: Stance,
        touched: &Touched<'_>,
    ) -> Self {
        let live = program.identities.live();
        let Judged { peers, own_node } = Judged::of_few(program, subject, stance, &touched.fresh);
        let patch = |before: &Arc<AllowSet>, cells: Cells| {
            let mut now = BTreeMap::new();
            for (peers, traffic) in cells.into_iter().filter(|(_, traffic)| !traffic.is_empty()) {
                now.extend(peers.iter().map(|one| (one, traffic.clone())));
            }
            for &(joint, members) in &touched.joints {
                let traffic = of_all(members, |member| {
                    if touched.all.contains(member.number()) {
                        now.get(&member.number())
                    } else {
                        before.traffic(member)
                    }
                });
                if !traffic.is_empty() {
                    now.insert(joint, traffic);
                }
            }
            before.patched(touched.all, now, live)
        };
        Self {
            peers: patch(&self.peers, peers),
            own_node: own_node.map_or_else(
                || Arc::clone(&self.own_node),
                |cells| patch(&self.own_node, cells),
            ),
        }
    }
}

/// Gives joint identities what all their members have.
fn with_joints(allowed: AllowSet, program: &Program) -> AllowSet {
    let live = program.identities.live();
    let mut joints = program.identities.joints().peekable();
    if joints.peek().is_none() {
        return allowed;
    }
    let mut cells: Vec<_> = allowed
        .entries
        .iter()
        .map(|(traffic, peers)| (peers.intersection(live), traffic.clone()))
        .collect();
    for (joint, members) in joints {
        let traffic = of_all(members, |member| allowed.traffic(member));
        for (peers, _) in &mut cells {
            peers.remove(joint.number());
        }
        cells.push((IdentitySet::from_iter([joint.number()]), traffic));
    }
    AllowSet::from_cells(cells.into_iter(), live)
}

/// What all members have.
fn of_all<'a>(members: &[Identity], traffic: impl Fn(Identity) -> Option<&'a TrafficSet>) -> TrafficSet {
    let each = members
        .iter()
        .map(|&member| traffic(member).cloned().unwrap_or_default());
    each.reduce(|all, one| all.intersection(&one)).unwrap_or_default()
}
