"""includes.py, std_includes.py, definitions.py, namespaces.py and architecture.py find planted violations, and none in
a correct tree."""

import pathlib
import tempfile
import unittest

import architecture
import definitions
import includes
import namespaces
import own_includes
import std_includes

IN_ORDER = {
    "libtrain/include/libtrain/error.h": "#include <string>\n",
    "libtrain/include/libtrain/tensor/tensor.h": '#include "libtrain/error.h"\n',
    "libtrain/include/libtrain/nn/module.h": '#include "libtrain/tensor/tensor.h"\n',
    "libtrain/include/libtrain/comm/group.h": '#include "libtrain/tensor/tensor.h"\n',
    "libtrain/include/libtrain/parallel/engine.h": '#include "libtrain/nn/module.h"\n#include "libtrain/comm/group.h"\n',
    "kernels/include/kernels/gemm.h": '#include "libtrain/error.h"\n',
    "kernels/cpu/gemm.cpp": '#include <oneapi/dnnl/dnnl.hpp>\n#include "kernels/gemm.h"\n#include "kernels/cpu/tile.h"\n',
    "kernels/cpu/tile.h": "",
    "libtrain/src/comm/work.h": '#include "libtrain/comm/group.h"\n',
    "libtrain/src/comm/work.cpp": '#include <mpi.h>\n#include "comm/work.h"\n#include "kernels/gemm.h"\n',
    "checkpoints/format/files.h": '#include "libtrain/comm/group.h"\n',
    "checkpoints/format/files.cpp": '#include "checkpoints/format/files.h"\n',
    "checkpoints/hugging_face/hf.h": '#include "checkpoints/format/files.h"\n',
    "libtrain/src/comm/tcp/frames.h": '#include "comm/work.h"\n',
    "base/device/cuda.h": "",
    "bench/step.h": "",
    "bench/step.cpp": '#include "libtrain/parallel/engine.h"\n',
    "launch/main.cpp": '#include "checkpoints/format/files.h"\n#include "comm/work.h"\n',
    "examples/train.cpp": '#include "libtrain/parallel/engine.h"\n',
}


