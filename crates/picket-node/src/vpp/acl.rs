//! Access control lists, on the interfaces that there are.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use picket_policy::ObjectRef;
use picket_vpp::acl::hold::Held;
use picket_vpp::acl::plan::{Handle, Installed, Operation, Plan};
use picket_vpp::acl::{Acl, AclAction, AclRule, Acls};
use picket_vpp::client::{Error, Feature, Interface, Vpp};
use smol_str::SmolStr;

use super::VppSettings;
use super::left::Left;
use super::places::Places;
use super::render::Wanted;
use super::work::looked_at;
use super::worker::{Cleaned, Closed, Summary, Synced, Tables};

/// The lists that VPP has, and whose interfaces are which.
#[derive(Debug)]
pub(crate) struct AclTables {
    places: Places,
    held: Held,
    /// Whether others have put lists onto interfaces.
    has_foreign: bool,
    /// The interfaces that may have something else than they should; `None` where all may.
    doubtful: Option<BTreeSet<SmolStr>>,
    /// The pods of which interfaces have the lists.
    served: BTreeMap<SmolStr, ObjectRef>,
    /// The interfaces without lists that an agent before may have left so.
    left: Left<SmolStr>,
    said: Option<Said>,
}

/// What was said last of what is where.
#[derive(Debug)]
struct Said {
    /// Of which revision of the places.
    revision: u64,
    summary: Arc<Summary>,
    /// The interfaces of no known pod, which may be others since.
    unknown: Vec<String>,
}

impl AclTables {
    pub(crate) fn new(settings: &VppSettings) -> Self {
        Self {
            places: Places::new(settings),
            held: Held::default(),
            has_foreign: false,
            doubtful: None,
            served: BTreeMap::new(),
            left: Left::default(),
            said: None,
        }
    }

    /// VPP has these interfaces now, with lists that are read.
    fn set_interfaces(&mut self, interfaces: BTreeMap<SmolStr, Interface>) {
        self.places.set_interfaces(interfaces);
        self.doubtful = None;
        self.has_foreign = !foreign(self.held.installed()).is_empty();
    }

    /// What is to be done.
    fn next(&mut self) -> Plan {
        let changed = self.places.advance();
        if let Some(doubtful) = &mut self.doubtful {
            doubtful.extend(changed);
        }
        let wanted = &self.places.placed().acls;
        let all = &self.held.installed().interfaces;
        looked_at(self.doubtful.as_ref().map_or(all.len(), BTreeSet::len));
        match &self.doubtful {
            Some(doubtful) => self.held.plan(wanted, doubtful),
            None => self.held.plan(wanted, all.keys()),
        }
    }

    /// What is to be done, and where interfaces get other lists, with those that others have put there since VPP was read.
    fn next_beside_others(&mut self, vpp: &mut Vpp) -> Result<Plan, Error> {
        let plan = self.next();
        Ok(match sets_lists(&plan) && self.read_lists(vpp)? {
            true => self.next(),
            false => plan,
        })
    }

    /// Reads which lists interfaces have, and nothing else; whether these are others than was known.
    fn read_lists(&mut self, vpp: &mut Vpp) -> Result<bool, Error> {
        let (interfaces, lists) = vpp.read_interfaces()?;
        let are_others = lists != self.held.installed().interfaces;
        if are_others {
            self.held.set_interfaces(lists);
            self.set_interfaces(interfaces);
        }
        Ok(are_others)
    }

    /// Does it; what VPP did not do.
    fn carry_out(&mut self, vpp: &mut Vpp, plan: &Plan) -> Result<Vec<Error>, Error> {
        let doubtful = self.doubtful.take();
        let troubles = match plan.is_empty() {
            true => Vec::new(),
            false => {
                let strangers = self.strangers(doubtful.as_ref());
                vpp.carry_out_held(plan, self.places.interfaces(), &strangers, &mut self.held)?
            }
        };
        if troubles.is_empty() {
            self.serve(doubtful.as_ref());
            match doubtful {
                Some(doubtful) => self.held.settle(&doubtful),
                None => self.held.settle_all(),
            }
            self.doubtful = Some(BTreeSet::new());
        }
        Ok(troubles)
    }

