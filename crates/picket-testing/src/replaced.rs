//! What the program that picket replaces in pods has left in them.

/// The table that multi-networkpolicy-nftables leaves in a pod with the addresses `2.2.5.NUMBER` and `2001:db8::NUMBER` at `net1`,
/// as a script for nft, for two policies of the namespace `default`, both with both directions:
///
/// - `closed`, which allows nothing;
/// - `allow`: in comes UDP to 9000 and 9100 to 9110 from the pod with the number 12, everything from three pods of other namespaces,
///   and TCP to 80, 443 and 8000 to 8010 from blocks without others; out goes everything to one pod.
///
/// It was started with `--accept-icmp`, `--accept-icmpv6` and a file with a custom rule of each direction.
#[must_use]
pub fn table(number: u8) -> String {
    let policies = [
        ("default/allow", "ed8bb13bfee4ee31b0025fa51779faed"),
        ("default/closed", "e0b2779ddce9a1177ca8277075461998"),
    ];
    let mut text = TABLE.replace("NUMBER", &number.to_string());
    for (name, hash) in policies {
        let short = name.trim_start_matches("default/").to_uppercase();
        text = text.replace(&short, hash);
    }
    text
}

/// The names of policies in capitals stand for what their names are hashed to.
const TABLE: &str = r#"
table inet multi_networkpolicy {
  comment "MultiNetworkPolicy"

  set smi-ALLOW {
    type ifname
    comment "Managed interfaces set for default/allow"
    elements = { "net1" }
  }
  set snp-ALLOW_ingress_ipv4_net1_0 {
    type ipv4_addr
    comment "Addresses for default/allow"
    elements = { 2.2.5.12 }
  }
  set snp-ALLOW_ingress_ipv6_net1_0 {
    type ipv6_addr
    comment "Addresses for default/allow"
    elements = { 2001:db8::12 }
  }
  set snp-ALLOW_ingress_ipv4_net1_1 {
    type ipv4_addr
    comment "Addresses for default/allow"
    elements = { 2.2.5.120, 2.2.5.121, 2.2.5.122 }
  }
  set snp-ALLOW_ingress_ipv6_net1_1 {
    type ipv6_addr
    comment "Addresses for default/allow"
    elements = { 2001:db8::120, 2001:db8::121, 2001:db8::122 }
  }
  set snp-ALLOW_ingress_ipv4_cidr_2 {
    type ipv4_addr
    flags interval
    comment "CIDRs for default/allow"
    elements = { 10.0.0.0/8, 192.168.0.0/16 }
  }
  set snp-ALLOW_ingress_ipv4_except_2 {
    type ipv4_addr
    flags interval
    comment "Excepts for default/allow"
    elements = { 10.1.0.0/16, 192.168.100.0/24 }
  }
  set snp-ALLOW_ingress_ipv6_cidr_2 {
    type ipv6_addr
    flags interval
    comment "CIDRs for default/allow"
    elements = { fd00:10::/32 }
  }
  set snp-ALLOW_ingress_ipv6_except_2 {
    type ipv6_addr
    flags interval
    comment "Excepts for default/allow"
    elements = { fd00:10:1::/48 }
  }
  set snp-ALLOW_egress_ipv4_net1_0 {
    type ipv4_addr
    comment "Addresses for default/allow"
    elements = { 2.2.5.130 }
  }
  set snp-ALLOW_egress_ipv6_net1_0 {
    type ipv6_addr
    comment "Addresses for default/allow"
    elements = { 2001:db8::130 }
  }
  set smi-CLOSED {
    type ifname
    comment "Managed interfaces set for default/closed"
    elements = { "net1" }
  }

  chain input {
    comment "Input Dispatcher"
    type filter hook input priority filter; policy accept;
    iifname @smi-ALLOW jump ingress comment "default/allow"
    iifname @smi-CLOSED jump ingress comment "default/closed"
  }
  chain output {
    comment "Output Dispatcher"
    type filter hook output priority filter; policy accept;
    oifname @smi-ALLOW jump egress comment "default/allow"
    oifname @smi-CLOSED jump egress comment "default/closed"
  }
  chain ingress {
    comment "Ingress Policies"
    ct state established,related accept comment "Connection tracking"
    jump common-ingress comment "Jump to common"
    jump cnp-ALLOW comment "default/allow"
    jump cnp-CLOSED comment "default/closed"
    drop comment "Drop rule"
  }
  chain egress {
    comment "Egress Policies"
    ct state established,related accept comment "Connection tracking"
    jump common-egress comment "Jump to common"
    jump cnp-ALLOW comment "default/allow"
    jump cnp-CLOSED comment "default/closed"
    drop comment "Drop rule"
  }
  chain common-ingress {
    comment "Common Policies"
    meta l4proto icmp accept comment "Accept ICMP"
    meta l4proto icmpv6 accept comment "Accept ICMPv6"
    tcp dport 9999 accept comment "Custom Rule"
  }
  chain common-egress {
    comment "Common Policies"
    meta l4proto icmp accept comment "Accept ICMP"
    meta l4proto icmpv6 accept comment "Accept ICMPv6"
    ip daddr 192.168.100.0/24 accept comment "Custom Rule"
  }
  chain cnp-ALLOW {
    comment "MultiNetworkPolicy default/allow"
    iifname "net1" ip saddr 2.2.5.NUMBER accept
    iifname "net1" ip6 saddr 2001:db8::NUMBER accept
    iifname "net1" ip saddr @snp-ALLOW_ingress_ipv4_net1_0 meta l4proto udp th dport { 9000, 9100-9110 } accept
    iifname "net1" ip6 saddr @snp-ALLOW_ingress_ipv6_net1_0 meta l4proto udp th dport { 9000, 9100-9110 } accept
    iifname "net1" ip saddr @snp-ALLOW_ingress_ipv4_net1_1 accept
    iifname "net1" ip6 saddr @snp-ALLOW_ingress_ipv6_net1_1 accept
    iifname @smi-ALLOW ip saddr @snp-ALLOW_ingress_ipv4_cidr_2 ip saddr != @snp-ALLOW_ingress_ipv4_except_2 meta l4proto tcp th dport { 80, 443, 8000-8010 } accept
    iifname @smi-ALLOW ip6 saddr @snp-ALLOW_ingress_ipv6_cidr_2 ip6 saddr != @snp-ALLOW_ingress_ipv6_except_2 meta l4proto tcp th dport { 80, 443, 8000-8010 } accept
    oifname "net1" ip daddr @snp-ALLOW_egress_ipv4_net1_0 accept
    oifname "net1" ip6 daddr @snp-ALLOW_egress_ipv6_net1_0 accept
  }
  chain cnp-CLOSED {
    comment "MultiNetworkPolicy default/closed"
    iifname "net1" ip saddr 2.2.5.NUMBER accept
    iifname "net1" ip6 saddr 2001:db8::NUMBER accept
  }
}
"#;
