//! Pods as local network namespaces, enforced and probed with real packets.