    /// Those of these interfaces, or of all, that have the lists of a pod and belong to another now.
    fn strangers(&self, doubtful: Option<&BTreeSet<SmolStr>>) -> BTreeSet<SmolStr> {
        let owners = &self.places.placed().owners;
        let is_stranger = |(name, pod): &(&SmolStr, &ObjectRef)| {
            let owner = owners.get(*name);
            owner.is_some_and(|owner| owner != *pod)
        };
        let names = |(name, _): (&SmolStr, _)| name.clone();
        match doubtful {
            Some(doubtful) => {
                let served = doubtful.iter().filter_map(|name| self.served.get_key_value(name));
                served.filter(is_stranger).map(names).collect()
            }
            None => self.served.iter().filter(is_stranger).map(names).collect(),
        }
    }

    /// Those of these interfaces, or all, that belong to pods have the lists of these.
    fn serve(&mut self, doubtful: Option<&BTreeSet<SmolStr>>) {
        let owners = &self.places.placed().owners;
        let Some(doubtful) = doubtful else {
            self.served.clone_from(owners);
            return;
        };
        for name in doubtful {
            match owners.get(name) {
                Some(owner) => self.served.insert(name.clone(), owner.clone()),
                None => self.served.remove(name),
            };
        }
    }

    /// Notes which interfaces without lists of ours may be as an agent before has left them.
    fn note_left(&mut self) {
        let installed = self.held.installed();
        let there = installed.interfaces.keys();
        let open = there.filter(|name| !installed.has_own(name)).cloned();
        let is_there = |name: &SmolStr| installed.interfaces.contains_key(name);
        self.left.note(installed.has_policies(), open, is_there);
    }

    /// The interfaces at which nothing passes.
    fn closed(&self) -> Vec<SmolStr> {
        let (installed, closed) = (self.held.installed(), Acl::closed());
        let is_closed = |index: &u32| installed.acls.get(index).is_some_and(|acl| acl.tag == closed.tag);
        let lists = installed.interfaces.iter();
        let lists = lists.filter(|(_, lists)| lists.input.iter().any(is_closed));
        lists.map(|(name, _)| name.clone()).collect()
    }

    /// What is where, but for what has become of pods since that was said, and the interfaces of no known pod where these are others.
    fn summary(&mut self) -> (Arc<Summary>, Option<Vec<String>>) {
        let revision = self.places.revision();
        let placed = self.places.placed();
        looked_at(placed.unknown.len());
        let unknown: Vec<_> = placed.unknown.iter().map(SmolStr::to_string).collect();
        if let Some(said) = &mut self.said
            && said.revision == revision
            && !self.has_foreign
        {
            let others = (said.unknown != unknown).then(|| unknown.clone());
            said.unknown = unknown;
            return (Arc::clone(&said.summary), others);
        }
        looked_at(placed.pods.len() + placed.pending.len());
        let summary = Arc::new(Summary {
            conflicts: placed.troubles.clone(),
            interfaces: placed.pods.clone(),
            uplinks: placed.uplinks.clone(),
            unknown: unknown.clone(),
            pending: placed.pending.values().cloned().collect(),
            foreign: foreign(self.held.installed()),
            ..Summary::default()
        });
        self.said = Some(Said {
            revision,
            unknown,
            summary: Arc::clone(&summary),
        });
        (summary, None)
    }
}

