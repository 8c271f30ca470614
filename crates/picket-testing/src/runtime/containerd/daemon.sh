# containerd: an image is given to the daemon.

run() {
    exec containerd -c "$folder/config.toml"
}

answers() {
    ctr -a /run/test/runtime.sock version
}

load() {
    start
    ctr -a /run/test/runtime.sock -n k8s.io images import "$folder/pause.tar"
}
