// Generates tokens of several sequences with a cache of keys and values. Ids, lengths and random numbers stay on the
// device. If every row reads one token, each step does the same work in the same memory. So on CUDA it is a graph, and
// the device begins the next step before the host has read this step's tokens. If the texts then change, the generator
// discards that step.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <optional>

#include "device/device_turn.h"
#include "device/seconds.h"
#include "kernels/sample_tokens.h"
#include "libtrain/device/context.h"
#include "libtrain/error.h"
#include "libtrain/generate/generate.h"
#include "libtrain/kernels/random.h"
#include "libtrain/memory/memory.h"
#include "libtrain/tensor/autograd.h"
#include "parallel/step_graph.h"
#include "parallel/step_memory.h"
#include "tensor/dispatch.h"
#include "tensor/host_stage.h"

namespace lt {
namespace {

// After two steps every lazily chosen algorithm is cached.
constexpr int kStepsBeforeGraph = 2;

// On a meta device only the shape.
Tensor numbers(const std::vector<std::int32_t>& values, const Shape& shape, Device device) {
  return device.is_meta() ? Tensor::empty(shape, DType::i32, device) : Tensor::from(values, shape, device);
}

[[noreturn]] void refuse(const std::string& field, const std::string& expected, double value) {
  throw UsageError("sample", fmt::format("{}: expected {}, got {}", field, expected, value));
}

const SamplingOptions& checked(const SamplingOptions& options, Size rows) {
  const auto from = [](const char* field, Size value, Size least) {
    if (value < least) refuse(field, fmt::format("at least {}", least), static_cast<double>(value));
  };
  const auto share = [](const char* field, double value) {
    if (!(value >= 0 && value <= 1)) refuse(field, "a number from 0 to 1", value);
  };
  from("rows", rows, 1);
  from("tokens", options.tokens, 0);
  from("continuations", options.continuations, 1);
  from("top_k", options.top_k, 0);
  share("top_p", options.top_p);
  share("min_p", options.min_p);
  const double temperature = options.temperature, penalty = options.repetition_penalty;
  if (!(temperature >= 0 && std::isfinite(temperature))) refuse("temperature", "a number from 0 on", temperature);
  if (!(penalty > 0 && std::isfinite(penalty))) refuse("repetition_penalty", "a number above 0", penalty);
  return options;
}

}  // namespace

struct Generator::Impl {
  // The text of a row, as far as the window reaches.
  struct RowText {
    std::vector<std::uint32_t> text;
    Size held = 0;  // tokens of the text that are in the cache
    bool has_ended = false;
    std::vector<std::uint8_t> seen;  // 1 for each token that occurred; empty without a penalty

    Size unread() const { return static_cast<Size>(text.size()) - held; }
  };
  // The tokens of a step on the host, as `found`.
  struct Sampled {
    tensor::HostStage tokens;
    Event is_there;
  };

  Impl(nn::Transformer& given, Size rows, const SamplingOptions& sampling)
      : model(given),
        options(checked(sampling, rows)),
        like(given.all_parameters().front().parameter->tensor().detach()),
        device(like.device()),
        capacity(given.spec().max_seq),
        texts(static_cast<std::size_t>(rows)),
        state(given.decode_state(rows, capacity)),
        ids(Tensor::zeros({rows, 1}, DType::i32, device)),
        lengths(Tensor::zeros({rows}, DType::i32, device)),
        samples(Tensor::zeros({rows}, DType::i32, device)),
        found(Tensor::zeros({rows}, DType::i32, device)),
        logits(Tensor::empty({rows, 1, given.spec().vocab}, like.dtype(), device)),
        memory(device),
        sampled{Sampled{tensor::HostStage(device, found.bytes()), {}},
                Sampled{tensor::HostStage(device, found.bytes()), {}}} {
    if (options.repetition_penalty == 1) return;
    seen = Tensor::zeros({rows, model.spec().vocab}, DType::u8, device);
    marks.emplace(device, model.spec().vocab);
    for (RowText& row : texts) row.seen.resize(static_cast<std::size_t>(model.spec().vocab));
  }

  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;
  ~Impl() {
    if (enqueued > received) Stream::compute(device).synchronize();
  }

