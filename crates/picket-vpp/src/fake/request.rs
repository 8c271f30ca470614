//! Requests, laid out as VPP's `.api` files have them, and with not one byte too few or too many.

use super::acl::{WirePrefix, WireRule};
use super::wire::{Reader, cut};

/// What a client asks for.
#[derive(Clone, Debug)]
pub(super) enum Request {
    ControlPing,
    PluginVersion,
    AclAddReplace {
        index: u32,
        tag: [u8; 64],
        rules: Vec<WireRule>,
    },
    AclDel {
        index: u32,
    },
    AclDump {
        index: u32,
    },
    SetAclList {
        sw_if_index: u32,
        input: Vec<u32>,
        output: Vec<u32>,
    },
    AclListDump {
        sw_if_index: u32,
    },
    /// Of the ACL plugin, without effect here: lookup by hash, counters.
    Setting,
    SessionEnable {
        engine: u8,
    },
    RuleAddDel(Box<RuleAddDel>),
    RulesDump,
    RulesV2Dump,
    NamespaceAddDel(NamespaceAddDel),
    InterfaceDump {
        sw_if_index: u32,
        filter: Option<String>,
    },
    WantEvents {
        enable: bool,
        pid: u32,
    },
    InterfaceTag {
        add: bool,
        sw_if_index: u32,
        tag: String,
    },
}

/// A session rule as it came.
#[derive(Clone, Debug)]
pub(super) struct RuleAddDel {
    pub(super) transport: u8,
    pub(super) local: WirePrefix,
    pub(super) remote: WirePrefix,
    pub(super) local_port: u16,
    pub(super) remote_port: u16,
    pub(super) action: u32,
    pub(super) add: bool,
    pub(super) namespace: u32,
    /// The first byte of four: VPP copies the field, whose enum it does not swap, into one byte of a little-endian machine.
    pub(super) scope: u8,
    pub(super) tag: String,
}

/// A namespace as it came.
#[derive(Clone, Debug)]
pub(super) struct NamespaceAddDel {
    pub(super) add: bool,
    pub(super) sw_if_index: u32,
    pub(super) ipv4_fib: u32,
    pub(super) ipv6_fib: u32,
    pub(super) id: String,
}

impl Request {
    /// Reads what follows the context of a message, or `None` if its length is wrong or it is nothing that is asked for.
    pub(super) fn read(name: &str, bytes: &[u8]) -> Option<Self> {
        let mut reader = Reader::new(bytes);
        let request = Self::fields(name, &mut reader)?;
        reader.is_empty().then_some(request)
    }

    fn fields(name: &str, reader: &mut Reader<'_>) -> Option<Self> {
        Some(match name {
            "control_ping" => Self::ControlPing,
            "acl_plugin_get_version" => Self::PluginVersion,
            "acl_add_replace" => Self::acl(reader)?,
            "acl_del" => Self::AclDel { index: reader.u32()? },
            "acl_dump" => Self::AclDump { index: reader.u32()? },
            "acl_interface_set_acl_list" => Self::acl_list(reader)?,
            "acl_interface_list_dump" => Self::AclListDump {
                sw_if_index: reader.u32()?,
            },
            "acl_plugin_use_hash_lookup_set" | "acl_stats_intf_counters_enable" => {
                reader.bool()?;
                Self::Setting
            }
            "session_enable_disable" | "session_enable_disable_v2" => {
                Self::SessionEnable { engine: reader.u8()? }
            }
            "session_rule_add_del" => Self::RuleAddDel(Box::new(RuleAddDel::read(reader)?)),
            "session_rules_dump" => Self::RulesDump,
            "session_rules_v2_dump" => Self::RulesV2Dump,
            "app_namespace_add_del_v4" => Self::NamespaceAddDel(NamespaceAddDel::read(reader)?),
            "sw_interface_dump" => Self::interface_dump(reader)?,
            "want_interface_events" => Self::WantEvents {
                enable: reader.u32()? != 0,
                pid: reader.u32()?,
            },
            "sw_interface_tag_add_del" => Self::InterfaceTag {
                add: reader.bool()?,
                sw_if_index: reader.u32()?,
                tag: text(cut(reader.bytes(64)?)),
            },
            _ => return None,
        })
    }

    fn acl(reader: &mut Reader<'_>) -> Option<Self> {
        let index = reader.u32()?;
        let tag = reader.array()?;
        let count = reader.u32()?;
        Some(Self::AclAddReplace {
            index,
            tag,
            rules: (0..count)
                .map(|_| WireRule::read(reader))
                .collect::<Option<_>>()?,
        })
    }

    fn acl_list(reader: &mut Reader<'_>) -> Option<Self> {
        let sw_if_index = reader.u32()?;
        let (count, inputs) = (reader.u8()?, reader.u8()?);
        let mut input: Vec<u32> = (0..count).map(|_| reader.u32()).collect::<Option<_>>()?;
        let output = input.split_off(usize::from(inputs.min(count)));
        Some(Self::SetAclList {
            sw_if_index,
            input,
            output,
        })
    }

    fn interface_dump(reader: &mut Reader<'_>) -> Option<Self> {
        let sw_if_index = reader.u32()?;
        let filtered = reader.bool()?;
        let filter = reader.string()?;
        Some(Self::InterfaceDump {
            sw_if_index,
            filter: filtered.then_some(filter),
        })
    }

    /// Whether its handler runs under the barrier of the workers: those of ACLs and of the session layer do, dumps too.
    pub(super) fn stops_workers(&self) -> bool {
        !matches!(
            self,
            Self::ControlPing
                | Self::InterfaceDump { .. }
                | Self::WantEvents { .. }
                | Self::InterfaceTag { .. }
        )
    }
}

impl RuleAddDel {
    fn read(reader: &mut Reader<'_>) -> Option<Self> {
        Some(Self {
            transport: reader.u8()?,
            local: WirePrefix::read(reader)?,
            remote: WirePrefix::read(reader)?,
            local_port: reader.u16()?,
            remote_port: reader.u16()?,
            action: reader.u32()?,
            add: reader.bool()?,
            namespace: reader.u32()?,
            scope: reader.array().map(|[first, ..]: [u8; 4]| first)?,
            tag: text(cut(reader.bytes(64)?)),
        })
    }
}

impl NamespaceAddDel {
    fn read(reader: &mut Reader<'_>) -> Option<Self> {
        let _secret = reader.u64()?;
        let read = Self {
            add: reader.bool()?,
            sw_if_index: reader.u32()?,
            ipv4_fib: reader.u32()?,
            ipv6_fib: reader.u32()?,
            id: text(cut(reader.bytes(64)?)),
        };
        reader.string().map(|_socket| read)
    }
}

/// Tags and names as texts; what is not UTF-8 in them is replaced.
pub(super) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
