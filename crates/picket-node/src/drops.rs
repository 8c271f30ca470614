//! How many packets were dropped because of which policy: what the counters of the table say when somebody asks.

use std::cmp::Reverse;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use picket_linux::NetworkNamespace;
use picket_nftables::client::Counters;
use picket_nftables::render::drops::{audit_counter_name, counter_name, mid_stream_counter, spoofed_counter};
use picket_nftables::render::indexed;
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
}

/// What was dropped since the counters were made. A packet counts for each policy that may be why.
#[derive(Clone, Debug, Default)]
pub(crate) struct Dropped {
    /// By policy and direction, in this order.
    pub(crate) by_policy: Vec<(ObjectRef, Direction, u64)>,
    /// What passed and would have been dropped if the policy were not only audited; by policy and direction, in this order.
    pub(crate) audited: Vec<(ObjectRef, Direction, u64)>,
    /// TCP in the middle of no known connection, where there are rules for it.
    pub(crate) mid_stream: Option<u64>,
    /// What came from elsewhere than where the way back to its source leads, or from the address of the pod that it was for,
    /// where there are rules for it.
    pub(crate) spoofed: Option<u64>,
    /// What was from or to pods that are not known yet, as long as that is dropped.
    pub(crate) unknown: Option<u64>,
}

impl Drops {
    pub(crate) fn open(namespace: &NetworkNamespace) -> picket_linux::Result<Self> {
        Ok(Self {
            counters: Arc::new(Mutex::new(Counters::open(namespace, indexed::table_name())?)),
            policies: Arc::default(),
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
        let mut dropped = Dropped {
            by_policy: Vec::new(),
            audited: Vec::new(),
            mid_stream: counted.get(&mid_stream_counter()).copied(),
            spoofed: counted.get(&spoofed_counter()).copied(),
            unknown: counted.get(&indexed::unknown_counter()).copied(),
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
