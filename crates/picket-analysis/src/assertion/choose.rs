//! From what names ends to the members that it names.

use std::collections::BTreeSet;

use picket_net::{Family, Prefix};
use picket_policy::{Diagnostic, Selector, Severity, Span};
use smol_str::SmolStr;

use super::world::{Is, Member, World, bit};
use super::{End, Ends, codes};
use crate::directory::{Directory, UnknownParty, nearest};
use crate::lint::matches;

/// Some members, each with the families in which it is meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Chosen {
    /// For each member of the world the families, as bits; 0 when it is not among them.
    masks: Vec<u8>,
    /// Those that are, ascending.
    list: Vec<usize>,
}

impl Chosen {
    pub(super) fn new(masks: Vec<u8>) -> Self {
        let list = (0..)
            .zip(&masks)
            .filter(|(_, mask)| **mask != 0)
            .map(|(at, _)| at)
            .collect();
        Self { masks, list }
    }

    /// Everything but `self`, in the families that each has.
    pub(super) fn others(&self, world: &World<'_>) -> Self {
        let masks = world
            .members
            .iter()
            .zip(&self.masks)
            .map(|(member, mask)| member.families & !mask);
        Self::new(masks.collect())
    }

    pub(super) fn list(&self) -> &[usize] {
        &self.list
    }

    pub(super) fn mask(&self, at: usize) -> u8 {
        self.masks.get(at).copied().unwrap_or(0)
    }

    pub(super) fn contains(&self, at: usize) -> bool {
        self.mask(at) != 0
    }

    /// The members in both, or nothing quickly when they lie apart.
    pub(super) fn common<'c>(&'c self, other: &'c Self) -> impl Iterator<Item = usize> + 'c {
        let ends = |one: &Self| Some((*one.list.first()?, *one.list.last()?));
        let apart = match (ends(self), ends(other)) {
            (Some((first, last)), Some((start, end))) => last < start || end < first,
            _ => true,
        };
        let (few, many) = if self.list.len() <= other.list.len() {
            (self, other)
        } else {
            (other, self)
        };
        let few = if apart { [].iter() } else { few.list.iter() };
        few.copied().filter(|&at| many.contains(at))
    }
}

/// The members that any of the items names and no exception does, or what is wrong with an item that names nothing.
pub(super) fn choose(
    world: &World<'_>,
    directory: &Directory<'_>,
    ends: &Ends,
) -> Result<Chosen, Vec<Diagnostic>> {
    let mut problems = Vec::new();
    let mut masks = vec![0u8; world.members.len()];
    let added = ends.items.iter().map(|item| (item, true));
    let removed = ends.except.iter().map(|item| (item, false));
    for ((end, span), is_added) in added.chain(removed) {
        let change = |mask: u8, families: u8| {
            if is_added {
                mask | families
            } else {
                mask & !families
            }
        };
        let found = each(world, end, |at, families| {
            set(&mut masks, at, |mask| change(mask, families));
        });
        if !found || is_service(directory, end) {
            problems.push(nothing(world, directory, end, span));
        }
    }
    let chosen = Chosen::new(masks);
    if let ([(_, span), ..], true, true) =
        (ends.items.as_slice(), problems.is_empty(), chosen.list.is_empty())
    {
        let message = "the exceptions leave nothing of what is named here";
        let problem = Diagnostic::new(codes::NOTHING, Severity::Error, message).mark(span.clone(), "");
        problems.push(problem.note("name fewer exceptions: a test of nothing would always hold"));
    }
    if problems.is_empty() {
        Ok(chosen)
    } else {
        Err(problems)
    }
}

/// Whether it is the address of a Service, to which no packet goes that policies judge.
fn is_service(directory: &Directory<'_>, end: &End) -> bool {
    let End::Block(prefix) = end else { return false };
    let address = prefix.first();
    address == prefix.last()
        && matches!(
            directory.find(&address.to_string()),
            Err(UnknownParty::Service { .. })
        )
}

fn set(masks: &mut [u8], at: usize, change: impl Fn(u8) -> u8) {
    if let Some(mask) = masks.get_mut(at) {
        *mask = change(*mask);
    }
}

/// Calls `take` with every member that an end names, and the families in which it does; says whether there is one.
fn each(world: &World<'_>, end: &End, mut take: impl FnMut(usize, u8)) -> bool {
    let mut found = false;
    let mut name = |at: usize, families: u8| {
        if families != 0 {
            found = true;
            take(at, families);
        }
    };
    let by_name = match end {
        End::Named(name) => Some(world.named(name)),
        End::Namespace(name) => Some(world.named(&format!("{name}/*"))),
        End::Any | End::External { .. } | End::Block(_) | End::Selected { .. } => None,
    };
    if let Some(named) = by_name {
        let members = named.iter().filter_map(|&at| Some((at, world.members.get(at)?)));
        members.for_each(|(at, member)| name(at, member.families));
        return found;
    }
    let namespaces = match end {
        End::Selected {
            namespaces: Some(selector),
            ..
        } => Some(namespaces_of(world, selector)),
        _ => None,
    };
    for (at, member) in world.members.iter().enumerate() {
        name(at, families(member, end, namespaces.as_ref()));
    }
    found
}

/// The names of the namespaces of pods that a selector matches.
fn namespaces_of(world: &World<'_>, selector: &Selector) -> BTreeSet<SmolStr> {
    let pods = world.snapshot.live_pods().map(|pod| &pod.object.namespace);
    let names: BTreeSet<_> = pods.cloned().collect();
    names
        .into_iter()
        .filter(|name| matches(selector, &world.snapshot.namespace(name).labels))
        .collect()
}

