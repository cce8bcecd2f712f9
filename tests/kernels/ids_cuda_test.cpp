// Ids outside their table on CUDA: no memory outside the table is accessed, the first such id is recorded, and all
// other rows keep their bits.
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "kernels/embedding.h"
#include "kernels/id_check.h"
#include "kernels/loss.h"
#include "kernels/on_both.h"
#include "kernels/step_numbers.h"

using namespace lt;
using namespace lt::kernels;
using namespace lt::test;

namespace {

constexpr std::int32_t kBadIds[] = {std::numeric_limits<std::int32_t>::max(), -1, 40,
                                    std::numeric_limits<std::int32_t>::min(), -100};

// Ids of which those at `first`, and every third behind it, are bad.
std::vector<std::int32_t> some_bad(std::vector<std::int32_t> ids, Size first) {
  for (std::size_t i = static_cast<std::size_t>(first); i < ids.size(); i += 3) ids[i] = kBadIds[i / 3 % 5];
  return ids;
}

const std::int32_t* ids_at(DeviceArray& array) { return static_cast<const std::int32_t*>(array.data()); }

// The word of an IdCheck on the device.
struct Word {
  DeviceArray memory{Array(DType::f32, 2)};

  std::uint64_t* get() { return static_cast<std::uint64_t*>(memory.data()); }
  BadId read() {
    Array bits(DType::f32, 2);
    memory.read(bits);
    std::uint64_t word = 0;
    std::memcpy(&word, bits.data(), sizeof word);
    CHECK(word != 0);
    return bad_id_of(word);
  }
};

// `inner` between two rows of margin that nothing may write.
struct Guarded {
  Array before;
  DeviceArray all;
  Size skip;

  Guarded(DType dtype, Size inner, Size margin)
      : before(random_array(dtype, inner + 2 * margin, 9)), all(before), skip(margin * dtype_bytes(dtype)) {}
  void* inside() { return static_cast<std::byte*>(all.data()) + skip; }
  void check_margins() {
    Array after(before.dtype(), before.count());
    all.read(after);
    const auto* const old = static_cast<const std::byte*>(before.data());
    const auto* const now = static_cast<const std::byte*>(after.data());
    const auto margin = static_cast<std::size_t>(skip), end = static_cast<std::size_t>(before.bytes());
    CHECK(std::memcmp(old, now, margin) == 0);
    CHECK(std::memcmp(old + end - margin, now + end - margin, margin) == 0);
  }
};

}  // namespace

TEST_CASE("cuda: words of bad ids keep the first one", "[cuda]") {
  const BadId first{3, 2, -1}, same_place{3, 4, 7}, later{4, 0, 0}, farthest{kMostIdPosition + 5, 14, -1};
  CHECK(word_of(first) > word_of(same_place));
  CHECK(word_of(same_place) > word_of(later));
  CHECK(word_of(later) > word_of(farthest));
  CHECK(word_of(farthest) > 0);
  CHECK(bad_id_of(word_of(first)).position == 3);
  CHECK(bad_id_of(word_of(first)).check == 2);
  CHECK(bad_id_of(word_of(first)).id == -1);
  CHECK(bad_id_of(word_of(farthest)).position == kMostIdPosition);
}

TEST_CASE("cuda: ids outside the table of an embedding", "[cuda]") {
  for_floats([](DType dtype) {
    const DType sums = kernels::gradient_dtype(dtype);
    for (const auto [M, T, C] : {std::array<Size, 3>{1, 1, 8}, {66, 33, 40}, {1000, 250, 9}, {4096, 1024, 136}}) {
      CAPTURE(M, T, C);
      constexpr Size V = 40;
      const Size first = M / 2;
      const auto good = random_ids(M, V, 3), bad = some_bad(good, first);
      Guarded table(dtype, V * C, C), positions(dtype, T * C, C), dtable(sums, V * C, C), dpositions(sums, T * C, C);
      DeviceArray good_ids(as_array(good)), bad_ids(as_array(bad)), dy(random_array(dtype, M * C, 4));
      Word word;
      Array expected(dtype, M * C), found(dtype, M * C);
      for (const bool with_positions : {false, true}) {
        const auto look_up = [&](DeviceArray& ids, const IdCheck& check, Array& to) {
          Guarded y(dtype, M * C, C);
          embedding_forward(gpu_stream(), {.dtype = dtype,
                                           .M = M,
                                           .T = T,
                                           .C = C,
                                           .V = V,
                                           .y_MC = y.inside(),
                                           .table_VC = table.inside(),
                                           .positions_TC = with_positions ? positions.inside() : nullptr,
                                           .ids_M = ids_at(ids),
                                           .check = check});
          device::cuda::copy(to.data(), y.inside(), to.bytes(), gpu_stream());
          y.check_margins();
        };
        look_up(good_ids, {}, expected);
        look_up(bad_ids, {word.get(), 7, 1}, found);
        const auto row = static_cast<std::size_t>(C * dtype_bytes(dtype));
        for (std::size_t m = 0; m < good.size(); ++m) {
          if (good[m] != bad[m]) continue;
          const auto at = [&](Array& array) { return static_cast<std::byte*>(array.data()) + m * row; };
          CHECK(std::memcmp(at(expected), at(found), row) == 0);
        }
        CHECK(word.read().position == 7 + first);
        CHECK(word.read().check == 1);
        CHECK(word.read().id == bad[static_cast<std::size_t>(first)]);
      }
      for (const bool add : {false, true}) {
        embedding_backward(gpu_stream(), {.dtype = dtype,
                                          .M = M,
                                          .T = T,
                                          .C = C,
                                          .V = V,
                                          .max_T = T,
                                          .dtable_VC = dtable.inside(),
                                          .dpositions_TC = dpositions.inside(),
                                          .accumulate_table = add,
                                          .accumulate_positions = add,
                                          .dy_MC = dy.data(),
                                          .ids_M = ids_at(bad_ids)});
        dtable.check_margins(), dpositions.check_margins();
      }
    }
  });
}

