//! Proofs that the rules in pods mean what the policies of their networks say.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use picket_cluster::Pod;
use picket_dataplane::demand::Demands;
use picket_linux::give_back_memory;
use picket_linux::runtime::SandboxId;
use picket_nftables::custom::own_addresses;
use picket_nftables::model::Table;
use picket_nftables::verify::{Report, VerifyError, verify_while};

use super::desired::Desired;
use super::network::Networks;
use super::sandbox::Place;
use crate::metrics::Metrics;

/// The most packets that a failed proof names.
const EXAMPLES: usize = 3;

/// How long to prove before others get their turn.
const TURN: Duration = Duration::from_millis(10);

/// How long the proof of one pod may take, for which all others wait.
pub(super) const LONGEST: Duration = Duration::from_secs(5);

/// Which sandboxes are proved when.
pub(super) struct Proofs {
    every: Duration,
    /// When all of them are to be proved next; `None` before anything has been in force.
    next: Option<Instant>,
    /// Those that are still to be proved this time.
    waiting: VecDeque<SandboxId>,
}

impl Proofs {
    pub(super) fn new(every: Duration) -> Self {
        Self {
            every,
            next: None,
            waiting: VecDeque::new(),
        }
    }

    /// When there is something to prove; `None` before anything has been in force.
    pub(super) fn at(&self) -> Option<Instant> {
        if self.waiting.is_empty() {
            self.next
        } else {
            Some(Instant::now())
        }
    }

    /// Proves some sandboxes, if it is time.
    pub(super) fn go_on(
        &mut self,
        places: &mut BTreeMap<SandboxId, Place>,
        networks: &Networks,
        metrics: &Metrics,
    ) {
        let began = Instant::now();
        if self.waiting.is_empty() && self.next.is_none_or(|next| began >= next) {
            self.waiting = places.keys().cloned().collect();
            self.next = Some(began + self.every);
            // As much as lists of the cluster took is taken by no proof.
            give_back_memory();
        }
        while began.elapsed() < TURN
            && let Some(sandbox) = self.waiting.pop_front()
        {
            if let Some(place) = places.get_mut(&sandbox) {
                place.prove(networks, metrics);
            }
        }
        if self.waiting.is_empty() {
            give_back_memory();
        }
    }
}

/// Notes what came of a proof; whether the rules may stay.
pub(super) fn tell(
    outcome: Result<Report, VerifyError>,
    took: Duration,
    pod: &str,
    metrics: &Metrics,
) -> bool {
    metrics.proved(&outcome, took);
    let may_stay = outcome
        .as_ref()
        .is_ok_and(|report| report.is_proof() || report.is_open());
    match outcome {
        Ok(report) if report.is_open() => tracing::warn!(
            pod,
            ?took,
            "the proof that the rules of a pod mean what the policies say was given up, since it took too long; they stay"
        ),
        Ok(_) if may_stay => {}
        Ok(report) => tracing::error!(
            pod,
            packets = ?report.counterexamples,
            "the rules of a pod do not mean what the policies say; they are made anew"
        ),
        Err(error) => tracing::error!(pod, %error, "the proof itself is wrong"),
    }
    may_stay
}

impl Networks {
    /// Holds the table of a pod against what its networks demand, for as long as `goes_on` says so.
    ///
    /// # Errors
    /// When the proof itself is at fault.
    pub(super) fn prove(
        &self,
        pod: &Pod,
        desired: &Desired,
        table: &Table,
        goes_on: &dyn Fn() -> bool,
    ) -> Result<Report, VerifyError> {
        let mut report = Report::default();
        let own = own_addresses(self.custom());
        let networks = self.with(&desired.substitutes);
        let all = self.interfaces(pod);
        for (network, compiled) in &networks {
            let program = compiled.judged(self.custom());
            for endpoint in program.endpoints_of(&pod.object) {
                let endpoint = endpoint.pod();
                let interface = endpoint.interface.as_ref();
                let here = interface.filter(|own| own.network == **network);
                // Of whom no address is known nothing can be demanded.
                let Some(interface) = here.filter(|_| !endpoint.addresses.is_empty()) else {
                    continue;
                };
                let others = all.iter().filter(|other| **other != interface.name);
                let demands = Demands::in_pod(
                    program,
                    &endpoint.object,
                    &interface.name,
                    others.cloned().collect(),
                    desired.narrower,
                );
                let Some(demands) = demands else { continue };
                let mut demands = demands.about_own_addresses(own);
                if self.refuses_mid_stream() {
                    demands = demands.without_mid_stream();
                }
                let left = EXAMPLES.saturating_sub(report.counterexamples.len());
                let one = verify_while(table, &demands, &interface.name, left, goes_on)?;
                report.cells += one.cells;
                report.counterexamples.extend(one.counterexamples);
                report.stopped |= one.stopped;
                report.given_up |= one.given_up;
                if report.stopped || report.given_up {
                    return Ok(report);
                }
            }
        }
        Ok(report)
    }
}

#[cfg(test)]
mod tests {
    use picket_cluster::{Semantics, Snapshot};
    use picket_dataplane::EstablishedConnections;
    use picket_testing::cases::committed;

    use super::super::held::Substitutes;
    use super::super::plugin::Plugins;
    use super::super::touched::Touched;
    use super::*;

    /// The networks of a cluster, all of whose pods are on this node.
    fn networks(cluster: &Snapshot) -> Networks {
        let mut networks = Networks::new(Semantics::default(), EstablishedConnections::Cut, Some(9480));
        let pods: Vec<_> = cluster.pods.values().collect();
        networks.update(cluster, &Touched::Anything, &pods, &Plugins::new(&[]), Vec::new());
        networks
    }

    #[test]
    fn a_table_is_proved_by_its_own_policies_and_refuted_where_one_is_missing() {
        let (mut proved, mut refuted) = (0, 0);
        for step in committed().unwrap().iter().flat_map(|case| &case.steps) {
            if step.network.is_none() {
                continue;
            }
            let cluster = step.cluster();
            let own = networks(&cluster);
            let mut fewer = cluster.clone();
            fewer.policies.pop_first();
            let fewer = networks(&fewer);
            for pod in cluster.pods.values() {
                let desired = own.desired(pod, &Substitutes::new(), None);
                let Some(table) = &desired.table else { continue };
                let proof = own.prove(pod, &desired, table, &|| true).unwrap();
                assert!(proof.is_proof(), "{}: {}: {proof:?}", step.title, pod.id());
                proved += 1;
                let without = fewer.desired(pod, &Substitutes::new(), None);
                let Some(table) = &without.table else { continue };
                refuted += usize::from(!own.prove(pod, &without, table, &|| true).unwrap().is_proof());
            }
        }
        assert!(proved > 0 && refuted > 0, "{proved} proved, {refuted} refuted");
    }
}
