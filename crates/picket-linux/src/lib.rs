//! Linux: network namespaces, netlink and sockets.
