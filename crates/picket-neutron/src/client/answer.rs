//! What Neutron and Keystone answer, read.
//!
//! A server may answer anything: nothing here panics, and an object without an id that can be used is an error of the whole
//! answer. Fields that may be null or absent are read alike.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use picket_net::{Prefix, parse_address};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use smol_str::SmolStr;

use super::rule::{RawRule, Rule};
use crate::plan::prefix;

/// The most characters of an id. Neutron's are UUIDs; its database has room for 36, and for 255 of projects.
const LONGEST_ID: usize = 255;

/// A security group, as Neutron has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecurityGroup {
    /// By which all else names it.
    pub id: SmolStr,
    /// The project that it belongs to.
    pub project: SmolStr,
    /// What it is called. Others may be called the same.
    pub name: SmolStr,
    /// For people.
    pub description: String,
    /// What it is found by.
    pub tags: BTreeSet<SmolStr>,
    /// Grows with each change of it and of its rules; `None` where Neutron does not count (`standard-attr-revisions`).
    pub revision_number: Option<i64>,
    /// Whether replies pass by themselves.
    pub stateful: bool,
    /// Its rules, by id.
    pub rules: Vec<Rule>,
}

/// An address group, as Neutron has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddressGroup {
    /// By which all else names it.
    pub id: SmolStr,
    /// The project that it belongs to.
    pub project: SmolStr,
    /// What it is called. Others may be called the same.
    pub name: SmolStr,
    /// For people.
    pub description: String,
    /// Grows with each change; `None` where Neutron does not count.
    pub revision_number: Option<i64>,
    /// Its addresses.
    pub addresses: BTreeSet<Prefix>,
}

/// A port, as Neutron has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Port {
    /// By which all else names it.
    pub id: SmolStr,
    /// The project that it belongs to.
    pub project: SmolStr,
    /// What it is called.
    pub name: SmolStr,
    /// For people.
    pub description: String,
    /// Its network.
    pub network_id: SmolStr,
    /// What it is for, as `compute:nova`.
    pub device_owner: SmolStr,
    /// Whose it is, as the id of a server.
    pub device_id: SmolStr,
    /// Its addresses.
    pub fixed_ips: BTreeSet<IpAddr>,
    /// What else it may send from.
    pub allowed_address_pairs: BTreeSet<Prefix>,
    /// The ids of its security groups.
    pub security_groups: BTreeSet<SmolStr>,
    /// Whether security groups count for it at all.
    pub port_security_enabled: bool,
    /// How it is attached, as `normal` or `direct`.
    pub vnic_type: SmolStr,
    /// As `ACTIVE`.
    pub status: SmolStr,
    /// What it is found by.
    pub tags: BTreeSet<SmolStr>,
    /// Grows with each change; `None` where Neutron does not count.
    pub revision_number: Option<i64>,
}

/// How much there may be of something in a project.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quota {
    /// The most there may be; `None` where there is no limit.
    pub limit: Option<u64>,
    /// How much there is.
    pub used: u64,
    /// How much others are about to make.
    pub reserved: u64,
}

impl Quota {
    /// How many more there may be; `None` where there is no limit.
    pub fn left(&self) -> Option<u64> {
        let left = |limit: u64| limit.saturating_sub(self.used.saturating_add(self.reserved));
        self.limit.map(left)
    }
}

/// A part of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page<T> {
    /// What is in it.
    pub items: Vec<T>,
    /// Whether Neutron says that there is more.
    pub has_next: bool,
}

/// An object of which lists are read.
pub trait Listed: Sized {
    /// Its name in answers, and that of lists of it.
    const NAMES: (&'static str, &'static str);

    /// By which all else names it.
    fn id(&self) -> &SmolStr;

    /// Reads one.
    ///
    /// # Errors
    /// When it is none: what is wrong.
    fn read(text: &str) -> Result<Self, String>;
}

impl Listed for SecurityGroup {
    const NAMES: (&'static str, &'static str) = ("security_group", "security_groups");

    fn id(&self) -> &SmolStr {
        &self.id
    }

    fn read(text: &str) -> Result<Self, String> {
        let raw: RawSecurityGroup = json(text)?;
        let rules = raw.security_group_rules.into_iter().map(read_rule);
        Ok(Self {
            id: id(raw.common.id)?,
            project: raw.common.project_id,
            name: raw.common.name,
            description: raw.common.description,
            tags: raw.common.tags,
            revision_number: raw.common.revision_number,
            stateful: raw.stateful.unwrap_or(true),
            rules: rules.collect::<Result<_, _>>()?,
        })
    }
}

impl Listed for AddressGroup {
    const NAMES: (&'static str, &'static str) = ("address_group", "address_groups");

    fn id(&self) -> &SmolStr {
        &self.id
    }

