#!/usr/bin/env bash
# Everything that comes and goes, for 75 minutes, and what the server's memory does meanwhile:
# docs/capacity.md, "Memory over time". Usage: crates/encke/benches/long-run.sh [SECONDS
# [FILE.csv]], with `encke` in PATH and ports 8000 and 8001 free. Ends by itself, and leaves nothing
# but the file.
set -euo pipefail
seconds=${1:-4500}
csv=${2:-long-run.csv}
url=http://127.0.0.1:8000
api=http://127.0.0.1:8001
dir=$(mktemp -d)
going=$dir/going
touch "$going"
trap 'rm -f "$going"; kill %?serve 2> /dev/null; wait; rm -r "$dir"' EXIT

encke graph generate --users 10000 --edges-per-user 1 -o "$dir/friends.txt"
encke graph load "$dir/friends.txt" --both --data "$dir/data"
encke serve --workers 2 --data "$dir/data" 2> "$dir/serve.log" &
until curl -so "$dir/ready" $api/readyz; do sleep 0.1; done

# Half of the users stay, under their own ids.
encke flood --users 5000 --seconds $((seconds + 10)) \
  > "$dir/steady.log" &
encke watch --every 5 --seconds "$seconds" -o "$csv" &
encke spam --users 10000 --rate 400 --post --seconds "$seconds" \
  > "$dir/spam.log" &
steady=$!

# Others come by each transport in turn; half of them reset, half of these resume.
crowds() {
  local options transport
  for transport in sse ndjson websocket poll classic; do
    options=(--storm-after 4 --vanish 0.25 --come-back 0.25 --away 2)
    case $transport in
      classic) ;;
      *) options+=(--resume) ;;
    esac
    encke flood --transport "$transport" --first-id 5000 \
      --users 1000 --seconds 12 "${options[@]}" >> "$dir/crowds.log" || true
  done
}

# Names that were never seen before and never are again: online, followed, sent to, forgotten.
guests() {
  local round=$1 body
  encke flood --url "$url/stream/guest-$round-{id}" --users 200 --seconds 2 \
    >> "$dir/guests.log" || true
  body=$(for i in $(seq 100); do
    printf '{"subscriber":"guest-%d-%d","subscribee":"%d"}\n' "$round" "$i" $((i + round % 5000))
  done)
  for what in add remove; do
    curl -sS -H 'Content-Type: application/x-ndjson' --data-binary @- \
      "$api/subscriptions/$what" <<< "$body" >> "$dir/guests.log"
  done
  for i in $(seq 100); do printf '{"about":"nobody-%d-%d","data":1}\n' "$round" "$i"; done |
    curl -sS -H 'Content-Type: application/x-ndjson' --data-binary @- "$api/send" \
      >> "$dir/guests.log"
}

(while [ -e "$going" ]; do crowds; done) &
(for ((round = 0; ; round++)); do
  [ -e "$going" ] || break
  guests "$round"
  sleep 1
done) &
wait "$steady" || true
rm "$going"
grep -c added "$dir/guests.log" | sed 's/$/ rounds of names/'
tail -n 3 "$dir/spam.log"
sleep 12
grep -c "^  opened" "$dir/crowds.log" | sed 's|$| crowds|'
tail -n 12 "$dir/steady.log"