  Size rows() const { return static_cast<Size>(texts.size()); }
  RowText& row(Size r) {
    if (r < 0 || r >= rows()) {
      refuse("row", fmt::format("a number from 0 to {}", rows() - 1), static_cast<double>(r));
    }
    return texts[static_cast<std::size_t>(r)];
  }

  void require_in_vocabulary(const Tokens& tokens) const {
    const Size vocab = model.spec().vocab;
    for (const std::uint32_t token : tokens) {
      if (token < vocab) continue;
      refuse("tokens", fmt::format("ids from 0 to {}", vocab - 1), token);
    }
  }

  void append(RowText& to, const Tokens& tokens) {
    to.text.insert(to.text.end(), tokens.begin(), tokens.end());
    if (to.seen.empty() || device.is_meta()) return;
    for (const std::uint32_t token : tokens) to.seen[token] = 1;
  }

  // Rehearses a pass over new tokens on a meta model of the same shape.
  parallel::StepMemory::Rehearsal rehearsal() const {
    return [this](const std::string& name, const Batch& shapes) {
      const memory::UncountedMemoryScope no_memory;
      const Device meta = meta_for(device);
      const auto twin = nn::make_transformer(model.spec());
      twin->materialize(meta, like.dtype(), 0);
      const Size count = shapes.inputs.dim(0);
      nn::DecodeState on_meta = twin->decode_state(count, capacity);
      if (shapes.inputs.dim(1) == 1) on_meta.lengths = Tensor::empty({count}, DType::i32, meta);
      const Tensor to = Tensor::empty({count, 1, model.spec().vocab}, like.dtype(), meta);
      return memory::record_memory_plan(name, meta, [&] { copy(to, twin->logits(shapes.inputs, &on_meta)); });
    };
  }

  // Reads the row's new text into the cache.
  void read(Size r) {
    RowText& own = row(r);
    const Size first = r - r % options.continuations;
    const Tensor to = logits.narrow(0, r, 1);
    if (r != first && own.held == 0 && row(first).text == own.text && row(first).unread() == 0) {
      const nn::DecodeState from = state.row(first), there = state.row(r);
      const auto length = static_cast<Size>(own.text.size());
      for (std::size_t i = 0; i < there.layers.size(); ++i) {
        copy(there.layers[i].k.narrow(1, 0, length), from.layers[i].k.narrow(1, 0, length));
        copy(there.layers[i].v.narrow(1, 0, length), from.layers[i].v.narrow(1, 0, length));
      }
      copy(to, logits.narrow(0, first, 1));
    } else {
      const std::vector<std::int32_t> text(own.text.begin() + own.held, own.text.end());
      const auto count = static_cast<Size>(text.size());
      const Tensor tokens = numbers(text, {1, count}, device);
      nn::DecodeState alone = state.row(r);
      alone.length = own.held;
      if (count == 1) alone.lengths = numbers({static_cast<std::int32_t>(own.held)}, {1}, device);
      memory.run("prefill", {tokens, {}}, rehearsal(), [&] { copy(to, model.logits(tokens, &alone)); });
      timing.prefill_tokens += count;
    }
    own.held = static_cast<Size>(own.text.size());
    send_seen(r);
  }

  void send_seen(Size r) {
    const RowText& own = row(r);
    if (own.seen.empty() || device.is_meta()) return;
    std::copy(own.seen.begin(), own.seen.end(), static_cast<std::uint8_t*>(marks->data()));
    marks->send(seen.narrow(0, r, 1).view({model.spec().vocab}));
    Stream::compute(device).synchronize();
  }

