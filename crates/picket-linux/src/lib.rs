//! Linux: network namespaces without names, user namespaces, small clients of rtnetlink, nf_tables and connection
//! tracking, sockets, checksums and readiness, and with the feature `runtime` the sandboxes of a container runtime. The
//! only crate with `unsafe`; every use says why it is sound.

mod at_once;
mod batch;
mod checksum;
mod conntrack;
mod descriptor;
mod dump;
mod error;
mod grace;
mod interface;
mod limit;
mod memory;
mod message;
mod monitor;
mod namespace;
mod netlink;
mod nfnetlink;
mod packet_log;
mod poll;
mod process;
mod receive;
mod reply;
mod request;
mod rule;
#[cfg(feature = "runtime")]
pub mod runtime;
mod socket;
mod uplink;
mod user;

pub use at_once::at_once;
pub use batch::Batch;
pub use checksum::{crc32c, internet_checksum};
pub use conntrack::{Carried, Connection, Tuple, Which};
pub use descriptor::{receive_line, send_line};
pub use dump::Lister;
pub use error::{Error, Result};
pub use grace::Passing;
pub use interface::InterfaceAddress;
pub use limit::raise_open_files_limit;
pub use memory::{give_back_memory, share_memory};
pub use monitor::{Commit, Monitor, Notice, Notices, TableName};
pub use namespace::{NamespaceIdentity, NetworkNamespace};
pub use netlink::{CableEnd, Netlink, Route};
pub use nfnetlink::{BatchError, Nfnetlink, Port, Refused};
pub use packet_log::{Heard, Logged, PacketLog};
pub use poll::{Epoll, Interest, Readiness};
pub use process::{die_with_parent, kill, leave_terminal, peer_user, run_with_input, user_of_process};
pub use reply::{Attributes, Reply};
pub use rule::{IpVersion, RouteRule, RouteTable, RuleMatch};
pub use socket::{icmp_socket, listening_tcp, pending_connect, raw_sctp, starting_tcp, udp};
pub use uplink::{Bridge, RouteMonitor};
pub use user::{UserNamespace, can_administer_network, enter_user_namespace};
