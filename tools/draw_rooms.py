#!/usr/bin/env python3
"""draw_rooms.py README SRC > rooms.svg - the architecture as a drawing: the rooms of SRC, as the table in README names
them, and an arrow from each to those whose headers it includes.

An arrow that others imply is left out: what strategy includes of base it could reach through topology as well. A room
lies as high as it can below those that use it."""
import pathlib
import re
import sys
from html import escape

WIDE, MARGIN, GAP = 760, 12, 14       # the drawing, round it, between neighbours
LANES = 54                            # at the right, for arrows that pass rooms by
TITLE, LINE, BETWEEN = 30, 15, 26     # a room's name, a line of what it does, from one level to the next
LETTER = 6.3                          # a letter of the small text, on average

STYLE = """text{font:12px system-ui,-apple-system,'Segoe UI',Roboto,'DejaVu Sans',sans-serif;fill:#2b3440}
.name{font-size:14px;font-weight:600}
.back{fill:#fff}
.room{fill:#f5f7f9;stroke:#9aa4b0}
.uses{fill:none;stroke:#0b62c1;stroke-width:1.5}
.head{fill:#0b62c1}
@media screen and (prefers-color-scheme:dark){text{fill:#d6dbe2}.back{fill:#15181d}.room{fill:#1c2026;stroke:#5d6874}
.uses{stroke:#6fb3ff}.head{fill:#6fb3ff}}"""


def described(readme):
    """Room -> what it does, from the README's table."""
    rows = re.findall(r"^\| `(\w+)` \| (.*?) \| ", readme.read_text(), re.M)
    return {room: what.replace("`", "") for room, what in rows}


def included(src, rooms):
    """Room -> the rooms of which it includes a header. The public header is api's."""
    uses = {room: set() for room in rooms}
    for file in sorted(src.rglob("*.[ch]")):
        room = file.relative_to(src).parts[0]
        text = file.read_text()
        uses[room] |= set(re.findall(r'^\s*#\s*include\s*"(\w+)/', text, re.M)) & set(rooms) - {room}
        if re.search(r'^\s*#\s*include\s*"veche.h"', text, re.M) and room != "api":
            uses[room].add("api")
    return uses


def below(uses, room):
    found = set()
    for other in uses[room]:
        found |= {other} | below(uses, other)
    return found


def without_implied(uses):
    return {room: {o for o in uses[room] if not any(o in below(uses, p) for p in uses[room] - {o})} for room in uses}


def levels(uses):
    """From the top level down, the rooms of each; those with arrows to far below stand at the right."""
    depth = {}
    for room in reversed(uses):  # users come after what they use
        depth[room] = max((depth[user] + 1 for user in uses if room in uses[user]), default=0)
    far = {room: max((depth[o] - depth[room] for o in uses[room]), default=0) for room in uses}
    return [sorted((r for r in uses if depth[r] == d), key=lambda r: far[r]) for d in range(max(depth.values()) + 1)]


def wrapped(text, wide):
    lines = [""]
    for word in text.split():
        if lines[-1] and len(lines[-1]) + 1 + len(word) > wide / LETTER:
            lines.append("")
        lines[-1] += (" " if lines[-1] else "") + word
    return lines


def places(rows, what):
    """Room -> its rectangle. Two rooms on a level share it as 2 : 1, so that the chain of rooms stays in one column."""
    whole, place, y = WIDE - LANES - 2 * MARGIN, {}, MARGIN
    for row in rows:
        parts = {1: [1], 2: [2 / 3, 1 / 3]}.get(len(row), [1 / len(row)] * len(row))
        wide = [round(whole * part - (GAP if room != row[-1] else 0)) for room, part in zip(row, parts)]
        high = TITLE + LINE * max(len(wrapped(what[room], w - 20)) for room, w in zip(row, wide))
        for i, room in enumerate(row):
            place[room] = (MARGIN + sum(wide[:i]) + GAP * i, y, wide[i], high)
        y += high + BETWEEN
    return place, y - BETWEEN + MARGIN


def arrow(points):
    (x0, y0), (x, y) = points[-2:]
    if x0 == x:
        head, stem = f"M{x:g} {y:g}l-4 -8h8z", (x, y - 7)
    else:
        head, stem = f"M{x:g} {y:g}l8 -4v8z", (x + 7, y)
    path = "M" + "L".join(f"{a:g} {b:g}" for a, b in points[:-1] + [stem])
    return f'<path class="uses" d="{path}"/><path class="head" d="{head}"/>'


def arrows(uses, rows, place):
    level = {room: i for i, row in enumerate(rows) for room in row}
    lane = 0
    for user in uses:
        for used in sorted(uses[user]):
            x, y, wide, high = place[user]
            to_x, to_y, to_wide, _ = place[used]
            if level[used] == level[user] + 1:  # straight down, through the middle of what both have in common
                middle = round((max(x, to_x) + min(x + wide, to_x + to_wide)) / 2, 1)
                yield arrow([(middle, y + high), (middle, to_y)])
                continue
            lane += 1
            side, from_y, into_y = WIDE - LANES - MARGIN + 16 * lane, y + high / 2, to_y + 12 + 12 * lane
            yield arrow([(x + wide, from_y), (side, from_y), (side, into_y), (to_x + to_wide, into_y)])


def box(room, what, rectangle):
    x, y, wide, high = rectangle
    yield f'<rect class="room" x="{x}" y="{y}" width="{wide}" height="{high}" rx="6"/>'
    yield f'<text class="name" x="{x + 10}" y="{y + 20}">{room}</text>'
    for i, line in enumerate(wrapped(what, wide - 20)):
        yield f'<text x="{x + 10}" y="{y + 20 + LINE * (i + 1)}">{escape(line)}</text>'


def main():
    what = described(pathlib.Path(sys.argv[1]))
    uses = without_implied(included(pathlib.Path(sys.argv[2]), what))
    rows = levels(uses)
    place, high = places(rows, what)
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDE} {high:g}" width="{WIDE}" height="{high:g}" '
           f'role="img" aria-label="The rooms of the source and what they include">',
           f"<style>{STYLE}</style>", f'<rect class="back" width="{WIDE}" height="{high:g}"/>']
    out += arrows(uses, rows, place)
    for room in what:
        out += box(room, what[room], place[room])
    print("\n".join(out + ["</svg>"]))


main()
