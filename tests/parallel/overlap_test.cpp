// Which gathers and reductions are in flight while the step computes. The order of starts, waits and computation
// decides that, on every device alike, so the tests count in that order and measure no time.
#include <algorithm>
#include <iterator>
#include <memory>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "libtrain/profile/timeline.h"
#include "parallel/synthetic.h"
#include "profile/work_count.h"
#include "test_main/catch.h"

using namespace lt;
using namespace lt_test;

namespace {

constexpr const char* kUpdate = "update of a unit";

// What had happened when a span began or ended.
struct Moment {
  std::size_t operations = 0, updates = 0;
  double matmul_flops = 0;
};

// Records the moments at which collectives start and at which the step has waited for them.
class Order final : public Timeline {
 public:
  struct Collective {
    Span span;
    Moment begin, end;
    bool hides(auto Moment::*count) const { return end.*count > begin.*count; }
  };

  std::size_t begin(Span span, const TimePoint&) override {
    if (span.name == kUpdate) {
      ++now_.updates;
    } else if (span.lane == Lane::compute && !span.is_activity) {
      ++now_.operations;
    }
    now_.matmul_flops = work.matmul_flops;
    const bool is_collective = span.lane == Lane::gather || span.lane == Lane::reduce;
    handles_.push_back(is_collective ? collectives.size() : kNone);
    if (is_collective) collectives.push_back({std::move(span), now_, {}});
    return handles_.size() - 1;
  }
  void end(std::size_t handle, const TimePoint&) override {
    if (handles_[handle] == kNone) return;
    now_.matmul_flops = work.matmul_flops;
    collectives[handles_[handle]].end = now_;
  }
  TimePoint now() override { return TimePoint::on(Stream::compute(kCpu)); }
  const std::vector<Span>& spans() override { return none_; }

  std::vector<Collective> collectives;
  profile::WorkCount work;

 private:
  static constexpr std::size_t kNone = ~std::size_t{0};
  Moment now_;
  std::vector<std::size_t> handles_;
  std::vector<Span> none_;
};

// Counts of the gathers and reductions of units in one step.
struct Overlap {
  Size all = 0, beside_operations = 0, beside_matmuls = 0;
  bool operator==(const Overlap&) const = default;
};

std::ostream& operator<<(std::ostream& out, const Overlap& overlap) {
  return out << overlap.all << " collectives, " << overlap.beside_operations << " beside operations, "
             << overlap.beside_matmuls << " beside matmuls";
}

// AdamW, with a span for each unit's update.
Optimizer shown_updates() {
  Optimizer optimizer = AdamW{};
  optimizer.update = [update = optimizer.update](const UpdateRange& range) {
    const SpanScope span(Lane::compute, kUpdate);
    update(range);
  };
  return optimizer;
}

// The second and the third step of a model of an embedding, three blocks and a head.
std::shared_ptr<Order> two_steps(const ParallelOptions& parallel, Size accum) {
  const nn::TransformerSpec spec = small_spec("llama-tiny");
  const auto model = nn::make_transformer(spec);
  Engine engine(*model, world().group(), parallel, shown_updates(), {.micro_batch = 1, .accum = accum, .seq = 16});
  engine.step(rows_of_step(engine.batch_shape(), 0, spec.vocab));
  const auto order = std::make_shared<Order>();
  {
    const TimelineScope recorded(order);
    const profile::WorkScope counted(&order->work);
    for (const Size step : {1, 2}) engine.step(rows_of_step(engine.batch_shape(), step, spec.vocab));
  }
  return order;
}

// The counts of one of the two steps, which do the same, over the collectives that `chosen` takes.
template <class Chosen>
Overlap overlap_of(const Order& order, Chosen&& chosen) {
  Overlap twice;
  for (const Order::Collective& each : order.collectives) {
    if (!chosen(each)) continue;
    ++twice.all;
    twice.beside_operations += each.hides(&Moment::operations);
    twice.beside_matmuls += each.hides(&Moment::matmul_flops);
  }
  CHECK(twice.all % 2 == 0);
  return {twice.all / 2, twice.beside_operations / 2, twice.beside_matmuls / 2};
}

bool is_gather(const Order::Collective& each) { return each.span.name.ends_with(" parameters"); }
bool is_reduction(const Order::Collective& each) {
  return each.span.lane == Lane::reduce && each.span.name.ends_with(" gradients");
}
bool is_exchange(const Order::Collective& each) {
  return each.span.lane == Lane::gather && each.span.name.ends_with(" gradients");
}

}  // namespace

// A pass gathers five units, and all but the head again. Nothing overlaps the embedding's gather, the first one. No
// matmul overlaps two others: the embedding, which has none, overlaps the forward gather of the first block, and the
// head, whose matmuls ran in its forward pass, overlaps the backward gather of the last block.
TEST_CASE("overlap: ZeRO-3 exposes the first gather of each micro-batch", "[parallel]") {
  for (const Size accum : {1, 2}) {
    for (const Recompute recompute : {Recompute::none, Recompute::full}) {
      INFO("accum " << accum << " recompute " << static_cast<int>(recompute));
      const auto order = two_steps({.strategy = Strategy::zero3, .recompute = recompute}, accum);
      CHECK(overlap_of(*order, is_gather) == Overlap{9 * accum, 8 * accum, 6 * accum});
    }
  }
}

// Nothing overlaps the embedding's reduction, the last one of a step. The embedding's backward pass, which has no
// matmul, overlaps the reduction before it.
TEST_CASE("overlap: every strategy exposes the last reduction of a step", "[parallel]") {
  for (const Strategy& strategy : kStrategies) {
    for (const Size accum : {1, 2}) {
      INFO(strategy.name << " accum " << accum);
      const auto order = two_steps({.strategy = strategy}, accum);
      const Size reductions = strategy.gradients == Placement::sharded ? 5 * accum : 5;
      CHECK(overlap_of(*order, is_reduction) == Overlap{reductions, reductions - 1, reductions - 2});
      // DDP gathers each sum after the reduction of the unit before it.
      const bool gathers_sums = strategy.optimizer == Placement::replicated;
      CHECK(overlap_of(*order, is_exchange) == (gathers_sums ? Overlap{5, 3, 2} : Overlap{}));
    }
  }
}

TEST_CASE("overlap: ZeRO-1 and 2 gather a unit while later ones are updated, and wait when it runs next",
          "[parallel]") {
  for (const Strategy& strategy : {Strategy::zero1, Strategy::zero2}) {
    INFO(strategy.name);
    const auto order = two_steps({.strategy = strategy}, 2);
    std::vector<Order::Collective> gathers;  // after the first of the two updates
    std::ranges::copy_if(order->collectives, std::back_inserter(gathers),
                         [](const Order::Collective& each) { return is_gather(each) && each.begin.updates <= 5; });
    REQUIRE(gathers.size() == 5);
    for (std::size_t i = 0; i < gathers.size(); ++i) {
      CHECK(gathers[i].begin.updates == i + 1);
      CHECK(gathers[i].end.updates == 5);
      if (i > 0) CHECK(gathers[i].end.operations > gathers[i - 1].end.operations);
      CHECK(gathers[i].hides(&Moment::matmul_flops) == (i > 1));  // the embedding has none
    }
  }
}
