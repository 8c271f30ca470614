//! `picket lab`: the pods as network namespaces on this machine.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf, absolute};
use std::process::{Command as Process, Stdio};
use std::time::Duration;

use anyhow::{Context, bail};
use clap::{Args, Subcommand, ValueEnum};
use picket_cluster::Snapshot;
use picket_lab::{
    Claim, Compile, Expectation, Lab, Load, Progress, Request, Response, Shape, compile, execute,
    gain_access, parse_expectations, report, running, send, status,
};
use picket_source::Loaded;

use crate::arguments::{CustomRuleArguments, EXIT_STATUS, Manifests, SemanticsArguments};
use crate::input::{load, load_whole, read_custom_rules};
use crate::output::{self, Outcome};

/// Try policies with real packets between network namespaces on this machine
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "\
Examples:
  picket lab run -f manifests/                     build, enforce, probe every pair, clean up
  picket lab run -f manifests/ expectations.txt    and check what you expect
  picket lab up -f manifests/                      the same, and keep it standing
  picket lab exec shop/web -- nc -w 1 10.0.0.7 80  run a command in a pod
  picket lab apply -f manifests/                   change it, and see which verdicts changed
  picket lab down

Needs nft (Debian: nftables). Ordinary users need user namespaces, root does not.

Exit status: 0 everything is as it should be, 1 the wire differs from the policies or from what
you expect, 2 usage or input error. `exec` exits as its command does.";

/// What to do with a lab.
#[derive(Subcommand, Debug)]
enum Command {
    /// Build a lab, probe every pair with real packets, and leave nothing behind
    #[command(after_help = RUN)]
    Run {
        #[command(flatten)]
        build: Build,
        #[command(flatten)]
        probing: Probing,
        #[command(flatten)]
        output: Output,
    },
    /// Build a lab and keep it standing in the background
    #[command(after_help = UP)]
    Up {
        #[command(flatten)]
        build: Build,
        #[command(flatten)]
        name: Name,
        #[command(flatten)]
        output: Output,
        /// Be the background process
        #[arg(long, hide = true)]
        keeper: bool,
    },
    /// Probe every pair of a standing lab
    #[command(after_help = EXIT_STATUS)]
    Probe {
        #[command(flatten)]
        name: Name,
        #[command(flatten)]
        probing: Probing,
        #[command(flatten)]
        output: Output,
    },
    /// Name everything that a standing lab is made of
    #[command(after_help = EXIT_STATUS)]
    Status {
        #[command(flatten)]
        name: Name,
        #[command(flatten)]
        output: Output,
    },
    /// Change a standing lab to what the manifests say now, and show which verdicts changed
    #[command(after_help = EXIT_STATUS)]
    Apply {
        #[command(flatten)]
        input: Manifests,
        #[command(flatten)]
        name: Name,
        #[command(flatten)]
        output: Output,
    },
    /// Run a command in a pod, a node or an external host of a standing lab
    #[command(after_help = EXEC)]
    Exec {
        #[command(flatten)]
        name: Name,
        /// `namespace/name` of a pod, `node/NAME`, the address of an external host, `fabric`, or `network/NAMESPACE/NAME`
        /// and `network/NAMESPACE/NAME/ADDRESS` of a secondary network
        place: String,
        /// The command and its arguments
        #[arg(last = true, required = true, value_name = "COMMAND")]
        command: Vec<String>,
    },
    /// End a standing lab; everything in it goes
    #[command(after_help = EXIT_STATUS)]
    Down {
        #[command(flatten)]
        name: Name,
    },
}

const RUN: &str = "\
Pods, nodes and one external host for each range of addresses that policies tell apart become
network namespaces. Every ordered pair is probed: TCP connect, UDP request and reply, SCTP INIT,
ICMP echo, IPv4 and IPv6, on every port that a container or a policy names and one that none does.

