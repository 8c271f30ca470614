//! What needs a kernel that has more than most that tests run on: IPVS, bonds and AppArmor. `cargo xtask test` runs it in the
//! virtual machine that `cargo xtask machine` starts, with the kernel of Debian.

use picket_testing::runtime::Kind;

use crate::apiserver::beside::{self, established};
use crate::apiserver::contained;
use crate::apiserver::secondary::links;
use crate::node::{Mode, PLUGINS};

#[test]
fn policies_hold_beside_kube_proxy_with_the_load_balancer_of_the_kernel() {
    beside::play(Mode::Ipvs);
}

#[test]
fn connections_through_the_load_balancer_of_the_kernel_end_as_others_do() {
    established::live_through(Mode::Ipvs, &PLUGINS[1]);
}

#[test]
fn two_links_as_one_interface_that_is_a_bond() {
    links::bonded();
}

#[test]
fn an_agent_on_a_node_works_with_the_profile_that_containers_have() {
    contained::on_a_node_what_is_shipped_is_enough(Kind::Containerd);
}

#[test]
fn an_agent_for_pods_works_where_containers_have_profiles() {
    contained::for_pods_what_is_shipped_is_enough_and_nothing_of_it_is_too_much(Kind::Containerd);
}
