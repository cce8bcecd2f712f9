// Compares each collective, over MPI and over TCP, bit for bit with values that one rank computes alone. The order of
// additions is part of the contract.
#include <algorithm>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

#include "comm/mpi/mpi_group.h"
#include "comm/tcp/tcp_group.h"
#include "comm/tcp_ranks.h"
#include "comm/values.h"
#include "kernels/reduce.h"
#include "libtrain/error.h"
#include "test_main/catch.h"
#include "test_main/world.h"

using namespace lt_test;
using Catch::Matchers::ContainsSubstring;
using lt::DType;
using lt::Group;
using lt::Size;

namespace {

// The ranks of the world, met over TCP.
const Group& tcp_group() {
  static const Group met = [] {
    const std::string port = world().group().broadcast_bytes(std::to_string(free_port()), 0);
    return Group(lt::comm::make_tcp_world_backend(meeting_at(std::stoi(port), world().rank(), world().size())));
  }();
  return met;
}

const Group* used = nullptr;
const Group& group() { return *used; }

// Runs the rest of a test case over each transport. One rank alone needs none.
#define OVER_EACH_TRANSPORT() used = GENERATE(false, true) && world().size() > 1 ? &tcp_group() : &world().group()

lt::Tensor part_of(const lt::Tensor& full) {
  const Size n = full.elements();
  return full.narrow(0, Group::part_begin(n, world().size(), world().rank()),
                     Group::part_size(n, world().size(), world().rank()));
}

// The expected result of gathering all ranks' contributions. Part r comes from rank r.
std::vector<double> gathered(Size n, DType dtype) {
  std::vector<double> values;
  for (int r = 0; r < world().size(); ++r) {
    for (Size i = 0; i < Group::part_size(n, world().size(), r); ++i) {
      values.push_back(stored(value(r, static_cast<Size>(values.size())), dtype));
    }
  }
  return values;
}

std::vector<double> reduced(Size n, DType dtype, DType wire) {
  std::vector<double> values;
  for (Size i = 0; i < n; ++i) values.push_back(stored(sum(world().size(), i, dtype, wire), dtype));
  return values;
}

std::vector<double> own_range(const std::vector<double>& full) {
  const Size n = static_cast<Size>(full.size()), begin = Group::part_begin(n, world().size(), world().rank());
  return {full.begin() + begin, full.begin() + begin + Group::part_size(n, world().size(), world().rank())};
}

void check_all_gather(Size n, DType dtype) {
  const lt::Tensor mine = contribution(world().rank(), n, dtype);
  const lt::Tensor full = lt::Tensor::zeros({n}, dtype);
  const lt::Tensor part = tensor_of(part_of(mine).to_vector<double>(), dtype);
  group().all_gather("apart", full, part).wait();
  CHECK(full.to_vector<double>() == gathered(n, dtype));
  group().all_gather("in place", mine, part_of(mine)).wait();
  CHECK(mine.to_vector<double>() == gathered(n, dtype));
}

void check_reduce(Size n, DType dtype, DType wire) {
  const std::vector<double> expected = reduced(n, dtype, wire);
  const lt::Tensor full = contribution(world().rank(), n, dtype);
  const std::vector<double> before = full.to_vector<double>();
  const lt::Tensor part = tensor_of(own_range(std::vector<double>(static_cast<std::size_t>(n), 0.5)), dtype);

  group().reduce_scatter("apart", part, full, wire).wait();
  CHECK(part.to_vector<double>() == own_range(expected));
  CHECK(full.to_vector<double>() == before);

  std::vector<double> twice;
  const Size begin = Group::part_begin(n, world().size(), world().rank());
  for (Size i = 0; i < part.elements(); ++i) {
    const double total = sum(world().size(), begin + i, dtype, wire),
                 held = part.to_vector<double>()[static_cast<std::size_t>(i)];
    const bool wide = dtype == DType::f64 || wire == DType::f64;
    twice.push_back(stored(wide ? held + total : static_cast<float>(held) + static_cast<float>(total), dtype));
  }
  const lt::Tensor squares = tensor_of({-1.0}, DType::f64);
  group().reduce_scatter("accumulate", part, full, wire, {{part}}, {squares}).wait();
  CHECK(part.to_vector<double>() == twice);
  const double exact = std::inner_product(twice.begin(), twice.end(), twice.begin(), 0.0);
  CHECK(squares.item() == Approx(exact).epsilon(1e-14));

  const lt::Tensor all = tensor_of(before, dtype);
  group().reduce_scatter("in place", part_of(full), full, wire).wait();
  std::vector<double> in_place = before;
  const std::vector<double> own = own_range(expected);
  std::copy(own.begin(), own.end(), in_place.begin() + begin);
  CHECK(full.to_vector<double>() == in_place);

  group().all_reduce("all", all, wire);
  CHECK(all.to_vector<double>() == expected);
}

// While it lives, collectives send messages of at most 7 elements, over TCP of 42 bytes.
class ShortMessages {
 public:
  ShortMessages() : elements_(lt::comm::set_mpi_message_elements(7)), bytes_(lt::comm::set_tcp_message_bytes(42)) {}
  ~ShortMessages() {
    lt::comm::set_mpi_message_elements(elements_);
    lt::comm::set_tcp_message_bytes(bytes_);
  }

