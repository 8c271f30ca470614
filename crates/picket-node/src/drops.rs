//! How many packets were dropped because of which policy: what the counters of the table say when somebody asks.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use picket_linux::NetworkNamespace;
use picket_nftables::client::Counters;
use picket_nftables::model::Name;
use picket_nftables::render::drops::{mid_stream_counter, spoofed_counter};
use picket_nftables::render::indexed::{self, audit_counter_name, counter_name};
use picket_policy::{Direction, ObjectRef};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;

/// Reads what was dropped.
pub(crate) type Reading = Arc<dyn Fn() -> picket_linux::Result<Dropped> + Send + Sync>;

/// Reads the counters of the node's table, as those of policies.
#[derive(Clone)]
pub(crate) struct Drops {
    counters: Arc<Mutex<Counters>>,
    /// The policies in force.
    policies: Arc<Mutex<Vec<ObjectRef>>>,
    /// What the counters said last that are of no policy: it stays where rules go that counted.
    kept: Arc<Mutex<BTreeMap<Name, u64>>>,
}

/// What was dropped since the counters were made. A packet counts for each policy that may be why.
#[derive(Clone, Debug, Default)]
pub(crate) struct Dropped {
    /// By policy and direction, in this order.
    pub(crate) by_policy: Vec<(ObjectRef, Direction, u64)>,
    /// What passed and would have been dropped if the policy were not only audited; by policy and direction, in this order.
    pub(crate) audited: Vec<(ObjectRef, Direction, u64)>,
    /// TCP in the middle of no known connection, where there are or were rules for it.
    pub(crate) mid_stream: Option<u64>,
    /// What came from elsewhere than where the way back to its source leads, or from the address of the pod that it was for,
    /// where there are or were rules for it.
    pub(crate) spoofed: Option<u64>,
    /// What was from or to pods that were not known yet, where that is or was dropped.
    pub(crate) unknown: Option<u64>,
}

impl Drops {
    pub(crate) fn open(namespace: &NetworkNamespace) -> picket_linux::Result<Self> {
        Ok(Self {
            counters: Arc::new(Mutex::new(Counters::open(namespace, indexed::table_name())?)),
            policies: Arc::default(),
            kept: Arc::default(),
        })
    }

    /// These policies are in force now.
    pub(crate) fn now_of(&self, policies: Vec<ObjectRef>) {
        *self.policies.lock().unwrap_or_else(PoisonError::into_inner) = policies;
    }

    /// What was dropped until now.
    pub(crate) fn read(&self) -> picket_linux::Result<Dropped> {
        let policies = self
            .policies
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        let counted = self
            .counters
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .packets()?;
        let [mid_stream, spoofed, unknown] = [
            mid_stream_counter(),
            spoofed_counter(),
            indexed::unknown_counter(),
        ]
        .map(|name| self.keep(name, &counted));
        let mut dropped = Dropped {
            by_policy: Vec::new(),
            audited: Vec::new(),
            mid_stream,
            spoofed,
            unknown,
        };
        for policy in policies {
            for direction in Direction::BOTH {
                if let Some(&packets) = counted.get(&counter_name(&policy, direction)) {
                    dropped.by_policy.push((policy.clone(), direction, packets));
                }
                if let Some(&packets) = counted.get(&audit_counter_name(&policy, direction)) {
                    dropped.audited.push((policy.clone(), direction, packets));
                }
            }
        }
        dropped.by_policy.sort();
        dropped.audited.sort();
        Ok(dropped)
    }

    /// What a counter says, or said last.
    fn keep(&self, name: Name, counted: &BTreeMap<Name, u64>) -> Option<u64> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        match counted.get(&name) {
            Some(&packets) => {
                kept.insert(name, packets);
                Some(packets)
            }
            None => kept.get(&name).copied(),
        }
    }
}

impl Dropped {
    /// Those because of which packets were dropped, the most first.
    pub(crate) fn most(mut self) -> Vec<(ObjectRef, Direction, u64)> {
        self.by_policy.retain(|(.., packets)| *packets > 0);
        self.by_policy.sort_by_key(|(.., packets)| Reverse(*packets));
        self.by_policy
    }
}

impl Collector for Dropped {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        for (name, help, counted) in [
            (
                "dropped_packets",
                "packets that were dropped and that the policy may be why",
                &self.by_policy,
            ),
            (
                "audited_packets",
                "packets that passed and that would have been dropped if the policy were not only audited",
                &self.audited,
            ),
        ] {
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
            for (policy, direction, packets) in counted {
                let labels = [
                    ("kind", policy.kind.to_string()),
                    ("namespace", policy.namespace.to_string()),
                    ("name", policy.name.to_string()),
                    ("direction", direction.to_string()),
                ];
                ConstCounter::new(*packets).encode(family.encode_family(&labels)?)?;
            }
        }
        let others = [
            (
                "dropped_mid_stream_packets",
                "TCP packets that were dropped because they belong to no known connection and begin none",
                self.mid_stream,
            ),
            (
                "dropped_spoofed_packets",
                "packets that were dropped because their source cannot be where they came from",
                self.spoofed,
            ),
            (
                "dropped_unknown_packets",
                "packets from and to pods that were not known yet, which were dropped",
                self.unknown,
            ),
        ];
        for (name, help, packets) in others {
            let Some(packets) = packets else {
                continue;
            };
            let family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
            ConstCounter::new(packets).encode(family)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod kernel {
    use std::process::Command;

    use picket_linux::run_with_input;

    use super::*;

    #[test]
    fn what_was_counted_stays_when_the_rules_are_gone_that_counted() {
        let namespace = NetworkNamespace::create().unwrap();
        let drops = Drops::open(&namespace).unwrap();
        let nft = |text: &str| {
            let mut nft = Command::new("nft");
            run_with_input(&namespace, nft.args(["-f", "-"]), text.as_bytes(), "nftables").unwrap();
        };
        let table = indexed::table_name();
        let counters = [
            (indexed::unknown_counter(), 7),
            (mid_stream_counter(), 8),
            (spoofed_counter(), 9),
        ];
        let read = || {
            let dropped = drops.read().unwrap();
            [dropped.unknown, dropped.mid_stream, dropped.spoofed]
        };
        assert_eq!(read(), [None; 3]);
        for (name, packets) in &counters {
            nft(&format!(
                "add table inet {table}; add counter inet {table} {name} {{ packets {packets} bytes 100 }}"
            ));
        }
        assert_eq!(read(), [Some(7), Some(8), Some(9)]);
        let (unknown, _) = &counters[0];
        nft(&format!("delete counter inet {table} {unknown}"));
        assert_eq!(read(), [Some(7), Some(8), Some(9)]);
        nft(&format!(
            "add counter inet {table} {unknown}; delete counter inet {table} {}",
            counters[2].0
        ));
        assert_eq!(read(), [Some(0), Some(8), Some(9)], "it was made anew");
    }
}
