//! The process that keeps a lab standing.

use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::time::Duration;

use picket_analysis::directory::nearest;
use picket_cluster::Snapshot;
use picket_linux::{UserNamespace, peer_user, receive_line, send_line, user_of_process};

use crate::control::{ControlError, Request, Response, address};
use crate::report::{report, status};
use crate::{Compile, Lab, Place, Progress, parse_expectations};

/// Reads manifests again for [`Request::Apply`], and how to compile them; an error is text for people.
pub type Load = Box<dyn Fn(&[PathBuf]) -> Result<(Snapshot, Compile), String>>;

/// The name of a lab, taken: nobody else can start one of that name while this lives.
#[derive(Debug)]
pub struct Claim {
    name: String,
    listener: UnixListener,
}

impl Claim {
    /// Takes `name`. To be called before a user namespace is entered: the name carries the user outside.
    ///
    /// # Errors
    /// [`ControlError::AlreadyUp`] or [`ControlError::Name`].
    pub fn take(name: &str) -> Result<Self, ControlError> {
        match UnixListener::bind_addr(&address(name, user_of_process())?) {
            Ok(listener) => Ok(Self {
                name: name.to_owned(),
                listener,
            }),
            Err(_) => Err(ControlError::AlreadyUp {
                name: name.to_owned(),
            }),
        }
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Answers requests about `lab` until one asks to end.
    ///
    /// # Errors
    /// When the socket breaks.
    pub fn keep(self, mut lab: Lab, load: &Load) -> io::Result<()> {
        let user = user_of_process();
        // Connections of those who are inside: they see the keeper end by these.
        let mut inside: Vec<UnixStream> = Vec::new();
        loop {
            let (mut stream, _) = self.listener.accept()?;
            if peer_user(&stream) != Some(user) {
                continue;
            }
            // Somebody who connects and says nothing must not stop the others for ever.
            stream.set_read_timeout(Some(Duration::from_secs(5)))?;
            let Ok((line, _)) = receive_line(&mut stream) else {
                continue;
            };
            let Ok(request) = serde_json::from_str::<Request>(&line) else {
                continue;
            };
            inside.retain(|stream| !has_hung_up(stream));
            if let Request::Enter { place } = &request {
                if self.hand_out(&lab, place, &mut stream).is_ok() {
                    inside.push(stream);
                }
                continue;
            }
            let answer = match &request {
                Request::Status | Request::Down => Ok(status(&self.name, &lab, inside.len())),
                Request::Probe {
                    timeout,
                    expectations,
                    network,
                    colour,
                } => {
                    let network = network.as_deref();
                    probe(&mut lab, *timeout, network, expectations.as_deref(), *colour)
                }
                Request::Apply { paths } => {
                    load(paths).and_then(|(snapshot, compile)| apply(&mut lab, &snapshot, compile))
                }
                Request::Enter { .. } => continue,
            };
            if request == Request::Down {
                drop(lab);
                drop(inside);
                // The name is free once the answer is there.
                drop(self.listener);
                // Whoever asked may have gone; the lab ends all the same.
                let _gone = reply(&mut stream, &answer, &[]);
                return Ok(());
            }
            let _gone = reply(&mut stream, &answer, &[]);
        }
    }

    fn hand_out(&self, lab: &Lab, name: &str, stream: &mut UnixStream) -> io::Result<()> {
        let place = lab.topology().place(name);
        let namespace = place
            .as_ref()
            .and_then(|place| lab.network().namespace(place).ok());
        let Some(namespace) = namespace else {
            let names: Vec<String> = lab.network().places().map(Place::to_string).collect();
            return reply(stream, &Err(no_place(&self.name, name, &names)), &[]);
        };
        let response = Response {
            good: true,
            text: String::new(),
            json: serde_json::Value::Null,
        };
        let user = UserNamespace::current().map_err(io::Error::other)?;
        reply(stream, &Ok(response), &[namespace.as_fd(), user.as_fd()])
    }
}

/// Probes `lab`, or one secondary network of it, and checks the text of an expectations file, if there is one.
///
/// # Errors
/// Text for people.
pub fn probe(
    lab: &mut Lab,
    timeout: Option<u64>,
    network: Option<&str>,
    expectations: Option<&str>,
    colour: bool,
) -> Result<Response, String> {
    let network = network.map(|name| lab.find_network(name)).transpose()?;
    let mut expectations =
        parse_expectations(expectations.unwrap_or_default()).map_err(|error| error.to_string())?;
    let text = |error: crate::Error| crate::session::chain(&error);
    lab.prepare(&expectations, &Progress::hidden()).map_err(text)?;
    lab.place(&mut expectations);
    expectations.retain(|expectation| network.is_none() || expectation.network() == network.as_ref());
    let timeout = timeout.map_or(lab.timeout(), Duration::from_millis);
    let grid = lab
        .probe(network.as_ref(), timeout, &Progress::hidden())
        .map_err(text)?;
    Ok(report(lab, &grid, &expectations, colour))
}

/// That a lab has no place called `asked`, and those of its places that may be meant.
fn no_place(lab: &str, asked: &str, names: &[String]) -> String {
    let (near, likely) = nearest(asked, names.iter().cloned(), 3);
    let near: Vec<_> = near.iter().map(|name| format!("`{name}`")).collect();
    let meant = if likely {
        format!("did you mean {}?", near.join(" or "))
    } else {
        format!("the nearest are {}.", near.join(", "))
    };
    format!(
        "the lab `{lab}` has no `{asked}`; {meant} `picket lab status` names all {} places",
        names.len()
    )
}

fn apply(lab: &mut Lab, snapshot: &Snapshot, compile: Compile) -> Result<Response, String> {
    let changes = lab
        .apply_with(snapshot, compile, &Progress::hidden())
        .map_err(|error| crate::session::chain(&error))?;
    let lines = changes.lines();
    let mut text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    text += &format!(
        "{} verdicts changed; {} of {} rulesets replaced\n",
        lines.len(),
        changes.rulesets,
        changes.of
    );
    Ok(Response {
        good: changes.grid.differences().next().is_none(),
        text,
        json: serde_json::json!({
            "rulesetsReplaced": changes.rulesets,
            "changed": changes.grid.to_json().get("results"),
        }),
    })
}

fn reply(
    stream: &mut UnixStream,
    answer: &Result<Response, String>,
    files: &[std::os::fd::BorrowedFd<'_>],
) -> io::Result<()> {
    send_line(stream, &serde_json::to_string(answer)?, files)
}

fn has_hung_up(stream: &UnixStream) -> bool {
    let mut byte = [0];
    let asked = stream
        .set_nonblocking(true)
        .and_then(|()| io::Read::read(&mut &*stream, &mut byte));
    !matches!(asked, Err(error) if error.kind() == io::ErrorKind::WouldBlock)
}

#[cfg(test)]
mod tests {
    use super::no_place;

    #[test]
    fn an_unknown_place_gets_the_nearest_names_and_their_number() {
        let pods = (0..100).map(|number| format!("shop/web-{number:02}"));
        let names: Vec<_> = pods
            .chain(["fabric".to_owned(), "node/lab-1".to_owned()])
            .collect();
        assert_eq!(
            no_place("picket", "node/lab-7", &names),
            "the lab `picket` has no `node/lab-7`; did you mean `node/lab-1`? `picket lab status` names all 102 places"
        );
        let far = no_place("picket", "10.0.0.1", &names);
        assert!(far.contains("; the nearest are `") && far.len() < 200, "{far}");
    }
}
