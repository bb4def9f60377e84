#!/usr/bin/env python3
"""Turns a captured terminal screen into an SVG picture.

    tmux capture-pane -e -p | docs/images/ansi_to_svg.py dark > run-dark.svg

Braille, blocks and lines are drawn as shapes, so that charts look the same whatever fonts the reader has; everything else
is text, stretched to its cells. Colours are those of xterm's palette, on a dark or on a white background. Only what the
workbench uses is understood: 256 colours, bold, reverse.
"""
import re
import sys

CELL_W, CELL_H, FONT, MARGIN = 8.4, 18, 14, 14
THEMES = {"dark": ("#0d1117", "#d0d7de"), "light": ("#ffffff", "#1f2328")}
CUBE = (0, 95, 135, 175, 215, 255)
SIXTEEN = ("000000 cd3131 0dbc79 e5e510 2472c8 bc3fbc 11a8cd e5e5e5 666666 f14c4c 23d18b f5f543 3b8eea d670d6 29b8db ffffff").split()
FONTS = "ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono','Liberation Mono',monospace"
# Lines by the sides of the cell that they reach: left, right, up, down.
LINES = {"─": "lr", "│": "ud", "┤": "lud", "├": "rud", "┬": "lrd", "┴": "lru", "┼": "lrud", "┌": "rd", "┐": "ld",
         "└": "ru", "┘": "lu", "━": "lr"}
SHADES = {"░": 0.25, "▒": 0.5, "▓": 0.75, "█": 1}


def xterm(index):
    if index < 16:
        return tuple(bytes.fromhex(SIXTEEN[index]))
    if index >= 232:
        return (8 + 10 * (index - 232),) * 3
    index -= 16
    return CUBE[index // 36], CUBE[index // 6 % 6], CUBE[index % 6]


def colour(index, theme):
    return THEMES[theme][1] if index is None else "#%02x%02x%02x" % xterm(index)


def cells(text):
    """(row, column, character, foreground, bold, reverse) of everything that is not a blank."""
    row = column = 0
    fg, bold, reverse = None, False, False
    for part in re.split(r"(\x1b\[[0-9;]*m|\x1b[()][A-Z0-9]|[\x0e\x0f]|\n)", text):
        if part == "\n":
            row, column = row + 1, 0
        elif part.startswith("\x1b["):
            codes = [int(c or 0) for c in part[2:-1].split(";")]
            while codes:
                code = codes.pop(0)
                if code == 38 and codes[:1] == [5]:
                    fg, codes = codes[1], codes[2:]
                elif code == 0:
                    fg, bold, reverse = None, False, False
                elif code == 39:
                    fg = None
                elif code in (1, 22):
                    bold = code == 1
                elif code in (7, 27):
                    reverse = code == 7
                elif 30 <= code <= 37 or 90 <= code <= 97:
                    fg = code - 30 if code < 90 else code - 82
        elif part and part[0] not in "\x1b\x0e\x0f":
            for character in part:
                if character != " " or reverse:
                    yield row, column, character, fg, bold, reverse
                column += 1


def number(value):
    return f"{value:.2f}".rstrip("0").rstrip(".")


def shape(character, x, y):
    """The path of a braille, block or line character in the cell at x, y, and how it is painted; None for text."""
    code = ord(character)
    if 0x2800 < code <= 0x28FF:
        dots = [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2), (0, 3), (1, 3)]
        points = [(x + CELL_W * (0.25 + 0.5 * dx), y + CELL_H * (0.125 + 0.25 * dy))
                  for bit, (dx, dy) in enumerate(dots) if code - 0x2800 >> bit & 1]
        return "dots", 1, "".join(f"M{number(px)} {number(py)}h0" for px, py in points)
    if character in LINES:
        mx, my = x + CELL_W / 2, y + CELL_H / 2
        ends = {"l": (x, my), "r": (x + CELL_W, my), "u": (mx, y), "d": (mx, y + CELL_H)}
        return "line", 1, "".join(f"M{number(mx)} {number(my)}L{number(ends[side][0])} {number(ends[side][1])}"
                                  for side in LINES[character])
    width, height, opacity = 0, 1, 1
    if character in SHADES:
        width, opacity = 1, SHADES[character]
    elif 0x2589 <= code <= 0x258F:  # seven eighths of the cell, from the left, down to one
        width = (0x2590 - code) / 8
    elif 0x2581 <= code <= 0x2587:  # one eighth, from below, up to seven
        width, height = 1, (code - 0x2580) / 8
    if not width:
        return None
    top = y + CELL_H * (1 - height)
    return "fill", opacity, f"M{number(x)} {number(top)}h{number(width * CELL_W)}V{number(y + CELL_H)}H{number(x)}z"


def escape(text):
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def picture(screen, theme, title):
    background, ink = THEMES[theme]
    paths, runs = {}, []
    rows = columns = 0
    for row, column, character, fg, bold, reverse in cells(screen):
        rows, columns = max(rows, row + 1), max(columns, column + 1)
        x, y, paint = MARGIN + column * CELL_W, MARGIN + row * CELL_H, colour(fg, theme)
        if reverse:
            key = ("fill", 1, paint)
            paths[key] = paths.get(key, "") + f"M{number(x)} {number(y)}h{CELL_W}v{CELL_H}h-{CELL_W}z"
            if character == " ":
                continue
            paint = background
        found = shape(character, x, y)
        if found:
            key = (found[0], found[1], paint)
            paths[key] = paths.get(key, "") + found[2]
            continue
        last = runs[-1] if runs else None
        joined = last and character.isascii() and last[3][-1].isascii()
        if joined and (last[0], last[1] + len(last[3]), last[2], last[4]) == (row, column, paint, bold):
            runs[-1] = (row, last[1], paint, last[3] + character, bold)
        else:
            runs.append((row, column, paint, character, bold))
    width, height = 2 * MARGIN + columns * CELL_W, 2 * MARGIN + rows * CELL_H
    yield (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {number(width)} {height}" width="{number(width)}" height="{height}" '
           f'role="img" font-family="{FONTS}" font-size="{FONT}">')
    yield f"<title>{escape(title)}</title>"
    yield f'<rect width="100%" height="100%" rx="8" fill="{background}"/>'
    for (kind, opacity, paint), path in paths.items():
        style = {"dots": f'fill="none" stroke="{paint}" stroke-width="2.6" stroke-linecap="round"',
                 "line": f'fill="none" stroke="{paint}" stroke-width="1.2"',
                 "fill": f'fill="{paint}"' + (f' fill-opacity="{opacity}"' if opacity < 1 else "")}[kind]
        yield f'<path {style} d="{path}"/>'
    for row, column, paint, text, bold in runs:
        x, y = MARGIN + column * CELL_W, MARGIN + row * CELL_H + 0.74 * CELL_H
        wide = f' textLength="{number(len(text) * CELL_W)}"' if len(text) > 1 else ""
        if not text.isascii():  # another font, of another width: in the middle of its cell
            x, wide = x + CELL_W / 2, ' text-anchor="middle"'
        weight = ' font-weight="bold"' if bold else ""
        yield f'<text x="{number(x)}" y="{number(y)}"{wide} fill="{paint}"{weight}>{escape(text)}</text>'
    yield "</svg>"


if __name__ == "__main__":
    if len(sys.argv) < 2 or sys.argv[1] not in THEMES:
        sys.exit("usage: ansi_to_svg.py dark|light [TITLE] < SCREEN > PICTURE.svg")
    print("\n".join(picture(sys.stdin.read(), sys.argv[1], " ".join(sys.argv[2:]) or "a terminal")))