 private:
  Size elements_, bytes_;
};

}  // namespace

TEST_CASE("parts of a flat tensor cover it in order", "[comm]") {
  for (const Size n : kSizes) {
    for (const int size : {1, 2, 3, 4, 7}) {
      Size next = 0;
      for (int r = 0; r < size; ++r) {
        CHECK(Group::part_begin(n, size, r) == next);
        CHECK(Group::part_size(n, size, r) <= (n + size - 1) / size);
        next += Group::part_size(n, size, r);
      }
      CHECK(next == n);
    }
  }
}

TEST_CASE("all_gather: every part arrives in place", "[comm]") {
  OVER_EACH_TRANSPORT();
  for (const Size n : kSizes) {
    for (const DType dtype : {DType::f32, DType::f64, DType::bf16}) check_all_gather(n, dtype);
  }
}

// Rank a sends rank b two messages, of a + 2 b and of 3 numbers. Element i of message k is value(a, 100 b + 10 k + i).
TEST_CASE("all_to_all: messages arrive in their order, those to itself too", "[comm]") {
  OVER_EACH_TRANSPORT();
  for (const bool short_messages : {false, true}) {
    std::optional<ShortMessages> scope;
    if (short_messages) scope.emplace();
    const int rank = world().rank(), size = world().size();
    const auto length = [](int from, int to, int k) { return k == 0 ? Size{from} + 2 * to : Size{3}; };
    const auto values_of = [&](int from, int to, int k) {
      std::vector<double> values;
      for (Size i = 0; i < length(from, to, k); ++i)
        values.push_back(stored(value(from, 100 * to + 10 * k + i), DType::f32));
      return values;
    };
    std::vector<lt::Message> outgoing, incoming;
    for (int k = 0; k < 2; ++k) {
      for (int r = 0; r < size; ++r) {
        outgoing.push_back({r, tensor_of(values_of(rank, r, k), DType::f32)});
        incoming.push_back({r, lt::Tensor::zeros({length(r, rank, k)}, DType::f32)});
      }
    }
    lt::take_comm_totals();
    group().all_to_all("messages", lt::kCpu, outgoing, incoming, 1234).wait();
    Size sent = 0;
    for (int k = 0; k < 2; ++k) {
      for (int r = 0; r < size; ++r) {
        CHECK(incoming[static_cast<std::size_t>(k * size + r)].values.to_vector<double>() == values_of(r, rank, k));
        if (r != rank) sent += 4 * length(rank, r, k);
      }
    }
    const std::vector<lt::CommTotal> totals = lt::take_comm_totals();
    REQUIRE(totals.size() == 1);
    CHECK(totals[0].op == lt::CollectiveOp::all_to_all);
    CHECK(totals[0].bytes == sent);
    CHECK(group().log().back().whole == 1234);
  }
}

