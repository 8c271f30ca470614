//! What the policies of secondary networks say of each pod.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use picket_cluster::{Interfaces, Pod, Seen, Semantics, Snapshot};
use picket_dataplane::EstablishedConnections;
use picket_engine::{PodRef, Program};
use picket_nftables::custom::{self, CustomRules};
use picket_nftables::model::InterfaceName;
use picket_nftables::render::documented::{self, Options};
use picket_policy::{NetworkName, ObjectRef, Policy};
use picket_source::ObjectVersion;
use smol_str::SmolStr;

use super::compiled::Compiled;
use super::held::{Said, Substitute, Substitutes};
use super::plugin::Plugins;
use super::touched::Touched;
use super::trace::Scene;
use crate::denied::Denied;
use crate::trace::{self, TraceQuestion};

/// The networks that pods of the node are on, each as a cluster of its own with all that are on its wire.
pub(super) struct Networks {
    semantics: Semantics,
    /// Whether TCP in the middle of connections that nobody knows is refused, so that connections can be cut.
    refuse_mid_stream: bool,
    /// The netlink group to which rules log what policies drop, if they do.
    log_denied: Option<u16>,
    /// Those that see the same share it.
    compiled: BTreeMap<NetworkName, Arc<Compiled>>,
    interfaces: Interfaces,
    /// How often something about them, or the custom rules, has become another.
    revision: u64,
    /// The same with policies as they were that are held back somewhere.
    former: Mutex<Vec<Former>>,
    custom: Arc<Vec<CustomRules>>,
    /// In which versions policies were read that have any.
    versions: BTreeMap<ObjectRef, ObjectVersion>,
    /// What people may not expect of the networks that policies name.
    notes: Vec<String>,
    /// The policies that name networks on which none holds, with why that is.
    unpoliced: BTreeMap<ObjectRef, String>,
}

/// A network on which some policies say what they said before.
struct Former {
    /// What is there now.
    now: Arc<Compiled>,
    /// What they said there; `None` where they were not about it.
    policies: Vec<(ObjectRef, Option<Arc<Policy>>)>,
    compiled: Arc<Compiled>,
}

impl Networks {
    /// None yet. TCP in the middle of connections that nobody knows is refused where connections are cut; what policies drop is
    /// logged to a netlink group, if there is one.
    pub(super) fn new(
        semantics: Semantics,
        established: EstablishedConnections,
        log_denied: Option<u16>,
    ) -> Self {
        Self {
            semantics,
            refuse_mid_stream: established == EstablishedConnections::Cut,
            log_denied,
            compiled: BTreeMap::new(),
            interfaces: Interfaces::default(),
            revision: 0,
            former: Mutex::default(),
            custom: Arc::default(),
            versions: BTreeMap::new(),
            notes: Vec::new(),
            unpoliced: BTreeMap::new(),
        }
    }

    /// What people may not expect of the networks of pods that policies name.
    pub(super) fn notes(&self) -> &[String] {
        &self.notes
    }

    /// The policies that name networks of pods on which none holds, with why that is.
    pub(super) fn unpoliced(&self) -> &BTreeMap<ObjectRef, String> {
        &self.unpoliced
    }

    /// As long as this is the same, so is what policies say of each pod.
    pub(super) fn revision(&self) -> u64 {
        self.revision
    }

    /// From now on policies are as they were read in these versions.
    pub(super) fn read_in(&mut self, versions: BTreeMap<ObjectRef, ObjectVersion>) {
        self.versions = versions;
    }

