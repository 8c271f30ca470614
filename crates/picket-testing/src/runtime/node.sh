# The first process of a node: ends, and with it everything on the node, when its standard input does.
# $1 is a folder with the image `pause.tar`, `network.conflist`, the configuration of the runtime, and `daemon.sh`, which
# says how the runtime is started and given the image.
set -eu
folder=$1
# As the namespace outside has it: /proc is still the one of there.
read -r process _ </proc/self/stat
# What happens here reaches whoever looks at this node, as on other nodes, and nobody else.
mount --make-rprivate /
mount --make-rshared /
mount -t proc proc /proc
# In the cluster it is `node-1`.
echo Node-1 >/proc/sys/kernel/hostname
# The files of runtimes, of what they start and of network plugins are at fixed places, and go with these.
mount -t tmpfs tmpfs /run
mount -t tmpfs tmpfs /var/lib
mkdir -p /run/test/net.d /run/netns
cp "$folder/network.conflist" /run/test/net.d/10-test.conflist
ip link set lo up

. "$folder/daemon.sh"

# Starts the daemon and waits until it answers.
start() {
    rm -f /run/test/runtime.sock
    run >>"$folder/log" 2>&1 </dev/null &
    daemon=$!
    until answers >/dev/null 2>&1; do
        kill -0 "$daemon"
        sleep 0.05
    done
}

load >>"$folder/log" 2>&1
echo "READY $process"
while read -r order; do
    case $order in
    kill) kill -9 "$daemon" && wait "$daemon" || true ;;
    start) start ;;
    esac
    echo "DONE $order"
done
