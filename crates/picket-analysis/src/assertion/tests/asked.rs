//! Assertions in random words, and whether they hold by what the reference says.

use std::collections::BTreeSet;

use picket_cluster::Endpoint;
use picket_net::{Family, Protocol};
use proptest::prelude::*;
use proptest::sample::{select, subsequence};

use super::brute::{Brute, ENDS, EndCase, PORTS, PortCase, named};

/// An assertion, in words and as what it means.
#[derive(Clone)]
pub(super) struct Asked {
    pub(super) claim: &'static str,
    exact: Vec<&'static str>,
    from: Vec<EndCase>,
    not_from: Vec<EndCase>,
    to: Vec<EndCase>,
    ports: Vec<PortCase>,
    family: Option<Family>,
    through: Option<EndCase>,
}

impl std::fmt::Debug for Asked {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.yaml())
    }
}

pub(super) fn asked() -> impl Strategy<Value = Asked> {
    let ends = || subsequence(ENDS.to_vec(), 1..=2);
    let claims = vec![
        "allow: every",
        "deny: every",
        "allow: none",
        "allow: exactly",
        "allow: only",
        "reach: never",
    ];
    (
        (select(claims), subsequence(vec!["from", "to", "ports"], 1..=3)),
        (
            ends(),
            prop_oneof![3 => Just(Vec::new()), 1 => subsequence(ENDS.to_vec(), 1)],
            ends(),
        ),
        prop_oneof![1 => Just(Vec::new()), 2 => subsequence(PORTS.to_vec(), 1..=2)],
        prop_oneof![4 => Just(None), 1 => select(Family::BOTH.to_vec()).prop_map(Some)],
        proptest::option::weighted(0.3, select(ENDS.to_vec())),
    )
        .prop_map(
            |((claim, exact), (from, not_from, to), ports, family, through)| Asked {
                claim,
                exact: if ["allow: exactly", "allow: only"].contains(&claim) {
                    exact
                } else {
                    Vec::new()
                },
                from,
                not_from,
                to,
                ports,
                family,
                through: through.filter(|_| claim == "reach: never"),
            },
        )
}

impl Asked {
    pub(super) fn yaml(&self) -> String {
        let ends = |ends: &[EndCase]| ends.iter().map(|(text, _)| *text).collect::<Vec<_>>().join(", ");
        let mut text = format!(
            "tests:\n- {}\n  from: [{}]\n  to: [{}]\n",
            self.claim,
            ends(&self.from),
            ends(&self.to)
        );
        if !self.exact.is_empty() {
            text += &format!("  exact: [{}]\n", self.exact.join(", "));
        }
        if !self.not_from.is_empty() {
            text += &format!("  notFrom: [{}]\n", ends(&self.not_from));
        }
        if !self.ports.is_empty() {
            let ports: Vec<_> = self.ports.iter().map(|(text, _)| *text).collect();
            text += &format!("  ports: [{}]\n", ports.join(", "));
        }
        text += &self
            .family
            .map_or(String::new(), |family| format!("  family: {family}\n"));
        text + &self
            .through
            .map_or(String::new(), |(text, _)| format!("  through: {text}\n"))
    }

    pub(super) fn names(&self, brute: &Brute, cases: &[EndCase], end: &Endpoint, family: Family) -> bool {
        let has = brute
            .ends
            .get(end)
            .is_some_and(|families| families.contains(&family));
        has && cases.iter().any(|(_, is)| is(&brute.cluster, end, family))
    }

    pub(super) fn is_from(&self, brute: &Brute, end: &Endpoint, family: Family) -> bool {
        self.names(brute, &self.from, end, family) && !self.names(brute, &self.not_from, end, family)
    }

    pub(super) fn is_to(&self, brute: &Brute, end: &Endpoint, family: Family) -> bool {
        self.names(brute, &self.to, end, family)
    }

    pub(super) fn is_asked(&self, family: Family) -> bool {
        self.family.is_none_or(|only| only == family)
    }

    pub(super) fn wants(&self, brute: &Brute, to: &Endpoint, protocol: Protocol, port: u16) -> bool {
        self.ports.is_empty()
            || self
                .ports
                .iter()
                .any(|(_, is)| is(&brute.cluster, to, protocol, port))
    }

    pub(super) fn is_lenient(&self) -> bool {
        self.from.iter().chain(&self.to).any(|(text, _)| *text == "any")
    }

    /// Whether the tool has to refuse it.
    pub(super) fn is_refused(&self, brute: &Brute) -> bool {
        let through = self.through.as_ref();
        let named = self
            .from
            .iter()
            .chain(&self.not_from)
            .chain(&self.to)
            .chain(through);
        let empty = |case: &EndCase| {
            !brute.ends.keys().any(|end| {
                Family::BOTH
                    .into_iter()
                    .any(|family| self.names(brute, std::slice::from_ref(case), end, family))
            })
        };
        if named.into_iter().any(empty) {
            return true;
        }
        let families = || Family::BOTH.into_iter();
        let is_sent_to = |end: &&Endpoint| families().any(|family| self.is_to(brute, end, family));
        if !brute
            .ends
            .keys()
            .filter(is_sent_to)
            .any(|end| self.can_be_sent(brute, end))
        {
            return true;
        }
        let mut any_pair = false;
        for ((from, to), packets) in &brute.verdicts {
            let beyond = brute.is_beyond(from, to);
            for &(family, protocol, port, _) in packets.iter().filter(|packet| self.is_asked(packet.0)) {
                let (is_from, is_to) = (self.is_from(brute, from, family), self.is_to(brute, to, family));
                let wanted = self.wants(brute, to, protocol, port);
                match self.claim {
                    "allow: every" => any_pair |= is_from && is_to && wanted,
                    "allow: exactly" | "allow: only" => {
                        any_pair |= self.claim == "allow: exactly" && is_from && is_to && wanted;
                        let sides = [
                            ("from", !is_from && is_to && wanted),
                            ("to", is_from && !is_to && wanted),
                            ("ports", is_from && is_to && !wanted),
                        ];
                        any_pair |= !beyond
                            && sides
                                .iter()
                                .any(|(side, about)| *about && self.exact.contains(side));
                    }
                    _ if is_from && is_to && wanted && beyond && !self.is_lenient() => return true,
                    _ => any_pair |= is_from && is_to && wanted && !beyond,
                }
            }
        }
        let any_from = brute
            .ends
            .keys()
            .any(|end| families().any(|family| self.is_from(brute, end, family)));
        !any_pair || !any_from
    }

