// Tables of matmul algorithms: their text, errors in it, and which entry a matmul takes.
#include "kernels/algorithm_table.h"

#include <string>

#include "io/whole_file.h"
#include "kernels/matmul_algorithms.h"
#include "test_main/catch.h"
#include "test_main/message_of.h"

using namespace lt;
using namespace lt::kernels;

namespace {

const std::string kHead = "libtrain-algorithms 1\ngpu sm_90 132\ncublaslt 13.1.0\n";

std::string error_of(const std::string& text) {
  return lt_test::message_of<DataError>([&] { AlgorithmTable::parse(text, "table.txt"); });
}

TableMatmul matmul(Size M, Size N, Size K) {
  TableMatmul m;
  m.dtype = m.out = DType::bf16, m.transpose_b = true, m.epilogue = Epilogue::bias, m.M = M, m.N = N, m.K = K;
  return m;
}

}  // namespace

TEST_CASE("algorithm table: text and table are the same", "[kernels]") {
  const std::string lines =
      "f32/tf32 f32 nn 64 32 16 none id=31 tile=15 split=2 reduce=2\n"
      "bf16 f32 tn 4800 1600 16384 sum_a passes\n"
      "bf16 bf16 nt 16384 6400 1600 bias_gelu id=66 tile=459 stages=35 cluster=5 option=3 workspace=1\n"
      "e4m3/one_scale f32 nt 4800 1600 16384 none id=66 tile=9\n";
  const AlgorithmTable table = AlgorithmTable::parse(kHead + "# a comment\n\n" + lines, "table.txt");
  CHECK(table.gpu == GpuKind{90, 132});
  CHECK(table.cublaslt == "13.1.0");
  CHECK(table.algorithms.size() == 4);
  const std::string text = table.text();
  CHECK(AlgorithmTable::parse(text, "again").algorithms == table.algorithms);
  CHECK(AlgorithmTable::parse(text, "again").text() == text);
  CHECK(table.digest().size() == 16);
  // The digest is of the algorithms: neither order, comments nor cuBLASLt's version change it.
  CHECK(digest_of_algorithms("libtrain-algorithms 1\ncublaslt 13.2.0\ngpu sm_90 132\n" + lines) == table.digest());
  AlgorithmTable other = table;
  other.algorithms.begin()->second.passes ^= true;
  CHECK(other.digest() != table.digest());
  CHECK(digest_of_algorithms("") == "none");
}

TEST_CASE("algorithm table: the carried table is whole, and as bench tune writes it", "[kernels]") {
  const std::string text = lt::io::read_whole_file("test", LT_CARRIED_TABLE);
  const AlgorithmTable table = AlgorithmTable::parse(text, LT_CARRIED_TABLE);
  CHECK(table.gpu == GpuKind{90, 132});
  CHECK(table.algorithms.size() > 50);
  CHECK(table.text() == text);
  for (const auto& [matmul, algorithm] : table.algorithms) {
    // Other sums have bits that depend on time, or round their parts to two bytes.
    const auto& attributes = algorithm.attributes;
    CHECK((attributes[TableAlgorithm::kSplit] <= 1 || attributes[TableAlgorithm::kReduce] == 2));
  }
}

