//! The sockets in all pods.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use picket_linux::runtime::SandboxId;
use picket_linux::{Epoll, Interest, Port, Readiness};
use picket_nftables::client::{Change, Watch};

use super::Drifted;

/// How many messages of one pod are read in a turn. Who writes other rules into the namespace of a pod takes nobody's time with them.
const READINGS: usize = 64;

/// All sockets. Each is in the set of those to wait for under its token, but not while it is deaf.
pub(super) struct Watches {
    epoll: Epoll,
    open: Mutex<Open>,
}

#[derive(Default)]
struct Open {
    watches: BTreeMap<u64, One>,
    /// The last token that was given.
    given: u64,
}

struct One {
    sandbox: SandboxId,
    watch: Watch,
    keeper: Port,
    /// How many messages were read in this turn.
    readings: usize,
    /// Whether nothing is read until the next turn.
    is_deaf: bool,
    /// Whether nothing is heard any more.
    has_failed: bool,
}

/// As long as this is there, what others do in a sandbox is heard.
pub(super) struct Watched {
    watches: Arc<Watches>,
    token: u64,
}

impl Watched {
    /// Whether it still is.
    pub(super) fn is_heard(&self) -> bool {
        let open = self.watches.lock();
        open.watches.get(&self.token).is_some_and(|one| !one.has_failed)
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        // A socket that is closed leaves the set by itself.
        self.watches.lock().watches.remove(&self.token);
    }
}