EXPECTATIONS has one expectation in a line; the first that speaks of a probe decides it:
  allow shop/web -> shop/api 8080/tcp
  deny  shop/*   -> shop/db  5432
  deny  203.0.113.9 -> *
  allow shop/db  -> 10.7.0.9 3260/tcp on infra/storage

Interfaces of pods on secondary networks are probed on each network by itself, and policies of
these networks are enforced inside the pods.

Exit status: 0 the wire obeys, 1 it differs from the policies or the expectations, 2 usage or input
error.";

const UP: &str = "\
A background process owns the lab, and when it ends, however it ends, nothing is left. Each host
answers on the ports that are probed: TCP with its name, UDP with what it gets.

Exit status: 0 the lab stands, 2 it could not be built.";

const EXEC: &str = "\
Examples:
  picket lab exec shop/web -- bash -c 'cat < /dev/tcp/10.0.0.7/80'
  picket lab exec node/lab-1 -- nft list ruleset
  picket lab exec shop/web -- sh

Exit status: that of the command, 2 when it could not be started.";

/// What a lab is built from.
#[derive(Args, Clone, Debug)]
struct Build {
    #[command(flatten)]
    input: Manifests,

    #[command(flatten)]
    semantics: SemanticsArguments,

    #[command(flatten)]
    custom: CustomRuleArguments,

    /// Where policies are enforced
    #[arg(long, value_enum, default_value_t)]
    layout: Layout,

    /// How many nodes the pods without `nodeName` are spread over
    #[arg(long, default_value_t = 2, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    nodes: u16,
}

/// Where policies are enforced.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum Layout {
    /// One table on every node
    #[default]
    Indexed,
    /// One table inside every pod
    Documented,
}

/// How probes go.
#[derive(Args, Clone, Debug)]
struct Probing {
    /// A file of expectations to check besides the policies
    expectations: Option<PathBuf>,

    /// Seconds that a probe waits for its answer. Denied probes wait together
    #[arg(long, default_value = "1", value_name = "SECONDS", value_parser = seconds)]
    timeout: Duration,

    /// Probe only the secondary network that the NetworkAttachmentDefinition NAMESPACE/NAME defines, and check only what
    /// is expected of it
    #[arg(long, value_name = "NAMESPACE/NAME")]
    network: Option<String>,
}

/// Which lab.
#[derive(Args, Clone, Debug)]
struct Name {
    /// The name of the lab
    #[arg(long, default_value = "picket")]
    name: String,
}

/// How to answer.
#[derive(Args, Clone, Debug)]
struct Output {
    /// The form of the answer
    #[arg(short, long, value_enum, default_value_t, value_name = "FORM")]
    output: Form,
}

/// The form of an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Form {
    /// For people
    #[default]
    Text,
    /// For machines
    Json,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<Outcome> {
    match &arguments.command {
        Command::Run {
            build,
            probing,
            output,
        } => run_once(build, probing, output),
        Command::Up {
            build,
            name,
            keeper: true,
            ..
        } => keep(build, name),
        Command::Up { name, output, .. } => start_keeper(name, output),
        Command::Probe {
            name,
            probing,
            output,
        } => {
            let request = Request::Probe {
                timeout: u64::try_from(probing.timeout.as_millis()).ok(),
                expectations: probing.text()?,
                network: probing.network.clone(),
                colour: output.output == Form::Text && output::color_on_stdout(),
            };
            answer(&send(&name.name, &request)?, output)
        }
        Command::Status { name, output } => answer(&send(&name.name, &Request::Status)?, output),
        Command::Apply { input, name, output } => apply(input, name, output),
        Command::Exec { name, place, command } => exec(&name.name, place, command),
        Command::Down { name } => {
            send(&name.name, &Request::Down)?;
            output::to_stderr(&format!("lab `{}` is down\n", name.name));
            Ok(Outcome::Yes)
        }
    }
}

fn run_once(build: &Build, probing: &Probing, output: &Output) -> anyhow::Result<Outcome> {
    let mut expectations = probing.read()?;
    gain_access()?;
    let progress = Progress::on_terminal();
    let mut lab = build.up(&expectations, probing.timeout, &progress)?;
    output::to_stderr(&format!(
        "{} network namespaces without names, {} cables, {} rulesets: all gone when this ends\n",
        lab.network().places().count(),
        lab.network().cables(),
        lab.enforced().count(),
    ));
    let network = probing.network.as_deref();
    let network = network.map(|name| lab.find_network(name)).transpose();
    let network = network.map_err(anyhow::Error::msg)?;
    lab.place(&mut expectations);
    expectations.retain(|expectation| network.is_none() || expectation.network() == network.as_ref());
    let grid = lab.probe(network.as_ref(), probing.timeout, &progress)?;
    let colour = output.output == Form::Text && output::color_on_stdout();
    answer(&report(&lab, &grid, &expectations, colour), output)
}

/// Starts the background process, which says one line once the lab stands.
fn start_keeper(name: &Name, output: &Output) -> anyhow::Result<Outcome> {
    if running().contains(&name.name) {
        bail!(picket_lab::ControlError::AlreadyUp {
            name: name.name.clone()
        });
    }
    let mut keeper = Process::new("/proc/self/exe")
        .args(std::env::args_os().skip(1))
        .arg("--keeper")
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot start the background process")?;
    let mut line = String::new();
    if let Some(stdout) = keeper.stdout.take() {
        BufReader::new(stdout).read_line(&mut line)?;
    }
    if line.is_empty() {
        // It has said why on standard error.
        keeper.wait()?;
        return Ok(Outcome::Unanswered);
    }
    answer(&serde_json::from_str(&line)?, output)
}

fn keep(build: &Build, name: &Name) -> anyhow::Result<Outcome> {
    let claim = Claim::take(&name.name)?;
    gain_access()?;
    let progress = Progress::on_terminal();
    let build = build.clone();
    let lab = build.up(&[], Duration::from_secs(1), &progress)?;
    let line = serde_json::to_string(&status(claim.name(), &lab, 0))?;
    let mut stdout = output::stdout();
    writeln!(stdout, "{line}")?;
    stdout.flush()?;
    drop(stdout);
    picket_lab::leave_terminal()?;
    let load: Load = Box::new(move |paths| {
        let input = Manifests {
            paths: paths.to_vec(),
            ..build.input.clone()
        };
        let read = load(&input.into()).and_then(|loaded| build.read(loaded));
        read.map_err(|error| format!("{error:#}"))
    });
    claim.keep(lab, &load)?;
    Ok(Outcome::Yes)
}

fn apply(input: &Manifests, name: &Name, output: &Output) -> anyhow::Result<Outcome> {
    if input.paths.iter().any(|path| path == Path::new("-")) {
        bail!("`apply` cannot read standard input: the lab reads the files itself, so give it files");
    }
    // Read here too, so that whoever typed the command sees what is wrong.
    load_whole(&input.clone().into())?;
    let paths = input.paths.iter().map(absolute).collect::<Result<_, _>>()?;
    answer(&send(&name.name, &Request::Apply { paths })?, output)
}

fn exec(name: &str, place: &str, command: &[String]) -> anyhow::Result<Outcome> {
    let Some((program, arguments)) = command.split_first() else {
        bail!("there is no command to run");
    };
    let status = execute(name, place, Process::new(program).args(arguments))?;
    std::process::exit(status);
}

fn answer(response: &Response, output: &Output) -> anyhow::Result<Outcome> {
    let mut stdout = output::stdout();
    match output.output {
        Form::Text => write!(stdout, "{}", response.text)?,
        Form::Json => writeln!(stdout, "{:#}", response.json)?,
    }
    stdout.flush()?;
    Ok(Outcome::from_yes(response.good))
}

impl Build {
    fn up(
        &self,
        expectations: &[Expectation],
        timeout: Duration,
        progress: &Progress,
    ) -> anyhow::Result<Lab> {
        let (snapshot, compile) = self.read(load_whole(&self.input.clone().into())?)?;
        let shape = Shape {
            nodes: usize::from(self.nodes),
            outside: expectations.iter().flat_map(Expectation::addresses).collect(),
            timeout,
        };
        Ok(Lab::up(&snapshot, shape, expectations, compile, progress)?)
    }

    /// What a lab is made of what was read, with the custom rules as their files have them now.
    fn read(&self, mut loaded: Loaded) -> anyhow::Result<(Snapshot, Compile)> {
        let layout = match self.layout {
            Layout::Indexed => {
                self.custom.none_for_indexed()?;
                picket_lab::Layout::Indexed
            }
            Layout::Documented => picket_lab::Layout::Documented,
        };
        let custom = read_custom_rules(&mut loaded, &self.custom)?;
        let semantics = self.semantics.semantics();
        picket_nftables::custom::check(&custom, &loaded.snapshot, &semantics)?;
        picket_lab::add_custom_rules(&custom, &mut loaded.snapshot);
        let compile = compile(layout, &semantics, &custom);
        Ok((loaded.snapshot, compile))
    }
}

impl Probing {
    fn text(&self) -> anyhow::Result<Option<String>> {
        let read = |path: &PathBuf| {
            let text =
                fs::read_to_string(path).with_context(|| format!("cannot read `{}`", path.display()))?;
            // Wrong lines are named here, with the file.
            parse_expectations(&text).with_context(|| format!("cannot read `{}`", path.display()))?;
            Ok(text)
        };
        self.expectations.as_ref().map(read).transpose()
    }

    fn read(&self) -> anyhow::Result<Vec<Expectation>> {
        Ok(parse_expectations(&self.text()?.unwrap_or_default())?)
    }
}

fn seconds(text: &str) -> Result<Duration, String> {
    match text.parse::<f64>() {
        Ok(seconds) if (0.05..=60.0).contains(&seconds) => Ok(Duration::from_secs_f64(seconds)),
        _ => Err("give seconds from 0.05 to 60".to_owned()),
    }
}
