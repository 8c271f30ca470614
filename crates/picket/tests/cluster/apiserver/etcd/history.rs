//! What etcd forgets of what was, while it is read.

use std::time::Duration;

use picket_cluster::Snapshot;
use picket_node::Source;
use picket_source::Etcd;
use picket_testing::etcd::Etcd as Server;

use super::{Written, etcd, pod, policy, record, until_trouble, until_well};
use crate::following::Following;
use crate::proxy::Proxy;
use crate::streams::Streams;

#[test]
fn what_etcd_forgets_while_it_is_watched_is_not_missed() {
    let mut written = Written::new();
    let mut following = written.follow();
    following.until_complete();
    // Once this is known, there is a watch.
    written.put(&pod("web-2", "10.0.0.3", "web"));
    written.until_equal(&mut following, "what was added");
    for port in 81..101 {
        written.put(&policy("web", port));
        written.put(&pod("web-0", "10.0.0.1", &format!("app-{port}")));
        written.server.compact();
        written.delete(&pod("web-1", "", ""));
        written.put(&pod("web-1", "10.0.0.2", &format!("app-{port}")));
        written.until_equal(&mut following, "what changed");
    }
    let kinds = following.health.kinds();
    assert_eq!((kinds["pods"].lists, kinds["etcd"].failures), (1, 0), "{kinds:?}");
}

/// A cluster that does not come at once, of which somebody has read a part and hears no more until the proxy is opened, and
/// what was there then.
fn partly_read() -> (Written, Following, Proxy, Snapshot) {
    let mut written = Written::without_progress();
    let pods = (0..1500).map(|number| {
        let address = format!("10.1.{}.{}", number / 250, number % 250);
        pod(&format!("load-{number:04}"), &address, "load")
    });
    written.put_all(&pods.collect::<Vec<_>>(), record);
    written.pass();
    let before = written.expected();
    let proxy = Proxy::to(written.server.port());
    // This is less than there is in the first part.
    proxy.hold_after(100_000);
    let endpoint = format!("http://127.0.0.1:{}", proxy.port);
    // Longer than this test holds it up.
    let etcd = Etcd {
        timeout: Duration::from_secs(60),
        ..etcd(vec![endpoint])
    };
    let following = Following::of(Source::Etcd(etcd), None);
    proxy.until_held();
    written.put(&pod("load-0000", "10.1.0.0", "changed"));
    written.delete(&pod("load-0001", "", ""));
    written.put(&pod("load-1400", "10.1.5.150", "changed"));
    written.delete(&pod("load-1401", "", ""));
    written.put(&policy("web", 81));
    (written, following, proxy, before)
}

#[test]
fn what_changes_between_two_parts_of_a_list_comes_after_all_of_it() {
    let (written, mut following, proxy, before) = partly_read();
    proxy.release();
    following.until_complete();
    assert!(following.snapshot() == before, "what there was at one revision");
    written.until_equal(&mut following, "what changed meanwhile");
    let kinds = following.health.kinds();
    assert_eq!((kinds["pods"].lists, kinds["etcd"].failures), (1, 0), "{kinds:?}");
}

#[test]
fn what_etcd_forgets_between_two_parts_of_a_list_is_read_anew() {
    let (written, mut following, proxy, _) = partly_read();
    written.server.compact();
    proxy.release();
    following.until_complete();
    assert!(following.snapshot() == written.expected(), "what there is now");
    // It was the second list that was complete, as of the first etcd has forgotten the rest.
    let kinds = following.health.kinds();
    assert_eq!((kinds["pods"].lists, kinds["etcd"].failures), (1, 1), "{kinds:?}");
}

#[test]
fn what_etcd_forgets_where_nothing_changes_is_not_read_again() {
    let server = Server::start_with(&["--experimental-watch-progress-notify-interval=100ms"]);
    let mut written = Written::in_etcd(server);
    let proxy = Proxy::to(written.server.port());
    let mut following = written.follow_at(vec![format!("http://127.0.0.1:{}", proxy.port)]);
    following.until_complete();
    // Nobody reflects, and others write.
    for number in 0..10 {
        written.server.put("/other", &number.to_string());
    }
    let (now, health) = (written.server.revision(), following.health.clone());
    following.until_health(|_| {
        health
            .freshness()
            .is_some_and(|freshness| freshness.revision >= now)
    });
    written.server.compact();
    proxy.close();
    until_trouble(&mut following, "cannot be reached");
    written.put(&pod("web-2", "10.0.0.3", "web"));
    proxy.open();
    until_well(&mut following);
    written.until_equal(&mut following, "what was added");
    let lists = following.health.kinds()["pods"].lists;
    assert_eq!(lists, 1, "all of it came as events");
}

#[test]
fn who_hears_late_what_was_written_says_how_far_behind_it_is() {
    let mut written = Written::new();
    let streams = Streams::to(written.server.port());
    let mut following = written.follow_at(vec![format!("http://127.0.0.1:{}", streams.port)]);
    following.until_complete();
    // Once this is known, there is a watch.
    written.put(&pod("web-2", "10.0.0.3", "web"));
    written.until_equal(&mut following, "what was added");
    let health = following.health.clone();
    let behind = || health.freshness().map(|freshness| freshness.behind);
    assert_eq!(behind(), Some(0));
    // The watch says nothing any more, and who asks how far etcd is hears that.
    streams.hold();
    for number in 0..50 {
        written.put(&pod("web-3", &format!("10.0.1.{number}"), "web"));
    }
    written.pass();
    following.until_health(|_| behind() != Some(0));
    assert_eq!(
        behind(),
        Some(51),
        "50 revisions of an object, and one of the progress"
    );
    assert!(following.snapshot() != written.expected(), "what was held back");
    streams.release();
    written.until_equal(&mut following, "what was held back");
    following.until_health(|_| behind() == Some(0));
    let kinds = following.health.kinds();
    assert_eq!((kinds["pods"].lists, kinds["etcd"].failures), (1, 0), "{kinds:?}");
}