    /// Takes in what has changed on the networks of `pods` that policies name, if their plugins are policed. Since the last time only
    /// what is touched may be another.
    pub(super) fn update(
        &mut self,
        snapshot: &Snapshot,
        touched: &Touched,
        pods: &[&Arc<Pod>],
        plugins: &Plugins,
        custom: Vec<CustomRules>,
    ) {
        self.former = Mutex::default();
        let same_custom = *self.custom == custom;
        if !same_custom {
            self.custom = Arc::new(custom);
        }
        let mut changed = !same_custom;
        let policies = snapshot.policies.values();
        let named: BTreeSet<_> = policies.flat_map(|policy| policy.networks.attached()).collect();
        let attached = pods.iter().flat_map(|pod| &pod.attachments);
        let of_pods: BTreeSet<_> = attached.map(|attachment| &attachment.network).collect();
        let mut before = std::mem::take(&mut self.compiled);
        let used: Vec<_> = of_pods
            .into_iter()
            .filter(|network| named.contains(network))
            .collect();
        let noted = |network: &&NetworkName| {
            let note = plugins.note(network, snapshot.networks.contains_key(*network))?;
            Some((NetworkName::clone(network), note))
        };
        let notes: BTreeMap<_, _> = used.iter().filter_map(noted).collect();
        let (policed, others): (Vec<_>, Vec<_>) =
            used.into_iter().partition(|network| plugins.police(network));
        let policies = snapshot.policies.values().filter_map(|policy| {
            let mut named = policy.networks.attached().iter();
            let network = named.find(|network| others.contains(network))?;
            Some((policy.object.clone(), notes.get(network)?.clone()))
        });
        self.unpoliced = policies.collect();
        self.tell(notes.into_values().collect());
        for (networks, seen) in snapshot.on_each(policed) {
            let known = networks.iter().filter_map(|network| before.remove(*network));
            let mut known: Vec<_> = known.collect();
            changed |= known.len() != networks.len();
            changed |= known
                .iter()
                .zip(known.iter().skip(1))
                .any(|(one, next)| !Arc::ptr_eq(one, next));
            // Those that share it see the same now.
            known.truncate(1);
            let compiled = match known.pop() {
                None => {
                    changed = true;
                    Arc::new(self.compile(&seen))
                }
                Some(known) => {
                    let (compiled, is_another) = self.lead(known, &seen, touched, same_custom);
                    changed |= is_another;
                    compiled
                }
            };
            let of_each = networks
                .into_iter()
                .map(|network| (network.clone(), Arc::clone(&compiled)));
            self.compiled.extend(of_each);
        }
        if changed || !before.is_empty() {
            self.revision += 1;
        }
    }

    /// What was compiled before, led to what is seen now; whether it is another.
    fn lead(
        &mut self,
        mut known: Arc<Compiled>,
        seen: &Seen<'_>,
        touched: &Touched,
        same_custom: bool,
    ) -> (Arc<Compiled>, bool) {
        let Some(events) = known.events_to(seen, touched, &mut self.interfaces) else {
            return (Arc::new(self.compile(seen)), true);
        };
        if events.is_empty() && same_custom && known.is_of(seen) {
            return (known, false);
        }
        // Another network may see what was there before.
        let Some(own) = Arc::get_mut(&mut known) else {
            return (Arc::new(self.compile(seen)), true);
        };
        own.take(seen, events);
        (known, true)
    }

    fn compile(&mut self, seen: &Seen<'_>) -> Compiled {
        Compiled::new(seen, &mut self.interfaces, &self.semantics)
    }

    /// The networks, with policies as they were for which something else holds.
    pub(super) fn with(&self, substitutes: &Substitutes) -> Vec<(&NetworkName, Arc<Compiled>)> {
        let compiled = self.compiled.iter();
        compiled
            .map(|(network, compiled)| (network, self.with_former(network, compiled, substitutes)))
            .collect()
    }

    fn with_former(
        &self,
        network: &NetworkName,
        now: &Arc<Compiled>,
        substitutes: &Substitutes,
    ) -> Arc<Compiled> {
        let former = substitutes.iter().filter_map(|(policy, substitute)| {
            let Substitute::Former(said, _) = substitute else {
                return None;
            };
            let former = said.get(network);
            (now.program().policy(policy) != former).then(|| (policy.clone(), former.cloned()))
        });
        let policies: Vec<_> = former.collect();
        if policies.is_empty() {
            return Arc::clone(now);
        }
        let mut known = self.former.lock().unwrap_or_else(PoisonError::into_inner);
        let same = known
            .iter()
            .find(|known| Arc::ptr_eq(&known.now, now) && known.policies == policies);
        if let Some(same) = same {
            return Arc::clone(&same.compiled);
        }
        let compiled = Arc::new(now.where_others_hold(&policies));
        known.push(Former {
            now: Arc::clone(now),
            policies,
            compiled: Arc::clone(&compiled),
        });
        compiled
    }

