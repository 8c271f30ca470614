//! What this process may do.

use picket_linux::{can_administer_network, enter_user_namespace};

use crate::Error;

/// Gets this process what a lab needs. Without the privileges of root it enters a user namespace of its own, in which
/// it has them. To be called before a second thread exists.
///
/// # Errors
/// [`Error::Kernel`], with what to change when the system forbids user namespaces.
pub fn gain_access() -> Result<(), Error> {
    if can_administer_network() {
        return Ok(());
    }
    Ok(enter_user_namespace()?)
}
