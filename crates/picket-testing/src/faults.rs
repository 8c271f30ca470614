//! What goes wrong between a client and a server over HTTP: a proxy that refuses, cuts, holds up and answers itself.

use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use serde_json::Value;

/// What is done to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The connection ends before anything is heard. The server knows nothing of it.
    HangUp,
    /// The server hears so many bytes of the request, then nobody hears anything.
    CutRequest(usize),
    /// The server does what it is asked, and the client hears so many bytes of the answer.
    CutAnswer(usize),
    /// The server is not asked, and nothing is answered until the client goes away.
    Silence,
    /// The server does what it is asked, and nothing is answered until the client goes away.
    SilenceAfter,
    /// The server is asked when the proxy [lets it be](Proxy::let_late_ones_pass), and nothing is answered until the client goes away.
    Late,
    /// The server is not asked, and the client hears this: a status, lines of the head, each with its end, and a body.
    Answer(u16, &'static str, String),
    /// The server does what it is asked, and the client hears this.
    AnswerAfter(u16, &'static str, String),
}

/// What was asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// As `GET`.
    pub method: String,
    /// With what is behind its question mark.
    pub path: String,
    /// The lines of the request before its body.
    pub head: String,
    /// The body.
    pub body: String,
    /// What was done to it.
    pub fault: Option<Fault>,
    /// What the server answered, if it was asked.
    pub status: Option<u16>,
}

/// What is done after requests that changed something.
type Look = Box<dyn FnMut(&str) + Send>;

/// A proxy in front of a server on this machine.
pub struct Proxy {
    port: u16,
    state: Arc<Mutex<State>>,
    look: Arc<Mutex<Option<Look>>>,
}

#[derive(Default)]
struct State {
    /// The server.
    port: u16,
    /// What is done to the first request with this method and part of a path, in order.
    planned: VecDeque<(String, String, Fault)>,
    /// What is done to each request with this method and part of a path.
    lasting: Vec<(String, String, Fault)>,
    /// How many requests that change something are let through before one has a fault.
    write: Option<(usize, Fault)>,
    /// The extensions of Neutron that there seem not to be.
    extensions: Vec<String>,
    /// The fields that no answer has.
    fields: Vec<String>,
    /// Requests that are late.
    late: Vec<Vec<u8>>,
    asked: Vec<Asked>,
}

