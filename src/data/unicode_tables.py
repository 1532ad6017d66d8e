#!/usr/bin/env python3
"""Writes unicode_tables.inc: the code points that GPT-2's pattern calls letters (\\p{L}), numbers (\\p{N}) and blanks
(\\s, the property White_Space), as ranges. Run it again to follow a newer Unicode: ids of texts with the new letters
change with it, so the version is part of the file.

    python3 unicode_tables.py > unicode_tables.inc
"""
import sys
import unicodedata

# PropList.txt, White_Space; stable since Unicode 6.3.
BLANKS = {*range(0x09, 0x0E), 0x20, 0x85, 0xA0, 0x1680, *range(0x2000, 0x200B), 0x2028, 0x2029, 0x202F, 0x205F, 0x3000}


def kind(point):
    if point in BLANKS:
        return "blank"
    return {"L": "letter", "N": "number"}.get(unicodedata.category(chr(point))[0])


def ranges():
    start, current = 0, None
    for point in range(0x110001):
        now = kind(point) if point < 0x110000 else None
        if now != current:
            if current:
                yield start, point - 1, current
            start, current = point, now


def main():
    print(f"// Unicode {unicodedata.unidata_version}, made by unicode_tables.py. {{first, last, class}}, ascending.")
    print("// clang-format off")
    line = ""
    for first, last, name in ranges():
        entry = f"{{0x{first:X},0x{last:X},CharClass::{name}}},"
        if len(line) + len(entry) > 118:
            print(line)
            line = ""
        line += entry
    print(line)


if __name__ == "__main__":
    sys.exit(main())