TEST_CASE("all_to_all: messages that cannot be are refused", "[comm]") {
  OVER_EACH_TRANSPORT();
  const lt::Tensor two = lt::Tensor::zeros({2}, DType::f32), three = lt::Tensor::zeros({3}, DType::f32);
  const int rank = world().rank(), size = world().size();
  const auto refused = [&](const std::vector<lt::Message>& outgoing, const std::vector<lt::Message>& incoming,
                           const std::string& text) {
    CHECK_THROWS_WITH(group().all_to_all("m", lt::kCpu, outgoing, incoming, 0), ContainsSubstring(text));
  };
  refused({{size, two}}, {}, "outgoing: expected ranks of 0 to " + std::to_string(size - 1));
  refused({{rank, two}}, {}, "incoming: expected 1 messages of this rank to itself, got 0");
  refused({{rank, two}}, {{rank, three}}, "incoming: expected 8 bytes of this rank to itself, got 12");
  refused({{rank, lt::Tensor()}}, {}, "outgoing: expected a tensor, got none");
}

TEST_CASE("reduce_scatter and all_reduce: sums in tree order, rounded to the wire first", "[comm]") {
  OVER_EACH_TRANSPORT();
  for (const Size n : kSizes) {
    for (const auto& [dtype, wire] : {std::pair{DType::f32, DType::f32}, std::pair{DType::f32, DType::bf16},
                                      std::pair{DType::f64, DType::f64}, std::pair{DType::f64, DType::bf16},
                                      std::pair{DType::bf16, DType::bf16}, std::pair{DType::bf16, DType::f32}}) {
      INFO("n " << n << " dtype " << lt::dtype_name(dtype) << " wire " << lt::dtype_name(wire));
      check_reduce(n, dtype, wire);
    }
  }
}

TEST_CASE("reduce_scatter: adds several tensors, and squares by pieces", "[comm]") {
  OVER_EACH_TRANSPORT();
  constexpr Size kPiece = 4160, kPieces = 8;  // of a part; more than one block of sum_squares()
  const Size mine = kPieces * kPiece, begin = mine * world().rank();
  const lt::Tensor full = contribution(world().rank(), mine * world().size(), DType::f32);
  const lt::Tensor first = contribution(50, mine, DType::f32), second = contribution(51, mine, DType::f32),
                   part = lt::Tensor::zeros({mine}, DType::f32), squares = tensor_of({-1.0}, DType::f64);
  std::vector<double> expected;
  for (Size i = 0; i < mine; ++i) {
    float total = static_cast<float>(sum(world().size(), begin + i, DType::f32, DType::f32));
    for (const int addend : {50, 51}) total += static_cast<float>(stored(value(addend, i), DType::f32));
    expected.push_back(total);
  }
  std::vector<double> of_pieces;
  for (Size piece = 0; piece < kPieces; ++piece) {
    double sum_of_piece = -1;
    lt::kernels::sum_squares(
        lt::CpuStream{}, DType::f32, &sum_of_piece,
        lt::Tensor::from(std::vector<float>(expected.begin() + piece * kPiece, expected.begin() + (piece + 1) * kPiece),
                         {kPiece})
            .data(),
        kPiece);
    of_pieces.push_back(sum_of_piece);
  }
  group().reduce_scatter("r", part, full, DType::f32, {{first, second}}, {squares, kPiece}).wait();
  CHECK(part.to_vector<double>() == expected);
  CHECK(squares.item() == lt_test::tree_sum(of_pieces.data(), kPieces));
}

TEST_CASE("collectives in several messages give the same values", "[comm]") {
  OVER_EACH_TRANSPORT();
  const ShortMessages scope;
  for (const Size n : {Size{13}, Size{1000}}) {
    check_all_gather(n, DType::bf16);
    check_reduce(n, DType::f32, DType::f32);
    check_reduce(n, DType::f32, DType::bf16);
  }
  const std::string text(1001, static_cast<char>('a' + world().rank()));
  const std::vector<std::string> texts = group().all_gather_bytes(text);
  for (int r = 0; r < world().size(); ++r) {
    CHECK(texts[static_cast<std::size_t>(r)] == std::string(1001, static_cast<char>('a' + r)));
  }
  const int last = world().size() - 1;
  CHECK(group().broadcast_bytes(text, last) == std::string(1001, static_cast<char>('a' + last)));
  const lt::Tensor values = contribution(world().rank(), 100, DType::f64);
  group().broadcast("values", values, last).wait();
  CHECK(values.to_vector<double>() == contribution(last, 100, DType::f64).to_vector<double>());
}