impl Tables for AclTables {
    fn features(&self) -> &'static [Feature] {
        &[Feature::Acls, Feature::Interfaces]
    }

    fn watch(&mut self, vpp: &mut Vpp) -> Result<(), Error> {
        vpp.watch_interfaces()
    }

    fn read(&mut self, vpp: &mut Vpp) -> Result<(), Error> {
        let reading = vpp.read()?;
        self.held.read_again(reading.installed);
        self.set_interfaces(reading.interfaces);
        self.places.look();
        Ok(())
    }

    fn look(&mut self, vpp: &mut Vpp, has_events: bool) -> Result<bool, Error> {
        let is_other_file = self.places.look();
        let known = self.places.interfaces().values();
        if !has_events && vpp.interfaces()?.values().map(whose).eq(sorted(known).map(whose)) {
            return Ok(is_other_file);
        }
        // One that is gone and came again has no lists any more.
        self.doubtful = None;
        let (interfaces, lists) = vpp.read_interfaces()?;
        self.held.set_interfaces(lists);
        self.set_interfaces(interfaces);
        Ok(true)
    }

    fn age(&mut self, passed: Duration) -> bool {
        let over = self.held.age(passed);
        let is_due = !over.is_empty();
        if let Some(doubtful) = &mut self.doubtful {
            doubtful.extend(over);
        }
        is_due
    }

    fn hear(&mut self, wanted: &Wanted) {
        self.places.hear(&wanted.lists, &wanted.claims);
    }

    fn sync(&mut self, vpp: &mut Vpp, _: &Wanted) -> Result<Synced, Error> {
        if let Some(why) = self.places.is_lost() {
            // What VPP has stays: nobody says which interface is whose.
            let conflicts = vec![why.to_owned()];
            let summary = Arc::new(Summary {
                conflicts,
                ..Summary::default()
            });
            return Ok(Synced {
                summary,
                ..Synced::default()
            });
        }
        let plan = self.next_beside_others(vpp)?;
        let troubles = self.carry_out(vpp, &plan)?;
        let (summary, unknown) = self.summary();
        Ok(Synced {
            operations: plan.operations().len(),
            troubles,
            summary,
            moved: self.places.take_moved(),
            unknown,
        })
    }

    fn close(&mut self, vpp: &mut Vpp) -> Result<Closed, Error> {
        if let Some(why) = self.places.is_lost() {
            // Nobody says which interface is a pod's.
            return Ok(Closed {
                unsaid: Some(why.to_owned()),
                ..Closed::default()
            });
        }
        self.note_left();
        self.read_lists(vpp)?;
        let installed = self.held.installed();
        let is_in_force = |name: &SmolStr| self.left.has(name) || installed.judges_pods(name);
        let closed = self.places.closed(is_in_force);
        let plan = self.held.plan(&closed, closed.interfaces.keys());
        // Lists that nothing has may be those that are wanted next.
        let plan = plan.operations().iter();
        let plan = plan.filter(|operation| !matches!(operation, Operation::Delete(_)));
        let plan: Plan = plan.cloned().collect();
        let troubles = self.carry_out(vpp, &plan)?;
        self.doubtful = None;
        Ok(Closed {
            operations: plan.operations().len(),
            interfaces: self.closed(),
            troubles,
            ..Closed::default()
        })
    }

    fn plan(&mut self, _: &mut Vpp, _: &Wanted) -> Result<String, Error> {
        let mut text = String::new();
        if let Some(why) = self.places.is_lost() {
            line(&mut text, format_args!("# {why}"));
            return Ok(text);
        }
        let plan = self.next();
        let placed = self.places.placed();
        for pending in placed.pending.values() {
            line(
                &mut text,
                format_args!("# {} has no interface: {}", pending.pod, pending.why),
            );
        }
        for trouble in &placed.troubles {
            line(&mut text, format_args!("# {trouble}"));
        }
        for unknown in &placed.unknown {
            line(&mut text, format_args!("# {}", nobody_has(unknown)));
        }
        for operation in plan.operations() {
            write_operation(operation, self.held.installed(), &mut text);
        }
        Ok(text)
    }

    fn clean(&mut self, vpp: &mut Vpp) -> Result<Cleaned, Error> {
        let installed = self.held.installed();
        let before = installed.acls.len();
        let plan = self.held.plan(&Acls::default(), installed.interfaces.keys());
        let troubles = self.carry_out(vpp, &plan)?;
        let removed = before.saturating_sub(self.held.installed().acls.len());
        Ok(Cleaned { removed, troubles })
    }
}

/// Whether a plan gives an interface other lists, or makes those that it has others.
fn sets_lists(plan: &Plan) -> bool {
    let mut operations = plan.operations().iter();
    operations.any(|operation| matches!(operation, Operation::Set { .. } | Operation::Replace { .. }))
}

/// What says whose an interface is.
fn whose(interface: &Interface) -> impl PartialEq {
    (interface.index, interface.name.clone(), interface.tag.clone())
}