    /// What a policy says on each network.
    pub(super) fn says(&self, policy: &ObjectRef) -> Said {
        let compiled = self.compiled.iter();
        said(
            compiled.map(|(network, compiled)| (network, compiled.as_ref())),
            policy,
        )
    }

    /// Logs notes that are new, once.
    fn tell(&mut self, notes: Vec<String>) {
        for note in notes.iter().filter(|note| !self.notes.contains(note)) {
            tracing::warn!("{note}");
        }
        self.notes = notes;
    }

    /// The netlink group to which rules log what policies drop, if they do.
    pub(super) fn log_denied(&self) -> Option<u16> {
        self.log_denied
    }

    /// The custom rules, in the order in which they are judged.
    pub(super) fn custom(&self) -> &Arc<Vec<CustomRules>> {
        &self.custom
    }

    /// Whether TCP in the middle of connections that nobody knows is refused.
    pub(super) fn refuses_mid_stream(&self) -> bool {
        self.refuse_mid_stream
    }

    /// Over which of its interfaces a pod may not do what a rule has logged: the network with its program, where the interface is
    /// an endpoint. `None` where no rule of the pod logs with this prefix.
    pub(super) fn over(
        &self,
        pod: &Pod,
        denied: &Denied,
        prefix: &str,
    ) -> Option<(&NetworkName, &Program, PodRef<'_>)> {
        let logs = |name: &str| {
            let name = InterfaceName::new(name);
            let prefix_over = |name| documented::log_prefix(denied.direction(), &name, denied.is_audited());
            name.is_some_and(|name| prefix_over(name).as_str() == prefix)
        };
        let mut attachments = pod.attachments.iter();
        let attachment = attachments.find(|attachment| logs(&attachment.interface))?;
        let (network, compiled) = self.compiled.get_key_value(&attachment.network)?;
        let program = compiled.program();
        let own = program.endpoints_of(&pod.object).find(|endpoint| {
            let interface = endpoint.pod().interface.as_ref();
            interface.is_some_and(|own| own.name == attachment.interface)
        })?;
        Some((network, program, own))
    }

    /// What is known of the ends of a question on each network that may be meant; nothing yet of which of them are here.
    pub(super) fn scenes(&self, question: &TraceQuestion) -> Vec<Scene> {
        let is_meant = |network: &NetworkName| {
            let asked = question.network.as_ref();
            asked.is_none_or(|asked| *asked == network.to_string())
        };
        let meant = self.compiled.iter().filter(|(network, _)| is_meant(network));
        let scenes = meant.map(|(network, compiled)| {
            let known = trace::Scene::of(compiled.judged(&self.custom), question);
            Scene {
                network: network.clone(),
                snapshot: known.snapshot,
                semantics: known.semantics,
                own_addresses: custom::own_addresses(&self.custom),
                here: Vec::new(),
            }
        });
        scenes.collect()
    }

    /// The interfaces of a pod that are on networks of policies.
    pub(super) fn interfaces(&self, pod: &Pod) -> BTreeSet<SmolStr> {
        let attachments = pod.attachments.iter();
        let policed = attachments.filter(|own| self.compiled.contains_key(&own.network));
        policed.map(|own| own.interface.clone()).collect()
    }

