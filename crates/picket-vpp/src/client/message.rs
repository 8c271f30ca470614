//! The messages that picket says and hears, each as VPP's `.api` files define it.
//!
//! The CRCs are those of releases from 22.10 to 26.10; which messages older ones have is for `table` to say.

use picket_net::Prefix;

use super::definition::{Address, Call, Definition, Dump, Head, Message, Reply, messages, rewrite};
use super::error::Malformed;
use super::field::{AskedScope, Engine, Lists, MessageNumbers, ToldScope};
use super::refusal::Subject;
use super::value::{AclRule, Label, LinkState, SessionAction, Transport};
use super::wire::{Field, Reader, Skipped};

/// The index that stands for all, or for none yet.
pub(super) const ANY: u32 = u32::MAX;
/// The number of [`SockclntCreate`], which must be known before any other.
pub(super) const CREATE_ID: u16 = 15;
/// The number of [`SockclntCreateReply`].
pub(super) const CREATE_REPLY_ID: u16 = 16;

messages! {
    /// The first message: who we are. It has no client index yet, as answers have none.
    answer SockclntCreate = "sockclnt_create" 0x455fb9c4 { name: Label };

    /// Who we are to VPP, and which numbers its messages have. It does have a client index, which says nothing.
    request SockclntCreateReply = "sockclnt_create_reply" 0x35166268 {
        response: i32,
        index: u32,
        message_table: MessageNumbers,
    };

    /// The last message.
    call SockclntDelete = "sockclnt_delete" 0x8ac76db6 { index: u32 }
        -> SockclntDeleteReply of |_| Subject::Part("this client");

    /// Answers [`SockclntDelete`]; its field is called `response` there.
    reply SockclntDeleteReply = "sockclnt_delete_reply" 0x8f38b1ee { retval: i32 };

    /// Asks for an answer, which comes after those to all earlier requests.
    call ControlPing = "control_ping" 0x51077d14 {} -> ControlPingReply of |_| Subject::Part("VPP");

    /// Answers [`ControlPing`].
    reply ControlPingReply = "control_ping_reply" 0xf6b0b8ca {
        retval: i32,
        client_index: u32,
        vpe_pid: u32,
    };

    /// Asks for the version of the ACL plugin.
    call AclPluginGetVersion = "acl_plugin_get_version" 0x51077d14 {}
        -> AclPluginGetVersionReply of |_| Subject::Part("the ACL plugin");

    /// Answers [`AclPluginGetVersion`]; it cannot fail.
    answer AclPluginGetVersionReply = "acl_plugin_get_version_reply" 0x9b32cf86 { major: u32, minor: u32 };

    /// Makes an ACL, or gives one other rules.
    call AclAddReplace = "acl_add_replace" 0xee5c2f18 { acl_index: u32, tag: Label, r: Vec<AclRule> }
        -> AclAddReplaceReply of |asked| match asked.acl_index {
            ANY => Subject::NewAcl(asked.tag.clone()),
            index => Subject::Acl(index),
        };

    /// Answers [`AclAddReplace`], with the index before what all other replies begin with.
    reply AclAddReplaceReply = "acl_add_replace_reply" 0xac407b0c { acl_index: u32, retval: i32 };

    /// Removes an ACL.
    call AclDel = "acl_del" 0xef34fea4 { acl_index: u32 }
        -> AclDelReply of |asked| Subject::Acl(asked.acl_index);

    /// Answers [`AclDel`].
    reply AclDelReply = "acl_del_reply" 0xe8d4e804 { retval: i32 };

    /// Asks for ACLs.
    dump AclDump = "acl_dump" 0xef34fea4 { acl_index: u32 } -> AclDetails;

    /// An ACL.
    answer AclDetails = "acl_details" 0x95babae0 { acl_index: u32, tag: Label, r: Vec<AclRule> };

    /// Gives an interface other ACLs, of both directions.
    call AclInterfaceSetAclList = "acl_interface_set_acl_list" 0x473982bd { sw_if_index: u32, acls: Lists }
        -> AclInterfaceSetAclListReply of |asked| Subject::Interface(asked.sw_if_index);

    /// Answers [`AclInterfaceSetAclList`].
    reply AclInterfaceSetAclListReply = "acl_interface_set_acl_list_reply" 0xe8d4e804 { retval: i32 };

    /// Asks for the ACLs of interfaces.
    dump AclInterfaceListDump = "acl_interface_list_dump" 0xf9e6675e { sw_if_index: u32 }
        -> AclInterfaceListDetails;

    /// The ACLs of an interface.
    answer AclInterfaceListDetails = "acl_interface_list_details" 0xe695d256 { sw_if_index: u32, acls: Lists };

    /// Switches the session layer on, with the rule table; until [`SessionEnableDisableV2`] came.
    call SessionEnableDisable = "session_enable_disable" 0xc264d7bf { is_enable: bool }
        -> SessionEnableDisableReply of |_| Subject::Part("the session layer");

    /// Answers [`SessionEnableDisable`].
    reply SessionEnableDisableReply = "session_enable_disable_reply" 0xe8d4e804 { retval: i32 };

    /// Switches the session layer on or off.
    call SessionEnableDisableV2 = "session_enable_disable_v2" 0xf09fbf32 { rt_engine_type: Engine }
        -> SessionEnableDisableV2Reply of |_| Subject::Part("the session layer");

    /// Answers [`SessionEnableDisableV2`].
    reply SessionEnableDisableV2Reply = "session_enable_disable_v2_reply" 0xe8d4e804 { retval: i32 };

    /// Adds or removes a rule of the session layer.
    call SessionRuleAddDel = "session_rule_add_del" 0x82a90af5 {
        transport_proto: Transport,
        lcl: Prefix,
        rmt: Prefix,
        lcl_port: u16,
        rmt_port: u16,
        action_index: SessionAction,
        is_add: bool,
        appns_index: u32,
        scope: AskedScope,
        tag: Label,
    } -> SessionRuleAddDelReply of |asked| Subject::SessionRule {
        namespace: asked.appns_index,
        transport: asked.transport_proto,
        remote: asked.rmt,
        tag: asked.tag.clone(),
    };

    /// Answers [`SessionRuleAddDel`].
    reply SessionRuleAddDelReply = "session_rule_add_del_reply" 0xe8d4e804 { retval: i32 };

    /// Asks for the rules of the session layer; until [`SessionRulesV2Dump`] came.
    dump SessionRulesDump = "session_rules_dump" 0x51077d14 {} -> SessionRulesDetails;

    /// A rule of the session layer.
    answer SessionRulesDetails = "session_rules_details" 0x4ef746e7 {
        transport_proto: Transport,
        lcl: Prefix,
        rmt: Prefix,
        lcl_port: u16,
        rmt_port: u16,
        action_index: SessionAction,
        appns_index: u32,
        scope: ToldScope,
        tag: Label,
    };

    /// Asks for the rules of the session layer.
    dump SessionRulesV2Dump = "session_rules_v2_dump" 0x51077d14 {} -> SessionRulesV2Details;

    /// A rule of the session layer, and in which namespaces.
    answer SessionRulesV2Details = "session_rules_v2_details" 0xf91993dc {
        transport_proto: Transport,
        lcl: Prefix,
        rmt: Prefix,
        lcl_port: u16,
        rmt_port: u16,
        action_index: SessionAction,
        scope: ToldScope,
        tag: Label,
        appns_index: Vec<u32>,
    };

    /// Adds or removes an application namespace.
    call AppNamespaceAddDelV4 = "app_namespace_add_del_v4" 0x42c1d824 {
        secret: u64,
        is_add: bool,
        sw_if_index: u32,
        ip4_fib_id: u32,
        ip6_fib_id: u32,
        namespace_id: Label,
        sock_name: Vec<u8>,
    } -> AppNamespaceAddDelV4Reply of |asked| Subject::Namespace(asked.namespace_id.clone());

    /// Answers [`AppNamespaceAddDelV4`].
    reply AppNamespaceAddDelV4Reply = "app_namespace_add_del_v4_reply" 0x85137120 {
        retval: i32,
        appns_index: u32,
    };

    /// Asks for interfaces.
    dump SwInterfaceDump = "sw_interface_dump" 0xaa610c27 {
        sw_if_index: u32,
        name_filter_valid: bool,
        name_filter: Vec<u8>,
    } -> SwInterfaceDetails;

    /// An interface. What is skipped is its type, duplex, speed, MTUs and tags of VLANs.
    answer SwInterfaceDetails = "sw_interface_details" 0x6c221fc7 {
        sw_if_index: u32,
        sup_sw_if_index: u32,
        l2_address: [u8; 6],
        flags: LinkState,
        skipped: Skipped<79>,
        interface_name: Label,
        interface_dev_type: Label,
        tag: Label,
    };

    /// Says whether events of interfaces are wanted.
    call WantInterfaceEvents = "want_interface_events" 0x476f5a08 { enable_disable: u32, pid: u32 }
        -> WantInterfaceEventsReply of |_| Subject::Part("interfaces");

    /// Answers [`WantInterfaceEvents`].
    reply WantInterfaceEventsReply = "want_interface_events_reply" 0xe8d4e804 { retval: i32 };

    /// An interface has changed.
    event SwInterfaceEvent = "sw_interface_event" 0x2d3d95a7 {
        pid: u32,
        sw_if_index: u32,
        flags: LinkState,
        deleted: bool,
    };

    /// Gives an interface a tag, or takes it away.
    call SwInterfaceTagAddDel = "sw_interface_tag_add_del" 0x426f8bc1 {
        is_add: bool,
        sw_if_index: u32,
        tag: Label,
    } -> SwInterfaceTagAddDelReply of |asked| Subject::Interface(asked.sw_if_index);

    /// Answers [`SwInterfaceTagAddDel`].
    reply SwInterfaceTagAddDelReply = "sw_interface_tag_add_del_reply" 0xe8d4e804 { retval: i32 };
}

impl Reply for AclPluginGetVersionReply {
    fn retval(&self) -> i32 {
        0
    }
}
