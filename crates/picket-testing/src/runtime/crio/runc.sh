#!/bin/sh
# runc, but that no process is spared when memory is short: processes of sandboxes are to be, which not everybody may ask for who tests.
set -eu
bundle=
for word in "$@"; do
    test "$bundle" != next || bundle=$word
    test "$word" != --bundle || bundle=next
done
test ! -f "$bundle/config.json" || sed -i 's/"oomScoreAdj": *-[0-9]*/"oomScoreAdj": 0/' "$bundle/config.json"
exec runc "$@"