impl Proxy {
    /// One to a port of this machine.
    #[must_use]
    pub fn to(port: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let state = Arc::new(Mutex::new(State {
            port,
            ..State::default()
        }));
        let look = Arc::default();
        let proxy = Self {
            port: listener.local_addr().unwrap().port(),
            state: Arc::clone(&state),
            look: Arc::clone(&look),
        };
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let (state, look) = (Arc::clone(&state), Arc::clone(&look));
                // Whoever hangs up needs no answer.
                thread::spawn(move || serve(client, &state, &look));
            }
        });
        proxy
    }

    /// Where it is.
    #[must_use]
    pub fn endpoint(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Plans a fault for the next request with this method, and this in its path. Of several that fit one request, the one
    /// that was planned first is done to it.
    pub fn plan(&self, method: &str, path: &str, fault: Fault) {
        let planned = (method.to_owned(), path.to_owned(), fault);
        self.state.lock().unwrap().planned.push_back(planned);
    }

    /// Has every request with this method, and this in its path, go wrong from now on.
    pub fn plan_always(&self, method: &str, path: &str, fault: Fault) {
        let lasting = (method.to_owned(), path.to_owned(), fault);
        self.state.lock().unwrap().lasting.push(lasting);
    }

    /// Ends what every request met.
    pub fn end_always(&self) {
        self.state.lock().unwrap().lasting.clear();
    }

    /// Plans a fault for a request that changes something, after so many of these. There is one such plan at a time.
    pub fn plan_write(&self, after: usize, fault: Fault) {
        self.state.lock().unwrap().write = Some((after, fault));
    }

    /// Does something whenever the server has been asked to change something, before anybody hears what it answers: it hears what, as
    /// in `PUT /v2.0/ports/1`.
    pub fn look(&self, look: impl FnMut(&str) + Send + 'static) {
        *self.look.lock().unwrap() = Some(Box::new(look));
    }

    /// Asks the server what is late. How many requests that are.
    #[must_use]
    pub fn let_late_ones_pass(&self) -> usize {
        let (late, port) = {
            let mut state = self.state.lock().unwrap();
            (std::mem::take(&mut state.late), state.port)
        };
        for request in &late {
            pass(request, port).unwrap();
        }
        late.len()
    }

    /// Makes answers from now on those of a Neutron without an extension: its list does not have it, and no object has the fields
    /// that it adds.
    pub fn hide_extension(&self, alias: &str, fields: &[&str]) {
        let mut state = self.state.lock().unwrap();
        state.extensions.push(alias.to_owned());
        state
            .fields
            .extend(fields.iter().map(|field| (*field).to_owned()));
    }

    /// Whether the fault of a request that changes something is still to come about.
    #[must_use]
    pub fn has_write(&self) -> bool {
        self.state.lock().unwrap().write.is_some()
    }

    /// Whether the fault of a request that changes something has come about; it does not any more then.
    #[must_use]
    pub fn take_write(&self) -> bool {
        self.state.lock().unwrap().write.take().is_none()
    }

    /// How many faults have not come about yet.
    #[must_use]
    pub fn planned(&self) -> usize {
        self.state.lock().unwrap().planned.len()
    }

    /// What has been asked since it was asked for last.
    #[must_use]
    pub fn asked(&self) -> Vec<Asked> {
        std::mem::take(&mut self.state.lock().unwrap().asked)
    }

    /// The same as words: `GET ports 200`, `POST ports cut`, without what is behind question marks.
    #[must_use]
    pub fn words(&self) -> Vec<String> {
        let asked = self.asked().into_iter();
        asked
            .map(|asked| {
                let path = asked.path.split('?').next().unwrap_or_default();
                let path = path.strip_prefix("/v2.0/").unwrap_or(path);
                let kind = path.split('/').next().unwrap_or_default();
                let end = match (&asked.fault, asked.status) {
                    (Some(Fault::Answer(status, ..) | Fault::AnswerAfter(status, ..)), _) => {
                        status.to_string()
                    }
                    (Some(_), _) => "cut".to_owned(),
                    (None, status) => status.unwrap_or_default().to_string(),
                };
                format!("{} {kind} {end}", asked.method)
            })
            .collect()
    }

    /// The same of what was to change something.
    #[must_use]
    pub fn writes(&self) -> Vec<String> {
        let words = self.words().into_iter();
        words.filter(|word| !word.starts_with("GET ")).collect()
    }
}

/// Serves one request; `None` when a side goes away.
fn serve(mut client: TcpStream, state: &Mutex<State>, look: &Mutex<Option<Look>>) -> Option<()> {
    let request = read(&mut client)?;
    let text = String::from_utf8_lossy(&request).into_owned();
    let (head, body) = text.split_once("\r\n\r\n")?;
    let mut words = head.split(' ');
    let (method, path) = (words.next()?.to_owned(), words.next()?.to_owned());
    let (fault, port) = {
        let mut state = state.lock().unwrap();
        let fits = |(of, part, _): &(String, String, Fault)| *of == method && path.contains(part.as_str());
        let at = state.planned.iter().position(fits);
        let fault = at
            .and_then(|at| state.planned.remove(at))
            .map(|(_, _, fault)| fault);
        let of_write = match &mut state.write {
            Some((0, _)) if method != "GET" => state.write.take().map(|(_, fault)| fault),
            Some((left, _)) if method != "GET" => {
                *left -= 1;
                None
            }
            _ => None,
        };
        let lasting = state.lasting.iter().find(|planned| fits(planned));
        let lasting = lasting.map(|(_, _, fault)| fault.clone());
        (fault.or(of_write).or(lasting), state.port)
    };
    let answer = asked(&request, fault.as_ref(), port)?;
    if method != "GET"
        && answer.is_some()
        && let Some(look) = look.lock().unwrap().as_mut()
    {
        look(&format!("{method} {path}"));
    }
    if fault == Some(Fault::Late) {
        state.lock().unwrap().late.push(request);
    }
    let answer = answer.map(|answer| without(answer, &state.lock().unwrap()));
    let status = answer
        .as_ref()
        .and_then(|answer| String::from_utf8_lossy(answer.get(9..12)?).parse().ok());
    state.lock().unwrap().asked.push(Asked {
        method,
        path,
        head: head.to_owned(),
        body: body.to_owned(),
        fault: fault.clone(),
        status,
    });
    match fault {
        None => client.write_all(&answer?).ok(),
        Some(Fault::HangUp | Fault::CutRequest(_)) => None,
        Some(Fault::CutAnswer(bytes)) => {
            let answer = answer?;
            client.write_all(&answer[..answer.len().min(bytes)]).ok()
        }
        Some(Fault::Silence | Fault::SilenceAfter | Fault::Late) => {
            let _ = client.read(&mut [0; 1]);
            None
        }
        Some(Fault::Answer(status, lines, body) | Fault::AnswerAfter(status, lines, body)) => {
            let length = body.len();
            let head = format!(
                "HTTP/1.1 {status} x\r\n{lines}content-length: {length}\r\nconnection: close\r\n\r\n"
            );
            client.write_all(head.as_bytes()).ok()?;
            client.write_all(body.as_bytes()).ok()
        }
    }
}