fn sorted<'i>(interfaces: impl Iterator<Item = &'i Interface>) -> impl Iterator<Item = &'i Interface> {
    let mut all: Vec<_> = interfaces.collect();
    all.sort_unstable_by_key(|interface| interface.index);
    all.into_iter()
}

/// What lists of others mean where they are.
pub(super) fn foreign(installed: &Installed) -> Vec<String> {
    let mut found = Vec::new();
    for (interface, lists) in &installed.interfaces {
        let own = lists.input.iter().filter(|index| installed.is_own(**index));
        let is_held = own.into_iter().any(|&index| keeps_answers(installed, index));
        for (way, indices) in [("input", &lists.input), ("output", &lists.output)] {
            let others = indices.iter().enumerate();
            let others = others.filter(|(_, index)| !installed.is_own(**index));
            let said: Vec<_> = others
                .map(|(at, &index)| {
                    let meaning = match meaning(installed, indices, at) {
                        OPEN if is_held && way == "output" => OPEN_UNANSWERED,
                        ALONE if is_held && way == "output" => ALONE_UNANSWERED,
                        meaning => meaning,
                    };
                    (meaning, name(installed, index))
                })
                .collect();
            for alike in said.chunk_by(|(one, _), (other, _)| one == other) {
                let Some((meaning, _)) = alike.first() else {
                    continue;
                };
                let names: Vec<_> = alike.iter().map(|(_, name)| name.as_str()).collect();
                found.push(format!("{interface}, {way}: {}; {meaning}", names.join(", ")));
            }
        }
    }
    found
}

const ALONE: &str = "they decide alone";
const OPEN: &str = "they decide what picket's lists before them leave open";
// Where picket lets everything in and reflects it, others behind it decide that, and whether it is reflected.
const ALONE_UNANSWERED: &str =
    "they decide alone, and what they let pass without permit+reflect the pod may be unable to answer";
const OPEN_UNANSWERED: &str = "they decide what picket's lists before them leave open, and what they let pass without \
                               permit+reflect the pod may be unable to answer";

/// What a list of others at this place among those of an interface means.
fn meaning(installed: &Installed, indices: &[u32], at: usize) -> &'static str {
    let (before, behind) = indices.split_at_checked(at).unwrap_or_default();
    let is_own = |index: &&u32| installed.is_own(**index);
    match () {
        () if !indices.iter().any(|index| is_own(&index)) => ALONE,
        () if before
            .iter()
            .filter(is_own)
            .any(|&index| decides_all(installed, index)) =>
        {
            "they decide nothing: what picket's lists before them do not let pass is denied"
        }
        () if behind.iter().any(|index| is_own(&index)) => {
            "they decide before picket's lists behind them, which judge only what they leave open"
        }
        () => OPEN,
    }
}

/// Whether nothing gets past a list.
fn decides_all(installed: &Installed, index: u32) -> bool {
    let rules = installed.acls.get(&index).map(|acl| acl.rules.as_slice());
    let last = rules.unwrap_or_default().iter();
    let denied = last.filter(|rule| rule.is_everything() && rule.action == AclAction::Deny);
    let families: BTreeSet<_> = denied.map(AclRule::family).collect();
    families.len() == 2
}

/// What is said of an interface that looks like one of a pod.
pub(super) fn nobody_has(interface: &str) -> String {
    format!(
        "interface `{interface}` looks like that of a pod, and no pod is known that has it: nothing passes there"
    )
}

/// Whether a list of what a pod sends stops answers that have no session: nothing gets past it, and not everything that is sent
/// from each address of the pod passes.
fn keeps_answers(installed: &Installed, index: u32) -> bool {
    let rules = installed.acls.get(&index).map(|acl| acl.rules.as_slice());
    let passing = rules.unwrap_or_default().iter();
    let passing = passing.filter(|rule| rule.action != AclAction::Deny && rule.source.length() > 0);
    let everywhere = |rule: &&AclRule| rule.destination.length() == 0 && rule.protocol == 0;
    let own: BTreeSet<_> = passing.clone().map(|rule| rule.source).collect();
    let open: BTreeSet<_> = passing.filter(everywhere).map(|rule| rule.source).collect();
    decides_all(installed, index) && (own.is_empty() || own != open)
}

