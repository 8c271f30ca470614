//! Answers, laid out as VPP's `.api` files have them.

use super::acl::{Acl, write_prefix};
use super::layer::Dumped;
use super::rules::SessionRule;
use super::state::{Interface, Lists};
use super::wire::Writer;

/// A message to the client: its name, and what follows the number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) name: &'static str,
    pub(super) body: Vec<u8>,
}

impl Answer {
    fn new(name: &'static str, writer: Writer) -> Self {
        Self {
            name,
            body: writer.finish(),
        }
    }

    /// A reply that says only how it went.
    pub(super) fn plain(name: &'static str, context: u32, retval: i32) -> Self {
        Self::new(name, begin(context).i32(retval))
    }

    pub(super) fn control_ping(context: u32, retval: i32, client: u32) -> Self {
        let writer = begin(context).i32(retval).u32(client);
        Self::new("control_ping_reply", writer.u32(std::process::id()))
    }

    pub(super) fn plugin_version(context: u32) -> Self {
        Self::new("acl_plugin_get_version_reply", begin(context).u32(1).u32(4))
    }

    /// The index stands before the number of how it went.
    pub(super) fn acl(context: u32, index: u32, retval: i32) -> Self {
        Self::new("acl_add_replace_reply", begin(context).u32(index).i32(retval))
    }

    pub(super) fn acl_details(context: u32, index: u32, acl: &Acl) -> Self {
        let count = u32::try_from(acl.rules.len()).unwrap_or(u32::MAX);
        let head = begin(context).u32(index).text(acl.tag.as_bytes()).u32(count);
        let writer = acl.rules.iter().fold(head, |writer, rule| rule.write(writer));
        Self::new("acl_details", writer)
    }

    pub(super) fn acl_list_details(context: u32, sw_if_index: u32, lists: &Lists) -> Self {
        let short = |count: usize| u8::try_from(count).unwrap_or(u8::MAX);
        let head = begin(context)
            .u32(sw_if_index)
            .u8(short(lists.input.len() + lists.output.len()))
            .u8(short(lists.input.len()));
        let all = lists.input.iter().chain(&lists.output);
        Self::new(
            "acl_interface_list_details",
            all.fold(head, |writer, index| writer.u32(*index)),
        )
    }

    pub(super) fn namespace(context: u32, retval: i32, index: u32) -> Self {
        Self::new(
            "app_namespace_add_del_v4_reply",
            begin(context).i32(retval).u32(index),
        )
    }

    /// The first generation: of the namespaces only the last.
    pub(super) fn session_rule(context: u32, dumped: &Dumped) -> Self {
        let last = dumped.namespaces.last().copied().unwrap_or_default();
        let writer = write_tuple(begin(context).u8(dumped.transport), &dumped.rule);
        let writer = write_scope(writer.u32(last), dumped);
        Self::new("session_rules_details", write_tag(writer, &dumped.rule))
    }

    /// The second generation: all namespaces.
    pub(super) fn session_rule_v2(context: u32, dumped: &Dumped) -> Self {
        let writer = write_tuple(begin(context).u8(dumped.transport), &dumped.rule);
        let writer = write_tag(write_scope(writer, dumped), &dumped.rule);
        let count = u32::try_from(dumped.namespaces.len()).unwrap_or(u32::MAX);
        let all = dumped.namespaces.iter();
        let writer = all.fold(writer.u32(count), |writer, index| writer.u32(*index));
        Self::new("session_rules_v2_details", writer)
    }

    /// 295 bytes with the number, of which those that nobody reads are 0.
    pub(super) fn interface(context: u32, sw_if_index: u32, interface: &Interface) -> Self {
        let writer = begin(context)
            .u32(sw_if_index)
            .u32(sw_if_index)
            .bytes(&[2, 0xfe, 0, 0, 0, 0])
            .u32(flags(interface.up))
            .zeros(14)
            .u32(9000)
            .zeros(61)
            .text(interface.name.as_bytes())
            .text(b"virtio")
            .text(interface.tag.as_bytes());
        Self::new("sw_interface_details", writer)
    }

    /// An event: it has no context, but the pid that the client gave.
    pub(super) fn interface_event(client: u32, pid: u32, event: InterfaceEvent) -> Self {
        let writer = Writer::default()
            .u32(client)
            .u32(pid)
            .u32(event.sw_if_index)
            .u32(flags(event.up))
            .u8(u8::from(event.deleted));
        Self::new("sw_interface_event", writer)
    }
}

/// What has become of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct InterfaceEvent {
    pub(super) sw_if_index: u32,
    pub(super) up: bool,
    pub(super) deleted: bool,
}

fn begin(context: u32) -> Writer {
    Writer::default().u32(context)
}

/// Administratively up (1), and with a link (2).
fn flags(up: bool) -> u32 {
    if up { 3 } else { 0 }
}

fn write_tuple(writer: Writer, rule: &SessionRule) -> Writer {
    let writer = write_prefix(writer, rule.local.first(), rule.local.length());
    write_prefix(writer, rule.remote.first(), rule.remote.length())
        .u16(rule.local_port)
        .u16(rule.remote_port)
        .u32(rule.action)
}

/// The number of the API's enum in the byte order of the host, which is little-endian here.
fn write_scope(writer: Writer, dumped: &Dumped) -> Writer {
    writer.bytes(&[u8::from(dumped.local_scope), 0, 0, 0])
}

fn write_tag(writer: Writer, rule: &SessionRule) -> Writer {
    writer.text(rule.tag.as_deref().unwrap_or_default().as_bytes())
}
