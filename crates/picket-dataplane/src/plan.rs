//! From what a target has to what it should have.

/// Operations in an order in which the target takes them, all or none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan<O>(Vec<O>);

impl<O> Plan<O> {
    /// The operations, first to last.
    pub fn operations(&self) -> &[O] {
        &self.0
    }

    /// Whether there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<O> FromIterator<O> for Plan<O> {
    fn from_iter<I: IntoIterator<Item = O>>(operations: I) -> Self {
        Self(operations.into_iter().collect())
    }
}

/// Everything that one target keeps for picket, as a value.
///
/// For all `a` and `b`: applying `difference(a, b)` to `a` gives `b`, and the difference of equal values is empty.
pub trait Objects: Sized {
    /// One change that the target can make.
    type Operation;
    /// Why the target would refuse an operation.
    type Refusal: std::error::Error;

    /// The fewest operations that turn `observed` into `desired`; `None` when the target has nothing of ours yet.
    fn difference(observed: Option<&Self>, desired: &Self) -> Plan<Self::Operation>;

    /// What the target has after `plan`, refusing what the target itself would refuse.
    fn applied(observed: Option<&Self>, plan: &Plan<Self::Operation>) -> Result<Self, Self::Refusal>;
}
