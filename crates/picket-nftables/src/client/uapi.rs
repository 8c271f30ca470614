//! Numbers of `linux/netfilter/nf_tables.h`, and of libnftnl's user data, which nft keeps comments in.

pub(super) const NFPROTO_INET: u8 = 1;
pub(super) const NFPROTO_IPV4: u8 = 2;
pub(super) const NFPROTO_IPV6: u8 = 10;

/// `NFT_MSG_*`.
pub(super) mod message {
    pub(in super::super) const NEWTABLE: u8 = 0;
    pub(in super::super) const GETTABLE: u8 = 1;
    pub(in super::super) const DELTABLE: u8 = 2;
    pub(in super::super) const NEWCHAIN: u8 = 3;
    pub(in super::super) const GETCHAIN: u8 = 4;
    pub(in super::super) const DELCHAIN: u8 = 5;
    pub(in super::super) const NEWRULE: u8 = 6;
    pub(in super::super) const GETRULE: u8 = 7;
    pub(in super::super) const DELRULE: u8 = 8;
    pub(in super::super) const NEWSET: u8 = 9;
    pub(in super::super) const GETSET: u8 = 10;
    pub(in super::super) const DELSET: u8 = 11;
    pub(in super::super) const NEWSETELEM: u8 = 12;
    pub(in super::super) const GETSETELEM: u8 = 13;
    pub(in super::super) const DELSETELEM: u8 = 14;
    pub(in super::super) const NEWOBJ: u8 = 18;
    pub(in super::super) const GETOBJ: u8 = 19;
    pub(in super::super) const DELOBJ: u8 = 20;
    pub(in super::super) const NEWFLOWTABLE: u8 = 22;
    pub(in super::super) const GETFLOWTABLE: u8 = 23;
}

/// `NFTA_TABLE_*`.
pub(super) mod table {
    pub(in super::super) const NAME: u16 = 1;
    pub(in super::super) const FLAGS: u16 = 2;
    pub(in super::super) const USERDATA: u16 = 6;
    /// The number of the socket that owns it.
    pub(in super::super) const OWNER: u16 = 7;
    /// `NFT_TABLE_F_OWNER`, `NFT_TABLE_F_PERSIST`.
    pub(in super::super) const OWNER_FLAG: u32 = 2;
    pub(in super::super) const PERSIST_FLAG: u32 = 4;
    /// How many chains, sets, maps, objects and flowtables it has.
    pub(in super::super) const USE: u16 = 3;
    /// What only the kernel says: that, its handle, and padding.
    pub(in super::super) const ABOUT: [u16; 3] = [USE, 4, 5];
}

/// `NFTA_CHAIN_*`, `NFTA_HOOK_*`.
pub(super) mod chain {
    pub(in super::super) const TABLE: u16 = 1;
    pub(in super::super) const NAME: u16 = 3;
    pub(in super::super) const HOOK: u16 = 4;
    pub(in super::super) const HOOK_NUMBER: u16 = 1;
    pub(in super::super) const HOOK_PRIORITY: u16 = 2;
    pub(in super::super) const POLICY: u16 = 5;
    pub(in super::super) const TYPE: u16 = 7;
    pub(in super::super) const FLAGS: u16 = 10;
    pub(in super::super) const USERDATA: u16 = 12;
    /// `NFT_CHAIN_BASE`.
    pub(in super::super) const BASE: u32 = 1;
    /// How many rules it has, and rules and elements lead to it.
    pub(in super::super) const USE: u16 = 6;
    /// What only the kernel says: its handle, and that.
    pub(in super::super) const ABOUT: [u16; 2] = [2, USE];
}

/// `NFTA_RULE_*`.
pub(super) mod rule {
    pub(in super::super) const TABLE: u16 = 1;
    pub(in super::super) const CHAIN: u16 = 2;
    pub(in super::super) const HANDLE: u16 = 3;
    pub(in super::super) const EXPRESSIONS: u16 = 4;
    /// The rule before it.
    pub(in super::super) const POSITION: u16 = 6;
    pub(in super::super) const USERDATA: u16 = 7;
}