    /// In which versions policies were read, or what holds in their place.
    pub(super) fn versions_of(
        &self,
        policies: &[ObjectRef],
        substitutes: &Substitutes,
    ) -> BTreeMap<ObjectRef, ObjectVersion> {
        let version = |policy: &ObjectRef| match substitutes.get(policy) {
            Some(Substitute::Former(_, version)) => version.clone(),
            Some(Substitute::Closed) => None,
            None => self.versions.get(policy).cloned(),
        };
        let policies = policies.iter();
        let versions = policies.filter_map(|policy| Some((policy.clone(), version(policy)?)));
        versions.collect()
    }

    /// How rules are made of policies.
    pub(super) fn options(&self) -> Options {
        Options {
            accept_icmp: self.semantics.accept_icmp,
            accept_icmpv6: self.semantics.accept_icmpv6,
            custom: Vec::clone(&self.custom),
            refuse_mid_stream: self.refuse_mid_stream,
            count_drops: true,
            log_denied: self.log_denied,
        }
    }
}

/// What a policy says on each of these networks.
pub(super) fn said<'n>(
    networks: impl Iterator<Item = (&'n NetworkName, &'n Compiled)>,
    policy: &ObjectRef,
) -> Said {
    let on = networks.filter_map(|(network, compiled)| {
        let policy = compiled.program().policy(policy)?;
        Some((network.clone(), Arc::clone(policy)))
    });
    on.collect()
}

#[cfg(test)]
mod tests {
    use picket_cluster::{Attachment, Event, Object, Store};
    use picket_net::Family;
    use picket_policy::{Direction, Source};
    use picket_testing::build::{network, pod, policy};
    use picket_testing::generate::{self, Shape};
    use picket_testing::snapshot;
    use proptest::prelude::*;

    use super::super::desired::Desired;
    use super::*;

    fn name(text: &str) -> NetworkName {
        NetworkName::parse(text, "x").unwrap()
    }

    /// A pod on three networks, two of which are on one wire, and others there.
    fn cluster(addresses: [&str; 2]) -> Snapshot {
        let on = |at: &str, networks: &[(&str, &str)]| {
            let mut pod = pod(at).on("n").build();
            let attachments = networks
                .iter()
                .zip(1..)
                .map(|((network, address), number)| Attachment {
                    network: name(network),
                    interface: format!("net{number}").into(),
                    addresses: [address.parse().unwrap()].into_iter().collect(),
                    synthetic: false,
                });
            pod.attachments = attachments.collect();
            pod
        };
        let own = [("a", "10.1.0.1"), ("b", "10.1.0.2"), ("c", "10.1.0.1")];
        let mut cluster = snapshot![
            network("x/a", "macvlan/eth1"),
            network("x/b", "macvlan/eth1"),
            network("x/c", "macvlan/eth2"),
            on("x/own", &own),
            on("x/one", &[("a", addresses[0])]),
            on("x/two", &[("b", addresses[1])]),
        ];
        let mut policy = policy("x/p").isolates(Direction::Ingress).build();
        policy.networks = picket_policy::Networks::Attached(["a", "b", "c"].map(name).into());
        cluster.policies.insert(policy.object.clone(), policy.into());
        cluster
    }

