//! Many addresses on the table of a node at once, beside one run of `nft` that makes the whole table.

use std::net::Ipv4Addr;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use picket_cluster::{Event, Object, Pod, Semantics};
use picket_engine::Engine;
use picket_linux::{NetworkNamespace, run_with_input};
use picket_nftables::client::Client;
use picket_nftables::print;
use picket_nftables::render::indexed::{Options, Renderer, Step, render};
use picket_testing::build::pod;

use crate::{MANY, NODE, RUNS, cluster, print as show};

/// What becomes of pods elsewhere that a policy admits to one here.
const CHANGES: [&str; 3] = ["come", "have other addresses", "go"];

/// One of them, at its first address or at its second. No two addresses are neighbours, so that each is an element.
fn guest(number: usize, is_moved: bool) -> Result<Pod> {
    let place = u32::try_from(2 * (number + usize::from(is_moved) * MANY))?;
    let address = Ipv4Addr::from_bits(Ipv4Addr::new(10, 128, 0, 1).to_bits() + place);
    let guest = pod(&format!("bench/guest-{number}")).label("peer", "0");
    Ok(guest.on("elsewhere").ip(&address.to_string()).build())
}

fn events(change: usize) -> Result<Vec<Event>> {
    let event = |number| -> Result<Event> {
        let guest = guest(number, change == 1)?;
        Ok(match change {
            0 | 1 => Event::Apply(Object::from(guest)),
            _ => Event::Delete(guest.object),
        })
    };
    (0..MANY).map(event).collect()
}

/// How long one change took: from its events until it was in force, the part of that which is the kernel's, and by `nft`.
type Took = [Duration; 3];

struct Host {
    engine: Engine,
    renderer: Renderer,
    client: Client,
    /// Where `nft` makes the same table.
    by_nft: NetworkNamespace,
}

impl Host {
    fn new() -> Result<Self> {
        let engine = Engine::compile(&cluster(1, 1), Semantics::default());
        let mut renderer = Renderer::new(Some(NODE), Options::default());
        let client = Client::open(&NetworkNamespace::create()?)?;
        let mut client = client.holding().patient();
        client.sync(&Arc::new(renderer.whole(engine.program())?))?;
        Ok(Self {
            engine,
            renderer,
            client,
            by_nft: NetworkNamespace::create()?,
        })
    }

    fn change(&mut self, events: Vec<Event>) -> Result<Took> {
        let start = Instant::now();
        for event in events {
            let delta = self.engine.apply(event);
            self.renderer.note(&delta);
        }
        let step = self.renderer.step(self.engine.program())?;
        let rendered = Instant::now();
        let report = match step {
            Step::Next(plan) => self.client.advance(&plan)?.context("a table that is known")?,
            Step::Whole(table) => self.client.sync(&Arc::new(table))?,
        };
        let (all, written) = (start.elapsed(), rendered.elapsed());
        self.client.calm()?;
        self.client.await_packets();
        anyhow::ensure!(report.operations > 0, "nothing has changed");
        let text = print::text(&render(self.engine.program(), Some(NODE))?);
        let start = Instant::now();
        let mut nft = Command::new("nft");
        run_with_input(&self.by_nft, nft.args(["-f", "-"]), text.as_bytes(), "nftables")?;
        Ok([all, written, start.elapsed()])
    }
}

/// Prints how long each change of many addresses takes.
pub(crate) fn many() -> Result<()> {
    let mut host = Host::new()?;
    let mut times = CHANGES.map(|_| [(); 3].map(|()| Vec::new()));
    for _ in 0..RUNS {
        for (change, times) in times.iter_mut().enumerate() {
            let took = host.change(events(change)?)?;
            times
                .iter_mut()
                .zip(took)
                .for_each(|(times, took)| times.push(took));
        }
    }
    for (change, times) in CHANGES.iter().zip(&mut times) {
        println!("{MANY} addresses that a policy admits {change}, on a node");
        let ways = [
            "picket, from the events",
            "  in the kernel",
            "one nft for the whole table",
        ];
        for (way, times) in ways.iter().zip(times) {
            show(way, times);
        }
    }
    Ok(())
}
