//! What the thread of a target tells of how it goes.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error as _;
use std::sync::Arc;

use jiff::Timestamp;
use picket_policy::ObjectRef;
use picket_vpp::client::Error;
use smol_str::SmolStr;

use super::VppTarget;
use super::render::Wanted;
use super::status::VppStatus;
use super::work::looked_at;
use super::worker::{Closed, Moved, Summary, Synced};
use crate::metrics::{Metrics, TargetName};
use crate::status::{Shared, Trouble};

/// Where a target tells how it goes.
pub(crate) struct Report {
    target: VppTarget,
    shared: Shared,
    metrics: Metrics,
    /// What was told last of what is where.
    told: Option<Arc<Summary>>,
    /// What was told last of which policies are in force.
    policies: Option<Arc<[String]>>,
}

impl Report {
    pub(crate) fn new(target: VppTarget, shared: &Shared, metrics: &Metrics) -> Self {
        Self {
            target,
            shared: shared.clone(),
            metrics: metrics.clone(),
            told: None,
            policies: None,
        }
    }

    fn label(&self) -> TargetName {
        TargetName {
            target: self.target.name(),
        }
    }

    fn change(&self, change: impl FnOnce(&mut VppStatus)) {
        let mut status = self.shared.lock();
        change(status.vpp.entry(self.target.to_string()).or_default());
    }

    /// VPP answers, and what it has is known.
    pub(crate) fn connected(&self) {
        tracing::info!(target_ = self.target.name(), "VPP answers");
        self.change(|status| status.connected = true);
    }

    /// VPP does not answer, or not as it should.
    pub(crate) fn disconnected(&self, error: &Error) {
        let why = said(error);
        self.metrics.target_failures.get_or_create(&self.label()).inc();
        let mut is_news = false;
        self.change(|status| {
            status.disconnects += u64::from(status.connected);
            status.connected = false;
            is_news = trouble(status, &why, &BTreeSet::new());
        });
        if is_news {
            tracing::warn!(
                target_ = self.target.name(),
                why,
                "VPP is called again; what it has stays"
            );
        }
    }

    /// Nothing passes there until the cluster is known, but for what went wrong.
    pub(crate) fn closed(&self, closed: &Closed) {
        self.asked(closed.operations);
        let whys = closed.troubles.iter().map(said).chain(closed.unsaid.clone());
        let whys: Vec<_> = whys.collect();
        let why = (!whys.is_empty()).then(|| whys.join("; "));
        let names = closed.interfaces.iter().map(SmolStr::to_string);
        let names: Vec<_> = names.collect();
        match &why {
            Some(why) => tracing::error!(target_ = self.target.name(), why, "pods may be open"),
            None if closed.operations == 0 => {}
            None => tracing::info!(
                target_ = self.target.name(),
                interfaces = names.join(", "),
                tables = closed.tables.join(", "),
                "nothing passes there until the cluster is known"
            ),
        }
        self.change(|status| {
            status.unknown = names;
            status.closed.clone_from(&closed.tables);
            match why {
                Some(why) => drop(trouble(status, &why, &BTreeSet::new())),
                None => status.trouble = None,
            }
        });
    }

    /// VPP was asked to change so much.
    fn asked(&self, operations: usize) -> u64 {
        let operations = u64::try_from(operations).unwrap_or(u64::MAX);
        let counted = self.metrics.target_operations.get_or_create(&self.label());
        counted.inc_by(operations);
        operations
    }