    pub(super) fn holds(&self, brute: &Brute) -> bool {
        match self.claim {
            "allow: every" => self.all_allowed(brute),
            "deny: every" | "allow: none" => {
                self.none(brute, self.is_lenient(), |from, to, wanted| from && to && wanted)
            }
            "allow: exactly" => self.all_allowed(brute) && self.nothing_else(brute),
            "allow: only" => self.nothing_else(brute),
            _ => self.unreachable(brute),
        }
    }

    pub(super) fn nothing_else(&self, brute: &Brute) -> bool {
        let exact = |side: &str| self.exact.contains(&side);
        (!exact("from") || self.none(brute, true, |from, to, wanted| !from && to && wanted))
            && (!exact("to") || self.none(brute, true, |from, to, wanted| from && !to && wanted))
            && (!exact("ports") || self.none(brute, true, |from, to, wanted| from && to && !wanted))
    }

    pub(super) fn none(&self, brute: &Brute, lenient: bool, about: fn(bool, bool, bool) -> bool) -> bool {
        !brute.verdicts.iter().any(|((from, to), packets)| {
            let excused = lenient && brute.is_beyond(from, to);
            !excused
                && packets.iter().any(|&(family, protocol, port, allowed)| {
                    let (is_from, is_to) = (self.is_from(brute, from, family), self.is_to(brute, to, family));
                    let wanted = self.wants(brute, to, protocol, port);
                    allowed && self.is_asked(family) && about(is_from, is_to, wanted)
                })
        })
    }

    pub(super) fn all_allowed(&self, brute: &Brute) -> bool {
        let ends = || brute.ends.keys();
        ends().all(|from| {
            ends().all(|to| {
                let meant =
                    |family: &Family| self.is_from(brute, from, *family) && self.is_to(brute, to, *family);
                let in_common: Vec<_> = brute.ends[from].intersection(&brute.ends[to]).copied().collect();
                if !brute.is_pair(from, to) {
                    return true;
                }
                if in_common.is_empty() {
                    let pods = matches!((from, to), (Endpoint::Pod(_), Endpoint::Pod(_)));
                    let named = |is: &dyn Fn(Family) -> bool| Family::BOTH.into_iter().any(is);
                    let about = named(&|family| self.is_from(brute, from, family))
                        && named(&|family| self.is_to(brute, to, family));
                    return !(pods && about && self.family.is_none() && self.can_be_sent(brute, to));
                }
                let asked: Vec<_> = in_common
                    .into_iter()
                    .filter(|family| meant(family) && self.is_asked(*family))
                    .collect();
                let unresolved = self.ports.iter().any(|(text, _)| *text == "http")
                    && named(&brute.cluster, to).next().is_none();
                if !asked.is_empty() && unresolved {
                    return false;
                }
                let packets = brute
                    .verdicts
                    .get(&(from.clone(), to.clone()))
                    .into_iter()
                    .flatten();
                packets.into_iter().all(|&(family, protocol, port, allowed)| {
                    allowed || !asked.contains(&family) || !self.wants(brute, to, protocol, port)
                })
            })
        })
    }

    /// Whether there is a packet that the assertion speaks of towards a destination.
    pub(super) fn can_be_sent(&self, brute: &Brute, to: &Endpoint) -> bool {
        self.ports.iter().any(|(text, _)| *text != "http")
            || self.ports.is_empty()
            || named(&brute.cluster, to).next().is_some()
    }

    pub(super) fn unreachable(&self, brute: &Brute) -> bool {
        let goes_on = |end: &Endpoint| match &self.through {
            None => matches!(end, Endpoint::Pod(_)),
            Some(through) => {
                let families = Family::BOTH.into_iter();
                families
                    .into_iter()
                    .any(|family| self.names(brute, std::slice::from_ref(through), end, family))
            }
        };
        brute.ends.keys().all(|source| {
            let (mut seen, mut queue) = (BTreeSet::from([source]), vec![source]);
            while let Some(at) = queue.pop() {
                for ((_, next), packets) in brute.verdicts.iter().filter(|((from, _), _)| from == at) {
                    let open = |family: Family| at != source || self.is_from(brute, source, family);
                    let mut steps = packets
                        .iter()
                        .filter(|&&(family, .., allowed)| allowed && open(family) && self.is_asked(family))
                        .peekable();
                    if steps.peek().is_none() {
                        continue;
                    }
                    let excused = self.is_lenient() && at == source && brute.is_beyond(at, next);
                    let hit = steps.any(|&(family, protocol, port, _)| {
                        self.is_to(brute, next, family) && self.wants(brute, next, protocol, port)
                    });
                    if hit && !excused && brute.is_pair(source, next) {
                        return false;
                    }
                    if goes_on(next) && seen.insert(next) {
                        queue.push(next);
                    }
                }
            }
            true
        })
    }
}
