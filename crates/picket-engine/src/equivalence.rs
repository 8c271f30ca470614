//! Whether two programs mean the same, whatever their policies and numbers are.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use picket_net::Family;
use picket_policy::Direction;

use crate::{AllowSet, Identity, IdentitySet, Program, SubjectId};

/// Whether the same pods and nodes exist with the same addresses in both programs, and exactly the same connections are
/// allowed between them and with every other address.
///
/// The policies may differ, and so may the numbers of identities and subjects. Causes are not compared.
pub fn equivalent(one: &Program, other: &Program) -> bool {
    let Some(classes) = Classes::of(one, other) else {
        return false;
    };
    let mut compared = BTreeSet::new();
    one.pods().zip(other.pods()).all(|(ours, theirs)| {
        Direction::BOTH.into_iter().all(|direction| {
            let pair = (ours.subject(direction), theirs.subject(direction));
            !compared.insert(pair)
                || pair == (None, None)
                || (classes.allow_set(one, pair.0, &classes.ours)
                    == classes.allow_set(other, pair.1, &classes.theirs)
                    && own_node(one, pair.0, &classes, &classes.ours)
                        == own_node(other, pair.1, &classes, &classes.theirs))
        })
    })
}

/// What one identity of a program is in terms of both.
type Translation = BTreeMap<Identity, IdentitySet>;

/// The common refinement of the identities of two programs.
struct Classes {
    all: IdentitySet,
    ours: Translation,
    theirs: Translation,
}

impl Classes {
    /// `None` when pods, nodes or addresses differ.
    fn of(one: &Program, other: &Program) -> Option<Self> {
        let mut pairs = BTreeSet::new();
        if one.pods().count() != other.pods().count() || one.nodes().count() != other.nodes().count() {
            return None;
        }
        for (ours, theirs) in one.pods().zip(other.pods()) {
            let (pod, twin) = (ours.pod(), theirs.pod());
            let same = pod.object == twin.object
                && pod.addresses == twin.addresses
                && pod.node == twin.node
                && pod.host_network == twin.host_network
                && ours.is_managed() == theirs.is_managed();
            if !same {
                return None;
            }
            for family in Family::BOTH {
                pairs.extend(ours.identity(family).zip(theirs.identity(family)));
                if let Some(address) = pod.addresses.of(family) {
                    pairs.insert((one.identity_of(address), other.identity_of(address)));
                }
            }
        }
        for (ours, theirs) in one.nodes().zip(other.nodes()) {
            if (&ours.name, &ours.addresses) != (&theirs.name, &theirs.addresses) {
                return None;
            }
            let identities = |&address: &IpAddr| (one.identity_of(address), other.identity_of(address));
            pairs.extend(ours.addresses.iter().map(identities));
        }
        pairs.extend(external_pairs(one, other));
        let (mut ours, mut theirs) = (Translation::new(), Translation::new());
        let mut all = IdentitySet::empty();
        for (number, (one, other)) in (0..).zip(pairs) {
            ours.entry(one).or_default().insert(number);
            theirs.entry(other).or_default().insert(number);
            all.insert(number);
        }
        Some(Self { all, ours, theirs })
    }

    /// What a subject allows in terms of both programs.
    fn allow_set(
        &self,
        program: &Program,
        subject: Option<SubjectId>,
        translation: &Translation,
    ) -> AllowSet {
        match subject {
            None => AllowSet::everything(),
            Some(subject) => self.translate(&program.allow_set(subject), translation),
        }
    }

    fn translate(&self, allowed: &AllowSet, translation: &Translation) -> AllowSet {
        let cells = allowed.entries().iter().map(|(traffic, peers)| {
            let classes = if peers.is_all() {
                self.all.clone()
            } else {
                let classes = translation.iter().filter(|(id, _)| peers.contains(id.number()));
                classes
                    .flat_map(|(_, classes)| classes.intervals().iter().copied())
                    .collect()
            };
            (classes, traffic.clone())
        });
        AllowSet::from_cells(cells, &self.all)
    }
}

fn own_node(
    program: &Program,
    subject: Option<SubjectId>,
    classes: &Classes,
    translation: &Translation,
) -> AllowSet {
    subject.map_or_else(AllowSet::everything, |subject| {
        classes.translate(&program.own_node_allow_set(subject), translation)
    })
}

/// The identities that addresses of nobody have in both programs.
fn external_pairs(one: &Program, other: &Program) -> BTreeSet<(Identity, Identity)> {
    let taken = one.taken_addresses();
    let mut pairs = BTreeSet::new();
    let regions = |program: &Program| {
        let identities: BTreeSet<_> = program.prefixes().into_iter().map(|(_, id)| id).collect();
        identities
            .into_iter()
            .map(|id| (id, program.region(id).difference(&taken)))
            .collect::<Vec<_>>()
    };
    let theirs = regions(other);
    for (ours, region) in regions(one) {
        for (id, other_region) in &theirs {
            if !region.intersection(other_region).is_empty() {
                pairs.insert((ours, *id));
            }
        }
    }
    pairs
}
