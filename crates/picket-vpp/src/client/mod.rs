//! The binary API of VPP over its socket.
