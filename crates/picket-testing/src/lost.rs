//! Answers of the kernel that get lost: a process hears nothing of transactions that took place.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;

use rustix::net::{AddressFamily, netlink, sockopt};
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};
use socket2::{SockFilter, SockRef};

const NLMSG_ERROR: u32 = 2;
const NFNL_SUBSYS_NFTABLES: u32 = 10;

/// Of each answer that says that a transaction of nf_tables took place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Share {
    /// It is lost.
    All,
    /// It is lost or comes, as the kernel throws a coin.
    Half,
}

/// While there is this, answers to a process are lost. The sockets, by their inodes.
pub struct LostAnswers(BTreeMap<u64, OwnedFd>);

impl LostAnswers {
    /// For each socket of netfilter that a process has now. Others that it opens hear everything.
    #[must_use]
    pub fn of(process: u32, share: Share) -> Self {
        let id = Pid::from_raw(process.cast_signed()).unwrap();
        let process = pidfd_open(id, PidfdFlags::empty()).unwrap();
        let numbers = fs::read_dir(format!("/proc/{}/fd", id.as_raw_nonzero())).unwrap();
        let numbers = numbers.map(|entry| entry.unwrap().file_name().to_str().unwrap().parse().unwrap());
        // What has been closed meanwhile needs no filter.
        let descriptors =
            numbers.filter_map(|number| pidfd_getfd(&process, number, PidfdGetfdFlags::empty()).ok());
        // What has been closed meanwhile may also have given its number to a descriptor that was made here: of a socket that is known.
        let sockets: BTreeMap<_, _> = descriptors
            .filter(is_of_netfilter)
            .map(|socket| (inode(&socket), socket))
            .collect();
        assert!(!sockets.is_empty(), "a process without sockets of netfilter");
        for socket in sockets.values() {
            SockRef::from(socket).attach_filter(&filter(share)).unwrap();
        }
        Self(sockets)
    }
}

impl Drop for LostAnswers {
    fn drop(&mut self) {
        for socket in self.0.values() {
            SockRef::from(socket).detach_filter().unwrap();
        }
    }
}

fn inode(descriptor: &OwnedFd) -> u64 {
    let file = File::from(descriptor.try_clone().unwrap());
    file.metadata().unwrap().ino()
}

fn is_of_netfilter(descriptor: &OwnedFd) -> bool {
    let descriptor = descriptor.as_fd();
    sockopt::socket_domain(descriptor) == Ok(AddressFamily::NETLINK)
        && sockopt::socket_protocol(descriptor) == Ok(Some(netlink::NETFILTER))
}

/// Lets everything pass but messages of the kind `NLMSG_ERROR` that tell of no error and answer a message of nf_tables. Of numbers in
/// messages the lower byte comes first.
fn filter(share: Share) -> Vec<SockFilter> {
    let random = (libc::SKF_AD_OFF + libc::SKF_AD_RANDOM).cast_unsigned();
    let limit = match share {
        Share::All => 0,
        Share::Half => 1 << 31,
    };
    vec![
        load(libc::BPF_B, 4),
        // These skip to what lets pass.
        unless(libc::BPF_JEQ, NLMSG_ERROR, 7),
        load(libc::BPF_W, 16),
        unless(libc::BPF_JEQ, 0, 5),
        load(libc::BPF_B, 25),
        unless(libc::BPF_JEQ, NFNL_SUBSYS_NFTABLES, 3),
        load(libc::BPF_W, random),
        unless(libc::BPF_JGE, limit, 1),
        line(libc::BPF_RET | libc::BPF_K, 0, 0),
        line(libc::BPF_RET | libc::BPF_K, 0, u32::MAX),
    ]
}

fn load(size: u32, offset: u32) -> SockFilter {
    line(libc::BPF_LD | size | libc::BPF_ABS, 0, offset)
}

/// Skips so many lines unless this holds of what was loaded.
fn unless(test: u32, value: u32, skipped: u8) -> SockFilter {
    line(libc::BPF_JMP | test | libc::BPF_K, skipped, value)
}

fn line(code: u32, skipped: u8, value: u32) -> SockFilter {
    SockFilter::new(code.try_into().unwrap(), 0, skipped, value)
}
