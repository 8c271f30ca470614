//! What happens to the agent, to its rules in a pod, to the container runtime, and to the API server.

use std::process::Command;

use picket_nftables::client::Client;
use picket_nftables::render::documented;
use picket_node::SandboxStatus;

use super::happenings::{FLUSHED, Happenings};
use crate::apiserver::never_open::{disturb, steal};
use crate::pods::{Pod, nft, table};
use crate::watched::flows::until;

impl Happenings {
    /// Something happens, or nothing: each in its turn.
    pub(super) fn fault(&mut self) -> Option<&'static str> {
        if self.random.below(2) == 0 {
            return None;
        }
        self.faults += 1;
        Some(match self.faults % 9 {
            0 => self.end_agent(),
            1 => self.flush_what_is_held(),
            2 => self.flush_what_is_not_held(),
            3 => self.flush_what_nobody_keeps(),
            4 => self.stop_server(),
            5 => self.end_runtime(),
            6 => self.refuse(),
            7 => self.lose_answers(),
            _ => self.disturb(),
        })
    }

    /// The agent ends, things change, and another one starts.
    fn end_agent(&mut self) -> &'static str {
        // Some milliseconds after what has changed last: whatever the agent does may be what is interrupted then.
        self.watched.flows.just_sent(self.moments.below(200));
        self.kill();
        self.changes(0);
        let holds = self.random.below(3) > 0;
        self.start(holds);
        self.changes(0);
        "agent killed"
    }

    /// An agent runs that holds its tables against others, or lets them change these.
    fn need(&mut self, holds: bool) {
        if self.holds != holds {
            self.kill();
            self.start(holds);
        }
        self.settle();
    }

    /// The kernel passes the table over then.
    fn flush_what_is_held(&mut self) -> &'static str {
        self.need(true);
        self.load("flush ruleset");
        self.changes(1);
        "flushed while held"
    }

    fn flush_what_is_not_held(&mut self) -> &'static str {
        self.need(false);
        self.watched.open("nft flush ruleset", false);
        self.load("flush ruleset");
        self.close();
        self.changes(1);
        "flushed while not held"
    }

    /// No agent runs, and things change.
    fn flush_what_nobody_keeps(&mut self) -> &'static str {
        self.kill();
        self.watched.open("nft flush ruleset", true);
        self.load("flush ruleset");
        self.changes(0);
        self.watched.windows.begin();
        let holds = self.random.below(2) == 0;
        self.start(holds);
        self.close();
        self.settle();
        "flushed while no agent ran"
    }

    /// Waits until there are rules again: what packets enter comes in one transaction.
    fn close(&mut self) {
        let server = &self.pods[FLUSHED];
        let mut seen = String::new();
        until("a table", || {
            seen = table(server);
            seen.contains("hook")
        });
        self.watched.close(&seen);
    }

    /// The API server says nothing for a while, and things change as soon as it does again.
    fn stop_server(&mut self) -> &'static str {
        self.node.server.signal("STOP");
        self.watched.flows.until_sent(100);
        self.node.server.signal("CONT");
        self.changes(1);
        "server stopped"
    }

    /// Things change while there is no container runtime.
    fn end_runtime(&mut self) -> &'static str {
        self.node.runtime.kill();
        self.node.until("no runtime", |status| status.runtime.is_some());
        self.change_policies();
        self.node.runtime.restart();
        self.node.until("a runtime", |status| status.runtime.is_none());
        "runtime killed"
    }

    /// The kernel refuses every change in one pod for a while, in which things change.
    fn refuse(&mut self) -> &'static str {
        self.need(false);
        self.watched.oracle.divide();
        let thief = steal(&self.pods[FLUSHED].inside, &documented::table_name());
        self.change_policies();
        self.mark();
        self.node.until_enforced();
        drop(thief);
        self.settle();
        "changes refused"
    }

    /// Others have put something into a table, so that it is made anew, with another beside it meanwhile. The kernel takes the other,
    /// for which there is room, and refuses the new one, for which there is none left then.
    pub(super) fn refuse_the_rest(&mut self) {
        self.need(false);
        self.watched.oracle.divide();
        let server = &self.pods[FLUSHED];
        leave_room_for_one(server);
        let mut client = Client::open(&server.inside).unwrap();
        let begin = client.generation().unwrap() + 1;
        self.load("add chain inet multi_networkpolicy others");
        let is_refused = |one: &SandboxStatus| {
            let trouble = one.trouble.as_ref();
            trouble.is_some_and(|trouble| trouble.contains("Argument list too long"))
        };
        self.node
            .until("a refusal", |status| status.sandboxes.iter().any(is_refused));
        self.change_policies();
        until("half of a change, and the way back", || {
            client.generation().unwrap() > begin + 1
        });
        self.watched.flows.until_sent(100);
        let server = &self.pods[FLUSHED];
        let before = table(server);
        nft(server, "delete table inet full");
        self.settle();
        assert!(before.contains("chain others"), "{before}");
        let after = table(&self.pods[FLUSHED]);
        assert!(!after.contains("chain others"), "{after}");
    }

    /// Somebody changes a table of his own all the time, so that what the agent has read is out of date when it writes.
    fn disturb(&mut self) -> &'static str {
        self.need(false);
        let disturber = disturb(&self.pods[FLUSHED].inside);
        self.changes(2);
        disturber.end();
        "disturbed"
    }

    /// The agent does not hear that the kernel has done what it was asked.
    fn lose_answers(&mut self) -> &'static str {
        let lost = self.node.lose_answers();
        self.changes(2);
        self.watched.flows.until_sent(20);
        drop(lost);
        "answers lost"
    }
}

/// Leaves room for one more chain that gets what comes to a pod: the kernel takes 1024 functions that do (`MAX_HOOK_COUNT`), of
/// which connection tracking has some.
fn leave_room_for_one(pod: &Pod) {
    const MOST: usize = 1010;
    let chain =
        |number: usize| format!("add chain inet full c{number} {{ type filter hook input priority 10; }}");
    let chains: Vec<_> = (0..MOST).map(chain).collect();
    nft(pod, &format!("add table inet full; {}", chains.join("; ")));
    let is_taken = |number: &usize| {
        let mut command = Command::new("nft");
        command.arg(chain(*number));
        let ran = pod.inside.run(|| command.output().unwrap()).unwrap();
        // If anything else keeps it from being made there may be room for it.
        let why = String::from_utf8_lossy(&ran.stderr);
        assert!(
            ran.status.success() || why.contains("Argument list too long"),
            "{why}"
        );
        ran.status.success()
    };
    let taken = (MOST..=1024).take_while(is_taken).count();
    assert!((1..=1024 - MOST).contains(&taken), "{taken} more chains");
    nft(pod, &format!("delete chain inet full c{}", MOST + taken - 1));
}