impl Watches {
    pub(super) fn new() -> picket_linux::Result<Self> {
        Ok(Self {
            epoll: Epoll::new()?,
            open: Mutex::default(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether nothing is heard.
    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.lock().watches.is_empty()
    }

    /// Hears one more.
    pub(super) fn add(
        all: &Arc<Self>,
        sandbox: SandboxId,
        watch: Watch,
        keeper: Port,
    ) -> picket_linux::Result<Watched> {
        let mut open = all.lock();
        open.given += 1;
        let token = open.given;
        all.epoll.add(watch.monitor(), token, Interest::Read)?;
        let one = One {
            sandbox,
            watch,
            keeper,
            readings: 0,
            is_deaf: false,
            has_failed: false,
        };
        open.watches.insert(token, one);
        let watches = Arc::clone(all);
        Ok(Watched { watches, token })
    }

    /// Waits until there is something to hear, or for so long if there is something to do then.
    pub(super) fn wait(&self, until_turn: Duration) -> picket_linux::Result<Vec<Readiness>> {
        let something = self.lock().watches.values().any(|one| one.readings > 0);
        self.epoll.wait(something.then_some(until_turn))
    }

    /// Takes in what there is: the tables that others have changed. Each of those is deaf until the next turn.
    pub(super) fn hear(&self, ready: &[Readiness]) -> Drifted {
        let mut open = self.lock();
        let drifted = ready.iter().filter_map(|Readiness { token, .. }| {
            let one = open.watches.get_mut(token)?;
            let change = one.hear(&self.epoll)?;
            Some((one.sandbox.clone(), change))
        });
        drifted.collect()
    }

    /// Begins a turn.
    pub(super) fn turn(&self) {
        for (token, one) in &mut self.lock().watches {
            one.begin(*token, &self.epoll);
        }
    }
}

impl One {
    fn hear(&mut self, epoll: &Epoll) -> Option<Change> {
        let left = READINGS.saturating_sub(self.readings);
        let heard = match self.watch.heard(self.keeper, left) {
            Ok(heard) => heard,
            Err(_) => {
                self.has_failed = true;
                let _ = epoll.remove(self.watch.monitor());
                return Some(Change::Perhaps);
            }
        };
        self.readings += heard.readings.max(1);
        if !heard.changes.is_empty() || self.readings >= READINGS {
            match epoll.remove(self.watch.monitor()) {
                Ok(()) => self.is_deaf = true,
                Err(_) => self.has_failed = true,
            }
        }
        heard.changes.into_iter().next()
    }

    /// Begins a turn.
    fn begin(&mut self, token: u64, epoll: &Epoll) {
        self.readings = 0;
        if self.is_deaf && !self.has_failed {
            match epoll.add(self.watch.monitor(), token, Interest::Read) {
                Ok(()) => self.is_deaf = false,
                Err(_) => self.has_failed = true,
            }
        }
    }
}

#[cfg(test)]
mod kernel {
    use picket_linux::NetworkNamespace;
    use picket_nftables::client::Client;
    use picket_nftables::model::{Draft, Name};
    use picket_nftables::render::documented;

    use super::*;

    struct Scene {
        watches: Arc<Watches>,
        pods: Vec<(Client, Watched)>,
        others: Vec<Client>,
    }

    impl Scene {
        /// So many sandboxes, each heard, without a table.
        fn new(count: usize) -> Self {
            let watches = Arc::new(Watches::new().unwrap());
            let (mut pods, mut others) = (Vec::new(), Vec::new());
            for number in 0..count {
                let namespace = NetworkNamespace::create().unwrap();
                let keeper = Client::open(&namespace).unwrap();
                let watch = Watch::open_small(&namespace, &documented::table_name()).unwrap();
                let watched = Watches::add(&watches, id(number), watch, keeper.port()).unwrap();
                pods.push((keeper, watched));
                others.push(Client::open(&namespace).unwrap());
            }
            Self {
                watches,
                pods,
                others,
            }
        }

        /// What is heard without waiting: in which sandboxes.
        fn heard(&self) -> Vec<SandboxId> {
            let ready = self.watches.epoll.wait(Some(Duration::ZERO)).unwrap();
            let drifted = self.watches.hear(&ready).into_iter();
            drifted.map(|(sandbox, _)| sandbox).collect()
        }

        /// Everything that is heard without waiting.
        fn all_heard(&self) -> Vec<SandboxId> {
            std::iter::repeat_with(|| self.heard())
                .take_while(|heard| !heard.is_empty())
                .flatten()
                .collect()
        }
    }

    fn id(number: usize) -> SandboxId {
        SandboxId::read(&format!("sandbox-{number:04}")).unwrap()
    }

    /// Makes a table, and takes it away.
    fn meddle(client: &mut Client, table: &Name) {
        let draft = Draft::new(table.clone());
        client.sync(&Arc::new(draft.check().unwrap())).unwrap();
        client.remove(table).unwrap();
    }

    #[test]
    fn others_are_heard_and_the_keeper_is_not() {
        let (own, other) = (documented::table_name(), Name::new("other").unwrap());
        let mut scene = Scene::new(2);
        meddle(&mut scene.pods[0].0, &own);
        meddle(&mut scene.others[0], &other);
        assert_eq!(scene.heard(), []);
        scene.watches.turn();
        meddle(&mut scene.others[1], &own);
        assert_eq!(scene.heard(), [id(1)]);
        // Once in a turn, and what came meanwhile in the next.
        meddle(&mut scene.others[1], &own);
        meddle(&mut scene.others[0], &own);
        assert_eq!(scene.heard(), [id(0)]);
        assert_eq!(scene.heard(), []);
        scene.watches.turn();
        assert_eq!(scene.heard(), [id(1)]);
        scene.watches.turn();
        assert_eq!(scene.heard(), []);
    }

    #[test]
    fn who_floods_is_read_a_few_times_in_a_turn_and_others_are_heard() {
        let (own, other) = (documented::table_name(), Name::new("other").unwrap());
        let mut scene = Scene::new(2);
        for _ in 0..=READINGS / 4 {
            meddle(&mut scene.others[0], &other);
        }
        meddle(&mut scene.others[1], &own);
        assert_eq!(scene.heard(), [id(1)]);
        assert_eq!(scene.heard(), []);
        assert!(scene.watches.lock().watches.values().all(|one| one.is_deaf));
        // More than there is room for: perhaps the table was changed too.
        for _ in 0..20 * READINGS {
            meddle(&mut scene.others[0], &other);
        }
        let mut turns = 0;
        while !scene.heard().contains(&id(0)) {
            scene.watches.turn();
            turns += 1;
            assert!(turns < 20);
        }
        assert!(scene.pods.iter().all(|(_, watched)| watched.is_heard()));
    }

    #[test]
    fn a_hundred_sandboxes_are_heard_and_those_that_go_are_not() {
        let own = documented::table_name();
        let mut scene = Scene::new(120);
        for other in &mut scene.others {
            meddle(other, &own);
        }
        let mut heard = scene.all_heard();
        heard.sort();
        assert_eq!(heard, (0..120).map(id).collect::<Vec<_>>());
        scene.pods.truncate(1);
        scene.watches.turn();
        for other in &mut scene.others {
            meddle(other, &own);
        }
        assert_eq!(scene.all_heard(), [id(0)]);
        assert_eq!(scene.watches.lock().watches.len(), 1);
    }
}
