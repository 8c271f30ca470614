//! Interfaces on secondary networks, as the annotations of pods have them.
//!
//! `network-status` is what Multus says it did, `networks` what was asked for (Kubernetes Network Custom Resource
//! Definition De-facto Standard, version 1.3). The status counts where there is one, and both where not all of it can be read.

use std::net::IpAddr;

use picket_net::parse_address;
use picket_policy::{Cursor, NetworkName, Reader, Severity};
use serde::Deserialize;
use serde_json::value::RawValue;
use smol_str::{SmolStr, format_smolstr};

use super::field::{Field, Fields};
use crate::codes;
use crate::wire::is_interface_name;
use crate::written::{Located, WrittenAttachment};

/// What was done, and the name of the same annotation in older versions.
const STATUS: [&str; 2] = [
    "k8s.v1.cni.cncf.io/network-status",
    "k8s.v1.cni.cncf.io/networks-status",
];

/// What was asked for.
const NETWORKS: &str = "k8s.v1.cni.cncf.io/networks";

/// The interfaces of a pod in `namespace` with this metadata.
pub(super) fn parse<'a>(
    reader: &mut Reader<'a>,
    metadata: &Field<'a>,
    namespace: &str,
) -> Vec<WrittenAttachment> {
    let annotations = reader.field(metadata, "annotations");
    let annotations = annotations.filter(|field| field.fields(reader).is_ok());
    // A value that is no text has been reported with the other annotations.
    let mut text = |key| {
        let field = reader.field(&annotations, key)?;
        let text = field.node().as_str()?.trim().to_owned();
        (!text.is_empty()).then_some((field, text))
    };
    let status = STATUS.into_iter().find_map(&mut text);
    let asked = text(NETWORKS);
    let mut done = Reading::new(reader, namespace);
    let is_known = status.is_some_and(|(at, text)| done.status(&at, &text));
    let mut found = done.found;
    // Where not all of what was done can be read, what was asked for says of more interfaces that they are restricted.
    if !is_known && let Some((at, text)) = asked {
        let mut asked = Reading::new(reader, namespace);
        if text.starts_with('[') {
            asked.selections(&at, &text);
        } else {
            asked.list(&at, &text);
        }
        let is_new = |one: &WrittenAttachment| found.iter().all(|other| other.interface != one.interface);
        let more: Vec<_> = asked.found.into_iter().filter(is_new).collect();
        found.extend(more);
    }
    found
}

/// An item of `network-status`.
#[derive(Deserialize)]
struct Status {
    #[serde(default)]
    name: String,
    #[serde(default)]
    interface: Option<String>,
    #[serde(default)]
    ips: Option<Vec<String>>,
    #[serde(default)]
    default: bool,
}

/// An item of `networks`, where it is JSON.
#[derive(Deserialize)]
struct Selection {
    #[serde(default)]
    name: String,
    #[serde(default)]
    namespace: Option<String>,
    #[serde(default)]
    interface: Option<String>,
    #[serde(default)]
    ips: Option<Vec<String>>,
}

struct Reading<'r, 'a> {
    reader: &'r mut Reader<'a>,
    namespace: &'r str,
    found: Vec<WrittenAttachment>,
}

impl<'r, 'a> Reading<'r, 'a> {
    fn new(reader: &'r mut Reader<'a>, namespace: &'r str) -> Self {
        Self {
            reader,
            namespace,
            found: Vec::new(),
        }
    }

    /// Whether all of it could be read.
    fn status(&mut self, at: &Cursor<'a>, text: &str) -> bool {
        let Some(items) = self.json::<Status>(at, text) else {
            return false;
        };
        let mut all = true;
        for item in items {
            let Some(item) = item else {
                all = false;
                continue;
            };
            let Some(network) = (!item.default).then(|| self.network(at, &item.name)) else {
                continue;
            };
            let interface = item.interface.unwrap_or_default();
            all &= network
                .is_some_and(|network| self.attach(at, network, &interface, &item.ips.unwrap_or_default()));
        }
        all
    }

    fn selections(&mut self, at: &Cursor<'a>, text: &str) {
        let items = self.json::<Selection>(at, text).unwrap_or_default();
        for (item, number) in items.into_iter().zip(1..) {
            let Some(item) = item else { continue };
            let name = match item.namespace.filter(|namespace| !namespace.is_empty()) {
                Some(namespace) => format!("{namespace}/{}", item.name),
                None => item.name,
            };
            let interface = item.interface.filter(|name| !name.is_empty());
            let interface = interface.unwrap_or_else(|| format!("net{number}"));
            if let Some(network) = self.network(at, &name) {
                self.attach(at, network, &interface, &item.ips.unwrap_or_default());
            }
        }
    }

    fn list(&mut self, at: &Cursor<'a>, text: &str) {
        for (entry, number) in text.split(',').zip(1..) {
            let (name, interface) = match entry.trim().split_once('@') {
                Some((name, interface)) => (name, SmolStr::from(interface)),
                None => (entry.trim(), format_smolstr!("net{number}")),
            };
            if let Some(network) = self.network(at, name) {
                self.attach(at, network, &interface, &[]);
            }
        }
    }

    /// The items of a list, in order. One that cannot be read leaves the others.
    fn json<T: for<'de> Deserialize<'de>>(&mut self, at: &Cursor<'a>, text: &str) -> Option<Vec<Option<T>>> {
        let items: Vec<&RawValue> = match serde_json::from_str(text) {
            Ok(items) => items,
            Err(error) => {
                self.error(at, format!("Invalid value: no list of networks as JSON: {error}"));
                return None;
            }
        };
        let items = items.into_iter().enumerate().map(|(number, item)| {
            let read = serde_json::from_str(item.get());
            if let Err(error) = &read {
                self.error(at, format!("Invalid value: item {number} is no network: {error}"));
            }
            read.ok()
        });
        Some(items.collect())
    }

    fn network(&mut self, at: &Cursor<'a>, name: &str) -> Option<NetworkName> {
        let network = NetworkName::parse(name, self.namespace);
        if network.is_none() {
            self.error(
                at,
                format!("Invalid value: {name:?}: a network is `name` or `namespace/name`"),
            );
        }
        network
    }

    /// Adds an interface; whether it is one.
    fn attach(
        &mut self,
        at: &Cursor<'a>,
        network: NetworkName,
        interface: &str,
        addresses: &[String],
    ) -> bool {
        if !is_interface_name(interface) {
            let message = format!("Invalid value: {interface:?}: no interface on Linux has such a name");
            self.error(at, message);
            return false;
        }
        if self.found.iter().any(|other| other.interface == interface) {
            self.error(
                at,
                format!("Duplicate value: {interface:?}: the pod has this interface already"),
            );
            return false;
        }
        let span = self.reader.source().span(at.node().range.clone());
        let mut known = Vec::new();
        for text in addresses {
            match address(text) {
                Some(value) => known.push(Located {
                    value,
                    span: span.clone(),
                }),
                None => self.error(at, format!("`{text}` is no IP address")),
            }
        }
        self.found.push(WrittenAttachment {
            network,
            interface: interface.into(),
            addresses: known,
        });
        true
    }

    fn error(&mut self, at: &Cursor<'a>, message: String) {
        let diagnostic = self.reader.report(codes::NETWORKS, Severity::Error, at, message);
        diagnostic.notes.push("it is left out".to_owned());
    }
}

/// An address, with or without the length of its prefix.
fn address(text: &str) -> Option<IpAddr> {
    let address = text.split_once('/').map_or(text, |(address, _)| address);
    parse_address(address)
}