    proptest! {
        /// A network is led from state to state, and is compiled anew only where most of it is another.
        #[test]
        fn what_is_desired_is_what_it_would_be_from_nothing(
            cluster in generate::cluster(),
            policies in generate::policies(Shape::Dialects, 8),
            events in generate::events(Shape::Dialects, 16),
            others in prop::collection::vec((0..8usize, 0..3usize), 24),
        ) {
            let objects = cluster.into_iter().chain(policies.into_iter().map(Object::Policy));
            let nothing = || Networks::new(Semantics::default(), EstablishedConnections::Keep, None);
            let (mut networks, mut store) = (nothing(), Store::new());
            let (mut revision, mut before) = (0, Vec::new());
            let mut plugins = Plugins::new(&["macvlan".into()]);
            let (mut custom, mut kept) = (Vec::new(), BTreeMap::new());
            let mut touched = Touched::default();
            for (event, (other, which)) in objects.map(Event::Apply).chain(events).zip(others.into_iter().cycle()) {
                touched.note(&event);
                store.apply(event);
                // Who is busy looks at some of them together.
                if which == 2 {
                    continue;
                }
                match other {
                    0 => custom = rules(which),
                    1 => {
                        let plugin = ["macvlan", "bridge"].get(which).map(SmolStr::new);
                        let network = store.snapshot().known_networks().into_iter().nth(which);
                        network.into_iter().for_each(|network| plugins.learn(network, plugin.clone()));
                    }
                    _ => {}
                }
                let snapshot = store.snapshot();
                let pods: Vec<_> = snapshot.pods.values().filter(|pod| pod.is_managed()).collect();
                let desired = |networks: &mut Networks, touched: &Touched, kept: &mut BTreeMap<_, _>| {
                    networks.update(&snapshot, touched, &pods, &plugins, custom.clone());
                    let told = networks.revision();
                    networks.update(&snapshot, &Touched::default(), &pods, &plugins, custom.clone());
                    assert_eq!(networks.revision(), told, "nothing is another");
                    let desired = pods.iter().map(|pod| {
                        let desired = networks.desired(pod, &Substitutes::new(), kept.get(&pod.object));
                        kept.insert(pod.object.clone(), desired.clone());
                        let Desired { table, policies, said, trouble, narrower, .. } = desired;
                        (Pod::clone(pod), (table, policies, said, trouble, narrower))
                    });
                    desired.collect::<Vec<_>>()
                };
                let now = desired(&mut networks, &std::mem::take(&mut touched), &mut kept);
                prop_assert_eq!(&now, &desired(&mut nothing(), &Touched::Anything, &mut BTreeMap::new()));
                if networks.revision() == revision {
                    for (pod, desired) in &now {
                        let mut known = before.iter().filter(|(known, _)| known == pod);
                        prop_assert!(known.all(|(_, known)| known == desired), "{pod:?}");
                    }
                }
                (revision, before) = (networks.revision(), now);
            }
        }
    }

    /// No custom rules, or some.
    fn rules(which: usize) -> Vec<CustomRules> {
        let texts = ["", "meta l4proto icmp accept\n", "tcp dport 22 accept\n"];
        let read = |text: &str| {
            let source = Source::decode(&"rules".into(), text.as_bytes()).unwrap();
            CustomRules::read(&source, Direction::Ingress, Family::Ipv4).unwrap()
        };
        let text = texts.get(which).filter(|text| !text.is_empty());
        text.map(|text| read(text)).into_iter().collect()
    }

    #[test]
    fn networks_that_see_the_same_are_compiled_once() {
        let mut networks = Networks::new(Semantics::default(), EstablishedConnections::Keep, None);
        let mut update = |cluster: &Snapshot| {
            let own = cluster.pod("Pod", "x", "own").unwrap();
            networks.update(
                cluster,
                &Touched::Anything,
                &[own],
                &Plugins::new(&["macvlan".into()]),
                Vec::new(),
            );
            ["a", "b", "c"].map(|network| Arc::clone(&networks.compiled[&name(network)]))
        };
        let apart = cluster(["10.1.0.3", "10.1.0.4"]);
        let [a, b, c] = update(&apart);
        assert!(Arc::ptr_eq(&a, &b) && !Arc::ptr_eq(&a, &c));
        assert_eq!((a.program().pods().count(), c.program().pods().count()), (4, 1));
        let again = update(&apart);
        assert!(
            [a, b, c]
                .iter()
                .zip(&again)
                .all(|(before, now)| Arc::ptr_eq(before, now))
        );
        // Each has another at the address that both have.
        let [a, b, c] = update(&cluster(["10.1.0.3", "10.1.0.3"]));
        assert!(!Arc::ptr_eq(&a, &b) && Arc::ptr_eq(&c, &again[2]));
        let addressed = |compiled: &Compiled| {
            let pods = compiled.program().pods();
            pods.filter(|pod| !pod.pod().addresses.is_empty()).count()
        };
        assert_eq!((addressed(&a), addressed(&b)), (3, 3));
    }
}
