// The chain of layers that all families share: embedding, blocks, and a head that computes the loss in chunks. Also
// generation with a cache.
#include <fmt/format.h>

#include "device/device_turn.h"
#include "libtrain/error.h"
#include "libtrain/nn/models.h"
#include "libtrain/tensor/autograd.h"
#include "nn/lora.h"
#include "nn/model_family.h"

namespace lt::nn {

Transformer::Transformer(const TransformerSpec& spec) : spec_(with_defaults(spec)) { validate(spec_); }

void Transformer::set_parts(Embed& embed, std::vector<Block*> blocks, Head& head) {
  embed_ = &embed, blocks_ = std::move(blocks), head_ = &head;
  if (spec_.tied()) borrow(head, embed);
}

Tensor Transformer::hidden(const Tensor& tokens, DecodeState* state, const Tensor& document_starts) {
  if (!tokens.defined() || tokens.dims() != 2 || tokens.elements() == 0) {
    throw UsageError("model", "tokens: expected a shape [B, T] of at least one token, got " +
                                  (tokens.defined() ? to_string(tokens.shape()) : "no tensor"));
  }
  if (state != nullptr && state->layers.size() != blocks_.size()) {
    throw UsageError("model", "state: expected one of decode_state() of this model, with " +
                                  std::to_string(blocks_.size()) + " layers, got " +
                                  std::to_string(state->layers.size()));
  }
  const Size first = state != nullptr ? state->length : 0;
  if (first + tokens.dim(1) > spec_.max_seq) {
    throw UsageError("model", "sequence: expected at most max_seq " + std::to_string(spec_.max_seq) + " tokens, got " +
                                  std::to_string(first + tokens.dim(1)));
  }
  Positions positions{
      .first = first, .per_sequence = state != nullptr ? state->lengths : Tensor(), .document_starts = document_starts};
  Tensor x = run(*embed_, &Embed::forward, tokens, positions);
  for (std::size_t i = 0; i < blocks_.size(); ++i) {
    positions.cache = state != nullptr ? &state->layers[i] : nullptr;
    x = run(*blocks_[i], &Block::forward, x, positions);
  }
  return x;
}

Tensor Transformer::Head::logits(const Tensor& x, const Tensor& table) const { return ops::linear(norm(x), table); }

Tensor Transformer::head_table() const { return spec_.tied() ? embed_->table() : head_->weight(); }

Tensor Transformer::loss(const Batch& batch) {
  const Tensor x = hidden(batch.inputs, nullptr, batch.document_starts);
  const auto loss_of = [this](const Tensor& last, const Tensor& targets) {
    return ops::head_cross_entropy(head_->norm(last), head_table(), targets, ForwardContext::current().loss);
  };
  return run(*head_, loss_of, x, batch.targets);
}

Tensor Transformer::logits(const Tensor& tokens, DecodeState* state) {
  const device::DeviceTurn turn(tokens.defined() ? tokens.device() : kCpu);
  const TapeScope no_recording(nullptr);
  if (state != nullptr) {
    for (ops::KvCache& cache : state->layers) cache.length = state->length, cache.lengths = state->lengths;
  }
  Tensor x = hidden(tokens, state);
  if (state != nullptr) {
    state->length += tokens.dim(1);
    if (tokens.dim(1) > 1) x = ops::slice(x, 1, tokens.dim(1) - 1, 1);
  }
  return run(
      *head_, [this](const Tensor& last) { return head_->logits(last, head_table()); }, x);
}

DecodeState Transformer::decode_state(Size batch, Size capacity) const {
  DecodeState state;
  const Tensor& like = embed_->table();
  const Shape shape{batch, capacity, spec_.kv_heads * spec_.head_dim};
  for (std::size_t i = 0; i < blocks_.size(); ++i) {
    state.layers.push_back({Tensor::empty(shape, like.dtype(), like.device()),
                            Tensor::empty(shape, like.dtype(), like.device()), 0, Tensor()});
  }
  return state;
}

DecodeState DecodeState::row(Size b) const {
  DecodeState state;
  for (const ops::KvCache& cache : layers) {
    state.layers.push_back({cache.k.narrow(0, b, 1), cache.v.narrow(0, b, 1), length, Tensor()});
  }
  state.length = length;
  return state;
}

double Transformer::flops_per_token(Size seq, const std::function<bool(const std::string&)>& is_trained) const {
  const Shape table{spec_.vocab, spec_.width};
  const UnitInfo& unit_of_table = spec_.tied() ? units().front() : units().back();
  const double head = static_cast<double>(spec_.width) * static_cast<double>(spec_.vocab);
  double weights = 0;
  double frozen = 0;        // of the weights and the head: without a gradient
  double without_pass = 0;  // of them: without a backward pass
  Size blocks_without = 0;
  bool wants_backward = false;  // a unit up to here is trained
  bool trains_table = false;
  for (const UnitInfo& unit : units()) {
    if (&unit == &units().back() && !wants_backward) without_pass += head;
    double own = 0;
    for (const NamedParameter& entry : unit.module->parameters(unit.name)) {
      const bool trains = is_trained(entry.name);
      wants_backward = wants_backward || trains;
      const Shape& shape = entry.parameter->shape();
      if (&unit == &unit_of_table && shape == table) trains_table = trains_table || trains;
      if (!unit.is_block || shape.dims() != 2) continue;
      own += static_cast<double>(shape.elements());
      if (!trains) frozen += static_cast<double>(shape.elements());
    }
    weights += own;
    if (unit.is_block && !wants_backward) without_pass += own, ++blocks_without;
  }
  if (!trains_table) frozen += head;
  const double seen = ops::visible_pairs(seq, spec_.window) / static_cast<double>(seq);  // keys per query on average
  const auto attention_of = [&](Size blocks) {
    return 4 * static_cast<double>(blocks * spec_.heads * spec_.head_dim) * seen;
  };
  return 3 * (2 * weights + attention_of(spec_.layers) + 2 * head) -
         2 * (frozen + without_pass + attention_of(blocks_without));
}

double Transformer::flops_per_token(Size seq) const {
  return flops_per_token(seq, [this](const std::string& name) { return !has_adapters(spec_) || is_adapter(name); });
}

ModelFacts Transformer::facts(Size seq) const {
  const auto counted = [](Size count, const char* what) {
    return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
  };
  const std::string layers = counted(spec_.layers, "layer");
  return {.name = fmt::format("{} {} x {}", spec_.family, layers, spec_.width),
          .details = fmt::format("{}: {}, {}, {}, width {}, ffn {}, vocab {}", spec_.family, layers,
                                 counted(spec_.heads, "head"), counted(spec_.kv_heads, "kv_head"), spec_.width,
                                 spec_.ffn, spec_.vocab),
          .vocab = spec_.vocab,
          .flops_per_token = flops_per_token(seq),
          .head_dim = spec_.head_dim,
          .gated_ffn = find_family(spec_.family).gated_ffn};
}

std::unique_ptr<Transformer> make_transformer(const TransformerSpec& spec) {
  const TransformerSpec complete = with_defaults(spec);
  validate(complete);
  return find_family(complete.family).make(complete);
}

}  // namespace lt::nn
