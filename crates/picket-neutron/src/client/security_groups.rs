//! Security groups and their rules.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::Neutron;
use super::answer::{self, Listed, SecurityGroup};
use super::call::Operation;
use super::error::Error;
use super::filter::{Filter, escaped};
use super::request::Request;
use super::rule::{self, Rule, normalised};
use crate::model::SecurityGroupRule;

const PATH: &str = "security-groups";

/// What is read of groups in lists.
const FIELDS: [&str; 8] = [
    "id",
    "project_id",
    "name",
    "description",
    "tags",
    "revision_number",
    "stateful",
    "security_group_rules",
];

impl Neutron {
    /// All security groups that fit, with their rules, by id.
    ///
    /// # Errors
    /// When they are not had.
    pub async fn security_groups(&self, filter: &Filter) -> Result<Vec<SecurityGroup>, Error> {
        let query = filter.query_for(&FIELDS);
        self.list(Operation::ListSecurityGroups, PATH, &query).await
    }

    /// A security group with its rules, if it is there.
    ///
    /// # Errors
    /// When nobody knows.
    pub async fn security_group(&self, id: &str) -> Result<Option<SecurityGroup>, Error> {
        self.show(Operation::ShowSecurityGroup, PATH, id).await
    }

    /// Makes a security group. It has the rules that Neutron gives every new one, by default two that let everything out.
    ///
    /// Where nobody knows whether one was made, that is looked up: one with this name and description counts as the one.
    ///
    /// # Errors
    /// When none was made, or nobody knows.
    pub async fn create_security_group(&self, name: &str, description: &str) -> Result<SecurityGroup, Error> {
        let body = json!({"security_group": {"name": name, "description": description}});
        let request = Request::new(Operation::CreateSecurityGroup, name, PATH).body(&body);
        let find = async || {
            let filter = self.called(name).await?;
            let all = self.security_groups(&filter).await?;
            Ok(all.into_iter().find(|group| group.description == description))
        };
        self.create(&request, find).await
    }

    /// The same without any rules; its revision is that before they were deleted. It should be given to no port before.
    ///
    /// # Errors
    /// When there is none, or one that has rules, or nobody knows.
    pub async fn create_empty_security_group(
        &self,
        name: &str,
        description: &str,
    ) -> Result<SecurityGroup, Error> {
        let mut group = self.create_security_group(name, description).await?;
        for rule in std::mem::take(&mut group.rules) {
            self.delete_rule(&rule.id).await?;
        }
        Ok(group)
    }

    /// Gives a security group a description; the group as it is then.
    ///
    /// # Errors
    /// When it does not have it then, or nobody knows.
    pub async fn describe_security_group(&self, id: &str, description: &str) -> Result<SecurityGroup, Error> {
        let path = format!("{PATH}/{}", escaped(id));
        let body = json!({"security_group": {"description": description}});
        let request = Request::new(Operation::UpdateSecurityGroup, id, &path).body(&body);
        self.repeated(&request).await?.read(answer::one)
    }

    /// Deletes a security group with its rules; whether it was there. Rules of others that name it go too.
    ///
    /// # Errors
    /// When it is in use ([`Error::is_in_use`]), or nobody knows.
    pub async fn delete_security_group(&self, id: &str) -> Result<bool, Error> {
        self.delete(Operation::DeleteSecurityGroup, PATH, id).await
    }

    /// Makes rules of a group that it does not have yet; all of them as they are now. Of each [`Options::bulk`] all are made, or none.
    ///
    /// [`Options::bulk`]: super::Options::bulk
    ///
    /// # Errors
    /// When some were not made, or nobody knows.
    pub async fn create_rules(
        &self,
        group: &str,
        rules: &BTreeSet<SecurityGroupRule>,
        description: &str,
    ) -> Result<Vec<Rule>, Error> {
        // Neutron takes no two that it keeps as one.
        let wanted: BTreeSet<_> = rules.iter().map(normalised).collect();
        let wanted: Vec<_> = wanted.into_iter().collect();
        let mut made = Vec::new();
        for part in wanted.chunks(self.0.options.bulk.max(1)) {
            made.extend(self.create_at_once(group, part.to_vec(), description).await?);
        }
        Ok(made)
    }

    /// Makes rules by one call.
    async fn create_at_once(
        &self,
        group: &str,
        mut missing: Vec<SecurityGroupRule>,
        description: &str,
    ) -> Result<Vec<Rule>, Error> {
        let mut made = Vec::new();
        let mut failures = 0;
        while !missing.is_empty() {
            let bodies: Vec<Value> = missing
                .iter()
                .map(|rule| rule::body(group, rule, description))
                .collect();
            let request = Request::new(Operation::CreateSecurityGroupRules, group, "security-group-rules")
                .body(&json!({"security_group_rules": bodies}));
            let outcome = self
                .once(&request)
                .await
                .and_then(|answer| answer.read(answer::rules));
            let error = match outcome {
                Ok(rules) => {
                    made.extend(rules);
                    break;
                }
                Err(error) => error,
            };
            let exists = error.is_of_kind("SecurityGroupRuleExists");
            if !exists && !error.is_temporary() && !error.may_be_done() {
                return Err(error);
            }
            failures += 1;
            self.wait(failures, error).await?;
            let known = self.security_group(group).await?;
            for rule in known.into_iter().flat_map(|known| known.rules) {
                if let Some(at) = missing
                    .iter()
                    .position(|missing| rule.rule.known() == Some(missing))
                {
                    missing.swap_remove(at);
                    made.push(rule);
                }
            }
        }
        Ok(made)
    }

    /// Deletes a rule; whether it was there.
    ///
    /// # Errors
    /// When nobody knows.
    pub async fn delete_rule(&self, id: &str) -> Result<bool, Error> {
        self.delete(Operation::DeleteSecurityGroupRule, "security-group-rules", id)
            .await
    }

    /// What is called so in the project that is asked about.
    pub(super) async fn called(&self, name: &str) -> Result<Filter, Error> {
        Ok(Filter {
            project: self.project().await?,
            name: Some(name.to_owned()),
            ..Filter::default()
        })
    }

    /// Makes something. Where nobody knows whether that was done it is looked for before it is made again.
    pub(super) async fn create<T: Listed>(
        &self,
        request: &Request,
        find: impl AsyncFn() -> Result<Option<T>, Error>,
    ) -> Result<T, Error> {
        let (mut failures, mut may_be_there) = (0, false);
        loop {
            let outcome = self
                .once(request)
                .await
                .and_then(|answer| answer.read(answer::one));
            let error = match outcome {
                Ok(made) => return Ok(made),
                Err(error) if error.is_temporary() || error.may_be_done() => error,
                Err(error) => return Err(error),
            };
            failures += 1;
            may_be_there |= error.may_be_done();
            self.wait(failures, error).await?;
            if may_be_there && let Some(found) = find().await? {
                return Ok(found);
            }
        }
    }
}
