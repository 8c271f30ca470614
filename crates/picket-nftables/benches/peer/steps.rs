//! The steps of multi-networkpolicy-nftables for one policy in one pod: each a transaction of its own, by a run of `nft`.
//!
//! It looks for what is there before each of them, by more runs than the one that is counted here, and does the same
//! whether anything has changed or not.

use std::fmt::Write;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use picket_linux::{NetworkNamespace, run_with_input};

/// What every pod has that a policy selects.
const STRUCTURE: &str = r#"add table inet multi_networkpolicy
add chain inet multi_networkpolicy input { type filter hook input priority filter; }
add chain inet multi_networkpolicy output { type filter hook output priority filter; }
add chain inet multi_networkpolicy ingress
add chain inet multi_networkpolicy egress
add chain inet multi_networkpolicy common-ingress
add chain inet multi_networkpolicy common-egress
flush chain inet multi_networkpolicy common-ingress
flush chain inet multi_networkpolicy common-egress
"#;

/// What is added to it once.
const ONCE: &str = r#"add rule inet multi_networkpolicy ingress ct state established,related accept comment "Connection tracking"
add rule inet multi_networkpolicy ingress jump common-ingress comment "Jump to common"
add rule inet multi_networkpolicy ingress drop comment "Drop rule"
"#;

const TABLE: &str = "inet multi_networkpolicy";

/// A policy that admits addresses to a port.
pub(crate) struct Policy {
    name: String,
    /// What its chain and its sets are called after.
    hash: String,
    addresses: Vec<String>,
}

impl Policy {
    pub(crate) fn new(name: &str, addresses: Vec<String>) -> Self {
        Self {
            name: name.to_owned(),
            hash: name.replace('/', "-"),
            addresses,
        }
    }

    /// What brings it in, before the rule with this handle. Each address is a line.
    fn apply(&self, drop: &str) -> String {
        let Self { name, hash, .. } = self;
        let mut text = format!(
            "add chain {TABLE} cnp-{hash}\n\
             add set {TABLE} smi-{hash} {{ type ifname; }}\n\
             add element {TABLE} smi-{hash} {{ eth0 }}\n\
             insert rule {TABLE} ingress position {drop} jump cnp-{hash} comment \"{name}\"\n\
             add rule {TABLE} input iifname @smi-{hash} jump ingress comment \"{name}\"\n"
        );
        if self.addresses.is_empty() {
            return text;
        }
        let set = format!("snp-{hash}_ingress_ipv4_eth0_0");
        let _ = writeln!(text, "add set {TABLE} {set} {{ type ipv4_addr; }}");
        for address in &self.addresses {
            let _ = writeln!(text, "add element {TABLE} {set} {{ {address} }}");
        }
        let _ = writeln!(
            text,
            "add rule {TABLE} cnp-{hash} iifname eth0 ip saddr @{set} tcp dport {{ 5555 }} accept"
        );
        text
    }

    /// What takes it away, where its rules are these lines of a listing.
    fn cleanup(&self, listed: &str) -> Result<String> {
        let hash = &self.hash;
        let mut text = String::new();
        for (chain, handle) in handles(listed, &self.name) {
            writeln!(text, "delete rule {TABLE} {chain} handle {handle}")?;
        }
        writeln!(
            text,
            "flush chain {TABLE} cnp-{hash}\ndelete chain {TABLE} cnp-{hash}"
        )?;
        if !self.addresses.is_empty() {
            writeln!(text, "delete set {TABLE} snp-{hash}_ingress_ipv4_eth0_0")?;
        }
        writeln!(text, "delete set {TABLE} smi-{hash}")?;
        Ok(text)
    }
}

/// The chains and handles of the rules with a comment.
fn handles(listed: &str, comment: &str) -> Vec<(String, String)> {
    let mut chain = "";
    let mut found = Vec::new();
    for line in listed.lines().map(str::trim) {
        if let Some(rest) = line.strip_prefix("chain ") {
            chain = rest.split(' ').next().unwrap_or_default();
        }
        if let (true, Some((_, handle))) = (
            line.contains(&format!("\"{comment}\"")),
            line.split_once("# handle "),
        ) {
            found.push((chain.to_owned(), handle.to_owned()));
        }
    }
    found
}

/// The steps in one pod.
pub(crate) struct Steps<'a> {
    namespace: &'a NetworkNamespace,
}

impl<'a> Steps<'a> {
    pub(crate) fn of(namespace: &'a NetworkNamespace) -> Self {
        Self { namespace }
    }

    fn nft(&self, arguments: &[&str], input: &str) -> Result<String> {
        let mut command = Command::new("nft");
        command.args(arguments);
        let output = run_with_input(self.namespace, &mut command, input.as_bytes(), "nftables");
        Ok(String::from_utf8(output?)?)
    }

    fn listed(&self) -> Result<String> {
        // Of sets it asks for the names alone.
        self.nft(&["-a", "-t", "list", "ruleset"], "")
    }

    /// Brings a policy in where it is not.
    pub(crate) fn first(&self, policy: &Policy) -> Result<()> {
        let once = if self.listed()?.contains("Drop rule") {
            ""
        } else {
            ONCE
        };
        self.nft(&["-f", "-"], &format!("{STRUCTURE}{once}"))?;
        self.apply(policy)
    }

    fn apply(&self, policy: &Policy) -> Result<()> {
        let drop = handles(&self.listed()?, "Drop rule");
        let (_, drop) = drop.first().context("no rule that drops")?;
        self.nft(&["-f", "-"], &policy.apply(drop))?;
        Ok(())
    }

    /// Takes a policy away and brings it in again. How long it was away.
    pub(crate) fn again(&self, policy: &Policy) -> Result<Duration> {
        let cleanup = policy.cleanup(&self.listed()?)?;
        self.nft(&["-f", "-"], &cleanup)?;
        let start = Instant::now();
        self.nft(&["-f", "-"], STRUCTURE)?;
        self.apply(policy)?;
        Ok(start.elapsed())
    }
}