fn name(installed: &Installed, index: u32) -> String {
    match installed.acls.get(&index) {
        Some(acl) => format!("{index} `{}`", acl.tag),
        None => index.to_string(),
    }
}

fn line(text: &mut String, what: std::fmt::Arguments<'_>) {
    // Writing to a string does not fail.
    let _ = writeln!(text, "{what}");
}

fn write_operation(operation: &Operation, installed: &Installed, text: &mut String) {
    let handles = |handles: &[Handle]| -> String {
        let each = handles.iter().map(|handle| match handle {
            Handle::Installed(index) => name(installed, *index),
            Handle::Created(tag) => format!("new `{tag}`"),
        });
        match each.collect::<Vec<_>>().join(", ") {
            none if none.is_empty() => "nothing".to_owned(),
            some => some,
        }
    };
    match operation {
        Operation::Create(acl) => {
            line(
                text,
                format_args!("create acl `{}` with {} rules", acl.tag, acl.rules.len()),
            );
            write_rules(acl, text);
        }
        Operation::Replace { index, acl } => {
            let (before, count) = (name(installed, *index), acl.rules.len());
            line(
                text,
                format_args!("make acl {before} `{}` with {count} rules", acl.tag),
            );
            write_rules(acl, text);
        }
        Operation::Set {
            interface,
            input,
            output,
        } => set(text, interface, &handles(input), &handles(output)),
        Operation::Delete(index) => line(text, format_args!("delete acl {}", name(installed, *index))),
    }
}

fn write_rules(acl: &Acl, text: &mut String) {
    for rule in &acl.rules {
        line(text, format_args!("    {rule}"));
    }
}

fn set(text: &mut String, interface: &SmolStr, input: &str, output: &str) {
    line(text, format_args!("set interface `{interface}`"));
    line(text, format_args!("    input: {input}"));
    line(text, format_args!("    output: {output}"));
}

#[cfg(test)]
mod tests {
    use picket_cluster::{Object, Semantics, Snapshot};
    use picket_engine::Engine;
    use picket_net::{Family, Protocol};
    use picket_policy::Direction;
    use picket_testing::build::{PodBuilder, ip, pod, policy};
    use picket_vpp::acl::Tag;
    use picket_vpp::acl::meaning::{Interpreter, Packet, Way};
    use picket_vpp::acl::plan::InstalledLists;
    use picket_vpp::acl::{Acl, Options, Role, render};

    use super::*;

    /// One interface with these lists for what enters there, or leaves: `o` is one of others, `c` one of picket's that lets nothing past,
    /// `s` one by which the pod sends what it wants, and `p` one of picket's that leaves something open.
    fn said(input: &str, output: &str) -> Vec<String> {
        let mut installed = Installed::default();
        let rules = |families: &[Family]| {
            let rules = families.iter();
            rules
                .map(|&family| AclRule::everything(AclAction::Deny, family))
                .collect()
        };
        for (index, kind) in (0..).zip(input.chars().chain(output.chars())) {
            let acl = match kind {
                'c' => Acl::new(Role::FromPod, rules(&Family::BOTH)),
                's' => {
                    let own = AclRule {
                        source: "10.0.0.1/32".parse().unwrap(),
                        ..AclRule::everything(AclAction::PermitReflect, Family::Ipv4)
                    };
                    let closed: Vec<_> = rules(&Family::BOTH);
                    Acl::new(Role::FromPod, [vec![own], closed].concat())
                }
                'p' => Acl::new(Role::Global, rules(&[Family::Ipv6])),
                _ => Acl {
                    tag: Tag::installed("theirs"),
                    rules: rules(&[]),
                },
            };
            installed.acls.insert(index, acl);
        }
        let mut indices = installed.acls.keys().copied();
        let lists = InstalledLists {
            input: indices.by_ref().take(input.len()).collect(),
            output: indices.collect(),
        };
        installed.interfaces.insert("tap0".into(), lists);
        foreign(&installed)
    }

