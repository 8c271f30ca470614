//! A real Chromium, driven over the pipe of its DevTools protocol: no port, no network.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;

/// Far beyond what any step takes: a browser that hangs must fail the test, not stop it.
const PATIENCE: Duration = Duration::from_secs(300);

/// What Chromium is started with. Its own sandbox does not work as root, and a page under test is our own.
const FLAGS: [&str; 11] = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-extensions",
    "--disable-background-networking",
    "--disable-component-update",
    "--no-first-run",
    "--host-resolver-rules=MAP * ~NOTFOUND",
    "--window-size=1400,900",
    "--remote-debugging-pipe",
];

/// A browser with one page.
pub(crate) struct Chromium {
    child: Child,
    requests: ChildStdin,
    answers: Receiver<Value>,
    /// Events that came while something else was waited for.
    events: VecDeque<Value>,
    session: String,
    last: u64,
    _profile: TempDir,
}

impl Chromium {
    /// Starts the browser with an empty page.
    pub(crate) fn start() -> Self {
        let profile = tempfile::tempdir().unwrap();
        // The protocol's pipes are descriptors 3 and 4.
        let mut child = Command::new("sh")
            .args(["-c", "exec chromium \"$@\" 3<&0 4>&1 </dev/null >/dev/null", "sh"])
            .args(FLAGS)
            .arg(format!("--user-data-dir={}", profile.path().display()))
            // It leaves a folder for its socket behind when it is killed.
            .env("TMPDIR", profile.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let requests = child.stdin.take().unwrap();
        let answers = BufReader::new(child.stdout.take().unwrap());
        let (sender, receiver) = channel();
        std::thread::spawn(move || {
            for message in answers.split(0).map_while(Result::ok) {
                if sender.send(serde_json::from_slice(&message).unwrap()).is_err() {
                    break;
                }
            }
        });
        let mut chromium = Self {
            child,
            requests,
            answers: receiver,
            events: VecDeque::new(),
            session: String::new(),
            last: 0,
            _profile: profile,
        };
        let target = chromium.call("Target.createTarget", &json!({"url": "about:blank"}));
        let session = chromium.call(
            "Target.attachToTarget",
            &json!({"targetId": target["targetId"], "flatten": true}),
        );
        chromium.session = session["sessionId"].as_str().unwrap().to_owned();
        for domain in ["Page", "Runtime", "Network", "Log"] {
            chromium.call(&format!("{domain}.enable"), &json!({}));
        }
        chromium
    }

    /// Opens a file, and waits until it is loaded.
    pub(crate) fn open(&mut self, file: &Path) {
        let url = format!("file://{}", file.display());
        self.events
            .retain(|event| event["method"] != "Page.loadEventFired");
        self.call("Page.navigate", &json!({"url": url}));
        self.wait_for("Page.loadEventFired");
    }

    /// What an expression of the page's script is, or becomes when it is a promise.
    pub(crate) fn evaluate(&mut self, expression: &str) -> Value {
        let mut answer = self.call(
            "Runtime.evaluate",
            &json!({"expression": expression, "returnByValue": true, "awaitPromise": true}),
        );
        assert!(answer["exceptionDetails"].is_null(), "{expression}: {answer}");
        answer["result"]["value"].take()
    }

    /// Presses a key: its name, and with what (2 is Ctrl, 8 is Shift).
    pub(crate) fn press(&mut self, key: &str, modifiers: u8) {
        let text = match key {
            "Enter" => "\r",
            one if one.chars().count() == 1 => one,
            _ => "",
        };
        for kind in ["keyDown", "keyUp"] {
            let code = match key {
                "Tab" => 9,
                "Enter" => 13,
                _ => 0,
            };
            self.call(
                "Input.dispatchKeyEvent",
                &json!({"type": kind, "key": key, "code": key, "text": if kind == "keyDown" { text } else { "" },
                    "windowsVirtualKeyCode": code, "modifiers": modifiers}),
            );
        }
        self.frame();
    }

    /// Clicks the middle of the first element that a selector finds.
    pub(crate) fn click(&mut self, selector: &str) {
        let selector = json!(selector);
        let place = self.evaluate(&format!(
            "(() => {{ const box = document.querySelector({selector}).getBoundingClientRect();
                return [box.x + box.width / 2, box.y + box.height / 2]; }})()"
        ));
        for kind in ["mouseMoved", "mousePressed", "mouseReleased"] {
            self.call(
                "Input.dispatchMouseEvent",
                &json!({"type": kind, "x": place[0], "y": place[1], "button": "left", "clickCount": 1}),
            );
        }
        self.frame();
    }

    /// Types into an input as a person would.
    pub(crate) fn fill(&mut self, selector: &str, text: &str) {
        let selector = json!(selector);
        self.evaluate(&format!("document.querySelector({selector}).select()"));
        self.evaluate(&format!("document.querySelector({selector}).focus()"));
        self.call("Input.insertText", &json!({"text": text}));
        self.frame();
    }

    /// Waits until the page has drawn what was asked for.
    pub(crate) fn frame(&mut self) {
        self.evaluate(
            "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(0))))",
        );
    }

    /// Everything that the page complained about, and every request that it made, since it was started.
    pub(crate) fn complaints(&mut self) -> Vec<String> {
        self.frame();
        let mut found = Vec::new();
        for event in &self.events {
            let said = &event["params"];
            match event["method"].as_str().unwrap_or_default() {
                "Runtime.exceptionThrown" | "Runtime.consoleAPICalled" | "Log.entryAdded" => {
                    found.push(said.to_string());
                }
                "Network.requestWillBeSent" => {
                    let url = said["request"]["url"].as_str().unwrap_or_default();
                    if !url.starts_with("file://") || said["type"] != "Document" {
                        found.push(format!("request for {url}"));
                    }
                }
                _ => {}
            }
        }
        found
    }

    /// One command of the protocol.
    pub(crate) fn call(&mut self, method: &str, parameters: &Value) -> Value {
        self.last += 1;
        let mut request = json!({"id": self.last, "method": method, "params": parameters});
        if !self.session.is_empty() {
            request["sessionId"] = json!(self.session);
        }
        let mut bytes = serde_json::to_vec(&request).unwrap();
        bytes.push(0);
        self.requests
            .write_all(&bytes)
            .expect("Chromium runs (Debian package `chromium`)");
        loop {
            let mut answer = self.next();
            if answer["id"] == self.last {
                assert!(answer["error"].is_null(), "{method}: {answer}");
                return answer["result"].take();
            }
            self.events.push_back(answer);
        }
    }

    fn wait_for(&mut self, event: &str) {
        let is_it = |one: &Value| one["method"] == event;
        while !self.events.iter().any(is_it) {
            let next = self.next();
            self.events.push_back(next);
        }
    }

    fn next(&mut self) -> Value {
        self.answers
            .recv_timeout(PATIENCE)
            .expect("Chromium answers (Debian package `chromium`; `cargo xtask test` installs it)")
    }
}

impl Drop for Chromium {
    fn drop(&mut self) {
        // It ends its other processes before itself, so that none writes into its folder when that is removed.
        let close = json!({"id": self.last + 1, "method": "Browser.close"});
        let _ = self.requests.write_all(format!("{close}\0").as_bytes());
        while self.answers.recv_timeout(PATIENCE).is_ok() {}
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
