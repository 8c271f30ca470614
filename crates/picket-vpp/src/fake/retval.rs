//! The numbers by which VPP says why it refuses (`vnet/api_errno.h`).

/// No reason given; also every error of the session layer.
pub const UNSPECIFIED: i32 = -1;
/// No such interface.
pub const INVALID_SW_IF_INDEX: i32 = -2;
/// No such ACL.
pub const NO_SUCH_ENTRY: i32 = -6;
/// A tag without an end, or none where one is needed.
pub const INVALID_VALUE: i32 = -7;
/// A range whose first value is above its last.
pub const INVALID_VALUE_2: i32 = -8;
/// No such FIB.
pub const NO_SUCH_FIB: i32 = -19;
/// The session layer is not enabled.
pub const FEATURE_DISABLED: i32 = -30;
/// A source prefix that is none, or with bits beyond its length.
pub const INVALID_SRC_ADDRESS: i32 = -57;
/// The same for a destination; here also one of another family than its source.
pub const INVALID_DST_ADDRESS: i32 = -58;
/// The ACL to be deleted is in an input list.
pub const ACL_IN_USE_INBOUND: i32 = -142;
/// The ACL to be deleted is in an output list.
pub const ACL_IN_USE_OUTBOUND: i32 = -143;
/// An ACL twice in one list: not -116, because the handler joins two results with `||`.
pub const TWICE_IN_LIST: i32 = 1;
