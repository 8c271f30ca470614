//! Ports, and the security groups that they have.

use std::collections::BTreeSet;

use serde_json::json;
use smol_str::SmolStr;

use super::Neutron;
use super::answer::{self, Port};
use super::call::Operation;
use super::error::Error;
use super::filter::{Filter, escaped};
use super::request::Request;

const PATH: &str = "ports";

/// What is read of ports in lists.
const FIELDS: [&str; 15] = [
    "id",
    "project_id",
    "name",
    "description",
    "network_id",
    "device_owner",
    "device_id",
    "fixed_ips",
    "allowed_address_pairs",
    "security_groups",
    "port_security_enabled",
    "binding:vnic_type",
    "status",
    "tags",
    "revision_number",
];

impl Neutron {
    /// All ports that fit, by id.
    ///
    /// # Errors
    /// When they are not had.
    pub async fn ports(&self, filter: &Filter) -> Result<Vec<Port>, Error> {
        let query = filter.query_for(&FIELDS);
        self.list(Operation::ListPorts, PATH, &query).await
    }

    /// A port, if it is there.
    ///
    /// # Errors
    /// When nobody knows.
    pub async fn port(&self, id: &str) -> Result<Option<Port>, Error> {
        self.show(Operation::ShowPort, PATH, id).await
    }

    /// Gives a port exactly these security groups, if it has those that are known of it still, and is still what it was by its name,
    /// tags, addresses and device; the port as it is then. What else has become of it makes no difference.
    ///
    /// # Errors
    /// When it has others by now, or may be another pod's ([`Error::Changed`]), or does not have these then, or nobody knows.
    pub async fn update_port_groups(&self, port: &Port, groups: &BTreeSet<SmolStr>) -> Result<Port, Error> {
        let path = format!("{PATH}/{}", escaped(&port.id));
        let body = json!({"port": {"security_groups": groups}});
        let mut revision = port.revision_number;
        let mut failures = 0;
        loop {
            let request = Request::new(Operation::UpdatePort, &port.id, &path)
                .body(&body)
                .if_match(revision);
            let outcome = self
                .once(&request)
                .await
                .and_then(|answer| answer.read(answer::one));
            let error: Error = match outcome {
                Ok(port) => return Ok(port),
                Err(error) => error,
            };
            let is_stale = error.has_status(412);
            if !is_stale && !error.is_temporary() && !error.may_be_done() {
                return Err(error);
            }
            failures += 1;
            self.wait(failures, error).await?;
            // Also where it is only not known whether the call was done.
            if let Some(now) = self.port(&port.id).await? {
                let is_done = now.security_groups == *groups;
                let is_as_known = is_done || now.security_groups == port.security_groups;
                if !is_as_known || !is_same(&now, port) {
                    return Err(Error::Changed { call: request.call });
                }
                if is_done {
                    return Ok(now);
                }
                revision = now.revision_number;
            }
        }
    }
}

/// Whether nothing has changed by which it is known whose a port is, and which groups it may have.
fn is_same(now: &Port, known: &Port) -> bool {
    now.name == known.name
        && now.tags == known.tags
        && now.fixed_ips == known.fixed_ips
        && now.device_owner == known.device_owner
        && now.allowed_address_pairs == known.allowed_address_pairs
        && now.port_security_enabled == known.port_security_enabled
}
