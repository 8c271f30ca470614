//! Steps as calls.

use std::collections::BTreeSet;

use picket_neutron::client::{Error, Operation, Tagged};
use picket_neutron::plan::{Handle, Id, Step};
use picket_neutron::{Name, Remote, SecurityGroupRule};
use smol_str::SmolStr;

use super::Neutron;
use super::state::{Done, State};
use super::step::{Names, NeutronStep};
use crate::cloud::{Failure, Reason};

impl Neutron {
    /// Does a step.
    pub(super) async fn carry_out(&self, state: &State, step: &NeutronStep) -> Result<Done, Failure> {
        let client = &self.client;
        let names = &step.names;
        Ok(match &step.step {
            Step::CreateGroup {
                name,
                description,
                tags,
            } => Done::Group(self.create_group(name, description, tags).await?),
            Step::CreateAddressGroup { name, addresses } => {
                Done::AddressGroup(client.create_address_group(name, "", addresses).await?)
            }
            Step::SetDescription { group, description } => {
                Done::Group(client.describe_security_group(group, description).await?)
            }
            Step::SetTags { group, tags } => {
                client.replace_tags(Tagged::SecurityGroup, group, tags).await?;
                Done::Nothing
            }
            Step::CreateRules { group, rules } => {
                let id = group_of(state, group)?;
                let rules: BTreeSet<_> = rules
                    .iter()
                    .map(|rule| with_ids(state, names, rule))
                    .collect::<Result<_, _>>()?;
                let made = client.create_rules(&id, &rules, "").await?;
                Done::Rules(id, made)
            }
            Step::DeleteRules { rules, .. } => {
                for rule in rules {
                    client.delete_rule(rule).await?;
                }
                Done::Nothing
            }
            Step::AddAddresses { group, addresses } => {
                Done::AddressGroup(client.add_addresses(group, addresses).await?)
            }
            Step::RemoveAddresses { group, addresses } => {
                Done::AddressGroup(client.remove_addresses(group, addresses).await?)
            }
            Step::UpdatePort { port, groups, .. } => {
                let known = state.ports.get(port).ok_or_else(|| gone("port", port))?;
                let groups: BTreeSet<Id> = groups
                    .iter()
                    .map(|group| group_of(state, group))
                    .collect::<Result<_, _>>()?;
                Done::Port(Box::new(client.update_port_groups(known, &groups).await?))
            }
            Step::DeleteGroup(group) => {
                client.delete_security_group(group).await?;
                Done::Nothing
            }
            Step::DeleteAddressGroup(group) => {
                client.delete_address_group(group).await?;
                Done::Nothing
            }
        })
    }

    async fn create_group(
        &self,
        name: &str,
        description: &str,
        tags: &BTreeSet<SmolStr>,
    ) -> Result<picket_neutron::client::SecurityGroup, Failure> {
        let made = self.client.create_empty_security_group(name, description).await;
        let mut group = made.map_err(half_done)?;
        if !tags.is_empty() {
            let tagged = self
                .client
                .replace_tags(Tagged::SecurityGroup, &group.id, tags)
                .await;
            tagged.map_err(half_done)?;
            group.tags.clone_from(tags);
        }
        Ok(group)
    }
}

/// Of a group that was made and could not be finished nobody knows here: what there is has to be read.
fn half_done(error: Error) -> Failure {
    let is_first = error
        .call()
        .is_none_or(|call| call.operation == Operation::CreateSecurityGroup);
    let mut failure = Failure::from(error);
    if !is_first && failure.reason == Reason::Refused {
        failure.reason = Reason::Stale;
    }
    failure
}

fn group_of(state: &State, group: &Handle) -> Result<Id, Failure> {
    match group {
        Handle::Installed(id) => Ok(id.clone()),
        Handle::Created(name) => {
            let id = state.groups.get(name).cloned();
            id.ok_or_else(|| gone("group", name))
        }
    }
}

fn with_ids(state: &State, names: &Names, rule: &SecurityGroupRule) -> Result<SecurityGroupRule, Failure> {
    let group = |name: &Name| {
        let id = names.groups.get(name).or_else(|| state.groups.get(name));
        id.cloned().ok_or_else(|| gone("group", name))
    };
    let address_group = |name: &Name| {
        let id = names.address_groups.get(name).or_else(|| state.created.get(name));
        id.cloned().ok_or_else(|| gone("address group", name))
    };
    let remote = match &rule.remote {
        Remote::Group(name) => Remote::Group(group(name)?),
        Remote::AddressGroup(name) => Remote::AddressGroup(address_group(name)?),
        remote => remote.clone(),
    };
    Ok(SecurityGroupRule {
        remote,
        ..rule.clone()
    })
}

fn gone(what: &str, name: &str) -> Failure {
    Failure::new(Reason::Stale, format!("{what} `{name}` is not there any more"))
}
