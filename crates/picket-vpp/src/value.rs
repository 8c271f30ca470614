//! Sets of packets by number, so that comparing and combining them costs nothing the second time.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::layer4::{Layer4, Selector, Step};

/// The number of a set in one [`Values`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Value(u32);

impl Value {
    /// No packet.
    pub const NOTHING: Self = Self(0);
    /// Every packet.
    pub const EVERYTHING: Self = Self(1);
}

/// Sets of packets, each once.
#[derive(Debug)]
pub struct Values {
    sets: Vec<Arc<Layer4>>,
    numbers: FxHashMap<Arc<Layer4>, Value>,
    common: FxHashMap<(Value, Value), Value>,
    steps: FxHashMap<(Value, Value), Arc<[Step]>>,
}

impl Default for Values {
    fn default() -> Self {
        let mut values = Self {
            sets: Vec::new(),
            numbers: FxHashMap::default(),
            common: FxHashMap::default(),
            steps: FxHashMap::default(),
        };
        values.number(Layer4::empty());
        values.number(Layer4::all());
        values
    }
}

impl Values {
    /// The number of a set.
    pub fn number(&mut self, set: Layer4) -> Value {
        if let Some(&known) = self.numbers.get(&set) {
            return known;
        }
        let value = Value(u32::try_from(self.sets.len()).unwrap_or(u32::MAX));
        let set = Arc::new(set);
        self.sets.push(Arc::clone(&set));
        self.numbers.insert(set, value);
        value
    }

    /// The set with a number of these.
    pub fn set(&self, value: Value) -> &Layer4 {
        // INVARIANT: numbers are given out by `number` alone, and the first is there from the beginning.
        #[expect(clippy::indexing_slicing, reason = "every number is an index")]
        &self.sets[value.0 as usize]
    }

    /// How many sets there are.
    pub(crate) fn count(&self) -> usize {
        self.sets.len()
    }

    /// How many sets are worth starting anew, as those that are not used any more stay.
    pub(crate) fn most(&self) -> usize {
        FEW.max(2 * self.count())
    }

    /// What both sets hold.
    pub fn common(&mut self, one: Value, other: Value) -> Value {
        if one == other || other == Value::EVERYTHING {
            return one;
        }
        if one == Value::EVERYTHING {
            return other;
        }
        if one == Value::NOTHING || other == Value::NOTHING {
            return Value::NOTHING;
        }
        let key = if one < other { (one, other) } else { (other, one) };
        if let Some(&known) = self.common.get(&key) {
            return known;
        }
        let value = self.number(self.set(one).intersection(self.set(other)));
        self.common.insert(key, value);
        value
    }

    /// The steps that let exactly `value` pass where what they do not decide is left to steps that let `outer` pass.
    pub fn steps(&mut self, value: Value, outer: Value) -> Arc<[Step]> {
        if let Some(known) = self.steps.get(&(value, outer)) {
            return Arc::clone(known);
        }
        let steps: Arc<[Step]> = steps(self.set(value), self.set(outer)).into();
        self.steps.insert((value, outer), Arc::clone(&steps));
        steps
    }
}

/// Below so many sets nothing is started anew.
const FEW: usize = if cfg!(test) { 16 } else { 4096 };

fn steps(set: &Layer4, outer: &Layer4) -> Vec<Step> {
    let mut whole = set.steps();
    if set.contains_all(outer) {
        // What outer steps let pass may be left to them; a denial among these must not keep it from that.
        let rest = set.difference(outer);
        let steps = rest.steps();
        let is_shorter = steps.len() < whole.len() && steps.iter().all(|(_, passes)| *passes);
        return if is_shorter && rest.is_exact() {
            steps
        } else {
            whole
        };
    }
    if whole.last() != Some(&(Selector::Any, true)) {
        whole.push((Selector::Any, false));
    }
    whole
}

#[cfg(test)]
mod tests {
    use picket_net::{PortRange, PortSet, Protocol, TrafficSet};

    use super::*;

    #[test]
    fn the_rest_of_all_of_sctp_is_all_of_it() {
        let allowed = |ports: PortSet| {
            Layer4::allowed(&TrafficSet::of(Protocol::SCTP, ports), picket_net::Family::Ipv4)
        };
        let (all, some) = (
            allowed(PortSet::all()),
            allowed(PortRange::new(53, 53).unwrap().into()),
        );
        let whole = (Selector::whole(Protocol::SCTP), true);
        assert_eq!(steps(&all, &some), [whole]);
        assert_eq!(steps(&all, &Layer4::empty()), [whole]);
    }
}
