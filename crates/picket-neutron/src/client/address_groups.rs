//! Address groups.

use std::collections::BTreeSet;

use picket_net::Prefix;
use serde_json::json;

use super::Neutron;
use super::answer::{self, AddressGroup};
use super::call::Operation;
use super::error::Error;
use super::filter::{Filter, escaped};
use super::request::Request;

const PATH: &str = "address-groups";

impl Neutron {
    /// All address groups that fit, by id.
    ///
    /// # Errors
    /// When they are not had.
    pub async fn address_groups(&self, filter: &Filter) -> Result<Vec<AddressGroup>, Error> {
        self.list(Operation::ListAddressGroups, PATH, &filter.query())
            .await
    }

    /// An address group, if it is there.
    ///
    /// # Errors
    /// When nobody knows.
    pub async fn address_group(&self, id: &str) -> Result<Option<AddressGroup>, Error> {
        self.show(Operation::ShowAddressGroup, PATH, id).await
    }

    /// Makes an address group with these addresses.
    ///
    /// Where nobody knows whether one was made, that is looked up: one with this name, description and addresses counts as the
    /// one.
    ///
    /// # Errors
    /// When none was made, or nobody knows.
    pub async fn create_address_group(
        &self,
        name: &str,
        description: &str,
        addresses: &BTreeSet<Prefix>,
    ) -> Result<AddressGroup, Error> {
        let group = json!({"name": name, "description": description, "addresses": texts(addresses)});
        let request =
            Request::new(Operation::CreateAddressGroup, name, PATH).body(&json!({"address_group": group}));
        let find = async || {
            let filter = self.called(name).await?;
            let mut all = self.address_groups(&filter).await?.into_iter();
            Ok(all.find(|group| group.description == description && group.addresses == *addresses))
        };
        self.create(&request, find).await
    }

    /// Adds addresses that the group does not have yet; the group as it is then.
    ///
    /// # Errors
    /// When it does not have all of them then, or nobody knows.
    pub async fn add_addresses(&self, id: &str, addresses: &BTreeSet<Prefix>) -> Result<AddressGroup, Error> {
        let left = |group: &AddressGroup| addresses.difference(&group.addresses).copied().collect();
        self.change_addresses(Operation::AddAddresses, id, addresses.clone(), left)
            .await
    }

    /// Takes addresses away that the group has; the group as it is then.
    ///
    /// # Errors
    /// When it still has some of them then, or nobody knows.
    pub async fn remove_addresses(
        &self,
        id: &str,
        addresses: &BTreeSet<Prefix>,
    ) -> Result<AddressGroup, Error> {
        let left = |group: &AddressGroup| addresses.intersection(&group.addresses).copied().collect();
        self.change_addresses(Operation::RemoveAddresses, id, addresses.clone(), left)
            .await
    }

    /// Makes a change until nothing of it is left to do. Neutron makes none of it where a part is there already.
    async fn change_addresses(
        &self,
        operation: Operation,
        id: &str,
        mut changes: BTreeSet<Prefix>,
        left: impl Fn(&AddressGroup) -> BTreeSet<Prefix>,
    ) -> Result<AddressGroup, Error> {
        let action = match operation {
            Operation::AddAddresses => "add_addresses",
            _ => "remove_addresses",
        };
        let path = format!("{PATH}/{}/{action}", escaped(id));
        let mut failures = 0;
        loop {
            let request = Request::new(operation, id, &path).body(&json!({"addresses": texts(&changes)}));
            let outcome = self
                .once(&request)
                .await
                .and_then(|answer| answer.read(answer::one));
            let error = match outcome {
                Ok(group) => return Ok(group),
                Err(error) => error,
            };
            let is_there = ["AddressesAlreadyExist", "AddressesNotFound"]
                .iter()
                .any(|kind| error.is_of_kind(kind));
            if !is_there && !error.is_temporary() && !error.may_be_done() {
                return Err(error);
            }
            failures += 1;
            self.wait(failures, error).await?;
            if let Some(group) = self.address_group(id).await? {
                changes = left(&group);
                if changes.is_empty() {
                    return Ok(group);
                }
            }
        }
    }

    /// Deletes an address group; whether it was there.
    ///
    /// # Errors
    /// When it is in use ([`Error::is_in_use`]), or nobody knows.
    pub async fn delete_address_group(&self, id: &str) -> Result<bool, Error> {
        self.delete(Operation::DeleteAddressGroup, PATH, id).await
    }
}

fn texts(addresses: &BTreeSet<Prefix>) -> Vec<String> {
    addresses.iter().map(Prefix::to_string).collect()
}