    #[test]
    fn what_lists_of_others_mean_depends_on_where_they_are() {
        let nothing = "they decide nothing: what picket's lists before them do not let pass is denied";
        let before = "they decide before picket's lists behind them, which judge only what they leave open";
        let open = "they decide what picket's lists before them leave open";
        for (order, expected) in [
            ("c", &[][..]),
            ("oo", &[("0 `theirs`, 1 `theirs`", "they decide alone")]),
            ("co", &[("1 `theirs`", nothing)]),
            ("po", &[("1 `theirs`", open)]),
            ("ooc", &[("0 `theirs`, 1 `theirs`", before)]),
            ("oco", &[("0 `theirs`", before), ("2 `theirs`", nothing)]),
            ("popo", &[("1 `theirs`", before), ("3 `theirs`", open)]),
            ("pcop", &[("2 `theirs`", nothing)]),
        ] {
            let expected: Vec<_> = expected
                .iter()
                .map(|(names, meaning)| format!("tap0, input: {names}; {meaning}"))
                .collect();
            assert_eq!(said(order, ""), expected, "{order}");
        }
    }

    /// A pod beside one that may send nothing, with the lists that are rendered for it; others deny everything behind them.
    #[test]
    fn what_others_are_said_to_decide_behind_rendered_lists_they_do() {
        let v4 = [("10.0.0.1", "10.0.0.2", "192.0.2.1")];
        let both = [v4[0], ("fd00::1", "fd00::2", "2001:db8::1")];
        for families in [&v4[..], &both] {
            let pod = |name: &str, address: fn(&(&'static str, &'static str, &str)) -> &'static str| {
                let pod = pod(&format!("x/{name}")).label("name", name);
                let pod = families.iter().map(address).fold(pod, PodBuilder::ip);
                Object::from(pod.build())
            };
            let silent = policy("x/silent")
                .selects("name=silent")
                .isolates(Direction::Egress);
            let cluster = Snapshot::from_iter([
                pod("open", |(open, ..)| open),
                pod("silent", |(_, silent, _)| silent),
                Object::Policy(silent.build()),
            ]);
            let engine = Engine::compile(&cluster, Semantics::default());
            let wanted = render(engine.program(), None, &Options::default());
            let mut installed = Installed::default();
            let theirs = Acl {
                tag: Tag::installed("theirs"),
                rules: Family::BOTH
                    .map(|family| AclRule::everything(AclAction::Deny, family))
                    .into(),
            };
            installed.acls.insert(0, theirs);
            let lists = InstalledLists {
                output: vec![0],
                ..InstalledLists::default()
            };
            installed.interfaces.insert("x/open".into(), lists);
            let mut held = Held::new(installed);
            let plan = held.plan(&wanted, wanted.interfaces.keys());
            let created = plan.operations().iter().filter_map(|operation| match operation {
                Operation::Create(acl) => Some(acl.tag.clone()),
                _ => None,
            });
            let created: BTreeMap<_, _> = created.zip(1..).collect();
            held.advance(&plan, &created);
            assert_eq!(
                foreign(held.installed()),
                ["x/open, output: 0 `theirs`; they decide what picket's lists before them leave open"]
            );
            let acls = held.installed().lists(|_| None);
            for (own, _, outside) in families {
                let packet = Packet::opening(ip(outside), ip(own), Protocol::TCP, 80);
                let passes = Interpreter::new(&acls).passes("x/open", Way::Out, &packet);
                assert!(!passes, "{own}");
            }
        }
    }

    /// Where picket lets everything in and reflects it, and others follow, they decide that.
    #[test]
    fn what_others_let_in_may_have_no_answer_where_the_pod_needs_a_session_for_it() {
        let [open, alone] = [
            "they decide what picket's lists before them leave open",
            "they decide alone",
        ];
        let answers = ", and what they let pass without permit+reflect the pod may be unable to answer";
        for (input, output, expected, unanswered) in [
            ("c", "o", alone, answers),
            ("c", "po", open, answers),
            // It sends what it wants.
            ("s", "o", alone, ""),
            ("s", "po", open, ""),
            ("", "po", open, ""),
        ] {
            let said = said(input, output);
            assert_eq!(said.len(), 1, "{input} {output}");
            assert!(
                said[0].ends_with(&format!("; {expected}{unanswered}")),
                "{input} {output}: {said:?}"
            );
        }
    }
}