/// The families in which an end names a member.
fn families(member: &Member, end: &End, namespaces: Option<&BTreeSet<SmolStr>>) -> u8 {
    let is_named = match end {
        End::Any => true,
        End::External { within, except } => {
            let Is::External(_) = &member.is else { return 0 };
            let any = |prefixes: &[Prefix]| prefixes.iter().any(|prefix| holds(*prefix, member));
            (within.is_empty() || any(within)) && !any(except)
        }
        // Those are looked up by name.
        End::Namespace(_) | End::Named(_) => false,
        End::Block(prefix) => return in_block(member, *prefix),
        End::Selected { pods, .. } => member.pod().is_some_and(|pod| {
            let chosen = namespaces.is_none_or(|names| names.contains(&pod.object.namespace));
            chosen
                && pods
                    .as_ref()
                    .is_none_or(|selector| matches(selector, &pod.labels))
        }),
    };
    if is_named { member.families } else { 0 }
}

/// As for an ipBlock, an address that picket made up is in no prefix but the whole address space.
fn in_block(member: &Member, prefix: Prefix) -> u8 {
    let made_up = member.pod().is_some_and(|pod| pod.synthetic);
    let family = prefix.family();
    let is_in = prefix.length() == 0 || !made_up;
    if is_in && holds(prefix, member) {
        bit(family)
    } else {
        0
    }
}

fn holds(prefix: Prefix, member: &Member) -> bool {
    member
        .address(prefix.family())
        .is_some_and(|address| prefix.contains(address))
}

/// What to say of an end that names nothing.
fn nothing(world: &World<'_>, directory: &Directory<'_>, end: &End, span: &Span) -> Diagnostic {
    let (message, note) = match end {
        End::Named(name) => (directory_says(directory, name), suggestion(name, names(world))),
        End::Namespace(name) => {
            let message = format!("the namespace `{name}` has no pods in the input");
            let pods = world.members.iter().filter_map(Member::pod);
            let namespaces: BTreeSet<_> = pods.map(|pod| pod.object.namespace.to_string()).collect();
            (message, suggestion(name, namespaces.into_iter()))
        }
        End::Block(prefix) => match directory.find(&prefix.first().to_string()) {
            Err(service) if prefix.first() == prefix.last() => (service.to_string(), None),
            _ => (
                format!("`{prefix}` holds no address that can be asked about"),
                None,
            ),
        },
        End::Selected { namespaces, pods } => selectors_say(world, namespaces.as_ref(), pods.as_ref()),
        End::Any | End::External { .. } => ("this is nothing in the input".to_owned(), None),
    };
    let note = note.unwrap_or_else(|| "a test of nothing would hold whatever the policies say".to_owned());
    Diagnostic::new(codes::NOTHING, Severity::Error, message)
        .mark(span.clone(), "")
        .note(note)
}

/// What the directory knows of a name that is no member: that the pod has finished, say.
fn directory_says(directory: &Directory<'_>, name: &str) -> String {
    match directory.find(name) {
        Err(error @ UnknownParty::Finished { .. }) => error.to_string(),
        _ => format!("nothing in the input is called `{name}`"),
    }
}

fn names<'w>(world: &'w World<'_>) -> impl Iterator<Item = String> + 'w {
    let inside = world.members.iter().filter_map(|member| match &member.is {
        Is::Pod(_) => Some(member.id.clone()),
        Is::Node(name, _) => Some(name.to_string()),
        Is::External(_) => None,
    });
    let owners: BTreeSet<_> = world
        .members
        .iter()
        .filter_map(|member| member.owner.clone())
        .collect();
    inside.chain(owners)
}

fn suggestion(name: &str, known: impl Iterator<Item = String>) -> Option<String> {
    let (names, likely) = nearest(name, known, 3);
    let quoted: Vec<_> = names.iter().map(|name| format!("`{name}`")).collect();
    match (quoted.is_empty(), likely) {
        (true, _) => None,
        (false, true) => Some(format!("did you mean {}?", quoted.join(" or "))),
        (false, false) => Some(format!("there are, for example, {}", quoted.join(", "))),
    }
}

fn selectors_say(
    world: &World<'_>,
    namespaces: Option<&Selector>,
    pods: Option<&Selector>,
) -> (String, Option<String>) {
    let live = || world.members.iter().filter_map(Member::pod);
    let chosen = namespaces.map(|selector| namespaces_of(world, selector));
    if let (Some(selector), true) = (namespaces, chosen.as_ref().is_some_and(BTreeSet::is_empty)) {
        let all: BTreeSet<_> = live().map(|pod| &pod.object.namespace).collect();
        let labels = all
            .into_iter()
            .map(|name| world.snapshot.namespace(name).labels.clone());
        let labels = labels.flat_map(|labels| {
            labels
                .iter()
                .map(|(key, value)| format!("{key}={value}"))
                .collect::<Vec<_>>()
        });
        let message = format!("no namespace that has pods has `{selector}`");
        return (message, suggestion(&selector.to_string(), labels));
    }
    let Some(selector) = pods else {
        return ("the selectors match no pod".to_owned(), None);
    };
    let within = |namespace: &SmolStr| chosen.as_ref().is_none_or(|names| names.contains(namespace));
    let labels = live()
        .filter(|pod| within(&pod.object.namespace))
        .flat_map(|pod| {
            pod.labels
                .iter()
                .map(|(key, value)| format!("{key}={value}"))
                .collect::<Vec<_>>()
        });
    let whose = if chosen.is_some() {
        " of these namespaces"
    } else {
        ""
    };
    (
        format!("no pod{whose} has `{selector}`"),
        suggestion(&selector.to_string(), labels),
    )
}

/// The families of `family`, or both.
pub(super) fn families_of(family: Option<Family>) -> u8 {
    family.map_or(bit(Family::Ipv4) | bit(Family::Ipv6), bit)
}
