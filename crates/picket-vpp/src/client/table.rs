//! Which messages a VPP has, by which numbers, and whether they are those that we speak.

use std::collections::BTreeMap;
use std::fmt;

use super::definition::{Definition, Message};
use super::error::{Malformed, Problem};
use super::field::MessageNumbers;
use super::message::*;

/// What a user of VPP needs it for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Feature {
    /// Access control lists, of the ACL plugin.
    Acls,
    /// Interfaces, their tags and their events.
    Interfaces,
    /// Rules of the session layer that is on.
    SessionRules,
    /// Rules and namespaces of the session layer, and switching it on.
    Sessions,
}

/// A message that VPP lacks, or has in a form that is not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Incompatible {
    /// The name of the message.
    pub message: &'static str,
    /// The CRC of the form that is known.
    pub crc: u32,
    /// What VPP has instead.
    pub found: Found,
}

/// What VPP has instead of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// Nothing: a plugin is not loaded, or VPP is older than the message.
    Nothing,
    /// Only what came before it, under this name.
    Predecessor(&'static str),
    /// The same with other fields.
    Crc {
        /// What says so.
        crc: u32,
        /// The last release that is known to have had that.
        release: Option<&'static str>,
    },
}

impl fmt::Display for Incompatible {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { message, crc, found } = self;
        match found {
            Found::Nothing => write!(
                f,
                "VPP has no `{message}` with CRC {crc:08x}: the plugin that has it is not loaded, or VPP is too old"
            ),
            Found::Predecessor(name) => write!(
                f,
                "VPP has no `{message}` with CRC {crc:08x}, only the older `{name}`: VPP is too old"
            ),
            Found::Crc {
                crc: theirs,
                release: Some(release),
            } => write!(
                f,
                "VPP has `{message}` with CRC {theirs:08x}, as release {release} had, and {crc:08x} is needed: \
                 VPP is too old"
            ),
            Found::Crc {
                crc: theirs,
                release: None,
            } => write!(
                f,
                "VPP has `{message}` with CRC {theirs:08x}, and {crc:08x} is needed"
            ),
        }
    }
}

/// CRCs that messages had, and the last release in which they are known to have been.
const OLDER: [(&str, u32, &str); 4] = [
    (AclAddReplace::DEFINITION.name, 0x1cab_deab, "20.05"),
    (AclDetails::DEFINITION.name, 0x7a97_f21c, "20.05"),
    (SessionRuleAddDel::DEFINITION.name, 0xe31f_9443, "20.05"),
    (SessionRuleAddDel::DEFINITION.name, 0xe489_5422, "21.06"),
];

/// What was there before a message, the newest first.
const PREDECESSORS: [(&str, &str); 3] = [
    (AppNamespaceAddDelV4::DEFINITION.name, "app_namespace_add_del_v3"),
    (AppNamespaceAddDelV4::DEFINITION.name, "app_namespace_add_del_v2"),
    (AppNamespaceAddDelV4::DEFINITION.name, "app_namespace_add_del"),
];

/// Messages of which one group is enough: what is used, and what is used of a VPP that lacks it.
struct Need {
    newest: &'static [Definition],
    older: &'static [Definition],
}

/// Messages that have only one form.
const fn all(newest: &'static [Definition]) -> Need {
    Need { newest, older: &[] }
}

/// What every connection needs.
const ALWAYS: Need = all(&[ControlPing::DEFINITION, ControlPingReply::DEFINITION]);

const ACLS: [Need; 1] = [all(&[
    AclPluginGetVersion::DEFINITION,
    AclPluginGetVersionReply::DEFINITION,
    AclAddReplace::DEFINITION,
    AclAddReplaceReply::DEFINITION,
    AclDel::DEFINITION,
    AclDelReply::DEFINITION,
    AclDump::DEFINITION,
    AclDetails::DEFINITION,
    AclInterfaceSetAclList::DEFINITION,
    AclInterfaceSetAclListReply::DEFINITION,
    AclInterfaceListDump::DEFINITION,
    AclInterfaceListDetails::DEFINITION,
])];

const INTERFACES: [Need; 1] = [all(&[
    SwInterfaceDump::DEFINITION,
    SwInterfaceDetails::DEFINITION,
    WantInterfaceEvents::DEFINITION,
    WantInterfaceEventsReply::DEFINITION,
    SwInterfaceEvent::DEFINITION,
    SwInterfaceTagAddDel::DEFINITION,
    SwInterfaceTagAddDelReply::DEFINITION,
])];

const ADD_DEL: Need = all(&[SessionRuleAddDel::DEFINITION, SessionRuleAddDelReply::DEFINITION]);

const LISTED: Need = Need {
    newest: &[SessionRulesV2Dump::DEFINITION, SessionRulesV2Details::DEFINITION],
    older: &[SessionRulesDump::DEFINITION, SessionRulesDetails::DEFINITION],
};

