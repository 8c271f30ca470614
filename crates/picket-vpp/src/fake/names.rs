//! The messages there are, their checksums, and the numbers that they have in one run.

use std::collections::BTreeMap;

use super::options::{Dumps, Options};

/// Every message of which the fake knows the meaning, with the checksum that vppapigen of VPP 26.10 gives it.
pub(super) const MESSAGES: [(&str, &str); 38] = [
    ("control_ping", "51077d14"),
    ("control_ping_reply", "f6b0b8ca"),
    ("acl_plugin_get_version", "51077d14"),
    ("acl_plugin_get_version_reply", "9b32cf86"),
    ("acl_add_replace", "ee5c2f18"),
    ("acl_add_replace_reply", "ac407b0c"),
    ("acl_del", "ef34fea4"),
    ("acl_del_reply", "e8d4e804"),
    ("acl_dump", "ef34fea4"),
    ("acl_details", "95babae0"),
    ("acl_interface_set_acl_list", "473982bd"),
    ("acl_interface_set_acl_list_reply", "e8d4e804"),
    ("acl_interface_list_dump", "f9e6675e"),
    ("acl_interface_list_details", "e695d256"),
    ("acl_plugin_use_hash_lookup_set", "b3e225d2"),
    ("acl_plugin_use_hash_lookup_set_reply", "e8d4e804"),
    ("acl_stats_intf_counters_enable", "b3e225d2"),
    ("acl_stats_intf_counters_enable_reply", "e8d4e804"),
    ("session_enable_disable", "c264d7bf"),
    ("session_enable_disable_reply", "e8d4e804"),
    ("session_enable_disable_v2", "f09fbf32"),
    ("session_enable_disable_v2_reply", "e8d4e804"),
    ("session_rule_add_del", "82a90af5"),
    ("session_rule_add_del_reply", "e8d4e804"),
    ("session_rules_dump", "51077d14"),
    ("session_rules_details", "4ef746e7"),
    ("session_rules_v2_dump", "51077d14"),
    ("session_rules_v2_details", "f91993dc"),
    ("app_namespace_add_del_v4", "42c1d824"),
    ("app_namespace_add_del_v4_reply", "85137120"),
    ("sw_interface_dump", "aa610c27"),
    ("sw_interface_details", "6c221fc7"),
    ("want_interface_events", "476f5a08"),
    ("want_interface_events_reply", "e8d4e804"),
    ("sw_interface_event", "2d3d95a7"),
    ("sw_interface_tag_add_del", "426f8bc1"),
    ("sw_interface_tag_add_del_reply", "e8d4e804"),
    // A message that nobody has a use for: there are thousands in a real table.
    ("cli_inband", "f8377302"),
];

/// The fixed numbers of the handshake.
pub(super) const SOCKCLNT_CREATE: u16 = 15;
pub(super) const SOCKCLNT_CREATE_REPLY: u16 = 16;

/// The numbers of one run.
#[derive(Debug)]
pub(super) struct Names {
    by_id: BTreeMap<u16, &'static str>,
    by_name: BTreeMap<&'static str, u16>,
    /// What the handshake says, in an order of its own: number, name and checksum.
    pub(super) advertised: Vec<(u16, String)>,
}

impl Names {
    /// Numbers that depend on the seed of the caller and on how often the fake was started, and on nothing else.
    pub(super) fn new(options: &Options, boot: u64) -> Self {
        let mut random = Random::new(options.seed.wrapping_add(boot.wrapping_mul(0x9e37_79b9)));
        let mut ids: Vec<u16> = (SOCKCLNT_CREATE_REPLY + 1..2000).collect();
        random.shuffle(&mut ids);
        let mut names = Self {
            by_id: BTreeMap::new(),
            by_name: BTreeMap::new(),
            advertised: Vec::new(),
        };
        for ((name, crc), id) in MESSAGES.into_iter().zip(ids) {
            names.by_name.insert(name, id);
            if options.offers(name) {
                let crc = options.crcs.get(name).map_or(crc, String::as_str);
                names.by_id.insert(id, name);
                names.advertised.push((id, format!("{name}_{crc}")));
            }
        }
        random.shuffle(&mut names.advertised);
        names
    }

    /// The message with this number, where the handshake has named it.
    pub(super) fn name(&self, id: u16) -> Option<&'static str> {
        self.by_id.get(&id).copied()
    }

    /// The number of a message, whether the handshake has named it or not.
    pub(super) fn id(&self, name: &str) -> u16 {
        self.by_name.get(name).copied().unwrap_or(u16::MAX)
    }
}

impl Options {
    fn offers(&self, name: &str) -> bool {
        let generation = match self.dumps {
            Dumps::Both => true,
            Dumps::First => !name.starts_with("session_rules_v2_"),
            Dumps::Second => !["session_rules_dump", "session_rules_details"].contains(&name),
        };
        generation && !self.absent.contains(name)
    }
}

/// Numbers that look random and follow from a seed (xorshift64*).
struct Random(u64);

impl Random {
    fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x2545_f491_4f6c_dd1d) | 1)
    }

    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let bits = self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33;
        usize::try_from(bits).unwrap_or_default() % bound.max(1)
    }

    fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            let other = self.below(last + 1);
            items.swap(last, other);
        }
    }
}
