# The first process of a node: ends, and with it everything on the node, when its standard input does.
# $1 is a folder with `config.toml`, `network.conflist` and the image `pause.tar`.
set -eu
folder=$1
# As the namespace outside has it: /proc is still the one of there.
read -r process _ </proc/self/stat
mount --make-rprivate /
mount -t proc proc /proc
# The files of containerd, of its shims and of network plugins are at fixed places, and go with these.
mount -t tmpfs tmpfs /run
mount -t tmpfs tmpfs /var/lib
mkdir -p /run/test/net.d /run/netns
cp "$folder/network.conflist" /run/test/net.d/10-test.conflist
ip link set lo up

start() {
    containerd -c "$folder/config.toml" >>"$folder/log" 2>&1 </dev/null &
    daemon=$!
    until ctr -a /run/test/containerd.sock version >/dev/null 2>&1; do
        kill -0 "$daemon"
        sleep 0.05
    done
}

start
ctr -a /run/test/containerd.sock -n k8s.io images import "$folder/pause.tar" >>"$folder/log" 2>&1
echo "READY $process"
while read -r order; do
    case $order in
    kill) kill -9 "$daemon" && wait "$daemon" || true ;;
    start) start ;;
    esac
    echo "DONE $order"
done
