//! Lines of text between processes, with open files beside them (`SCM_RIGHTS`).

use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};

/// Files that one line carries at most.
const FILES: usize = 4;
/// A line longer than this is no line of ours.
const LONGEST: usize = 1 << 30;

/// Sends `line` and a line end, and with its first byte `files` (at most four).
///
/// # Errors
/// What the socket says.
pub fn send_line(stream: &mut UnixStream, line: &str, files: &[BorrowedFd<'_>]) -> io::Result<()> {
    let mut bytes = line.as_bytes().to_vec();
    bytes.push(b'\n');
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FILES))];
    let mut beside = SendAncillaryBuffer::new(&mut space);
    if !files.is_empty() && !beside.push(SendAncillaryMessage::ScmRights(files)) {
        return Err(io::Error::from(io::ErrorKind::InvalidInput));
    }
    let sent = sendmsg(&stream, &[IoSlice::new(&bytes)], &mut beside, SendFlags::NOSIGNAL)?;
    stream.write_all(bytes.get(sent..).unwrap_or_default())
}

/// Receives one line, without its end, and the files beside it. Only one line may be under way at a time.
///
/// # Errors
/// What the socket says; [`io::ErrorKind::UnexpectedEof`] when the other side leaves before the line ends.
pub fn receive_line(stream: &mut UnixStream) -> io::Result<(String, Vec<OwnedFd>)> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FILES))];
    let mut beside = RecvAncillaryBuffer::new(&mut space);
    let mut bytes = vec![0; 4096];
    let received = recvmsg(
        &stream,
        &mut [IoSliceMut::new(&mut bytes)],
        &mut beside,
        RecvFlags::CMSG_CLOEXEC,
    )?;
    bytes.truncate(received.bytes);
    let files = beside
        .drain()
        .filter_map(|message| match message {
            RecvAncillaryMessage::ScmRights(files) => Some(files),
            _ => None,
        })
        .flatten()
        .collect();
    let mut buffer = [0; 1 << 16];
    while bytes.last() != Some(&b'\n') {
        let length = stream.read(&mut buffer)?;
        bytes.extend(buffer.get(..length).unwrap_or_default());
        if length == 0 || bytes.len() > LONGEST {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof));
        }
    }
    bytes.pop();
    String::from_utf8(bytes)
        .map(|line| (line, files))
        .map_err(|_| io::Error::from(io::ErrorKind::InvalidData))
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn a_line_arrives_with_its_files_whatever_its_length() {
        for length in [0, 1, 4095, 4096, 100_000] {
            let (mut left, mut right) = UnixStream::pair().unwrap();
            let line = "x".repeat(length);
            let expected = line.clone();
            let sender = std::thread::spawn(move || {
                let file = File::open("/proc/self/status").unwrap();
                send_line(&mut left, &line, &[file.as_fd(), file.as_fd()]).unwrap();
            });
            let (received, files) = receive_line(&mut right).unwrap();
            sender.join().unwrap();
            assert_eq!((received == expected, files.len()), (true, 2), "{length}");
            let mut text = String::new();
            File::from(files.into_iter().next().unwrap())
                .read_to_string(&mut text)
                .unwrap();
            assert!(text.starts_with("Name:"));
        }
    }

    #[test]
    fn half_a_line_is_an_error() {
        let (mut left, mut right) = UnixStream::pair().unwrap();
        left.write_all(b"half").unwrap();
        drop(left);
        assert_eq!(
            receive_line(&mut right).unwrap_err().kind(),
            io::ErrorKind::UnexpectedEof
        );
    }
}
