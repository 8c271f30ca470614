//! What is loaded: the same policies in both layouts.

use std::net::Ipv4Addr;

use anyhow::{Context, Result};
use picket_cluster::{Semantics, Snapshot};
use picket_engine::Engine;
use picket_net::Protocol;
use picket_nftables::model::InterfaceName;
use picket_nftables::print;
use picket_nftables::render::indexed::{Guard, Options};
use picket_nftables::render::{documented, indexed};
use picket_policy::ObjectRef;
use picket_testing::build::{accept, pod, pods_in, policy};

use crate::topology::{CLIENT, PORT};

/// Connection tracking and nothing else: what any stateful ruleset costs at the least.
pub(crate) const TRACKING: &str = "table inet tracking {
    chain forward {
        type filter hook forward priority filter; policy accept;
        ct state established,related accept
    }
}
";

/// `count` policies that select the server, each admitting one pod on the server's port. The last admits the client,
/// so that the documented layout walks through all of them.
fn cluster(count: u32, server: Ipv4Addr) -> Snapshot {
    let mut objects = vec![
        pod("bench/server")
            .label("app", "server")
            .ip(&server.to_string())
            .into(),
    ];
    for index in 0..count {
        let address = if index + 1 == count {
            CLIENT
        } else {
            Ipv4Addr::from_bits(Ipv4Addr::new(10, 64, 0, 0).to_bits() + index)
        };
        let peer = pod(&format!("bench/peer-{index:06}")).label("peer", &index.to_string());
        let rule = accept()
            .peer(pods_in("bench", &format!("peer={index}")))
            .port(Protocol::TCP, PORT);
        let admit = policy(&format!("bench/admit-{index:06}"))
            .selects("app=server")
            .ingress(rule);
        objects.extend([peer.ip(&address.to_string()).into(), admit.into()]);
    }
    objects.into_iter().collect()
}

/// The router's table in the indexed layout, perhaps one that looks at the way back of every packet.
pub(crate) fn indexed(count: u32, server: Ipv4Addr, anti_spoof: bool) -> Result<String> {
    let engine = Engine::compile(&cluster(count, server), Semantics::default());
    let guard = Guard {
        anti_spoof,
        ..Guard::default()
    };
    let options = Options {
        guard: anti_spoof.then_some(guard),
        ..Options::default()
    };
    let table = indexed::render_with(engine.program(), None, &options)?;
    Ok(print::text(&table))
}

/// The server's table in the documented layout.
pub(crate) fn documented(count: u32, server: Ipv4Addr) -> Result<String> {
    let engine = Engine::compile(&cluster(count, server), Semantics::default());
    let interface = InterfaceName::new("eth0").context("an interface name")?;
    let server = ObjectRef::new("Pod", "bench", "server");
    let view = documented::PodView::of(
        engine.program(),
        &documented::OtherEnds::default(),
        &server,
        &interface,
    )
    .context("no such pod")?;
    let (table, _) = documented::render(&view, &documented::Options::default())?;
    Ok(print::text(&table))
}
