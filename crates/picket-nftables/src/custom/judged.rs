//! Whether policies can say what custom rules say.

use std::net::IpAddr;
use std::sync::Arc;

use picket_cluster::{Semantics, Snapshot};

use super::{CustomRule, CustomRules};

/// Why custom rules cannot be judged with policies.
///
/// They match addresses as they are written; a block of a policy does not match every address that is in it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unjudged {
    /// Blocks are to match no pods.
    #[error(
        "custom rules match pods by their addresses, which `--ipblock-matches-pods=false` takes from policies"
    )]
    Pods,
    /// A rule names an address that was made up.
    #[error(
        "{file}:{line}: a custom rule names {address}, which is a made-up address of pod {pod}: give the pod one in its status"
    )]
    MadeUp {
        /// The file.
        file: Arc<str>,
        /// The line of the rule.
        line: u32,
        /// The address.
        address: IpAddr,
        /// The pod.
        pod: String,
    },
}

/// Checks that rules mean in a cluster what they mean as policies.
///
/// # Errors
/// The first that does not.
pub fn check(rules: &[CustomRules], snapshot: &Snapshot, semantics: &Semantics) -> Result<(), Unjudged> {
    if !semantics.ipblock_matches_pods && rules.iter().any(|file| !file.rules.is_empty()) {
        return Err(Unjudged::Pods);
    }
    let made_up = snapshot.live_pods().flat_map(|pod| {
        let own = pod.addresses.iter().filter(|_| pod.synthetic);
        let attached = pod.attachments.iter().filter(|attachment| attachment.synthetic);
        own.chain(attached.flat_map(|attachment| attachment.addresses.iter()))
            .map(move |address| (pod, address))
    });
    let made_up: Vec<_> = made_up.collect();
    for file in rules {
        for rule in &file.rules {
            if let Some((pod, address)) = made_up.iter().find(|(_, address)| rule.names(*address)) {
                return Err(Unjudged::MadeUp {
                    file: Arc::clone(&file.file),
                    line: rule.line,
                    address: *address,
                    pod: pod.id(),
                });
            }
        }
    }
    Ok(())
}

impl CustomRule {
    /// Whether it is about an address of the other end because it names it, or a prefix that has it.
    fn names(&self, address: IpAddr) -> bool {
        self.peers.iter().any(|block| {
            block.prefix.length() > 0
                && block.prefix.contains(address)
                && !block.except.iter().any(|except| except.contains(address))
        })
    }
}
