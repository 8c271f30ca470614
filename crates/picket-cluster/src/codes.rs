//! The codes of diagnostics about the objects of a cluster.

picket_policy::codes! {
    DUPLICATE "C001" "An object that is written twice"
        "Two objects of the input have the same kind, namespace and name, so only one of them would exist in a cluster. The first is used. Two policies that differ become one: it isolates every pod that either selects in every direction that either isolates, and allows nothing."

    NAME_LABEL "C002" "A namespace that says it is called otherwise"
        "The API server sets the label `kubernetes.io/metadata.name` of every namespace to its name, whatever is written. picket does the same."

    ADDRESS_TAKEN "C003" "An address that belongs to something else"
        "Two running pods, or a pod and a node, have the same address, and nobody can tell whose packets are whose. A pod that uses its node's network says `hostNetwork: true`. Otherwise the later pod by namespace and name is judged with made-up addresses instead of its own. An agent lets the address be that of the node, or of one of the pods: on the cluster network of a pod of its own node, else of the one created last; on a secondary network of the pod created first."

    ADDRESS_FAMILY "C004" "A pod with two addresses of one family"
        "A pod has at most one IPv4 and one IPv6 address. The first of each family is used."

    ADDRESS "C005" "No IP address of a pod or node"
        "The field holds the IP address of one pod or node, such as 10.0.0.1 or fd00::1, and not one that means the host itself, nobody or many. It is read as if it were left out."

    NO_ADDRESS_LEFT "C006" "No made-up address left"
        "Pods without an address get made-up ones, IPv4 from 198.18.0.0/15. The range has 131,070, and the pod that is named has an IPv6 address only."

    UNKNOWN_NAMESPACE "C007" "A namespace that the input does not have"
        "A policy is in a namespace, or names one by its label `kubernetes.io/metadata.name`, of which the input has neither a Namespace nor a pod. Nothing there is selected. Namespaces that every cluster has, such as `kube-system`, are not reported when they are named by label."

    UNKNOWN_PORT_NAME "C008" "A port name that no pod has"
        "A policy names a container port, and no pod of the input declares one of that name and protocol. The name matches no connection."

    PORT "C009" "A container port that is none"
        "`containerPort` is a number from 1 to 65535, and `protocol` is TCP, UDP or SCTP. The port is read as if it were left out."

    KIND "C010" "A kind that does not exist"
        "The API server has no such kind in this version, but a similar one that says something about connectivity, or the same one in another version. It refuses the object. Nothing of it is read."

    PORT_NAME "C011" "A name of a container port that is refused"
        "The name of a container port is at most 15 characters of a-z, 0-9 and `-`, with a letter among them, and no two ports of a container share one. Ports with a refused name are read all the same; a shared name stands for each of them."

    PHASE "C012" "A phase that does not exist"
        "`status.phase` is Pending, Running, Succeeded, Failed or Unknown. A pod in any other phase is treated as running."

    NETWORKS "C013" "An annotation of networks that cannot be read"
        "The annotations `k8s.v1.cni.cncf.io/network-status` and, before the pod runs, `k8s.v1.cni.cncf.io/networks` say which secondary networks a pod is on, through which interface, and with which addresses. What cannot be read is left out: through that interface the pod is then neither selected nor matched. Where it is something of the status, interfaces that `networks` asks for beside those of the status count as well."

    UNKNOWN_NETWORK "C014" "A network that the input does not have"
        "A MultiNetworkPolicy is about a secondary network of which the input has neither a NetworkAttachmentDefinition nor a pod with an interface on it. Nothing there is selected."

    UNKNOWN_DOMAIN "C015" "A domain name without a known address"
        "A policy accepts connections to a domain name, and no file that `--dns` names has an address for it. picket looks up no names; the name matches nothing."

    V1BETA1 "C016" "How NetworkPolicy of extensions/v1beta1 is read"
        "NetworkPolicy of `extensions/v1beta1` first had the meaning of its proposal, in which a namespace isolates its pods and policies only allow, and later that of `networking.k8s.io/v1`. picket reads all of an input in one way: as proposed if a namespace has the annotation `net.beta.kubernetes.io/network-policy` or `spec.networkPolicy`, and else as v1. `--v1beta1=proposal` and `--v1beta1=v1` choose."

    MISSING "C017" "Objects of a cluster that cannot be read"
        "The API server of the cluster refuses to list a kind of objects that it has, or serves it only in versions that picket does not read. Policies or pods may be missing from every answer, so that commands which only look end with status 2, and those that render rules, compare or test give no answer. `examples/cluster-reader.yaml` is a role that allows what picket asks for."

    RECORD "C018" "A record in etcd that cannot be read"
        "A record in etcd is no JSON, is of another version than picket reads, is of another object than its key says, or is not what a reflector of picket writes. What was known of the object holds. An agent that knows nothing of it counts nothing as complete until the record can be read or is gone: with `--until-synced deny` it lets nothing new begin that it does not know. A reflector that runs writes the record anew with its next pass."

    VPP_INTERFACE "C019" "An interface of VPP that cannot be"
        "The annotation `picket.dev/vpp-interface` of a pod names its interface in VPP, for an agent that is told to go by it: at most 63 bytes of ASCII that can be seen, without spaces. It is read as if it were left out."

    CLAIM "C020" "An interface of VPP that a pod may not claim"
        "The annotation `picket.dev/vpp-interface` names an interface that no pod may have by the rule of the agent (`--vpp-pod-interface annotation=PATTERN`), one that leads out of the node (`--uplink`), or one that another pod on the node names too. The pod has none then. Through an interface that two pods name nothing passes until only one does: nobody can tell whose it is."

    NEUTRON_PORT "C021" "A port of Neutron that cannot be"
        "The annotation `picket.dev/neutron-ports` of a pod names its ports in OpenStack Neutron by their ids, separated by commas, for a controller that is told to go by it (`--port-by annotation`). An id is a UUID, as in `1b671a64-40d5-491e-99b0-da01ff1f3341`, and there are at most 16. Where one is not, or there are more, the annotation is read as if it were left out."
}

#[cfg(test)]
mod tests {
    #[test]
    fn codes_are_unique_and_ascending() {
        assert!(super::ALL.windows(2).all(|pair| pair[0].code < pair[1].code));
    }
}