/// `NFTA_SET_*`, `NFTA_SET_DESC_*`, `NFTA_SET_FIELD_LEN`, `NFT_SET_*`.
pub(super) mod set {
    pub(in super::super) const TABLE: u16 = 1;
    pub(in super::super) const NAME: u16 = 2;
    pub(in super::super) const FLAGS: u16 = 3;
    pub(in super::super) const KEY_TYPE: u16 = 4;
    pub(in super::super) const KEY_LENGTH: u16 = 5;
    pub(in super::super) const DATA_TYPE: u16 = 6;
    pub(in super::super) const DATA_LENGTH: u16 = 7;
    pub(in super::super) const DESCRIPTION: u16 = 9;
    pub(in super::super) const ID: u16 = 10;
    pub(in super::super) const USERDATA: u16 = 13;
    /// How many elements it has, which kernels since 6.16 say.
    pub(in super::super) const COUNT: u16 = 20;
    /// What only the kernel says: its handle, padding, its backend, and that.
    pub(in super::super) const ABOUT: [u16; 4] = [14, 16, 19, COUNT];
    pub(in super::super) const SIZE: u16 = 1;
    pub(in super::super) const CONCATENATION: u16 = 2;
    pub(in super::super) const FIELD_LENGTH: u16 = 1;
    pub(in super::super) const ANONYMOUS_CONSTANT: u32 = 0x1 | 0x2;
    pub(in super::super) const INTERVAL: u32 = 0x4;
    pub(in super::super) const MAP: u32 = 0x8;
    pub(in super::super) const CONCATENATED: u32 = 0x80;
}

/// `NFTA_SET_ELEM_LIST_*`, `NFTA_SET_ELEM_*`, `NFT_SET_ELEM_INTERVAL_END`.
pub(super) mod element {
    pub(in super::super) const TABLE: u16 = 1;
    pub(in super::super) const SET: u16 = 2;
    pub(in super::super) const ELEMENTS: u16 = 3;
    pub(in super::super) const SET_ID: u16 = 4;
    pub(in super::super) const KEY: u16 = 1;
    pub(in super::super) const DATA: u16 = 2;
    pub(in super::super) const FLAGS: u16 = 3;
    pub(in super::super) const USERDATA: u16 = 6;
    pub(in super::super) const KEY_END: u16 = 10;
    pub(in super::super) const INTERVAL_END: u32 = 1;
}

/// `NFTA_OBJ_*`, `NFTA_COUNTER_*`.
pub(super) mod object {
    pub(in super::super) const TABLE: u16 = 1;
    pub(in super::super) const NAME: u16 = 2;
    pub(in super::super) const TYPE: u16 = 3;
    pub(in super::super) const DATA: u16 = 4;
    pub(in super::super) const USERDATA: u16 = 8;
    /// How many use it, its handle, and padding.
    pub(in super::super) const ABOUT: [u16; 3] = [5, 6, 7];
    pub(in super::super) const COUNTER: u32 = 1;
    pub(in super::super) const COUNTER_BYTES: u16 = 1;
    pub(in super::super) const COUNTER_PACKETS: u16 = 2;
}

/// `NFTA_DATA_*`, `NFTA_VERDICT_*`, `NFTA_LIST_ELEM`.
pub(super) mod data {
    pub(in super::super) const VALUE: u16 = 1;
    pub(in super::super) const VERDICT: u16 = 2;
    pub(in super::super) const VERDICT_CODE: u16 = 1;
    pub(in super::super) const VERDICT_CHAIN: u16 = 2;
    pub(in super::super) const LIST_ELEMENT: u16 = 1;
}

/// What stands in user data, as nft reads it: type, length, value.
pub(super) mod userdata {
    /// The comment of everything but a set.
    pub(in super::super) const COMMENT: u8 = 0;
    pub(in super::super) const SET_KEY_BYTE_ORDER: u8 = 0;
    pub(in super::super) const SET_DATA_BYTE_ORDER: u8 = 1;
    /// All before it is for nft, which merges elements and prints types so.
    pub(in super::super) const SET_COMMENT: u8 = 7;
    /// `NFTNL_UDATA_SET_ELEM_FLAGS` with `SET_ELEM_F_INTERVAL_OPEN`.
    pub(in super::super) const ELEMENT_FLAGS: u8 = 1;
    pub(in super::super) const INTERVAL_OPEN: u32 = 1;
}
