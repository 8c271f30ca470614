//! Reading lists back that [`super::json`] has written.

use picket_net::Prefix;
use picket_policy::ObjectRef;
use serde::Deserialize;
use smol_str::SmolStr;

use super::model::{Acl, AclAction, AclRule, Acls, InterfaceLists, Tag};

/// Why a text is no lists.
#[derive(Debug, thiserror::Error)]
pub enum ParseError {
    /// It is no JSON of this form.
    #[error("it is not what `picket render --target vpp-acl -o json` prints")]
    Json(#[from] serde_json::Error),
    /// A rule says what VPP refuses.
    #[error("rule {rule} of list `{tag}`: {what}")]
    Rule {
        /// The name of the list.
        tag: String,
        /// The number of the rule in it, from 0.
        rule: usize,
        /// What is wrong with it.
        what: String,
    },
    /// Two lists have one name.
    #[error("two lists are called `{0}`")]
    Twice(String),
    /// An interface has a list that is not there.
    #[error("interface `{interface}` has a list `{tag}` that is not there")]
    Unknown {
        /// The interface.
        interface: String,
        /// The name of the list.
        tag: String,
    },
    /// The pod of an interface has no namespace.
    #[error("interface `{0}`: `pod` is not `namespace/name`")]
    Pod(String),
}

#[derive(Deserialize)]
struct Written {
    acls: Vec<WrittenAcl>,
    interfaces: Vec<WrittenInterface>,
}

#[derive(Deserialize)]
struct WrittenAcl {
    tag: String,
    r: Vec<WrittenRule>,
}

#[derive(Deserialize)]
struct WrittenRule {
    is_permit: u8,
    src_prefix: String,
    dst_prefix: String,
    proto: u8,
    srcport_or_icmptype_first: u16,
    srcport_or_icmptype_last: u16,
    dstport_or_icmpcode_first: u16,
    dstport_or_icmpcode_last: u16,
    #[serde(default)]
    tcp_flags_mask: u8,
    #[serde(default)]
    tcp_flags_value: u8,
}

#[derive(Deserialize)]
struct WrittenInterface {
    interface: SmolStr,
    pod: Option<String>,
    input: Vec<String>,
    output: Vec<String>,
}

/// Lists of a node, as JSON in the form of `docs/vpp.md`.
///
/// # Errors
/// What it is no form of lists for, or which rule VPP would refuse.
pub fn parse(text: &str) -> Result<Acls, ParseError> {
    let written: Written = serde_json::from_str(text)?;
    let mut acls = Acls::default();
    for acl in written.acls {
        let rules = acl.r.iter().enumerate().map(|(number, written)| {
            rule(written).map_err(|what| ParseError::Rule {
                tag: acl.tag.clone(),
                rule: number,
                what,
            })
        });
        let rules = rules.collect::<Result<Vec<_>, _>>()?;
        let tag = Tag::installed(&acl.tag);
        let known = acls.acls.insert(tag.clone(), Acl { tag, rules }.into());
        if known.is_some() {
            return Err(ParseError::Twice(acl.tag));
        }
    }
    for interface in written.interfaces {
        let tags = |tags: &[String]| -> Result<Vec<Tag>, ParseError> {
            let known = |tag: &String| {
                let found = Tag::installed(tag);
                match acls.acls.contains_key(&found) {
                    true => Ok(found),
                    false => Err(ParseError::Unknown {
                        interface: interface.interface.to_string(),
                        tag: tag.clone(),
                    }),
                }
            };
            tags.iter().map(known).collect()
        };
        let pod = interface.pod.as_deref().map(|pod| match pod.split_once('/') {
            Some((namespace, name)) => Ok(ObjectRef::new("Pod", namespace, name)),
            None => Err(ParseError::Pod(interface.interface.to_string())),
        });
        let lists = InterfaceLists {
            pod: pod.transpose()?,
            input: tags(&interface.input)?,
            output: tags(&interface.output)?,
        };
        acls.interfaces.insert(interface.interface.clone(), lists);
    }
    Ok(acls)
}

fn rule(written: &WrittenRule) -> Result<AclRule, String> {
    let prefix = |field: &str, text: &str| {
        let (prefix, notes) = Prefix::parse(text).map_err(|error| format!("`{field}` {error}"))?;
        match notes.is_empty() {
            true => Ok(prefix),
            false => Err(format!("`{field}` is not written as a network: `{text}`")),
        }
    };
    let range = |field: &str, first: u16, last: u16| match first <= last {
        true => Ok((first, last)),
        false => Err(format!("`{field}_last` is below `{field}_first`")),
    };
    let rule = AclRule {
        action: match written.is_permit {
            0 => AclAction::Deny,
            1 => AclAction::Permit,
            2 => AclAction::PermitReflect,
            other => return Err(format!("`is_permit` is {other}: write 0, 1 or 2")),
        },
        source: prefix("src_prefix", &written.src_prefix)?,
        destination: prefix("dst_prefix", &written.dst_prefix)?,
        protocol: written.proto,
        first: range(
            "srcport_or_icmptype",
            written.srcport_or_icmptype_first,
            written.srcport_or_icmptype_last,
        )?,
        second: range(
            "dstport_or_icmpcode",
            written.dstport_or_icmpcode_first,
            written.dstport_or_icmpcode_last,
        )?,
        tcp_flags: (written.tcp_flags_mask, written.tcp_flags_value),
    };
    match rule.source.family() == rule.destination.family() {
        true => Ok(rule),
        false => Err("`src_prefix` and `dst_prefix` are of different families".to_owned()),
    }
}
