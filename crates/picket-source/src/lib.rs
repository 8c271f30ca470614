//! Where objects come from: files, directories and standard input, and with the feature `kube` live clusters.

mod dns;
mod files;
#[cfg(feature = "kube")]
mod kube;
#[cfg(feature = "kube")]
mod live;
mod load;
mod origin;
mod parallel;

pub use dns::read_hosts;
pub use files::{EXTENSIONS, SourceError, Text, read};
#[cfg(feature = "kube")]
pub use kube::{
    Change, Health, Interest, KindHealth, Kube, KubeError, Occurrence, Recorded, Recorder, overlay,
};
#[cfg(feature = "kube")]
pub use live::network_plugin;
pub use load::{Loaded, load, load_texts};
pub use origin::{Files, Missing, Origin};
pub use picket_policy::Options;