    fn read(text: &str) -> Result<Self, String> {
        let raw: RawAddressGroup = json(text)?;
        let addresses = raw.addresses.iter().map(|text| {
            let prefix = prefix(text);
            prefix.ok_or_else(|| format!("`{text}` is no address"))
        });
        Ok(Self {
            addresses: addresses.collect::<Result<_, _>>()?,
            id: id(raw.common.id)?,
            project: raw.common.project_id,
            name: raw.common.name,
            description: raw.common.description,
            revision_number: raw.common.revision_number,
        })
    }
}

impl Listed for Port {
    const NAMES: (&'static str, &'static str) = ("port", "ports");

    fn id(&self) -> &SmolStr {
        &self.id
    }

    fn read(text: &str) -> Result<Self, String> {
        let raw: RawPort = json(text)?;
        let addresses = raw.fixed_ips.iter().map(|fixed| {
            let address = parse_address(&fixed.ip_address);
            address.ok_or_else(|| format!("`{}` is no address", fixed.ip_address))
        });
        let pairs = raw.allowed_address_pairs.iter().map(|pair| {
            let prefix = prefix(&pair.ip_address);
            prefix.ok_or_else(|| format!("`{}` is no address", pair.ip_address))
        });
        Ok(Self {
            allowed_address_pairs: pairs.collect::<Result<_, _>>()?,
            fixed_ips: addresses.collect::<Result<_, _>>()?,
            security_groups: raw
                .security_groups
                .into_iter()
                .map(id)
                .collect::<Result<_, _>>()?,
            id: id(raw.common.id)?,
            project: raw.common.project_id,
            name: raw.common.name,
            description: raw.common.description,
            network_id: raw.network_id,
            device_owner: raw.device_owner,
            device_id: raw.device_id,
            port_security_enabled: raw.port_security_enabled.unwrap_or(true),
            vnic_type: raw.vnic_type.unwrap_or_else(|| "normal".into()),
            status: raw.status,
            tags: raw.common.tags,
            revision_number: raw.common.revision_number,
        })
    }
}

/// A part of a list of `T`.
///
/// # Errors
/// When it is none: what is wrong.
pub fn page<T: Listed>(body: &[u8]) -> Result<Page<T>, String> {
    let mut fields: BTreeMap<String, &RawValue> = json(text(body)?)?;
    let (_, plural) = T::NAMES;
    let items = fields
        .remove(plural)
        .ok_or_else(|| format!("`{plural}` is missing"))?;
    let items: Vec<&RawValue> = json(items.get())?;
    let links: Vec<Link> = match fields.remove(&format!("{plural}_links")) {
        Some(links) => json::<Option<_>>(links.get())?.unwrap_or_default(),
        None => Vec::new(),
    };
    Ok(Page {
        items: items
            .into_iter()
            .map(|item| T::read(item.get()))
            .collect::<Result<_, _>>()?,
        has_next: links.iter().any(|link| link.rel == "next"),
    })
}

/// One `T`.
///
/// # Errors
/// When it is none: what is wrong.
pub fn one<T: Listed>(body: &[u8]) -> Result<T, String> {
    let mut fields: BTreeMap<String, &RawValue> = json(text(body)?)?;
    let (name, _) = T::NAMES;
    let item = fields
        .remove(name)
        .ok_or_else(|| format!("`{name}` is missing"))?;
    T::read(item.get())
}

/// Rules that were made.
///
/// # Errors
/// When there are none: what is wrong.
pub fn rules(body: &[u8]) -> Result<Vec<Rule>, String> {
    #[derive(Deserialize)]
    struct Rules {
        security_group_rules: Vec<RawRule>,
    }
    let rules: Rules = json(text(body)?)?;
    rules.security_group_rules.into_iter().map(read_rule).collect()
}

/// The aliases of extensions.
///
/// # Errors
/// When there are none: what is wrong.
pub fn extensions(body: &[u8]) -> Result<BTreeSet<SmolStr>, String> {
    #[derive(Deserialize)]
    struct Extensions {
        extensions: Vec<Extension>,
    }
    #[derive(Deserialize)]
    struct Extension {
        alias: SmolStr,
    }
    let answer: Extensions = json(text(body)?)?;
    Ok(answer.extensions.into_iter().map(|one| one.alias).collect())
}

/// Quotas by what they are of, as `security_group_rule`.
///
/// # Errors
/// When there are none: what is wrong.
pub fn quotas(body: &[u8]) -> Result<BTreeMap<SmolStr, Quota>, String> {
    #[derive(Deserialize)]
    struct Quotas {
        quota: BTreeMap<SmolStr, RawQuota>,
    }
    #[derive(Deserialize)]
    struct RawQuota {
        limit: i64,
        #[serde(default)]
        used: u64,
        #[serde(default)]
        reserved: u64,
    }
    let answer: Quotas = json(text(body)?)?;
    let quotas = answer.quota.into_iter().map(|(of, raw)| {
        let quota = Quota {
            limit: u64::try_from(raw.limit).ok(),
            used: raw.used,
            reserved: raw.reserved,
        };
        (of, quota)
    });
    Ok(quotas.collect())
}

