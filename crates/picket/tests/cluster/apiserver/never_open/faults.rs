//! What happens to the agent, to its rules, and to its way to the API server.

use std::cell::RefCell;
use std::process::Command;

use picket_nftables::client::{Client, Observed};
use picket_nftables::print::text;
use picket_nftables::render::indexed;
use picket_node::Trouble;
use picket_testing::confined::many_blocks;
use serde_json::{Value, json};

use super::happenings::Happenings;
use super::{POLICIES, disturb, steal};
use crate::agents::knows;
use crate::objects::network_policy;
use crate::watched::flows::until;
use crate::watched::oracle::Change;
use crate::watched::policy;

impl Happenings<'_> {
    /// Something happens, or nothing.
    pub(super) fn fault(&mut self) -> Option<&'static str> {
        Some(match self.random.below(24) {
            0 | 1 => self.kill(),
            2 => self.flush_what_is_held(),
            3 => self.flush_what_is_not_held(),
            4 => self.flush_what_nobody_keeps(),
            5 => self.stop_server(),
            6 => self.cut_off(),
            7 => self.refuse(),
            8 => self.disturb(),
            _ => return None,
        })
    }

    fn changes(&mut self, least: usize) {
        for _ in 0..least + self.random.below(3) {
            self.change();
        }
    }

    /// Agents end, and others start, perhaps before those have learnt anything.
    fn kill(&mut self) -> &'static str {
        for _ in 0..=self.random.below(2) {
            self.agent.kill();
            let holds = self.random.below(3) > 0;
            self.start(holds);
            self.changes(0);
        }
        "agent killed"
    }

    /// An agent runs that holds its table against others, or lets them change it.
    fn need(&mut self, holds: bool) {
        if self.holds != holds {
            self.agent.kill();
            self.start(holds);
        }
        self.settle();
    }

    /// The kernel passes the table over then.
    fn flush_what_is_held(&mut self) -> &'static str {
        self.need(true);
        self.live.nft(&["flush", "ruleset"]);
        self.changes(1);
        "flushed while held"
    }

    fn flush_what_is_not_held(&mut self) -> &'static str {
        self.need(false);
        self.open(false);
        self.live.nft(&["flush", "ruleset"]);
        self.close();
        self.changes(1);
        "flushed while not held"
    }

    /// No agent runs, and things change.
    fn flush_what_nobody_keeps(&mut self) -> &'static str {
        self.agent.kill();
        self.open(true);
        self.live.nft(&["flush", "ruleset"]);
        self.changes(0);
        self.watched.windows.begin();
        let holds = self.random.below(2) == 0;
        self.start(holds);
        self.close();
        self.settle();
        "flushed while no agent ran"
    }

    /// There may be no rules from now on.
    fn open(&mut self, by_nobody: bool) {
        self.watched.open("nft flush ruleset", by_nobody);
    }

    /// Waits until there are rules again: they come in one transaction, so that what is there is all of them. An empty table is there for
    /// a moment where the kernel takes back a transaction that was to make one anew.
    fn close(&mut self) {
        let client = RefCell::new(Client::open(self.live.node()).unwrap());
        let seen = RefCell::new((0, Observed::Absent));
        self.agent.until("a table", |_| {
            *seen.borrow_mut() = client.borrow_mut().read(&indexed::table_name()).unwrap();
            match &seen.borrow().1 {
                Observed::Absent => false,
                Observed::Table(table) => !table.chains().is_empty(),
                Observed::Altered(_) => true,
            }
        });
        let (generation, observed) = seen.into_inner();
        let Observed::Table(table) = observed else {
            panic!("a table that no agent makes, in generation {generation}: {observed:?}");
        };
        self.watched
            .close(&format!("generation {generation}\n{}", text(&table)));
    }

    /// The API server says nothing for a while, perhaps to a new agent, and things change as soon as it does again.
    fn stop_server(&mut self) -> &'static str {
        let server = self.live.server.id().to_string();
        let signal = |name: &str| {
            let kill = Command::new("kill").args([name, &server]).status();
            assert!(kill.unwrap().success());
        };
        signal("-STOP");
        if self.random.below(2) == 0 {
            self.agent.kill();
            self.start(true);
        }
        self.watched.flows.until_sent(100);
        signal("-CONT");
        self.changes(1);
        "server stopped"
    }

    /// The agent cannot reach the API server for a while, in which things change.
    fn cut_off(&mut self) -> &'static str {
        for proxy in &self.live.proxies {
            proxy.close();
        }
        if self.random.below(2) == 0 {
            self.agent.kill();
            self.start(true);
        }
        self.changes(1);
        for proxy in &self.live.proxies {
            proxy.open();
        }
        self.changes(0);
        "server out of reach"
    }

    /// The kernel refuses every change of the table for a while, in which things change.
    fn refuse(&mut self) -> &'static str {
        self.need(false);
        self.watched.oracle.divide();
        let thief = steal(self.live.node(), &indexed::table_name());
        self.changes(2);
        let versions = self.mark();
        self.agent.until("a refusal, or nothing to do", |status| {
            status.host.trouble.is_some() || knows(status, &versions)
        });
        drop(thief);
        self.settle();
        "changes refused"
    }

    /// Somebody changes a table of his own all the time, so that what the agent has read is out of date when it writes.
    fn disturb(&mut self) -> &'static str {
        self.need(false);
        let disturber = disturb(self.live.node());
        self.changes(2);
        disturber.end();
        "disturbed"
    }

    /// The kernel takes the first transaction of a change and refuses the next, which is too large where the agent is, whenever it is
    /// tried; then the change is a smaller one.
    pub(super) fn refuse_the_rest(&mut self) {
        self.count += 1;
        let from = |space: &str| json!([{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": space}}}]);
        let mut spec = |pods: Value, space: &str| json!({"podSelector": pods, "ingress": [{"from": from(space), "ports": self.ports()}]});
        let nobody = json!({"matchLabels": {"pod": "none"}});
        let specs = [spec(nobody, "y"), spec(json!({}), "z")];
        let named = |name: &str, spec| network_policy("x", &format!("{name}-{}", self.count), spec);
        let [mut manifest, other] = [named("large", &specs[0]), named("other", &specs[1])];
        let object = self.put(&manifest);
        self.need(false);

        // The pod had a chain together with another. Its own is made first.
        manifest["spec"]["podSelector"] = json!({"matchLabels": {"pod": "c"}});
        let small = manifest.clone();
        let (cidr, except) = many_blocks();
        let from = manifest["spec"]["ingress"][0]["from"].as_array_mut().unwrap();
        from.push(json!({"ipBlock": {"cidr": cidr, "except": except}}));
        self.watched.oracle.divide();
        let table = indexed::table_name();
        let before = Client::open(self.live.node()).unwrap().read(&table).unwrap();
        self.say(&manifest, "is about pod c and many blocks");
        let title = object.to_string();
        let is_refused = |trouble: &Trouble| {
            trouble.why.contains("could not be sent") && trouble.waiting == [title.clone()]
        };
        self.agent.until("a refusal", |status| {
            status.host.trouble.as_ref().is_some_and(is_refused)
        });
        self.is_half_made_and_undone(&before);
        let other = self.put(&other).to_string();
        self.agent
            .until("another policy", |status| status.host.policies.contains(&other));

        self.say(&small, "is about pod c");
        self.until_all_is_in_force();
        self.prove();
    }

    /// A policy that is there says this.
    fn say(&mut self, manifest: &Value, what: &str) {
        let says = policy(manifest);
        let object = says.object.clone();
        self.watched
            .begins(format!("{object} {what}"), Change::Policy(says));
        let operations = json!([{"op": "replace", "path": "/spec", "value": manifest["spec"]}]);
        self.live.api.patch_by(POLICIES, &object.name, &operations);
        self.touched.insert(POLICIES);
    }

    /// Waits until transactions have been made, after which the table is what it was.
    fn is_half_made_and_undone(&self, (generation, before): &(u32, Observed)) {
        let mut client = Client::open(self.live.node()).unwrap();
        until("half of the change, and the way back", || {
            client.generation().unwrap() > generation + 1
        });
        let is_same = || client.read(&indexed::table_name()).unwrap().1 == *before;
        until("the table as it was", is_same);
    }
}