TEST_CASE("broadcast: every rank gets the root's values, of any shape", "[comm]") {
  OVER_EACH_TRANSPORT();
  for (int root = 0; root < world().size(); ++root) {
    for (const Size n : kSizes) {
      const lt::Tensor tensor = contribution(world().rank(), 2 * n, DType::bf16);
      group().broadcast("matrix", tensor.view({2, n}), root).wait();
      CHECK(tensor.to_vector<double>() == contribution(root, 2 * n, DType::bf16).to_vector<double>());
    }
  }
}

TEST_CASE("host strings of any length, empty ones included", "[comm]") {
  OVER_EACH_TRANSPORT();
  const auto text_of = [](int rank) {
    return std::string(rank == 1 ? 0 : static_cast<std::size_t>(70000 * rank + 3), static_cast<char>(rank));
  };
  const std::vector<std::string> texts = group().all_gather_bytes(text_of(world().rank()));
  CHECK(texts.size() == static_cast<std::size_t>(world().size()));
  for (int r = 0; r < world().size(); ++r) CHECK(texts[static_cast<std::size_t>(r)] == text_of(r));
  for (int root = 0; root < world().size(); ++root) {
    CHECK(group().broadcast_bytes(text_of(world().rank()), root) == text_of(root));
  }
}

TEST_CASE("several collectives under way do not mix, in whatever order they are waited for", "[comm]") {
  OVER_EACH_TRANSPORT();
  constexpr Size n = 301;
  constexpr int kRounds = 8;
  std::vector<lt::Tensor> gathers, sums, parts, roots;
  std::vector<lt::Work> works;
  const std::vector<double> ones(static_cast<std::size_t>(n), 1.0);
  for (int k = 0; k < kRounds; ++k) {
    gathers.push_back(tensor_of(ones, DType::f64));
    sums.push_back(tensor_of(ones, DType::f64));
    roots.push_back(tensor_of(ones, DType::f64));
    for (Size i = 0; i < n; ++i) {
      gathers.back().data<double>()[i] = sums.back().data<double>()[i] = roots.back().data<double>()[i] =
          value(world().rank(), i + k * n);
    }
    parts.push_back(lt::Tensor::empty({part_of(sums.back()).elements()}, DType::f64));
    works.push_back(group().all_gather("g", gathers.back(), part_of(gathers.back())));
    works.push_back(group().reduce_scatter("r", parts.back(), sums.back(), DType::f64));
    works.push_back(group().broadcast("b", roots.back(), k % world().size()));
  }
  CHECK(works[0].pending());
  // Odd ranks wait in reverse order.
  for (std::size_t i = 0; i < works.size(); ++i) works[world().rank() % 2 == 0 ? i : works.size() - 1 - i].wait();
  CHECK_FALSE(works[0].pending());
  for (int k = 0; k < kRounds; ++k) {
    const auto at = static_cast<std::size_t>(k);
    std::vector<double> gathered, summed, sent;
    for (Size i = 0; i < n; ++i) {
      const Size part = (n + world().size() - 1) / world().size();
      gathered.push_back(value(static_cast<int>(i / part), i + k * n));
      summed.push_back(sum(world().size(), i + k * n, DType::f64, DType::f64));
      sent.push_back(value(k % world().size(), i + k * n));
    }
    CHECK(gathers[at].to_vector<double>() == gathered);
    CHECK(parts[at].to_vector<double>() == own_range(summed));
    CHECK(roots[at].to_vector<double>() == sent);
  }
}

TEST_CASE("a Work that is moved to or destroyed waits", "[comm]") {
  OVER_EACH_TRANSPORT();
  const lt::Tensor a = contribution(world().rank(), 1000, DType::f32),
                   b = contribution(world().rank(), 1000, DType::f32);
  {
    lt::Work work = group().all_gather("first", a, part_of(a));
    work = group().all_gather("second", b, part_of(b));
    CHECK(a.to_vector<double>() == gathered(1000, DType::f32));
  }
  CHECK(b.to_vector<double>() == gathered(1000, DType::f32));
}