TEST_CASE("cuda: targets outside the vocabulary count as ignored and are recorded", "[cuda]") {
  for_floats([](DType dtype) {
    const DType sums = kernels::gradient_dtype(dtype);
    for (const auto [M, V] : {std::array<Size, 2>{1, 1}, {67, 33}, {301, 1600}}) {
      CAPTURE(M, V);
      const Size first = M / 3;
      auto bad = random_ids(M, V, 3), ignored = bad;
      for (std::size_t i = static_cast<std::size_t>(first); i < bad.size(); i += 3) {
        bad[i] = kBadIds[i / 3 % 5] == 40 ? static_cast<std::int32_t>(V) : kBadIds[i / 3 % 5];
        ignored[i] = kIgnoredTarget;
      }
      DeviceArray logits(random_array(dtype, M * V, 4, 5)), ignored_ids(as_array(ignored)), bad_ids(as_array(bad));
      Word word;
      const auto run = [&](DeviceArray& targets, const IdCheck& check, Array& losses, Array& lse, Array& gradient) {
        Guarded losses_M(sums, M, 64), lse_M(sums, M, 64), dlogits(dtype, M * V, 64);
        cross_entropy_forward(gpu_stream(), {.dtype = dtype,
                                             .M = M,
                                             .V = V,
                                             .losses_M = losses_M.inside(),
                                             .lse_M = lse_M.inside(),
                                             .logits_MV = logits.data(),
                                             .targets_M = ids_at(targets),
                                             .check = check});
        cross_entropy_backward(gpu_stream(), {.dtype = dtype,
                                              .M = M,
                                              .V = V,
                                              .dlogits_MV = dlogits.inside(),
                                              .logits_MV = logits.data(),
                                              .lse_M = lse_M.inside(),
                                              .targets_M = ids_at(targets),
                                              .d_loss = nullptr,
                                              .scale = 100});
        device::cuda::copy(losses.data(), losses_M.inside(), losses.bytes(), gpu_stream());
        device::cuda::copy(lse.data(), lse_M.inside(), lse.bytes(), gpu_stream());
        device::cuda::copy(gradient.data(), dlogits.inside(), gradient.bytes(), gpu_stream());
        losses_M.check_margins(), lse_M.check_margins(), dlogits.check_margins();
      };
      Array losses[2] = {Array(sums, M), Array(sums, M)}, lse[2] = {Array(sums, M), Array(sums, M)},
            gradients[2] = {Array(dtype, M * V), Array(dtype, M * V)};
      run(ignored_ids, {}, losses[0], lse[0], gradients[0]);
      run(bad_ids, {word.get(), 1000, 14}, losses[1], lse[1], gradients[1]);
      CHECK(losses[1].same_bits(losses[0]));
      CHECK(lse[1].same_bits(lse[0]));
      CHECK(gradients[1].same_bits(gradients[0]));
      CHECK(word.read().position == 1000 + first);
      CHECK(word.read().check == 14);
      CHECK(word.read().id == bad[static_cast<std::size_t>(first)]);
    }
  });
}

TEST_CASE("cuda: a step's loss is kept, or NaN with a bad id", "[cuda]") {
  for_floats([](DType dtype) {
    for (const std::uint64_t word : {std::uint64_t{0}, word_of({1, 0, -1})}) {
      OnBoth both;
      const int loss = both.constant(dtype, 1, 2.5), kept = both.exact(both.array(DType::f32, 1));
      both.run([&](auto s, auto at) { keep_loss(s, static_cast<float*>(at(kept)), dtype, at(loss), nullptr); });
      Array bits(DType::f32, 2), found(DType::f32, 1);
      std::memcpy(bits.data(), &word, sizeof word);
      DeviceArray on_device(bits), value(Array(dtype, 1, 2.5)), to(found);
      keep_loss(gpu_stream(), static_cast<float*>(to.data()), dtype, value.data(),
                static_cast<const std::uint64_t*>(on_device.data()));
      to.read(found);
      CHECK((word == 0 ? found[0] == 2.5 : std::isnan(found[0])));
    }
  });
}
