//! The thread that asks the container runtime which sandboxes there are, and those that ask where each of them is.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use picket_linux::NetworkNamespace;
use picket_linux::runtime::{Follower, Problem, Runtime, RuntimeError, Sandbox, SandboxId};

use super::{News, Outbox};
use crate::AgentError;
use crate::metrics::Metrics;

/// When to try again what the runtime did not say well enough.
const RETRY: Duration = Duration::from_secs(1);

/// How long to wait otherwise for what may never come.
const LONG: Duration = Duration::from_secs(3600);

/// The sandboxes that are ready.
pub(super) type Sandboxes = Vec<(Sandbox, Found)>;

/// What is known of where the pod of a sandbox has its network.
#[derive(Clone, Debug)]
pub(super) enum Found {
    /// Its namespace.
    Namespace(Arc<NetworkNamespace>),
    /// The pod is in the network of its node, where no policy selects it.
    Host,
    /// Nothing yet: the runtime has been asked, and may take its time.
    Asked,
    /// Why it is not known.
    Unknown(String),
}

/// Tells in a thread of its own, which ends with the process, which sandboxes there are and where.
pub(super) fn start(runtime: Runtime, metrics: Metrics, outbox: Outbox) -> Result<(), AgentError> {
    let runtime = Arc::new(runtime);
    let asked = Arc::clone(&runtime);
    let search = Search::new(move |sandbox| found(asked.namespace(sandbox)), outbox);
    thread::Builder::new()
        .name("picket-runtime".to_owned())
        .spawn(move || follow(&runtime, &search, &metrics))
        .map_err(AgentError::Start)?;
    Ok(())
}

/// Follows the sandboxes of a runtime until nobody wants to know.
fn follow(runtime: &Runtime, search: &Search, metrics: &Metrics) {
    let mut follower = Follower::default();
    loop {
        let patience = if search.is_over() { LONG } else { RETRY };
        let heard = match follower.next(runtime, patience) {
            Ok(sandboxes) => search.begin(sandboxes, || metrics.found_by(follower.learned())),
            Err(error) => search.outbox.send(News::Silence(error.to_string())).is_ok(),
        };
        if !heard {
            return;
        }
    }
}

/// Asks where sandboxes are, each in a thread of its own: one of which the runtime does not answer holds up no other. What there is
/// to know is told whenever it is more.
struct Search {
    ask: Arc<dyn Fn(&Sandbox) -> Found + Send + Sync>,
    state: Arc<Mutex<State>>,
    outbox: Outbox,
}

#[derive(Default)]
struct State {
    sandboxes: Vec<Sandbox>,
    /// What is known of each of them.
    found: BTreeMap<SandboxId, Found>,
    /// Those of which the runtime is being asked.
    asking: BTreeSet<SandboxId>,
}

impl Search {
    fn new(ask: impl Fn(&Sandbox) -> Found + Send + Sync + 'static, outbox: Outbox) -> Self {
        Self {
            ask: Arc::new(ask),
            state: Arc::default(),
            outbox,
        }
    }

    /// Whether everything is known that can be.
    fn is_over(&self) -> bool {
        let is_known = |found: &Found| matches!(found, Found::Namespace(_) | Found::Host);
        lock(&self.state).found.values().all(is_known)
    }

    /// Looks for sandboxes that are new, which `is_new` hears of, and for those where it did not succeed before. Whether anybody
    /// hears it.
    fn begin(&self, sandboxes: Vec<Sandbox>, is_new: impl Fn()) -> bool {
        let mut state = lock(&self.state);
        let mut before = std::mem::take(&mut state.found);
        for sandbox in &sandboxes {
            let found = before.remove(&sandbox.id).unwrap_or_else(|| {
                is_new();
                Found::Asked
            });
            let found = match found {
                Found::Asked | Found::Unknown(_) if state.asking.insert(sandbox.id.clone()) => {
                    self.ask(sandbox.clone()).map_or(found, |error| {
                        state.asking.remove(&sandbox.id);
                        Found::Unknown(format!("cannot ask for it: {error}"))
                    })
                }
                found => found,
            };
            state.found.insert(sandbox.id.clone(), found);
        }
        state.sandboxes = sandboxes;
        state.tell(&self.outbox)
    }

    /// Asks where a sandbox is without waiting for the answer; why that is not possible, if it is not.
    fn ask(&self, sandbox: Sandbox) -> Option<std::io::Error> {
        let (ask, state, outbox) = (
            Arc::clone(&self.ask),
            Arc::clone(&self.state),
            self.outbox.clone(),
        );
        let asking = move || {
            let found = ask(&sandbox);
            let mut state = lock(&state);
            state.asking.remove(&sandbox.id);
            // It may be gone meanwhile.
            if let Some(known) = state.found.get_mut(&sandbox.id) {
                *known = found;
                // When nobody hears it the agent has ended, and the process is about to.
                let _ = state.tell(&outbox);
            }
        };
        let thread = thread::Builder::new().name("picket-sandbox".to_owned());
        thread.spawn(asking).err()
    }
}

