#!/usr/bin/env bash
# teams.sh BUILD - experiments with teams as a user runs them: the check tells of the parts, the page draws a lesson, and the bits are those
# of one machine.
source "$(dirname "$0")/../support/check.sh" "$1"

here=$(cd "$(dirname "$0")/../.." && pwd)
cd "$work" || exit

succeeds 'the experiment is checked' "$veche" check "$here/experiments/17-pipeline.yaml"
holds 'the check tells of each part' test "$(grep -c '^  part [0-3] on machine [0-3]: ' <<<"$out")" -eq 4
holds 'and how long a lesson takes' grep -q 'a lesson takes agent 0 .* virtual seconds' <<<"$out"

succeeds 'a team trains' "$veche" run --json "$here/experiments/17-pipeline.yaml"
team=$(json params_sha256 <<<"$out") soon=$(json virtual_s <<<"$out")
succeeds 'one machine trains' "$veche" run --json "$here/experiments/17-pipeline.yaml" name=alone team=none machines.speed=1 train.accumulate=8
holds 'to the same bits' test "$team" = "$(json params_sha256 <<<"$out")"
holds 'and later' awk -v a="$soon" -v b="$(json virtual_s <<<"$out")" 'BEGIN { exit !(a < b) }'

holds 'the folder has a drawing of the lesson' grep -q '<svg' runs/pipeline/team.svg
holds 'that of one machine has none' test ! -e runs/alone/team.svg
succeeds 'a page is made of both' "$veche" report runs/pipeline runs/alone
holds 'it shows the drawing, once' test "$(grep -o 'data:image/svg+xml' runs/report.html report.html 2>/dev/null | wc -l)" -eq 1

succeeds 'schedules are compared' "$veche" compare "$here/experiments/17-pipeline.yaml" --over team.schedule=gpipe,zb-h1
holds 'a row for each' test "$(grep -c '^schedule \(gpipe\|zb-h1\) ' <<<"$out")" -eq 2

done_checking
