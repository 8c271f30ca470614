# containerd 2: an image is given to the daemon, by the client of another version.

run() {
    exec @CONTAINERD@ -c "$folder/config.toml"
}

answers() {
    ctr -a /run/test/runtime.sock version
}

load() {
    start
    ctr -a /run/test/runtime.sock -n k8s.io images import "$folder/pause.tar"
}