    /// VPP has what is wanted, but for what went wrong.
    pub(crate) fn synced(&mut self, wanted: &Wanted, synced: &Synced, waiting: &BTreeSet<ObjectRef>) {
        let label = self.label();
        let operations = self.asked(synced.operations);
        let summary = &synced.summary;
        let whys: Vec<_> = synced
            .troubles
            .iter()
            .map(said)
            .chain(summary.conflicts.clone())
            .collect();
        if let Some(why) = (!whys.is_empty()).then(|| whys.join("; ")) {
            self.metrics.target_failures.get_or_create(&label).inc();
            tracing::error!(target_ = self.target.name(), why, "not all policies are in force");
        } else if synced.operations > 0 {
            tracing::info!(
                target_ = self.target.name(),
                operations,
                "the policies are in force"
            );
        }
        let now = Timestamp::now();
        let told = self.told.replace(Arc::clone(summary));
        let is_other = told.is_none_or(|told| !Arc::ptr_eq(&told, summary));
        let is_same = |told: &Arc<[String]>| Arc::ptr_eq(told, &wanted.policies);
        let are_others = !self.policies.as_ref().is_some_and(is_same);
        if whys.is_empty() {
            self.policies = Some(Arc::clone(&wanted.policies));
        }
        self.change(|status| {
            if is_other {
                tell(status, summary);
            }
            for (pod, moved) in &synced.moved {
                tell_of(status, pod, moved);
            }
            if let Some(unknown) = &synced.unknown {
                status.unknown.clone_from(unknown);
            }
            if synced.operations > 0 || status.changed.is_none() {
                status.changed = Some(now);
            }
            if !whys.is_empty() {
                trouble(status, &whys.join("; "), waiting);
                return;
            }
            status.trouble = None;
            (status.ready, status.current) = (true, Some(now));
            status.pods = wanted.pods;
            if are_others {
                status.policies = wanted.policies.to_vec();
            }
            status.versions.clone_from(&wanted.known.versions);
            status.unreadable.clone_from(&wanted.known.unreadable);
        });
        if let Some(heard) = wanted.heard.filter(|_| whys.is_empty()) {
            let latency = self.metrics.target_latency.get_or_create(&label);
            latency.observe(heard.elapsed().as_secs_f64());
        }
    }
}

/// Says what is where.
fn tell(status: &mut VppStatus, summary: &Summary) {
    looked_at(summary.interfaces.len() + summary.namespaces.len() + summary.pending.len());
    status.interfaces.clone_from(&summary.interfaces);
    status.namespaces.clone_from(&summary.namespaces);
    status.narrower.clone_from(&summary.narrower);
    status.uplinks.clone_from(&summary.uplinks);
    status.unknown.clone_from(&summary.unknown);
    status.closed.clone_from(&summary.closed);
    status.pending.clone_from(&summary.pending);
    status.foreign.clone_from(&summary.foreign);
}

/// Says what there is of a pod.
fn tell_of(status: &mut VppStatus, pod: &str, moved: &Moved) {
    looked_at(1);
    put(&mut status.interfaces, pod, &moved.interfaces);
    put(&mut status.namespaces, pod, &moved.namespaces);
    let pending = &mut status.pending;
    let at = pending.partition_point(|known| known.pod.as_str() < pod);
    let known = pending.get(at).filter(|known| known.pod == pod);
    let until = at + usize::from(known.is_some());
    pending.splice(at..until, moved.pending.clone());
}

/// What a pod has, which is not there without anything.
fn put<T: Clone>(known: &mut BTreeMap<String, Vec<T>>, pod: &str, now: &[T]) {
    match now {
        [] => drop(known.remove(pod)),
        now => drop(known.insert(pod.to_owned(), now.to_vec())),
    }
}

/// Says why policies are not in force; whether that was said before.
fn trouble(status: &mut VppStatus, why: &str, waiting: &BTreeSet<ObjectRef>) -> bool {
    let before = status.trouble.take();
    let is_news = before.as_ref().is_none_or(|before| before.why != why);
    status.trouble = Some(Trouble {
        since: before.map_or_else(Timestamp::now, |before| before.since),
        why: why.to_owned(),
        waiting: waiting.iter().map(ObjectRef::to_string).collect(),
    });
    is_news
}

/// An error with all that it is because of.
pub(crate) fn said(error: &Error) -> String {
    match error.source() {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}