  // The last token of each row, through the model.
  void decode() {
    memory.run("decode", {ids, {}}, rehearsal(), [this] { copy(logits, model.logits(ids, &state)); });
  }

  void sample() {
    const auto values = [](const Tensor& x) { return x.data<std::int32_t>(); };
    tensor::dispatch(device, [&](auto s) {
      kernels::sample_tokens(s, {.dtype = logits.dtype(),
                                 .R = rows(),
                                 .V = model.spec().vocab,
                                 .logits_RV = logits.data(),
                                 .temperature = options.temperature,
                                 .top_k = options.top_k,
                                 .top_p = options.top_p,
                                 .min_p = options.min_p,
                                 .penalty = options.repetition_penalty,
                                 .key = derive_key(options.seed, "sample"),
                                 .per_prompt = options.continuations,
                                 .ids_R = values(ids),
                                 .found_R = values(found),
                                 .samples_R = values(samples),
                                 .lengths_R = values(lengths),
                                 .most_length = capacity - 1,
                                 .seen_RV = seen.defined() ? static_cast<std::uint8_t*>(seen.data()) : nullptr});
    });
  }

  // All rows with one new token.
  void decode_and_sample() {
    const bool may_capture = device.type == DeviceType::cuda && Context::current().timeline == nullptr;
    if (!may_capture || ++eager_steps <= kStepsBeforeGraph) return decode(), sample();
    const Stream stream = Stream::compute(device);
    memory.prepare("decode", {ids, {}}, rehearsal());  // must not happen during the capture
    memory.reserve();
    const parallel::StepGraph::Key key{"decode", memory.arena_number()};
    if (!graph || graph->key() != key) {
      graph.reset();
      graph.emplace(key, stream, [this] { decode(), sample(); });
    }
    graph->launch(stream);
  }

  // An ended row may hold as many tokens as the cache. Its steps mean nothing, but need a place for their keys.
  std::int32_t length_on_device(Size held) const {
    return static_cast<std::int32_t>(std::clamp<Size>(held, 0, capacity - 1));
  }

  // The tokens that sample() has written come to the host.
  void send_sampled() {
    Sampled& to = sampled[static_cast<std::size_t>(enqueued++ % 2)];
    to.tokens.receive(found);
    to.is_there.record(Stream::compute(device));
  }

  // Takes back the step that the device is ahead. The next one writes its keys and values again.
  void take_back() {
    if (enqueued == received) return;
    enqueued = received;
    std::vector<std::int32_t> last, held;
    for (const RowText& own : texts) {
      last.push_back(own.text.empty() ? 0 : static_cast<std::int32_t>(own.text.back()));
      held.push_back(length_on_device(own.held));
    }
    copy(ids, numbers(last, ids.shape(), device));
    copy(lengths, numbers(held, lengths.shape(), device));
    copy(samples, numbers(std::vector<std::int32_t>(texts.size(), static_cast<std::int32_t>(received)), samples.shape(),
                          device));
    for (Size r = 0; r < rows(); ++r) send_seen(r);
  }

  const Tokens& step() {
    const TapeScope no_recording(nullptr);
    KernelSettings settings = Context::current().kernels;
    settings.constant_weights = true;
    const ContextMemberScope<&Context::kernels> kernels(settings);
    const auto start = std::chrono::steady_clock::now();
    std::vector<Size> unread;
    Size decoded = 0, longest = 0;
    for (Size r = 0; r < rows(); ++r) {
      RowText& own = row(r);
      if (own.has_ended) continue;
      if (own.text.empty()) append(own, {0});
      const auto length = static_cast<Size>(own.text.size());
      if (const Size kept = tokens_kept(length, capacity); kept < length) {
        own.text.erase(own.text.begin(), own.text.end() - kept);
        own.held = 0;
      }
      const bool has_one = own.held > 0 && own.unread() == 1;  // the one that was sampled
      has_one ? static_cast<void>(++decoded) : unread.push_back(r);
      if (has_one) longest = std::max(longest, own.held);
    }
    state.lengths = lengths;
    if (decoded > 0 && unread.empty()) {
      do {
        state.length = longest;
        decode_and_sample();
        send_sampled();
      } while (graph && enqueued < received + 2);
    } else {
      take_back();
      state.length = longest;
      if (decoded > 0) decode();
      for (const Size r : unread) read(r);
      std::vector<std::int32_t> before;  // sample() counts them up
      for (const RowText& own : texts) {
        const bool is_read = own.unread() == 0;
        before.push_back(length_on_device(is_read ? own.held - 1 : own.held));
      }
      copy(lengths, numbers(before, {rows()}, device));
      sample();
      send_sampled();
    }
    timing.decode_tokens += decoded;
    receive();
    (unread.empty() ? timing.decode_s : timing.prefill_s) += device::seconds_since(start);
    return tokens;
  }

