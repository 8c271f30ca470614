//! Steps of plans, with what their names stand for.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use picket_neutron::Name;
use picket_neutron::plan::{self, Handle, Id, Plan, Step};
use picket_policy::ObjectRef;
use smol_str::SmolStr;

/// A step of a plan.
#[derive(Clone, Debug)]
pub struct NeutronStep {
    pub(super) step: Step,
    pub(super) names: Arc<Names>,
    group: Option<Name>,
    pod: Option<ObjectRef>,
}

/// What names in the steps of a plan stand for. What steps create is not in it.
#[derive(Debug, Default)]
pub(super) struct Names {
    pub(super) groups: BTreeMap<Name, Id>,
    pub(super) address_groups: BTreeMap<Name, Id>,
}

impl NeutronStep {
    fn new(
        step: Step,
        names: &Arc<Names>,
        by_id: &BTreeMap<&Id, &Name>,
        owners: &BTreeMap<Id, ObjectRef>,
    ) -> Self {
        let named = |id: &Id| by_id.get(id).map(|name| (*name).clone());
        let group = match &step {
            Step::CreateGroup { name, .. } | Step::CreateAddressGroup { name, .. } => Some(name.clone()),
            Step::CreateRules { group, .. } => match group {
                Handle::Installed(id) => named(id),
                Handle::Created(name) => Some(name.clone()),
            },
            Step::SetDescription { group, .. }
            | Step::SetTags { group, .. }
            | Step::DeleteRules { group, .. }
            | Step::AddAddresses { group, .. }
            | Step::RemoveAddresses { group, .. } => named(group),
            Step::UpdatePort { .. } | Step::DeleteGroup(_) | Step::DeleteAddressGroup(_) => None,
        };
        let pod = match &step {
            Step::UpdatePort { port, .. } => owners.get(port).cloned(),
            _ => None,
        };
        let names = Arc::clone(names);
        Self {
            step,
            names,
            group,
            pod,
        }
    }
}

/// The steps of a plan, in its stages.
pub(super) fn steps(plan: Plan, owners: &BTreeMap<Id, ObjectRef>) -> Vec<Vec<NeutronStep>> {
    let names = Arc::new(Names {
        groups: plan.groups,
        address_groups: plan.address_groups,
    });
    let all = names.groups.iter().chain(&names.address_groups);
    let by_id: BTreeMap<&Id, &Name> = all.map(|(name, id)| (id, name)).collect();
    let stages = plan.stages.into_iter().map(|stage| {
        let steps = stage.into_iter();
        steps
            .map(|step| NeutronStep::new(step, &names, &by_id, owners))
            .collect()
    });
    stages.collect()
}

impl fmt::Display for NeutronStep {
    /// As in `set groups of port 7b… to 41…, c0… (Pod shop/web)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.step)?;
        if let Some(pod) = &self.pod {
            return write!(f, " ({pod})");
        }
        match (&self.group, &self.step) {
            (_, Step::CreateGroup { .. } | Step::CreateAddressGroup { .. }) | (None, _) => Ok(()),
            (
                _,
                Step::CreateRules {
                    group: Handle::Created(_),
                    ..
                },
            ) => Ok(()),
            (Some(name), _) => write!(f, " ({name})"),
        }
    }
}

impl crate::cloud::Step for NeutronStep {
    fn kind(&self) -> &'static str {
        plan::Step::kind(&self.step)
    }

    fn group(&self) -> Option<Name> {
        self.group.clone()
    }

    fn pod(&self) -> Option<ObjectRef> {
        self.pod.clone()
    }

    fn port(&self) -> Option<SmolStr> {
        match (&self.step, &self.pod) {
            (Step::UpdatePort { port, .. }, None) => Some(port.clone()),
            _ => None,
        }
    }

    fn removes(&self) -> bool {
        matches!(
            self.step,
            Step::DeleteRules { .. }
                | Step::RemoveAddresses { .. }
                | Step::DeleteGroup(_)
                | Step::DeleteAddressGroup(_)
        )
    }
}