const SESSION_RULES: [Need; 2] = [ADD_DEL, LISTED];

const SESSIONS: [Need; 4] = [
    ADD_DEL,
    LISTED,
    all(&[
        AppNamespaceAddDelV4::DEFINITION,
        AppNamespaceAddDelV4Reply::DEFINITION,
    ]),
    Need {
        newest: &[
            SessionEnableDisableV2::DEFINITION,
            SessionEnableDisableV2Reply::DEFINITION,
        ],
        older: &[
            SessionEnableDisable::DEFINITION,
            SessionEnableDisableReply::DEFINITION,
        ],
    },
];

impl Feature {
    fn needs(self) -> &'static [Need] {
        match self {
            Self::Acls => &ACLS,
            Self::Interfaces => &INTERFACES,
            Self::SessionRules => &SESSION_RULES,
            Self::Sessions => &SESSIONS,
        }
    }
}

/// The messages of a VPP that we know by name, with their CRCs and numbers.
#[derive(Debug, Default)]
pub(super) struct Table(BTreeMap<&'static str, BTreeMap<u32, u16>>);

impl Table {
    /// Those among all that VPP says it has.
    pub(super) fn of(numbers: &MessageNumbers) -> Result<Self, Malformed> {
        let names = MESSAGES.iter().map(|known| known.name);
        let older = PREDECESSORS.iter().map(|(_, older)| *older);
        let known: BTreeMap<&[u8], &'static str> =
            names.chain(older).map(|name| (name.as_bytes(), name)).collect();
        let mut table = Self::default();
        let mut taken = BTreeMap::new();
        for (id, label) in &numbers.0 {
            let Some((name, crc)) = split(label.as_bytes()) else {
                continue;
            };
            let Some(&name) = known.get(name) else { continue };
            if taken.insert(*id, name).is_some() {
                return Err(Malformed {
                    message: SockclntCreateReply::DEFINITION.name,
                    field: "message_table",
                    problem: Problem::Twice(*id),
                });
            }
            table.0.entry(name).or_default().insert(crc, *id);
        }
        Ok(table)
    }

    /// The number of a message of the form that we know, or what there is instead.
    pub(super) fn id(&self, definition: &Definition) -> Result<u16, Incompatible> {
        let forms = self.0.get(definition.name);
        let id = forms.and_then(|forms| forms.get(&definition.crc));
        id.copied().ok_or_else(|| Incompatible {
            message: definition.name,
            crc: definition.crc,
            found: self.instead(definition),
        })
    }

    fn instead(&self, definition: &Definition) -> Found {
        let forms = self.0.get(definition.name);
        if let Some((&crc, _)) = forms.and_then(BTreeMap::first_key_value) {
            let older = OLDER
                .iter()
                .find(|(name, older, _)| *name == definition.name && *older == crc);
            let release = older.map(|(_, _, release)| *release);
            return Found::Crc { crc, release };
        }
        PREDECESSORS
            .iter()
            .find(|(name, older)| *name == definition.name && self.0.contains_key(older))
            .map_or(Found::Nothing, |(_, older)| Found::Predecessor(older))
    }

    /// Everything that these features need and that is not there.
    pub(super) fn lacks(&self, features: &[Feature]) -> Vec<Incompatible> {
        let missing = |definitions: &[Definition]| {
            let missing = definitions.iter().filter_map(|one| self.id(one).err());
            missing.collect::<Vec<_>>()
        };
        let needs = features.iter().flat_map(|feature| feature.needs());
        let lacks = std::iter::once(&ALWAYS).chain(needs).flat_map(|need| {
            let has_older = !need.older.is_empty() && missing(need.older).is_empty();
            if has_older {
                Vec::new()
            } else {
                missing(need.newest)
            }
        });
        lacks.collect()
    }
}

/// A name and its CRC, which are joined by a low line.
fn split(label: &[u8]) -> Option<(&[u8], u32)> {
    let (name, crc) = label.split_at_checked(label.len().checked_sub(8)?)?;
    let crc = std::str::from_utf8(crc).ok()?;
    let is_hex = crc.bytes().all(|digit| digit.is_ascii_hexdigit());
    let crc = u32::from_str_radix(crc, 16).ok().filter(|_| is_hex)?;
    Some((name.strip_suffix(b"_")?, crc))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::value::Label;

    /// All messages, numbered, of which `change` makes others.
    fn table(change: impl Fn(&mut Vec<String>)) -> Table {
        let mut names: Vec<_> = MESSAGES
            .iter()
            .map(|known| format!("{}_{:08x}", known.name, known.crc))
            .collect();
        change(&mut names);
        let numbers = (100..).zip(names.iter().map(|name| Label::new(name).unwrap()));
        Table::of(&MessageNumbers(numbers.collect())).unwrap()
    }

    fn lacks(features: &[Feature], change: impl Fn(&mut Vec<String>)) -> Vec<String> {
        let lacks = table(change).lacks(features);
        lacks.iter().map(Incompatible::to_string).collect()
    }

    fn replace(from: &'static str, to: &'static str) -> impl Fn(&mut Vec<String>) {
        move |names| {
            let found = names.iter_mut().find(|name| *name == from).unwrap();
            *found = to.to_owned();
        }
    }

    const EVERYTHING: [Feature; 3] = [Feature::Acls, Feature::Interfaces, Feature::Sessions];

    #[test]
    fn what_is_missing_is_named_with_both_crcs() {
        assert!(lacks(&EVERYTHING, |_| ()).is_empty());
        for (from, to, expected) in [
            (
                "acl_add_replace_ee5c2f18",
                "acl_add_replace_1cabdeab",
                "VPP has `acl_add_replace` with CRC 1cabdeab, as release 20.05 had, and ee5c2f18 is needed: \
                 VPP is too old",
            ),
            (
                "acl_details_95babae0",
                "acl_details_7a97f21c",
                "VPP has `acl_details` with CRC 7a97f21c, as release 20.05 had, and 95babae0 is needed: \
                 VPP is too old",
            ),
            (
                "session_rule_add_del_82a90af5",
                "session_rule_add_del_e4895422",
                "VPP has `session_rule_add_del` with CRC e4895422, as release 21.06 had, and 82a90af5 is needed: \
                 VPP is too old",
            ),
            (
                "session_rule_add_del_82a90af5",
                "session_rule_add_del_e31f9443",
                "VPP has `session_rule_add_del` with CRC e31f9443, as release 20.05 had, and 82a90af5 is needed: \
                 VPP is too old",
            ),
            (
                "app_namespace_add_del_v4_42c1d824",
                "app_namespace_add_del_v3_8a7e40a1",
                "VPP has no `app_namespace_add_del_v4` with CRC 42c1d824, only the older \
                 `app_namespace_add_del_v3`: VPP is too old",
            ),
            (
                "app_namespace_add_del_v4_42c1d824",
                "app_namespace_add_del_v2_ee0755cf",
                "VPP has no `app_namespace_add_del_v4` with CRC 42c1d824, only the older \
                 `app_namespace_add_del_v2`: VPP is too old",
            ),
            (
                "app_namespace_add_del_v4_42c1d824",
                "app_namespace_add_del_6306aecb",
                "VPP has no `app_namespace_add_del_v4` with CRC 42c1d824, only the older \
                 `app_namespace_add_del`: VPP is too old",
            ),
            (
                "sw_interface_event_2d3d95a7",
                "sw_interface_event_01234567",
                "VPP has `sw_interface_event` with CRC 01234567, and 2d3d95a7 is needed",
            ),
            (
                "control_ping_reply_f6b0b8ca",
                "control_ping_reply_F6B0B8C",
                "VPP has no `control_ping_reply` with CRC f6b0b8ca: the plugin that has it is not loaded, or VPP \
                 is too old",
            ),
        ] {
            assert_eq!(lacks(&EVERYTHING, replace(from, to)), [expected], "{from}");
        }
    }

    #[test]
    fn a_feature_needs_only_its_own_messages() {
        let without_plugins = |names: &mut Vec<String>| {
            names.retain(|name| !name.starts_with("acl_") && !name.starts_with("session_"));
        };
        assert!(lacks(&[Feature::Interfaces], without_plugins).is_empty());
        assert_eq!(lacks(&[Feature::Acls], without_plugins).len(), 12);
        let without_namespaces = |names: &mut Vec<String>| names.retain(|name| !name.starts_with("app_"));
        assert!(lacks(&[Feature::SessionRules], without_namespaces).is_empty());
        assert_eq!(lacks(&[Feature::Sessions], without_namespaces).len(), 2);
    }

    #[test]
    fn either_generation_of_session_messages_is_enough() {
        let without =
            |part: &'static str| move |names: &mut Vec<String>| names.retain(|name| !name.contains(part));
        assert!(lacks(&EVERYTHING, without("_v2_")).is_empty());
        assert!(lacks(&EVERYTHING, without("session_rules_d")).is_empty());
        let missing = lacks(&EVERYTHING, without("session_rules_"));
        assert!(
            missing.len() == 2 && missing[0].contains("`session_rules_v2_dump`"),
            "{missing:?}"
        );
    }

    #[test]
    fn two_messages_of_one_number_are_refused() {
        let names = ["acl_del_ef34fea4", "acl_dump_ef34fea4"];
        let numbers = names.map(|name| (7, Label::new(name).unwrap()));
        let refused = Table::of(&MessageNumbers(numbers.into())).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "`message_table` of `sockclnt_create_reply` from VPP gives two messages the number 7"
        );
    }
}