def check(planted, violations=includes.violations):
    with tempfile.TemporaryDirectory() as folder:
        for name, text in {**IN_ORDER, **planted}.items():
            path = pathlib.Path(folder, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return violations(pathlib.Path(folder))


class Includes(unittest.TestCase):
    def test_in_order(self):
        self.assertEqual(check({}), [])

    def test_folders_of_the_tree_have_the_order_of_their_layers(self):
        order = ["base", "kernels", "libtrain", "bench", "report", "launch", "examples"]  # checkpoints is within libtrain's
        folders = [includes.folder_of_layer(layer).split("/")[0] for row in includes.LAYERS for layer in row]
        ranks = [order.index(folder) for folder in folders if folder != "checkpoints"]
        self.assertEqual(ranks, sorted(ranks))

    def test_planted(self):
        cases = [
            ("libtrain/src/tensor/a.cpp", '#include "libtrain/nn/module.h"\n', '"libtrain/nn/module.h" is of nn, right of tensor'),
            ("libtrain/src/nn/a.cpp", '#include "libtrain/comm/group.h"\n', '"libtrain/comm/group.h" is of comm, a sibling of nn'),
            ("libtrain/src/nn/a.cpp", '#include "comm/work.h"\n', '"comm/work.h" is of comm, a sibling of nn'),
            ("libtrain/src/nn/a.cpp", "#  include <comm/work.h>\n", '"comm/work.h" is of comm, a sibling of nn'),
            ("libtrain/src/nn/a.h", '#include "../comm/work.h"\n', '"../comm/work.h" is spelled "comm/work.h"'),
            ("checkpoints/a.cpp", '#include "libtrain/parallel/engine.h"\n', '"libtrain/parallel/engine.h" is of parallel, a sibling of checkpoints'),
            ("libtrain/src/parallel/a.cpp", '#include "checkpoints/format/files.h"\n',
             '"checkpoints/format/files.h" is of checkpoints, a sibling of parallel'),
            ("checkpoints/format/a.cpp", '#include "files.h"\n', '"files.h" is spelled "checkpoints/format/files.h"'),
            ("checkpoints/format/a.cpp", '#include "checkpoints/hugging_face/hf.h"\n',
             '"checkpoints/hugging_face/hf.h" is of hugging_face, right of format'),
            ("libtrain/src/comm/mpi/a.cpp", '#include "comm/tcp/frames.h"\n', '"comm/tcp/frames.h" is of tcp, a sibling of mpi'),
            ("kernels/cuda/a.cu", '#include "libtrain/tensor/tensor.h"\n', '"libtrain/tensor/tensor.h" is of tensor, right of kernels'),
            ("base/device/v.cpp.in", '#include "kernels/gemm.h"\n', '"kernels/gemm.h" is of kernels, right of device'),
            ("base/io/a.cpp", '#include "device/cuda.h"\n', '"device/cuda.h" is of device, a sibling of io'),
            ("libtrain/include/libtrain/dtype.h", '#include "libtrain/tensor/tensor.h"\n',
             '"libtrain/tensor/tensor.h" is of tensor: a header of no layer includes none'),
            ("libtrain/src/comm/new/a.cpp", '#include "comm/tcp/frames.h"\n',
             "the folder new has no order within its layer (tests/structure/includes.py)"),
            ("report/a.cpp", '#include "bench/step.h"\n', '"bench/step.h" is of bench, a sibling of report'),
            ("libtrain/src/ops/a.cpp", '#include "gone.h"\n', '"gone.h" is no file of the tree'),
            ("examples/a.cpp", '#include "comm/work.h"\n', '"comm/work.h" is private: examples include public headers alone'),
            ("libtrain/src/run/a.cpp", "#include <mpi.h>\n", "<mpi.h> belongs to comm, not to run"),
        ]
        for name, text, expected in cases:
            with self.subTest(expected):
                self.assertEqual(check({name: "// Planted.\n" + text}), [f"{name}:2: {expected}"])

    def test_a_header_that_cmake_makes(self):
        template, user = {"libtrain/src/tensor/b.h.in": "// Planted.\n"}, '// Planted.\n#include "tensor/b.h"\n'
        self.assertEqual(check({**template, "libtrain/src/ops/a.cpp": user}), [])
        self.assertEqual(check({**template, "base/io/a.cpp": user}),
                         ['base/io/a.cpp:2: "tensor/b.h" is of tensor, right of io'])

    def test_standard_headers(self):
        for text, found in (("std::vector<int> v;", ["libtrain/src/nn/a.cpp:2: std::vector needs <vector>"]),
                            ("std::string from_a_header;  // std::vector\n", []),
                            ('auto text = "std::vector";\n', []),
                            ("#include <vector>\nstd::vector<int> v;\n", [])):
            with self.subTest(text):
                planted = {"libtrain/src/nn/a.cpp": '#include "libtrain/nn/module.h"\n' + text}
                self.assertEqual(check(planted, std_includes.violations)[0], found)

    def test_own_headers(self):
        header = {"base/io/text.h": "namespace lt::io {\nint lines_of(int text);\nstruct Line {\n};\n}\n"}
        for text, name in (("int n = io::lines_of(1);\n", "lines_of"), ("int n = lt::io::lines_of(1);\n", "lines_of"),
                           ("io::Line line;\n", "Line"), ("int n = other::lines_of(1);\n", None),
                           ('#include "io/text.h"\nio::Line line;\n', None)):
            with self.subTest(text):
                found = check({**header, "libtrain/src/nn/a.cpp": text}, own_includes.violations)[0]
                self.assertEqual([name in each for each in found], [True] if name else [])

    def test_classes_that_are_defined_twice(self):
        unnamed, other = "namespace {\nstruct A {};\n}\n", "namespace data {\nstruct A {};\n}\n"
        for text, found in (("struct A {};\n", ["lt::A: libtrain/src/comm/a.h, libtrain/src/nn/a.h"]),
                            ("class A final : public B {\n};\n", ["lt::A: libtrain/src/comm/a.h, libtrain/src/nn/a.h"]),
                            ("struct A;\n", []), ("struct B {\nstruct A {};\n};\n", []), (unnamed, []), (other, [])):
            with self.subTest(text):
                planted = {"libtrain/src/comm/a.h": "namespace lt {\nstruct A {\n  int a;\n};\n}\n",
                           "libtrain/src/nn/a.h": "namespace lt {\n" + text + "}  // namespace lt\n"}
                self.assertEqual(check(planted, definitions.violations)[0], found)

    def test_public_classes_that_are_announced_elsewhere(self):
        public = "libtrain/include/libtrain/nn/a.h"
        planted = {public: "namespace lt {\nnamespace LT_API nn {\nstruct A {\n};\nstruct B;\n}\n}\n",
                   "libtrain/src/nn/b.h": "namespace lt::nn {\nstruct A;\nstruct B;\n}\n"}
        self.assertEqual(check(planted, definitions.violations)[0], [f"libtrain/src/nn/b.h: lt::nn::A: include {public}"])

    def test_namespaces_of_folders(self):
        public = {"libtrain/include/libtrain/plan/a.h": "namespace LT_API lt {\nvoid f();  // and g\nclass A {};\n}\n"}
        found = lambda text, name="libtrain/src/plan/a.cpp": check({**public, name: text}, namespaces.violations)[0]
        for text in ("namespace lt::planner {\nvoid g() {}\n}\n", "namespace lt::planner::detail {\nvoid g() {}\n}\n",
                     "namespace lt {\nnamespace {\nvoid g() {\n}\nint h;\n}  // namespace\nvoid f() {\n  g();\n}\nA::A() {}\n}\n",
                     "namespace lt::run {\nclass B;\n}\n"):
            with self.subTest(text):
                self.assertEqual(found(text), [])
        for text in ("void g() {}", "class g {\n};", "constexpr int g = 1;", "[[nodiscard]] int g();", "using g = int;",
                     "template <class T> void g(T) {}", "int g[3];", "enum g : int { a };", "enum class g : int { a };", "int g{};",
                     "/* } */\nvoid f() {}\nvoid g() {}"):
            with self.subTest(text):
                line = 4 if "/*" in text else 2
                self.assertEqual(found(f"namespace lt {{\n{text}\n}}\n"),
                                 [f"libtrain/src/plan/a.cpp:{line}: g is in no public header: it belongs to lt::planner"])
        for name in ("lt::run", "std_of_ours", "other"):
            self.assertEqual(found(f"namespace {name} {{\nclass B {{}};\n}}\n"),
                             [f"libtrain/src/plan/a.cpp:1: {name} is not the namespace of this folder, lt::planner"])
        self.assertEqual(found("class B {\n};\n", "libtrain/src/plan/b.h"), ["libtrain/src/plan/b.h:1: B is in no namespace"])
        self.assertEqual(found("namespace LT_API lt::data {\nclass B {};\n}\n", "libtrain/include/libtrain/data/b.h"),
                         ["libtrain/include/libtrain/data/b.h:1: lt::data is not the namespace of public headers"])

    def test_the_map(self):
        folders = "".join(f"| `{includes.folder_of_layer(layer)}` | what |\n" for row in includes.LAYERS for layer in row)
        page = f"# Map\n| folder | contents |\n|---|---|\n{folders}\n| question | file | function |\n|---|---|---|\n| A? | `a.h` | `f()` |\n\n"
        with tempfile.TemporaryDirectory() as folder:
            pathlib.Path(folder, "a.h").write_text("void f();\n")
            for text, expected in ((page, []), (page.replace("| `base/io` | what |\n", ""), ["no row for base/io"]),
                                   (page.replace("a.h", "b.h"), ["A?: no file b.h", "A?: f() is not in `b.h`"]),
                                   (page.replace("f()", "g()"), ["A?: g() is not in `a.h`"])):
                found = [*architecture.folder_complaints(text), *architecture.question_complaints(pathlib.Path(folder), text)]
                self.assertEqual(found, [f"docs/explanation/architecture.md: {each}" for each in expected])

    def test_files_of_no_layer(self):
        for name in ["libtrain/include/libtrain/surprise.h", "libtrain/include/libtrain/detail/error.h", "libtrain/include/libtrain/tensor/detail/a.h",
                     "libtrain/src/other/a.cpp", "libtrain/src/io/a.cpp", "base/run/a.cpp", "libtrain/src/report/a.cpp"]:
            with self.subTest(name):
                self.assertEqual(check({name: ""}), [f"{name}:1: the file is of no layer (tests/structure/includes.py)"])


if __name__ == "__main__":
    unittest.main()
