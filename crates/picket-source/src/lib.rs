//! Where objects come from: files, directories and standard input, with the feature `kube` live clusters, and
//! with the feature `etcd` what a reflector keeps of them there.

#[cfg(feature = "kube")]
mod directory;
mod dns;
#[cfg(feature = "etcd")]
mod etcd;
mod files;
#[cfg(feature = "kube")]
mod kube;
#[cfg(feature = "kube")]
mod live;
mod load;
mod origin;
mod parallel;
#[cfg(feature = "kube")]
mod version;

#[cfg(feature = "kube")]
pub use directory::Directory;
pub use dns::read_hosts;
#[cfg(feature = "etcd")]
pub use etcd::{
    Difference, Etcd, EtcdError, Freshness, Intake, Login, Reach, Reflected, Reflection, Reflector,
    ReflectorState, Tls,
};
pub use files::{EXTENSIONS, SourceError, Text, read};
#[cfg(feature = "kube")]
pub use kube::{
    Answered, ApiServer, Change, Health, Interest, KindHealth, Kube, KubeError, Occurrence, Recorded,
    Recorder, Refused, overlay,
};
#[cfg(feature = "kube")]
pub use live::network_plugin;
pub use load::{Loaded, load, load_texts};
pub use origin::{Files, Missing, Origin};
pub use picket_policy::Options;
#[cfg(feature = "kube")]
pub use version::ObjectVersion;
