"""Writes crates/onnx/src/types.txt, the types that the inputs of ONNX's operators may have, from the schemas of the onnx package:
python python/make_onnx_types.py"""

import pathlib
import re

import onnx.defs

OUT = pathlib.Path(__file__).parent.parent / "crates" / "onnx" / "src" / "types.txt"
HEAD = """\
# The types that inputs of operators may have, written by python/make_onnx_types.py from the schemas of onnx {version}.
#
# First sets of types, by number: elements of tensors, of sequences, and what else there may be. Then a row for each operator,
# from a version on: domain:name, version, and for each input the set that its type is of, after the type variable that it
# shares with others of the row; * after the last that may be repeated.
"""


def shown(types):
    """A set as a line."""
    kinds = {"tensor": set(), "seq": set(), "other": set()}
    for t in types:
        found = re.fullmatch(r"(tensor|seq\(tensor)\((\w+)\)+", t)
        kind = "other" if found is None else "seq" if found[1].startswith("seq") else "tensor"
        kinds[kind].add(re.match(r"\w+", t)[0] if found is None else found[2])
    # sequences of sequences, optionals and maps are not told apart from each other
    return " | ".join(" ".join(sorted(kinds[k])) for k in kinds).rstrip()


def main():
    sets, rows = {}, {}
    for s in onnx.defs.get_all_schemas_with_history():
        allowed = {t.type_param_str: t.allowed_type_strs for t in s.type_constraints}
        columns = []
        for i in s.inputs:
            number = sets.setdefault(shown(allowed.get(i.type_str, [i.type_str])), len(sets))
            many = i.option == onnx.defs.OpSchema.FormalParameterOption.Variadic
            is_shared = i.type_str in allowed and (i.is_homogeneous or not many)
            columns.append(f"{i.type_str if is_shared else ''}:{number}{'*' if many else ''}")
        rows[s.domain, s.name, s.since_version] = " ".join(columns)
    lines, last = [], {}
    for domain, name, version in sorted(rows):
        row = rows[domain, name, version]
        # a version that changes no type says nothing
        if last.get((domain, name)) != row:
            lines.append(f"{domain}:{name} {version} {row}".rstrip())
            last[domain, name] = row
    text = [HEAD.format(version=onnx.__version__), *(f"{n}: {s}\n" for s, n in sets.items()), "\n", *(f"{line}\n" for line in lines)]
    OUT.write_text("".join(text))
    print(f"{len(sets)} sets, {len(lines)} rows, {OUT.stat().st_size} bytes")


if __name__ == "__main__":
    main()