/// What a server calls an error, and what it says to people: Neutron's way, Keystone's, or a page.
pub fn error(body: &[u8]) -> (String, String) {
    #[derive(Deserialize)]
    struct Words {
        #[serde(default, rename = "type")]
        kind: Option<String>,
        #[serde(default)]
        title: Option<String>,
        #[serde(default)]
        message: Option<String>,
    }
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Inner {
        Words(Words),
        Text(String),
    }
    let shown = String::from_utf8_lossy(body);
    let fields: BTreeMap<String, &RawValue> = json(&shown).unwrap_or_default();
    let inner = ["NeutronError", "error", "message"]
        .iter()
        .find_map(|name| fields.get(*name));
    match inner.and_then(|inner| json::<Inner>(inner.get()).ok()) {
        Some(Inner::Words(words)) => (
            words.kind.or(words.title).unwrap_or_default(),
            words.message.unwrap_or_default(),
        ),
        Some(Inner::Text(message)) => (String::new(), message),
        None => (String::new(), without_markup(&shown)),
    }
}

/// The words of a page of HTML.
fn without_markup(page: &str) -> String {
    let mut words = String::new();
    let mut is_markup = false;
    for letter in page.chars() {
        match letter {
            '<' => is_markup = true,
            '>' => is_markup = false,
            _ if is_markup => continue,
            letter if !letter.is_whitespace() => {
                words.push(letter);
                continue;
            }
            _ => {}
        }
        if !words.ends_with(' ') {
            words.push(' ');
        }
    }
    words
}

fn text(body: &[u8]) -> Result<&str, String> {
    std::str::from_utf8(body).map_err(|error| error.to_string())
}

pub(super) fn json<'a, T: Deserialize<'a>>(text: &'a str) -> Result<T, String> {
    serde_json::from_str(text).map_err(|error| error.to_string())
}

fn read_rule(raw: RawRule) -> Result<Rule, String> {
    let rule = raw.read();
    id(rule.id.clone())?;
    Ok(rule)
}

/// An id that may stand in a path.
fn id(id: SmolStr) -> Result<SmolStr, String> {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    match !id.is_empty() && id.len() <= LONGEST_ID && id.bytes().all(fits) {
        true => Ok(id),
        false => Err(format!("`{id}` is no id")),
    }
}

#[derive(Deserialize)]
struct Link {
    #[serde(default)]
    rel: String,
}

/// What all objects have.
#[derive(Deserialize)]
struct Common {
    id: SmolStr,
    #[serde(default, deserialize_with = "or_default")]
    project_id: SmolStr,
    #[serde(default, deserialize_with = "or_default")]
    name: SmolStr,
    #[serde(default, deserialize_with = "or_default")]
    description: String,
    #[serde(default, deserialize_with = "or_default")]
    tags: BTreeSet<SmolStr>,
    #[serde(default)]
    revision_number: Option<i64>,
}

#[derive(Deserialize)]
struct RawSecurityGroup {
    #[serde(flatten)]
    common: Common,
    #[serde(default)]
    stateful: Option<bool>,
    #[serde(default, deserialize_with = "or_default")]
    security_group_rules: Vec<RawRule>,
}

#[derive(Deserialize)]
struct RawAddressGroup {
    #[serde(flatten)]
    common: Common,
    #[serde(default, deserialize_with = "or_default")]
    addresses: Vec<String>,
}

#[derive(Deserialize)]
struct RawPort {
    #[serde(flatten)]
    common: Common,
    #[serde(default, deserialize_with = "or_default")]
    network_id: SmolStr,
    #[serde(default, deserialize_with = "or_default")]
    device_owner: SmolStr,
    #[serde(default, deserialize_with = "or_default")]
    device_id: SmolStr,
    #[serde(default, deserialize_with = "or_default")]
    fixed_ips: Vec<FixedIp>,
    #[serde(default, deserialize_with = "or_default")]
    allowed_address_pairs: Vec<FixedIp>,
    #[serde(default, deserialize_with = "or_default")]
    security_groups: Vec<SmolStr>,
    #[serde(default)]
    port_security_enabled: Option<bool>,
    #[serde(default, rename = "binding:vnic_type")]
    vnic_type: Option<SmolStr>,
    #[serde(default, deserialize_with = "or_default")]
    status: SmolStr,
}

#[derive(Deserialize)]
struct FixedIp {
    ip_address: String,
}

fn or_default<'de, D: Deserializer<'de>, T: DeserializeOwned + Default>(from: D) -> Result<T, D::Error> {
    Option::deserialize(from).map(Option::unwrap_or_default)
}
