#!/usr/bin/env bash
# The report in a browser: headless Chromium at 1280 and 400 pixels, light and dark. The page has its ground and its
# charts in both, and nothing reaches into the margin (tables scroll within their boxes).
# shellcheck source=tests/cli/lib.sh
source "$(dirname "$0")/lib.sh"
browser=$(command -v chromium || command -v chromium-browser || command -v google-chrome || true)
[ -n "$browser" ] || { echo "skip: no Chromium on this machine"; exit 77; }
python3 "$SOURCE/tests/cli/report_check.py" --make a b
expect_exit 0 "$OGROM" report a b --output study

# picture NAME WIDTH HEIGHT SCHEME (0 dark, 1 light)
picture() {
    timeout 120 "$browser" --headless --no-sandbox --disable-gpu --hide-scrollbars --user-data-dir="$work/profile" \
        --screenshot="$work/$1.png" --window-size="$2,$3" --blink-settings=preferredColorScheme="$4" \
        "file://$work/study/report.html" > "$work/said" 2>&1 || true
    if [ ! -s "$1.png" ]; then
        cat "$work/said"
        echo "skip: Chromium cannot run here"
        exit 77
    fi
}
picture wide 1280 900 1
picture narrow 400 1400 1
picture wide-dark 1280 900 0
picture narrow-dark 400 1400 0
python3 - <<'PY' || fail "the pictures"
import struct
import zlib


def pixels(path):
    """Rows of (r, g, b) bytes of an 8-bit RGB or RGBA picture, the alpha left out."""
    data = open(path, "rb").read()
    at, packed, width, height, step = 8, b"", 0, 0, 0
    while at < len(data):
        size, kind = struct.unpack(">I4s", data[at:at + 8])
        body = data[at + 8:at + 8 + size]
        if kind == b"IHDR":
            width, height, depth, colour = struct.unpack(">IIBB", body[:10])
            assert depth == 8 and colour in (2, 6), (depth, colour)
            step = 3 if colour == 2 else 4
        packed += body if kind == b"IDAT" else b""
        at += 12 + size
    raw, rows, above = zlib.decompress(packed), [], bytes(width * step)
    for y in range(height):
        begin = y * (width * step + 1)
        filter_kind, line = raw[begin], bytearray(raw[begin + 1:begin + 1 + width * step])
        for i in range(len(line)):
            left = line[i - step] if i >= step else 0
            up, corner = above[i], above[i - step] if i >= step else 0
            if filter_kind == 1:
                line[i] = (line[i] + left) & 255
            elif filter_kind == 2:
                line[i] = (line[i] + up) & 255
            elif filter_kind == 3:
                line[i] = (line[i] + (left + up) // 2) & 255
            elif filter_kind == 4:
                guess = left + up - corner
                a, b, c = abs(guess - left), abs(guess - up), abs(guess - corner)
                line[i] = (line[i] + (left if a <= b and a <= c else up if b <= c else corner)) & 255
        rows.append([tuple(line[x:x + 3]) for x in range(0, len(line), step)])
        above = bytes(line)
    return rows


for name, width, ground, margin in (("wide", 1280, (255, 255, 255), 14), ("narrow", 400, (255, 255, 255), 8),
                                    ("wide-dark", 1280, (22, 22, 22), 14), ("narrow-dark", 400, (22, 22, 22), 8)):
    rows = pixels(name + ".png")
    assert len(rows[0]) == width, (name, len(rows[0]))
    assert rows[0][0] == ground, (name, rows[0][0])
    beyond = [y for y, row in enumerate(rows) if any(pixel != ground for pixel in row[-margin:])]
    assert not beyond, (name, "reaches into the margin at line", beyond[:3])
    coloured = sum(1 for row in rows for r, g, b in row if max(r, g, b) - min(r, g, b) > 60)
    inked = sum(1 for row in rows for pixel in row if abs(pixel[1] - ground[1]) > 120)
    assert coloured > 100 and inked > 3000, (name, coloured, inked)
    print(f"{name}: {len(rows)} lines, {coloured} pixels of charts in colour, {inked} of text and lines")
PY