TEST_CASE("algorithm table: a damaged or older text is refused by its line", "[kernels]") {
  const auto with = [](const std::string& line) { return error_of(kHead + line); };
  CHECK(error_of("") == "table.txt: line 0: expected libtrain-algorithms 1, found: an empty file");
  CHECK(error_of("libtrain-algorithms 0\n") ==
        "table.txt: line 1: expected libtrain-algorithms 1, found: libtrain-algorithms 0");
  CHECK(error_of("8 bf16,bf16,16384 0a1b 1\n") ==
        "table.txt: line 1: expected libtrain-algorithms 1, found: 8 bf16,bf16,16384 0a1b 1");
  CHECK(error_of("libtrain-algorithms 1\n") == "table.txt: line 1: expected a line gpu before the end, found: none");
  CHECK(error_of("libtrain-algorithms 1\ngpu sm_90\n") ==
        "table.txt: line 2: expected gpu sm_90 132 or another kind, found: gpu sm_90");
  CHECK(with("bf16 bf16 nt 1 2 3 bias id=1") ==
        "table.txt: line 4: expected a newline at its end, found: bf16 bf16 nt 1 2 3 bias id=1");
  CHECK(with("bf16 bf16 nt 1 2 3 bias\n") ==
        "table.txt: line 4: expected a matmul and its algorithm, found: bf16 bf16 nt 1 2 3 bias");
  CHECK(with("bf17 bf16 nt 1 2 3 bias passes\n") == "table.txt: line 4: expected a dtype, found: bf17");
  CHECK(with("bf16/x bf16 nt 1 2 3 bias passes\n") ==
        "table.txt: line 4: expected f32/tf32 or e4m3/one_scale, found: bf16/x");
  CHECK(with("bf16/tf32 bf16 nt 1 2 3 bias passes\n") ==
        "table.txt: line 4: expected f32/tf32 or e4m3/one_scale, found: bf16/tf32");
  CHECK(with("e4m3 e4m3 nt 1 2 3 none id=1\n") == "table.txt: line 4: expected a dtype of results, found: e4m3");
  CHECK(with("bf16 bf16 nt 1 2 3 bias passes\n") == "table.txt: line 4: expected an algorithm, found: passes");
  CHECK(with("bf16 bf16 nt 1 2 3 gelu passes\nbf16 bf16 nt 1 2 3 gelu id=1\n") ==
        "table.txt: line 5: expected each matmul once, found: bf16 bf16 nt 1 2 3 gelu");
  CHECK(with("bf16 bf16 nt 1 2 3 bias id=1 cluster=65541\n") ==
        "table.txt: line 4: expected an attribute of an algorithm, found: cluster=65541");
  CHECK(error_of("libtrain-algorithms 1\ngpu sm_90 132\n") ==
        "table.txt: line 2: expected a line cublaslt before the end, found: none");
  CHECK(with("bf16 bf16 nx 1 2 3 bias passes\n") == "table.txt: line 4: expected nn, nt, tn or tt, found: nx");
  CHECK(with("bf16 bf16 nt 1 -2 3 bias passes\n") == "table.txt: line 4: expected the size of a matrix, found: -2");
  CHECK(with("bf16 bf16 nt 1 2 3 relu passes\n") == "table.txt: line 4: expected an epilogue, found: relu");
  CHECK(with("bf16 bf16 nt 1 2 3 bias id=1 colour=2\n") ==
        "table.txt: line 4: expected an attribute of an algorithm, found: colour=2");
  CHECK(with("bf16 bf16 nt 1 2 3 bias id=x\n") ==
        "table.txt: line 4: expected an attribute of an algorithm, found: id=x");
}

TEST_CASE("algorithm table: a matmul takes its entry, or that of the nearest number of tokens", "[kernels]") {
  AlgorithmTable table;
  const auto add = [&](const TableMatmul& m, std::uint32_t id) { table.algorithms[m].attributes[0] = id; };
  const auto id_of = [&](const TableMatmul& m) {
    const TableAlgorithm* const found = table.find(m);
    return found == nullptr ? 0 : found->attributes[0];
  };
  add(matmul(8192, 4800, 1600), 1), add(matmul(16384, 4800, 1600), 2), add(matmul(4800, 1600, 8192), 3);
  CHECK(id_of(matmul(8192, 4800, 1600)) == 1);
  CHECK(id_of(matmul(10000, 4800, 1600)) == 1);
  CHECK(id_of(matmul(14000, 4800, 1600)) == 2);
  CHECK(id_of(matmul(65536, 4800, 1600)) == 2);  // four times as many
  CHECK(id_of(matmul(65537, 4800, 1600)) == 0);
  CHECK(id_of(matmul(2048, 4800, 1600)) == 1);
  CHECK(id_of(matmul(4800, 1600, 5000)) == 3);  // a weight's gradient sums over tokens
  CHECK(id_of(matmul(8192, 4801, 1600)) == 0);
  CHECK(id_of(matmul(8000, 4800, 1601)) == 0);
  TableMatmul other = matmul(8192, 4800, 1600);
  other.epilogue = Epilogue::none;
  CHECK(id_of(other) == 0);
}
