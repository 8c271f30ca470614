//! What the controller needs of a cloud.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use picket_engine::Program;
use picket_neutron::{Name, Objects, Options};
use picket_policy::ObjectRef;
use smol_str::SmolStr;

/// A cloud that enforces for the ports of pods, and how it is spoken to.
///
/// Whoever implements it asks its [`Gate`](crate::Gate) right before each call that changes something, and tells it afterwards
/// how the call ended. What it is asked does not end later than its own timeouts say.
pub trait Cloud {
    /// What the cloud has, as it was read.
    type State;
    /// Something to do there.
    type Step: Step;
    /// What the cloud says of a step that it has done.
    type Done;

    /// Reads everything.
    ///
    /// # Errors
    /// When not all of it is had.
    fn read(&self) -> impl Future<Output = Result<Self::State, Failure>>;

    /// Reads again what concerns the ports of some pods, which had none, or may have others now.
    ///
    /// # Errors
    /// When it is not had.
    fn find(
        &self,
        state: &mut Self::State,
        pods: &BTreeSet<ObjectRef>,
    ) -> impl Future<Output = Result<(), Failure>>;

    /// What groups depend on, where the cloud can do less than was asked for.
    fn options(&self, state: &Self::State, options: &Options) -> Options {
        let _ = state;
        options.clone()
    }

    /// What is to be done so that there is what is wanted. This asks nobody.
    fn plan(&self, state: &Self::State, wanted: &Wanted<'_>) -> Plan<Self::Step>;

    /// Does a step. Several may be done at once.
    ///
    /// # Errors
    /// When it is not done, or nobody knows.
    fn apply(
        &self,
        state: &Self::State,
        step: &Self::Step,
    ) -> impl Future<Output = Result<Self::Done, Failure>>;

    /// Notes a step that was done in what the cloud has.
    fn note(&self, state: &mut Self::State, step: &Self::Step, done: Self::Done);

    /// What the cloud calls a group, if it has it.
    fn id_of(&self, state: &Self::State, group: &Name) -> Option<String>;
}

/// Something to do in a cloud. Its text is for people.
pub trait Step: Clone + fmt::Display {
    /// What sort of a step it is, for metrics.
    fn kind(&self) -> &'static str;

    /// The group that it is about, if it is about one.
    fn group(&self) -> Option<Name>;

    /// The pod whose port it is about, if it is about one.
    fn pod(&self) -> Option<ObjectRef>;

    /// The port that it is about, if it is about one that is no pod's.
    fn port(&self) -> Option<SmolStr> {
        None
    }

    /// Whether it takes something away. Where that cannot be done, nothing that comes after it may be.
    fn removes(&self) -> bool;
}

/// What there is to be.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    /// The groups of all policies, and those of the port of each pod.
    pub objects: &'a Objects,
    /// What they were rendered from.
    pub program: &'a Program,
    /// The groups that cannot be made, or to which nothing can be added now: nothing is to depend on that, and no step is to do it.
    pub held_groups: &'a BTreeSet<Name>,
    /// The groups from which something cannot be taken away now. One that no port has is to be left alone, and no port to get it.
    pub held_removals: &'a BTreeSet<Name>,
    /// The pods whose ports cannot be changed now: they keep what they have, and no step is to be about them.
    pub held_pods: &'a BTreeSet<ObjectRef>,
    /// The ports of no pod that cannot be changed now: the same.
    pub held_ports: &'a BTreeSet<SmolStr>,
    /// The ports that earlier plans took all groups from ([`Plan::emptied`]): they are not those of new pods.
    pub emptied: &'a BTreeSet<SmolStr>,
}

/// What is to be done.
#[derive(Clone, Debug)]
pub struct Plan<S> {
    /// The steps of a stage may be done at once and in any order; a stage begins when all steps of those before are done.
    pub stages: Vec<Vec<S>>,
    /// The pods that have no port yet.
    pub pending: BTreeSet<ObjectRef>,
    /// The pods at some port of which no group counts, or groups of others do, and why.
    pub unenforced: BTreeMap<ObjectRef, String>,
    /// Those of them whose ports get no group by which rules mean them.
    pub left_out: BTreeSet<ObjectRef>,
    /// What else people should know.
    pub notes: Vec<String>,
    /// The groups of which something is not done as long as some port cannot be changed, since it would open something.
    pub waiting: BTreeSet<Name>,
    /// The ports that lose all groups, and get others only when ports can be changed that cannot be now.
    pub emptied: BTreeSet<SmolStr>,
}

impl<S> Default for Plan<S> {
    fn default() -> Self {
        Self {
            stages: Vec::new(),
            pending: BTreeSet::new(),
            unenforced: BTreeMap::new(),
            left_out: BTreeSet::new(),
            notes: Vec::new(),
            waiting: BTreeSet::new(),
            emptied: BTreeSet::new(),
        }
    }
}

/// Why something was not done.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
pub struct Failure {
    /// What follows from it.
    pub reason: Reason,
    /// For people.
    pub why: String,
}

/// What follows from a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The [`Gate`](crate::Gate) does not let it begin: nothing is the matter with the cloud.
    Closed,
    /// The cloud will not, as where a quota is used up. It has not changed anything, and another attempt helps little.
    Refused,
    /// What was to be changed is another than was thought: it is to be read again.
    Stale,
    /// Nobody knows whether it was done: it is to be read again.
    Unknown,
    /// The cloud cannot be reached, or not used: nothing else can be done either.
    Away,
}

impl Failure {
    /// With what follows from it, and why it is.
    pub fn new(reason: Reason, why: impl Into<String>) -> Self {
        Self {
            reason,
            why: why.into(),
        }
    }
}

impl Reason {
    /// In a word.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::Refused => "refused",
            Self::Stale => "stale",
            Self::Unknown => "unknown",
            Self::Away => "away",
        }
    }
}
