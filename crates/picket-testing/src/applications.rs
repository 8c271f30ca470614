//! A cluster that can be of any size: applications of two pods each, which may exchange something with the next one.

use picket_cluster::{Event, Object};
use picket_net::Protocol;
use picket_policy::Policy;

use crate::build::{PodBuilder, accept, pod, pods_where, policy};

/// The event that something is there.
pub fn apply(object: impl Into<Object>) -> Event {
    Event::Apply(object.into())
}

/// The address of a pod by its number.
pub fn address(number: usize) -> String {
    format!("10.0.{}.{}", number / 250, number % 250 + 1)
}

/// A pod of an application, or of none that a policy knows.
pub fn member(number: usize, application: Option<usize>) -> PodBuilder {
    let pod = pod(&format!("x/p{number}")).ip(&address(number));
    match application {
        Some(application) => pod.label("app", &format!("a{application}")),
        None => pod,
    }
}

/// What an application may exchange: TCP to its next one, and from it.
pub fn exchanges(application: usize, port: u16) -> Policy {
    let next = format!("app=a{}", application + 1);
    let with = || accept().peer(pods_where("", &next)).port(Protocol::TCP, port);
    let policy = policy(&format!("x/a{application}")).selects(&format!("app=a{application}"));
    policy.ingress(with()).egress(with()).build()
}