/// Asks the server, as far as a fault lets it be asked: what it answers, if it was asked. `None` when it goes away.
fn asked(request: &[u8], fault: Option<&Fault>, port: u16) -> Option<Option<Vec<u8>>> {
    match fault {
        Some(Fault::HangUp | Fault::Silence | Fault::Late | Fault::Answer(..)) => Some(None),
        Some(Fault::CutRequest(bytes)) => {
            let mut server = TcpStream::connect(("127.0.0.1", port)).ok()?;
            server.write_all(&request[..request.len().min(*bytes)]).ok()?;
            // What the server says about half a request is for nobody.
            server.shutdown(Shutdown::Both).ok()?;
            Some(None)
        }
        _ => pass(request, port).map(Some),
    }
}

/// An answer without some extensions in its list, and some fields.
fn without(
    answer: Vec<u8>,
    State {
        extensions, fields, ..
    }: &State,
) -> Vec<u8> {
    if extensions.is_empty() {
        return answer;
    }
    let text = String::from_utf8_lossy(&answer);
    let parts = text.split_once("\r\n\r\n");
    let Some((head, Ok(mut body))) = parts.map(|(head, body)| (head, serde_json::from_str::<Value>(body)))
    else {
        return answer;
    };
    if let Some(list) = body.get_mut("extensions").and_then(Value::as_array_mut) {
        list.retain(|one| !extensions.iter().any(|alias| one["alias"] == alias.as_str()));
    }
    hide(&mut body, fields);
    let body = body.to_string();
    let lines = head
        .split("\r\n")
        .filter(|line| !line.to_ascii_lowercase().starts_with("content-length:"));
    let head: Vec<_> = lines.collect();
    let head = head.join("\r\n");
    format!("{head}\r\ncontent-length: {}\r\n\r\n{body}", body.len()).into_bytes()
}

fn hide(value: &mut Value, fields: &[String]) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(|item| hide(item, fields)),
        Value::Object(object) => {
            object.retain(|name, _| !fields.contains(name));
            object.values_mut().for_each(|item| hide(item, fields));
        }
        _ => {}
    }
}

/// All of a request.
fn read(stream: &mut TcpStream) -> Option<Vec<u8>> {
    let mut request = Vec::new();
    let mut bytes = [0; 16_384];
    loop {
        let text = String::from_utf8_lossy(&request);
        if let Some((head, _)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| {
                let (name, value) = line.split_once(':')?;
                name.eq_ignore_ascii_case("content-length")
                    .then(|| value.trim().parse::<usize>().ok())?
            });
            if request.len() >= head.len() + 4 + length.unwrap_or(0) {
                return Some(request);
            }
        }
        let count = stream.read(&mut bytes).ok().filter(|count| *count > 0)?;
        request.extend(&bytes[..count]);
    }
}

/// What a server answers. It is told that nothing more follows.
fn pass(request: &[u8], port: u16) -> Option<Vec<u8>> {
    let mut server = TcpStream::connect(("127.0.0.1", port)).ok()?;
    let at = request.windows(2).position(|end| end == b"\r\n")?;
    server.write_all(&request[..at]).ok()?;
    server.write_all(b"\r\nconnection: close").ok()?;
    server.write_all(&request[at..]).ok()?;
    let mut answer = Vec::new();
    server.read_to_end(&mut answer).ok()?;
    (!answer.is_empty()).then_some(answer)
}
