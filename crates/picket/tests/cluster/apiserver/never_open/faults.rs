//! What happens to the agent, to its rules, and to its way to the API server.

use std::cell::RefCell;

use picket_nftables::client::{Client, Observed};
use picket_nftables::print::text;
use picket_nftables::render::indexed;

use super::happenings::Happenings;
use super::{disturb, steal};
use crate::agents::knows;

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
            9 => self.lose_answers(),
            _ => return None,
        })
    }

    fn changes(&mut self, least: usize) {
        for _ in 0..least + self.random.below(3) {
            self.change();
        }
    }

    /// Some milliseconds pass, or none: whatever the agent does may be what is interrupted then.
    fn pass_a_moment(&mut self) {
        let most = [20, 200][self.moments.below(2)];
        self.watched.flows.just_sent(self.moments.below(most));
    }

    /// Agents end, and others start, perhaps before those have learnt anything.
    fn kill(&mut self) -> &'static str {
        for _ in 0..=self.random.below(2) {
            self.pass_a_moment();
            self.agent.kill();
            let holds = self.random.below(3) > 0;
            self.start(holds);
            self.changes(0);
        }
        "agent killed"
    }

    /// An agent runs that holds its table against others, or lets them change it.
    pub(super) fn need(&mut self, holds: bool) {
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

    /// Waits until there are rules again: what packets enter comes in one transaction and leads to all of them. An empty table is there
    /// for a moment where the kernel takes back a transaction that was to make one anew.
    fn close(&mut self) {
        let client = RefCell::new(Client::open(self.live.node()).unwrap());
        let seen = RefCell::new((0, Observed::Absent));
        self.agent.until("a table", |_| {
            *seen.borrow_mut() = client.borrow_mut().read(&indexed::table_name()).unwrap();
            match &seen.borrow().1 {
                Observed::Absent => false,
                Observed::Table(table) => table.chains().iter().any(|chain| chain.base.is_some()),
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
        self.live.server.signal("STOP");
        if self.random.below(2) == 0 {
            self.agent.kill();
            self.start(true);
        }
        self.watched.flows.until_sent(100);
        self.live.server.signal("CONT");
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

    /// The agent does not hear that the kernel has done what it was asked.
    fn lose_answers(&mut self) -> &'static str {
        let lost = self.agent.lose_answers();
        self.changes(2);
        self.watched.flows.until_sent(20);
        drop(lost);
        "answers lost"
    }
}
