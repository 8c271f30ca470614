//! How long it takes to find and to cut what the rules deny, on a node with 200,000 connections:
//! `cargo bench -p picket-nftables --bench cut`. It needs root and the program nft.
//!
//! Real packets make the connections: datagrams that a client sends through a router to 50,000 ports of a server.
#![expect(
    clippy::print_stdout,
    clippy::expect_used,
    reason = "a benchmark prints, and fails at once"
)]

#[path = "../connections/load.rs"]
#[expect(dead_code, reason = "part of what another benchmark uses")]
mod load;
#[path = "../connections/topology.rs"]
#[expect(dead_code, reason = "part of what another benchmark uses")]
mod topology;

use std::net::{IpAddr, UdpSocket};
use std::sync::Arc;
use std::time::Instant;

use anyhow::Result;
use picket_cluster::{Semantics, Snapshot};
use picket_engine::Engine;
use picket_net::Protocol;
use picket_nftables::client::{Client, Cutter};
use picket_nftables::render::indexed;
use picket_policy::Direction;
use picket_testing::build::{accept, pod, policy};
use picket_testing::snapshot;
use topology::{Topology, server};

const RUNS: usize = 5;
const SOCKETS: usize = 4;
const PORTS: std::ops::Range<u16> = 1..50_001;

fn main() -> Result<()> {
    let topology = Topology::new(0..1)?;
    let mut client = Client::open(&topology.router)?;
    let mut cutter = Cutter::open(&topology.router)?;
    // One pod admits everything, and then nothing.
    let pod_at = |address: IpAddr| pod("x/server").ip(&address.to_string()).label("app", "server");
    let isolated = || policy("x/p").selects("app=server").isolates(Direction::Ingress);
    let here = server(0).into();
    let admitting = snapshot![pod_at(here), isolated().ingress(accept().protocol(Protocol::UDP))];
    let silent = snapshot![pod_at(here), isolated()];
    let elsewhere = |pods: u8| -> Snapshot {
        let pods = (1..=pods).map(|number| {
            let address = IpAddr::from([10, 9, 9, number]).to_string();
            pod(&format!("x/{number}"))
                .ip(&address)
                .label("app", "server")
                .into()
        });
        pods.chain([isolated().into()]).collect()
    };
    let mut enforce = |cluster: &Snapshot| -> Result<_> {
        let engine = Engine::compile(cluster, Semantics::default());
        let table = Arc::new(indexed::render(engine.program(), None)?);
        client.sync(&table)?;
        Ok(table)
    };
    enforce(&admitting)?;
    send(&topology)?;
    for (name, cluster) in [
        ("none is of the one restricted", &elsewhere(1)),
        ("none is of the 110 restricted", &elsewhere(110)),
        ("all are allowed", &admitting),
    ] {
        let table = enforce(cluster)?;
        let mut times = Vec::new();
        for _ in 0..RUNS {
            let start = Instant::now();
            let denied = cutter.denied(&table)?;
            let cut = cutter.cut(denied);
            times.push(start.elapsed());
            assert!(cut.cut.is_empty(), "nothing is denied");
        }
        times.sort_unstable();
        let at = |index: usize| times.get(index).expect("runs");
        println!(
            "{name:<30} {:>9.1?} {:>9.1?} {:>9.1?}",
            at(0),
            at(RUNS / 2),
            at(RUNS - 1)
        );
    }
    let table = enforce(&silent)?;
    let start = Instant::now();
    let denied = cutter.denied(&table)?;
    let cut = cutter.cut(denied);
    println!(
        "{:<30} {:>9.1?}, {} cut",
        "all are denied",
        start.elapsed(),
        cut.cut.len()
    );
    Ok(())
}

/// Makes the connections.
fn send(topology: &Topology) -> Result<()> {
    topology.client.run(|| -> Result<()> {
        for _ in 0..SOCKETS {
            let socket = UdpSocket::bind((topology::CLIENT, 0))?;
            for port in PORTS {
                // That nobody listens there is told to the next, which then is not sent.
                while socket.send_to(b"x", (server(0), port)).is_err() {}
            }
        }
        Ok(())
    })?
}
