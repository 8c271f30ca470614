//! What is known, and when, of a server that does not name all kinds, or serves them in versions that nobody reads.

use std::pin::pin;

use futures_util::future::select;
use serde_json::json;
use tokio::runtime::Builder;
use tokio::sync::mpsc::unbounded_channel;
use tokio::time::timeout;

use super::super::scripted::{BOUND, Reply, Scripted, end_of_list, events, refuses, says};
use super::*;

/// What a cluster serves of one group.
struct Served {
    group: &'static str,
    version: &'static str,
    /// A kind; `None` where the server refuses to name them.
    kind: Option<&'static str>,
}

/// A server that has this beside what every cluster has, and no objects.
fn server(served: Served) -> Scripted {
    let Served { group, version, kind } = served;
    let of_group = format!("/apis/{group}/{version}?");
    Scripted::new(move |request| -> Reply {
        if request.starts_with("/apis?") {
            return says(json!({"groups": [{"name": group, "versions": [{"version": version}]}]}));
        }
        if request.starts_with(&of_group) {
            return match kind {
                Some(kind) => says(json!({"resources": [{"kind": kind}]})),
                None => refuses("403 Forbidden"),
            };
        }
        lists(request, "404 Not Found")
    })
}

/// What is said of lists: that there is nothing in those that are watched, and to whoever only asks whether there is one, this.
fn lists(request: &str, is_there: &'static str) -> Reply {
    if request.ends_with("&limit=1") {
        return match is_there {
            "200 OK" => says(json!({"items": []})),
            status => refuses(status),
        };
    }
    events(&[end_of_list("1")]).and_stalls()
}

/// Whether everything that is of interest is known at last, or else why not.
fn is_complete(server: &Scripted, cluster_network: bool, secondary_networks: bool) -> Result<(), String> {
    let kube = server.kube(BOUND);
    let interest = Interest {
        cluster_network,
        secondary_networks,
        ..Interest::default()
    };
    let (sender, mut outcome) = unbounded_channel();
    let trouble = sender.clone();
    let health = Health::default().telling(move |kind, why| {
        if let Some(why) = why.filter(|_| kind == KINDS) {
            let _ = trouble.send(Err(why.to_owned()));
        }
    });
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let follow = kube.follow(interest, health, |change| {
            if change == Change::Events(vec![Event::InitDone]) {
                let _ = sender.send(Ok(()));
            }
        });
        let outcome = pin!(timeout(BOUND, outcome.recv()));
        match select(pin!(follow), outcome).await {
            futures_util::future::Either::Right((Ok(Some(outcome)), _)) => outcome,
            _ => panic!("nothing becomes of it"),
        }
    })
}

#[test]
fn a_kind_that_is_not_named_and_still_served_is_followed() {
    let watched = |is_there: &'static str| {
        let server = Scripted::new(move |request| match request.starts_with("/apis?") {
            true => says(json!({"groups": []})),
            false => lists(request, is_there),
        });
        let outcome = is_complete(&server, true, true);
        let asked = server.asked();
        let of_custom = |kind: &Kind| {
            let list = format!("/{}?", kind.plural);
            asked
                .iter()
                .any(|request| request.contains(&list) && request.contains("watch=true"))
        };
        (
            outcome,
            kind::CUSTOM.iter().filter(|kind| of_custom(kind)).count(),
        )
    };
    assert_eq!(watched("404 Not Found"), (Ok(()), 0));
    // Nobody learns whether there is one.
    assert_eq!(watched("403 Forbidden"), (Ok(()), 0));
    assert_eq!(watched("200 OK"), (Ok(()), kind::CUSTOM.len()));
    let (outcome, watched) = watched("503 Service Unavailable");
    assert!(
        outcome.is_err_and(|why| why.contains("cannot be read")),
        "nobody knows what there is"
    );
    assert_eq!(watched, 0);
}

#[test]
fn kinds_that_nobody_wants_keep_nobody_waiting() {
    let newer = "v9";
    for (group, kind, of_cluster_network) in [
        ("policy.networking.k8s.io", Some("ClusterNetworkPolicy"), true),
        ("policy.networking.k8s.io", Some("AdminNetworkPolicy"), true),
        ("policy.networking.k8s.io", None, true),
        ("k8s.cni.cncf.io", Some("MultiNetworkPolicy"), false),
        ("k8s.cni.cncf.io", None, false),
    ] {
        let server = server(Served {
            group,
            version: newer,
            kind,
        });
        for (cluster_network, secondary_networks) in
            [(true, false), (false, true), (true, true), (false, false)]
        {
            let wants = if of_cluster_network {
                cluster_network
            } else {
                secondary_networks
            };
            let outcome = is_complete(&server, cluster_network, secondary_networks);
            assert_eq!(outcome.is_err(), wants, "{group} {kind:?}: {outcome:?}");
            if let Err(why) = outcome {
                assert!(why.contains("cannot be read"), "{why}");
            }
        }
    }
}
