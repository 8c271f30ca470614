//! Asking what answers over HTTP, in a few lines of text.

use std::io::{Read, Write};

/// What a server answers at a path: the status, and the text. Nothing where it does not answer as one.
pub fn get(stream: impl Read + Write, path: &str) -> Option<(u16, String)> {
    ask(stream, "GET", path)
}

/// The same by another method, with nothing to say.
pub fn ask(mut stream: impl Read + Write, method: &str, path: &str) -> Option<(u16, String)> {
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n"
    )
    .ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let (head, text) = answer.split_once("\r\n\r\n")?;
    Some((head.split(' ').nth(1)?.parse().ok()?, text.to_owned()))
}
