use super::*;
use crate::metrics::Outcome;

/// A writer whose way to the cluster leads nowhere.
fn writer() -> Writer {
    let mut kube = Kube::new(None, Duration::from_secs(5));
    kube.kubeconfig = Some("/nowhere".into());
    Writer {
        kube,
        recorder: None,
        metrics: Metrics::default(),
        patience: Duration::ZERO,
        has_complained: false,
    }
}

fn events(queue: Option<Sender<Told>>) -> Events {
    Events {
        queue,
        metrics: Metrics::default(),
        node: "node-1".into(),
    }
}

fn policy() -> ObjectRef {
    ObjectRef::new("NetworkPolicy", "shop", "web")
}

fn lost(metrics: &Metrics) -> u64 {
    let outcome = Outcome { outcome: "lost" };
    metrics.events.get_or_create(&outcome).get()
}

#[test]
fn a_message_fits_and_is_harmless() {
    for (text, expected) in [
        ("a\nb\u{1b}[2J", "a b [2J".to_owned()),
        (&"x".repeat(1024), "x".repeat(1024)),
        (&"x".repeat(1025), format!("{}…", "x".repeat(1021))),
        // Two bytes each: 1021 is in the middle of one.
        (&"é".repeat(600), format!("{}…", "é".repeat(510))),
    ] {
        assert_eq!(safe(text), expected);
        assert!(safe(text).len() <= LONGEST);
    }
}

#[test]
fn what_is_so_on_all_nodes_has_one_name_and_what_is_so_on_one_its_own() {
    let one = events(None);
    let other = Events {
        node: "node-2".into(),
        ..one.clone()
    };
    let name = |events: &Events, object: &ObjectRef, reason, why| events.occurrence(object, reason, why).name;
    let same = name(&one, &policy(), Reason::Unenforceable, "why");
    assert_eq!(name(&other, &policy(), Reason::Unenforceable, "why"), same);
    let here = name(&one, &policy(), Reason::NotInForce, "why");
    assert_ne!(name(&other, &policy(), Reason::NotInForce, "why"), here);
    assert_ne!(here, same);
    assert_ne!(name(&one, &policy(), Reason::Unenforceable, "another"), same);
    let again = ObjectRef {
        uid: "2".into(),
        ..policy()
    };
    assert_ne!(name(&one, &again, Reason::Unenforceable, "why"), same);
}

#[test]
fn what_finds_no_room_is_counted_and_nobody_waits() {
    let (sender, mut queue) = channel(1);
    let events = events(Some(sender));
    for _ in 0..3 {
        events.tell(&policy(), Reason::Unenforceable, "why");
    }
    assert_eq!(lost(&events.metrics), 2);
    assert!(queue.try_recv().is_ok() && queue.try_recv().is_err());
}

#[test]
fn what_cannot_be_written_for_long_is_dropped() {
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    let mut writer = writer();
    let told = Told::now(events(None).occurrence(&policy(), Reason::Unenforceable, "why"));
    assert_eq!(runtime.block_on(writer.write(&told)), "lost");
    assert!(writer.has_complained);
}

#[test]
fn what_has_waited_for_a_server_is_not_dropped_when_that_refuses_it_for_the_first_time() {
    let mut refused = Refused::default();
    let waited = 10 * WHEN_REFUSED;
    assert!(refused.patience(waited) > waited);
    assert_eq!(refused.patience(waited + WHEN_REFUSED), waited + WHEN_REFUSED);
}