TEST_CASE("a Work that is given up leaves memory that is taken afterwards alone", "[comm]") {
  OVER_EACH_TRANSPORT();
  const Size n = Size{1} << 23;
  const Group given_up = group().duplicate("given up"), other = group().duplicate("other");
  try {
    const lt::Tensor full = lt::Tensor::zeros({n}, DType::f32);
    lt::fill(part_of(full), 7);
    lt::Work work = given_up.all_gather("parameters", full, part_of(full));
    other.barrier();
    throw std::runtime_error("on all ranks alike");
  } catch (const std::runtime_error&) {
  }
  const lt::Tensor fresh = lt::Tensor::zeros({n}, DType::f32);
  for (int i = 0; i < 50; ++i) other.barrier();
  const std::vector<float> values = fresh.to_vector<float>();
  CHECK(std::count(values.begin(), values.end(), 0.0f) == n);
}

TEST_CASE("wrong arguments name call, argument, expected and actual", "[comm]") {
  OVER_EACH_TRANSPORT();
  const int size = world().size(), rank = world().rank();
  const lt::Tensor full = lt::Tensor::zeros({12}, DType::f32), part = part_of(full);
  const auto message = [](auto&& call) -> std::string {
    try {
      call();
    } catch (const lt::UsageError& error) {
      return error.what();
    }
    return "nothing was thrown";
  };
  CHECK(message([&] { group().all_gather("w", full, full.narrow(0, 0, 0)); }) ==
        "all_gather \"w\": part: expected " + std::to_string(12 / size) + " elements (part " + std::to_string(rank) +
            " of " + std::to_string(size) + " of 12), got 0");
  CHECK(message([&] {
          group().all_gather("w", full.view({3, 4}), part);
        }) == "all_gather \"w\": full: expected one dimension, got shape [3, 4]");
  CHECK(message([&] { group().all_gather("w", full, lt::Tensor()); }) ==
        "all_gather \"w\": part: expected a tensor, got none");
  CHECK(message([&] { group().reduce_scatter("w", lt::Tensor::zeros({12 / size}, DType::f64), full, DType::f32); }) ==
        "reduce_scatter \"w\": part: expected f32, got f64");
  const lt::Tensor squares = lt::Tensor::zeros({1}, DType::f64), short_one = lt::Tensor::zeros({1}, DType::f64);
  CHECK(message([&] {
          group().reduce_scatter("w", part, full, DType::f32, {{part, short_one}});
        }) ==
        "reduce_scatter \"w\": addends: expected " + std::to_string(12 / size) + " elements of f32, got 1 of f64");
  CHECK(message([&] { group().reduce_scatter("w", part, full, DType::f32, std::vector(33, part)); }) ==
        "reduce_scatter \"w\": addends: expected at most 32, got 33");
  CHECK(message([&] {
          group().reduce_scatter("w", part, full, DType::f32, {}, {squares, 5});
        }) == "reduce_scatter \"w\": squares.piece: expected 0, or a size that cuts the " + std::to_string(12 / size) +
                  " elements of part into 1, 2, 4, ... or 64 pieces, got 5");
  CHECK(message([&] { group().reduce_scatter("w", part, full, DType::i32); }) ==
        "reduce_scatter \"w\": wire: expected f32, f64 or bf16, got i32");
  CHECK(message([&] { group().all_reduce("w", lt::Tensor::zeros({2}, DType::i32), DType::f32); }) ==
        "all_reduce \"w\": full: expected f32, f64 or bf16, got i32");
  CHECK(message([&] { group().broadcast("w", full, size); }) ==
        "broadcast \"w\": root: expected 0 to " + std::to_string(size - 1) + ", got " + std::to_string(size));
  CHECK(message([&] {
          group().broadcast("w", full.view({3, 4}).transposed(0, 1), 0);
        }) == "broadcast \"w\": tensor: expected a contiguous tensor, got strides [1, 4]");
  if (size > 1) {
    const Size shifted = rank == 0 ? 1 : part.elements() * rank - 1;
    CHECK(message([&] { group().all_gather("w", full, full.narrow(0, shifted, part.elements())); }) ==
          "all_gather \"w\": part: expected memory outside of full, or its bytes from " +
              std::to_string(4 * rank * part.elements()) + " on, got its bytes from " + std::to_string(4 * shifted) +
              " on");
    const lt::Tensor meta = lt::Tensor::empty({12}, DType::f32, lt::kMeta);
    CHECK(message([&] { group().broadcast("w", meta, 0); }) ==
          "broadcast \"w\": tensor: expected a tensor on a device of group world, got device meta");
  }
}