  // Adds the oldest sampled tokens to the texts.
  void receive() {
    const Sampled& from = sampled[static_cast<std::size_t>(received++ % 2)];
    from.is_there.synchronize();
    tokens.assign(texts.size(), 0);
    const auto* const there = static_cast<const std::int32_t*>(from.tokens.data());
    for (std::size_t r = 0; r < texts.size() && !device.is_meta(); ++r) {
      if (there[r] < 0 && !texts[r].has_ended) refuse_without_logits(r);
      tokens[r] = static_cast<std::uint32_t>(std::max(0, there[r]));
    }
    for (std::size_t r = 0; r < texts.size(); ++r) {
      RowText& own = texts[r];
      if (own.has_ended) continue;
      own.held = static_cast<Size>(own.text.size());
      append(own, {tokens[r]});
    }
  }

  [[noreturn]] void refuse_without_logits(std::size_t r) const {
    throw NonFiniteError(
        fmt::format("sample: row {}: expected a finite logit after {} tokens, found none", r, texts[r].text.size()),
        fmt::format("the weights, or what the model computes from them in {}, are not finite numbers",
                    dtype_name(like.dtype())));
  }

  nn::Transformer& model;
  SamplingOptions options;
  Tensor like;
  Device device;
  Size capacity;
  std::vector<RowText> texts;
  nn::DecodeState state;
  Tensor ids, lengths, samples, found, logits, seen;  // found: ids, but -1 where no logit was finite
  parallel::StepMemory memory;
  std::array<Sampled, 2> sampled;   // by steps in turn
  Size enqueued = 0, received = 0;  // steps
  std::optional<tensor::HostStage> marks;
  std::optional<parallel::StepGraph> graph;
  int eager_steps = 0;
  Tokens tokens;
  GenerationTiming timing;
};

Generator::Generator(nn::Transformer& model, Size rows, const SamplingOptions& options)
    : impl_(std::make_unique<Impl>(model, rows, options)) {}
Generator::~Generator() = default;

void Generator::append(Size row, const Tokens& tokens) {
  impl_->require_in_vocabulary(tokens);
  impl_->append(impl_->row(row), tokens);
}
const Generator::Tokens& Generator::step() {
  const device::DeviceTurn turn(impl_->device);
  return impl_->step();
}
void Generator::end(Size row) { impl_->row(row).has_ended = true; }
const GenerationTiming& Generator::timing() const { return impl_->timing; }

Size Generator::cache_bytes() const {
  Size bytes = 0;
  for (const ops::KvCache& cache : impl_->state.layers) bytes += cache.k.bytes() + cache.v.bytes();
  return bytes;
}

Size Generator::arena_bytes() const { return impl_->memory.arena_bytes(); }

std::vector<std::pair<std::string, Size>> Generator::pass_bytes() const {
  std::vector<std::pair<std::string, Size>> passes;
  for (const auto& [name, plan] : impl_->memory.plans()) passes.emplace_back(plan->name, plan->packing.bytes);
  return passes;
}

}  // namespace lt
