"""Finds the places of a C or CUDA file at which a small bug can be planted, in clang's syntax tree.

A place is a span of the text, and the text that replaces it: the original behind the switch of mutant.h. Left out are
constants (array sizes, case labels, initialisers of static variables), text that a macro expands to, and the heads
of OpenMP's loops, which must keep their form.
"""

import json
import os
import re
import subprocess

NUMBER = "\0"
CUDA = (".cu", ".cuh")
WITHOUT_CACHE = {**os.environ, "CCACHE_DISABLE": "1"}  # ccache would read the tree of preprocessed text
OTHER = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "=="}
SKIPPED = {"ConstantExpr", "UnaryExprOrTypeTraitExpr", "OffsetOfExpr", "StaticAssertDecl", "EnumDecl", "RecordDecl",
           "TypedefDecl", "GenericSelectionExpr", "GCCAsmStmt", "DesignatedInitExpr"}
INDEXING = ("+", "-", "*", "/", "%", "&", "^", "<<", ">>")
FUNCTIONS = ("FunctionDecl", "CXXMethodDecl", "CXXConstructorDecl", "CXXDestructorDecl", "CXXConversionDecl")
# The children of a statement that are statements, too.
BODIES = {"CompoundStmt": slice(None), "IfStmt": slice(1, None), "ForStmt": slice(4, None), "DoStmt": slice(0, 1),
          "WhileStmt": slice(-1, None), "SwitchStmt": slice(-1, None), "CaseStmt": slice(-1, None),
          "LabelStmt": slice(None), "DefaultStmt": slice(None)}
IMPURE = {"CallExpr", "CompoundAssignOperator", "StmtExpr", "AtomicExpr", "VAArgExpr"}
# Without these calls only a sanitizer sees a difference: what is freed, closed and unlocked.
UNSEEN = re.compile(r"free|release|close|destroy|decref|lock|assert|^va_|abort|fetch|^pthread_.*_init$")
SYMMETRIC = re.compile(r"strn?(case)?cmp$|memcmp$|fminf?$|fmaxf?$|least$|\w+_dot$|slice_common$|.*(alloc|fetch)")  # sizes multiply
HINTS = re.compile(r"_soon$|^ahead_of$|_announce$|^out_prefetch$")  # hints of what will be read change no result
NO_MEMORY = re.compile(r"alloc\w*\(|no_memory\(")  # no test can make a small allocation fail
ASKED = re.compile(r"!([\w.]+(?:->[\w.]+)*)")


class Place:
    """A bug that can be planted: `text`, with the bug's number in place of NUMBER, replaces the file's [start:stop]."""

    def __init__(self, kind, path, line, start, stop, text, before, after):
        self.kind, self.path, self.line, self.start, self.stop = kind, path, line, start, stop
        self.text, self.before, self.after = text, short(before), short(after)


def arithmetic(node):
    kind = node["type"].get("desugaredQualType", node["type"]["qualType"])
    return re.fullmatch(r"((const|unsigned|signed|int|long|short|char|_Bool|bool|float|double) ?)+", kind)


def short(text):
    text = " ".join(text.split())
    return text if len(text) <= 70 else text[:67] + "..."


def functions(path, clang):
    """The functions of a file, as clang prints their trees. Reading those of all headers would take most of the time,
    so the text is cut into declarations first. A location names its file only where that changes: here all do."""
    command = [*clang, "-Xclang", "-ast-dump=json", path]
    done = subprocess.run(command, capture_output=True, check=False, env=WITHOUT_CACHE)
    if done.returncode:
        raise ValueError(f"clang cannot read {path}: " + done.stderr.decode(errors="replace")[:300])
    names = re.compile(rb'"file": "([^"]*)"')
    last, found = {"file": None}, []

    def complete(node):
        if "offset" in node:
            last["file"] = node["file"] = node.get("file", last["file"])
        return node

    for piece in done.stdout[done.stdout.index(b'"inner": [') + 10:].split(b"\n    },\n"):
        files = [match for match in names.finditer(piece)
                 if not piece.endswith(b"includedFrom", 0, piece.rfind(b'"', 0, match.start()))]
        own = files[0].group(1).decode() if files and files[0].start() < piece.find(b'"range"') else last["file"]
        if own == path and b'"kind": "CompoundStmt"' in piece:
            last["file"] = own
            end = piece.rfind(b"\n    }\n") if piece.rstrip().endswith(b"]\n}") else -1
            found += bodies(json.loads(piece[:end] + b"}" if end > 0 else piece + b"}", object_hook=complete))
        elif files:
            last["file"] = files[-1].group(1).decode()
    return found


