# CRI-O: an image is put where the daemon looks for images, before it is started.

run() {
    exec @CRIO@ --config "$folder/config.toml" --config-dir ""
}

# Who connects to it waits for the answer.
answers() {
    test -S /run/test/runtime.sock
}

load() {
    chmod +x "$folder/runc.sh"
    mkdir /run/test/policies
    @COPYIMG@ --root /run/test/storage --runroot /run/test/runroot --storage-driver vfs \
        --signature-policy "$folder/policy.json" \
        --image-name picket.test/pause:1 --import-from "docker-archive:$folder/pause.tar"
    start
}