impl State {
    /// Tells what is known; whether anybody hears it.
    fn tell(&self, outbox: &Outbox) -> bool {
        let all = self.sandboxes.iter().filter_map(|sandbox| {
            let found = self.found.get(&sandbox.id)?;
            Some((sandbox.clone(), found.clone()))
        });
        outbox.send(News::Sandboxes(all.collect())).is_ok()
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(super) fn found(namespace: Result<NetworkNamespace, RuntimeError>) -> Found {
    match namespace {
        Ok(namespace) => Found::Namespace(Arc::new(namespace)),
        Err(RuntimeError::Sandbox {
            problem: Problem::Host,
            ..
        }) => Found::Host,
        Err(error) => Found::Unknown(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, Sender, channel, sync_channel};

    use super::*;

    /// A runtime that answers when a test says so, but of sandboxes in the network of the node at once.
    struct Scene {
        search: Search,
        news: Receiver<News>,
        questions: Receiver<(String, Sender<Found>)>,
    }

    impl Scene {
        fn new() -> Self {
            let (outbox, news) = sync_channel(64);
            let (question, questions) = channel();
            let ask = move |sandbox: &Sandbox| {
                if sandbox.name == "host" {
                    return Found::Host;
                }
                let (answer, answers) = channel();
                question.send((sandbox.name.clone(), answer)).unwrap();
                answers.recv().unwrap()
            };
            Self {
                search: Search::new(ask, outbox),
                news,
                questions,
            }
        }

        /// The runtime lists these; how many are new.
        fn list(&self, names: &[&str]) -> usize {
            let new = std::cell::Cell::new(0);
            let sandboxes = names.iter().map(|name| sandbox(name)).collect();
            assert!(self.search.begin(sandboxes, || new.set(new.get() + 1)));
            new.get()
        }

        /// Whom the runtime is asked for, and who waits for the answer.
        fn question(&self) -> (String, Sender<Found>) {
            self.questions.recv().unwrap()
        }

        /// What is told next, in short.
        fn told(&self) -> String {
            let Ok(News::Sandboxes(sandboxes)) = self.news.recv() else {
                panic!("no sandboxes");
            };
            let each = sandboxes.iter().map(|(sandbox, found)| {
                let found = match found {
                    Found::Namespace(_) => "there",
                    Found::Host => "host",
                    Found::Asked => "asked",
                    Found::Unknown(why) => why,
                };
                format!("{}: {found}", sandbox.name)
            });
            each.collect::<Vec<_>>().join(", ")
        }
    }

    fn sandbox(name: &str) -> Sandbox {
        Sandbox {
            id: SandboxId::read(&format!("sandbox-{name}")).unwrap(),
            pod_uid: name.to_owned(),
            namespace: "shop".to_owned(),
            name: name.to_owned(),
            created: 1,
        }
    }

    #[test]
    fn a_sandbox_of_which_nothing_is_answered_holds_up_no_other() {
        let scene = Scene::new();
        assert_eq!(scene.list(&["a", "host"]), 2);
        let (name, hangs) = scene.question();
        assert_eq!(name, "a");
        assert_eq!(scene.told(), "a: asked, host: asked");
        assert_eq!(scene.told(), "a: asked, host: host");
        // One that comes meanwhile too, and the one that hangs is not asked for twice.
        assert_eq!(scene.list(&["a", "b", "host"]), 1);
        assert_eq!(scene.told(), "a: asked, b: asked, host: host");
        let (name, answer) = scene.question();
        assert_eq!(name, "b");
        answer.send(Found::Unknown("not ready".to_owned())).unwrap();
        assert_eq!(scene.told(), "a: asked, b: not ready, host: host");
        assert!(!scene.search.is_over());
        hangs.send(Found::Host).unwrap();
        assert_eq!(scene.told(), "a: host, b: not ready, host: host");
    }

    #[test]
    fn who_was_not_found_is_looked_for_again_and_stays_unknown_meanwhile() {
        let scene = Scene::new();
        scene.list(&["a"]);
        assert_eq!(scene.told(), "a: asked");
        let unknown = Found::Unknown("no answer".to_owned());
        scene.question().1.send(unknown).unwrap();
        assert_eq!(scene.told(), "a: no answer");
        assert_eq!(scene.list(&["a"]), 0);
        assert_eq!(scene.told(), "a: no answer");
        scene.question().1.send(Found::Host).unwrap();
        assert_eq!(scene.told(), "a: host");
        assert!(scene.search.is_over());
        // Now it is known, and nobody asks.
        scene.list(&["a"]);
        assert_eq!(scene.told(), "a: host");
        assert!(scene.questions.try_recv().is_err());
    }

    #[test]
    fn what_is_answered_of_a_sandbox_that_is_gone_is_not_told() {
        let scene = Scene::new();
        scene.list(&["a"]);
        let (_, late) = scene.question();
        assert_eq!(scene.list(&[]), 0);
        assert_eq!((scene.told().as_str(), scene.told().as_str()), ("a: asked", ""));
        late.send(Found::Host).unwrap();
        scene.list(&["host"]);
        assert_eq!(scene.told(), "host: asked");
        assert_eq!(scene.told(), "host: host");
    }
}
