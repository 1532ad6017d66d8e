#!/usr/bin/env bash
# report_picture.sh REPORT.html PICTURE.png [WIDTH [HEIGHT]]: the top of a report as a picture for a README.
# Headless Chromium draws it; pngquant, where it is installed, makes it small. Refused above 200 kB.
set -euo pipefail
[ $# -ge 2 ] || { sed -n '2,3s/^# //p' "$0" >&2; exit 2; }
report=$1 picture=$2 width=${3:-1000} height=${4:-1180} limit=200000
[ -r "$report" ] || { echo "$report: cannot be read" >&2; exit 4; }
browser=$(command -v chromium || command -v chromium-browser || command -v google-chrome || true)
[ -n "$browser" ] || { echo "no Chromium on this machine (Debian: chromium)" >&2; exit 2; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# Whoever runs as root has no sandbox; the page is our own and has no script. The light scheme, whatever the desktop's.
"$browser" --headless --no-sandbox --disable-gpu --hide-scrollbars --user-data-dir="$work/profile" \
    --blink-settings=preferredColorScheme=1 --screenshot="$work/picture.png" --window-size="$width,$height" \
    "file://$(realpath "$report")" > "$work/said" 2>&1 || true
[ -s "$work/picture.png" ] || { cat "$work/said" >&2; echo "Chromium drew nothing" >&2; exit 4; }
if command -v pngquant > /dev/null; then
    pngquant --force --output "$work/picture.png" 64 "$work/picture.png"
fi
size=$(stat -c %s "$work/picture.png")
[ "$size" -lt "$limit" ] || { echo "$size bytes, at most $limit: a smaller HEIGHT, or pngquant, makes it fit" >&2; exit 4; }
mv "$work/picture.png" "$picture"
echo "$picture: $size bytes"