def bodies(node):
    """The functions with a body in a declaration; of a template its text, not what it became with each type."""
    kind, inner = node.get("kind", ""), node.get("inner", [])
    if kind in FUNCTIONS:
        return [node] if any(child.get("kind") == "CompoundStmt" for child in inner) else []
    if kind in ("FunctionTemplateDecl", "ClassTemplateDecl"):
        inner = [child for child in inner if child.get("kind") in (*FUNCTIONS, "CXXRecordDecl")][:1]
    elif kind not in ("NamespaceDecl", "LinkageSpecDecl", "CXXRecordDecl"):
        return []
    return [function for child in inner for function in bodies(child)]


class Finder:
    """One file's places, in the order of its text."""

    def __init__(self, path, clang):
        self.path, self.places, self.clamps = path, [], set()
        self.cuda = path.endswith(CUDA)
        with open(path, "rb") as file:
            self.bytes = file.read()  # clang counts bytes
        for node in functions(path, clang):
            if HINTS.search(node["name"]):
                continue
            for inner in node["inner"]:
                if inner["kind"] == "CompoundStmt":
                    self.walk(inner, False)

    def ends(self, node):
        begin, end = node["range"]["begin"], node["range"]["end"]
        return begin.get("expansionLoc", begin), end.get("expansionLoc", end), "expansionLoc" in begin, \
            "expansionLoc" in end

    def span(self, node):
        """(start, stop), or None where the text is not the node's: in another file, or made by one macro."""
        begin, end, expanded, ended = self.ends(node)
        if begin.get("file") != self.path or end.get("file") != self.path:
            return None
        stop = end["offset"] + end["tokLen"]
        if ended:  # a macro's arguments belong to it
            stop = self.skip_arguments(stop)
        return (begin["offset"], stop)

    def skip_arguments(self, at):
        found = re.compile(rb"\s*\(").match(self.bytes, at)
        if not found:
            return at
        depth, at = 1, found.end()
        for token in re.compile(rb'"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])*\'|[()]').finditer(self.bytes, at):
            depth += {b"(": 1, b")": -1}.get(token.group(), 0)
            if depth == 0:
                return token.end()
        return at

    def in_macro(self, node):
        begin, end, expanded, ended = self.ends(node)
        return expanded and ended and begin["offset"] == end["offset"]

    def text(self, node):
        span = self.span(node)
        return self.bytes[span[0]:span[1]].decode() if span else ""

    def add(self, kind, node, planted, before, after, span=None):
        span = span or self.span(node)
        if not span or self.in_macro(node):
            return
        text = self.bytes[span[0]:span[1]].decode()
        if not text or "//" in text or re.search(r"^\s*#", text, re.M) or "" in (before, after):
            return
        line = self.bytes.count(b"\n", 0, span[0]) + 1
        self.places.append(Place(kind, self.path, line, *span, planted, before, after))

    def pick(self, kind, node, changed, differs="1", span=None):
        """A place whose text becomes `changed`, an expression."""
        text = self.text(node)
        self.add(kind, node, f"(MUTANT({NUMBER}, {differs}) ? ({changed}) : ({text}))", text, changed, span)

    # ---- the tree ----

    def walk(self, node, statement):
        kind = node.get("kind")
        if kind is None or kind in SKIPPED or (kind == "VarDecl" and node.get("storageClass") == "static"):
            return
        inner = node.get("inner", [])
        if node.get("isConstexpr"):  # the compiler chooses
            for child in inner[1:] if kind == "IfStmt" else []:
                self.walk(child, True)
            return
        pragma = statement and self.after_pragma(node)
        if kind == "CallExpr":
            self.call(node, inner, statement and not pragma)
        elif kind == "BinaryOperator":
            self.operator(node, inner)
        elif kind == "IfStmt" and not node.get("hasElse") and not node.get("hasVar") and not pragma:
            if not (NO_MEMORY.search(self.text(node)) or self.asks_for_memory(inner[0]) or self.is_hint(inner[1])):
                self.check(inner[0], "false", f"if ({self.text(inner[0])})", "no check")
        elif kind == "ImplicitCastExpr" and node.get("castKind") in ("LValueToRValue", "ArrayToPointerDecay"):
            self.key(inner[0], node["castKind"] == "LValueToRValue")
        elif kind == "CompoundStmt":
            self.neighbours(inner)
        if kind == "IfStmt":
            then = inner[1]
            while then.get("kind") == "CompoundStmt" and len(then.get("inner", [])) == 1:
                then = then["inner"][0]
            if then.get("kind") == "BinaryOperator" and then["opcode"] == "=":
                self.clamp(inner[0], then["inner"])
        elif kind == "ConditionalOperator":
            self.clamp(inner[0], inner[1:])
        if kind == "ForStmt":
            if pragma:
                inner = [{}] * 4 + self.loop_bodies(inner, node)
            elif inner[2].get("kind") == "BinaryOperator" and inner[2]["opcode"] == "<":
                self.shorter(inner[2])
        bodies = inner[BODIES[kind]] if kind in BODIES else []
        for child in inner:
            self.walk(child, any(child is body for body in bodies))

    def after_pragma(self, node):
        span = self.span(node)
        before = self.bytes[:span[0]].decode().rstrip() if span else ""
        return before[before.rfind("\n") + 1:].lstrip().startswith("#")

    def loop_bodies(self, inner, node):
        """What follows the head of a loop that OpenMP divides; with collapse() the heads of nested ones, too."""
        before = self.bytes[:self.span(node)[0]].decode().rstrip()
        nested = re.search(r"collapse\((\d)\)", before[before.rfind("\n"):])
        for _ in range(int(nested.group(1)) - 1 if nested else 0):
            body = inner[-1]
            while body.get("kind") == "CompoundStmt" and len(body["inner"]) == 1:
                body = body["inner"][0]
            if body.get("kind") != "ForStmt":
                break
            inner = body["inner"]
        return inner[-1:]

    def pure(self, node):
        kind = node.get("kind")
        if kind in IMPURE or (kind == "BinaryOperator" and node["opcode"] == "=") or \
                (kind == "UnaryOperator" and node["opcode"] in ("++", "--")):
            return False
        return all(self.pure(child) for child in node.get("inner", []))

    def clamp(self, condition, values):
        """`a < b ? a : b` and `if (a < b) a = b` do the same with `<=`."""
        if condition.get("kind") == "BinaryOperator" and \
                {self.text(each) for each in condition["inner"]} == {self.text(each) for each in values}:
            self.clamps.add(condition["id"])

    # ---- the patterns ----

    def check(self, node, without, before, after):
        text = self.text(node)
        self.add("dropped check", node, f"MUTANT_CHECK({NUMBER}, {without}, {text})", before, after)

    def is_hint(self, node):
        """Whether a statement is a call that changes no result."""
        while node.get("kind") == "CompoundStmt" and len(node.get("inner", [])) == 1:
            node = node["inner"][0]
        name = self.callee(node["inner"][0]) if node.get("kind") == "CallExpr" else ""
        return HINTS.search(name) or name.removeprefix("__builtin_") == "prefetch"

    def asks_for_memory(self, node):
        """Whether a condition is that memory, allocated a few lines before, is there."""
        start = (self.span(node) or (0, 0))[0]
        before = self.bytes[max(0, start - 600):start].decode(errors="replace")
        return any(re.search(rf"(?<!\w){re.escape(name)} = [^;]*alloc\w*\(", before)
                   for name in ASKED.findall(self.text(node)))

    def operator(self, node, inner):
        opcode, left, right = node["opcode"], self.text(inner[0]), self.text(inner[1])
        if not left or not right:
            return
        if opcode in OTHER and (node["id"] not in self.clamps or opcode in ("==", "!=")):
            changed = f"{left} {OTHER[opcode]} {right}"
            self.pick("comparison", node, changed, self.differs(node, changed))
        elif opcode in ("&&", "||") and not NO_MEMORY.search(right) and not self.asks_for_memory(inner[1]):
            self.check(inner[1], "true" if opcode == "&&" else "false", self.text(node), left)
        elif opcode in ("+", "-") and right == "1":
            self.pick("bound", node, left)
        elif opcode == "-" and arithmetic(node) and arithmetic(inner[0]):
            changed = f"({right}) - ({left})"
            self.pick("swapped order", node, changed, self.differs(node, changed))
        elif self.cuda and opcode in INDEXING:
            self.pick("lost operand", node, left, self.differs(node, left))

    def differs(self, node, changed):
        return f"({self.text(node)}) != ({changed})" if self.pure(node) else "1"

    def shorter(self, node):
        left, right = (self.text(each) for each in node["inner"])
        changed = f"{left} + 1 < {right}"
        self.pick("bound", node, changed, self.differs(node, changed))

    def callee(self, node):
        while node.get("kind") in ("ImplicitCastExpr", "ParenExpr"):
            node = node["inner"][0]
        return node.get("referencedDecl", {}).get("name", "") or node.get("name", "")

    def call(self, node, inner, statement):
        name, text = self.callee(inner[0]), self.text(node)
        if "sync" in name and re.match("int|enum", node["type"]["qualType"]):
            self.pick("missing sync", node, "0")
        elif statement and not UNSEEN.search(name):
            self.add("dropped call", node, f"(MUTANT({NUMBER}, 1) ? (void)0 : (void)({text}))", text, "no call")
        if SYMMETRIC.match(name) or HINTS.search(name):
            return
        for first, second in zip(inner[1:], inner[2:]):
            a, b = self.text(first), self.text(second)
            kind = first.get("type", {}).get("qualType")
            formats = any(text.startswith('"') and "%" in text for text in (a, b))  # the compiler warns of those
            if a == b or formats or kind != second.get("type", {}).get("qualType") or self.in_macro(node):
                continue
            span, one, two = self.span(node), self.span(first), self.span(second)
            if not (span and one and two and span[0] < one[0] < one[1] <= two[0] < two[1] <= span[1]):
                continue
            piece = [self.bytes[i:j].decode() for i, j in
                     ((span[0], one[0]), (one[1], two[0]), (two[1], span[1]))]
            plain = ("*" in kind or arithmetic(first)) and self.pure(first) and self.pure(second)
            differs = f"({a}) != ({b})" if plain else "1"
            self.pick("swapped order", node, piece[0] + b + piece[1] + a + piece[2], differs)

    def variables(self, node, found):
        decl = node.get("referencedDecl", {})
        if decl.get("kind") in ("VarDecl", "ParmVarDecl"):
            found.add(decl["id"])
        for child in node.get("inner", []):
            self.variables(child, found)
        return found

    def neighbours(self, statements):
        """Two calls in a row that use the same variable."""
        for first, second in zip(statements, statements[1:]):
            if first.get("kind") != "CallExpr" or second.get("kind") != "CallExpr":
                continue
            names = self.callee(first["inner"][0]) + " " + self.callee(second["inner"][0])
            one, two = self.span(first), self.span(second)
            if not one or not two or UNSEEN.search(names) or self.in_macro(first) or self.in_macro(second) or \
                    self.after_pragma(first) or not re.fullmatch(rb";\s*", self.bytes[one[1]:two[0]]) or \
                    not self.variables(first, set()) & self.variables(second, set()):
                continue
            a, b = self.text(first), self.text(second)
            if a != b:
                self.add("swapped order", first,
                         f"if (MUTANT({NUMBER}, 1)) {{ {b}; {a}; }} else {{ {a}; {b}; }}",
                         f"{a}; {b}", f"{b}; {a}", (one[0], two[1]))

    def key(self, member, scalar):
        """A key of the configuration, read through struct config or one of its sections."""
        if member.get("kind") != "MemberExpr":
            return
        section = re.search(r"\bstruct config_(\w+)", member["inner"][0].get("type", {}).get("qualType", ""))
        if section:
            default = f"MUTANT_CONFIG->{section.group(1)}.{member['name']}"
            self.pick("ignored key", member, default, f"({self.text(member)}) != ({default})" if scalar else "1")


def find_places(path, clang):
    """`clang`: the command that checks the file, without its name."""
    return Finder(path, clang).places


def plant(text, places):
    """The bytes of a file with its places behind their switches; `places` are (number, Place), none within another."""
    for number, place in sorted(places, key=lambda each: -each[1].start):
        text = text[:place.start] + place.text.replace(NUMBER, str(number)).encode() + text[place.stop:]
    return b'#include "mutant.h"\n#line 1\n' + text
