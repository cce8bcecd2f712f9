// Attention composed of batched matmuls over the heads of a sequence and a softmax over whole rows. Scores and their
// gradients have the dtype of the inputs. The causal mask is a matrix of 0 and -inf that is added to the scores.
#include <limits>
#include <vector>

#include "bench/attention_methods.h"
#include "kernels/elementwise.h"
#include "kernels/gemm.h"
#include "kernels/loss.h"
#include "tensor/dispatch.h"

namespace lt::bench {
namespace {

Tensor causal_mask(Size T, DType dtype, Device device) {
  std::vector<float> mask(static_cast<std::size_t>(T * T));
  for (Size i = 0; i < T * T; ++i) {
    if (i % T > i / T) mask[static_cast<std::size_t>(i)] = -std::numeric_limits<float>::infinity();
  }
  const Tensor exact = Tensor::from(mask, {T, T}, device), rounded = Tensor::empty({T, T}, dtype, device);
  copy(rounded, exact);
  return rounded;
}

// One matrix per item of a batch: offset of the first element, elements between rows, elements between items.
struct Matrices {
  const Tensor& tensor;
  Size first, row, step;

  void* data() const { return static_cast<std::byte*>(tensor.data()) + first * dtype_bytes(tensor.dtype()); }
};

class LibraryAttention final : public AttentionMethod {
 public:
  explicit LibraryAttention(const AttentionInputs& inputs)
      : AttentionMethod(inputs),
        p_(matrix()),
        dp_(matrix()),
        ds_(matrix()),
        mask_(causal_mask(inputs.shape.T, inputs.qkv.dtype(), inputs.qkv.device())),
        scale_(Tensor::empty({1}, inputs.qkv.dtype(), inputs.qkv.device())),
        q_(Tensor::empty({inputs.rows(), inputs.shape.H * inputs.shape.D}, inputs.qkv.dtype(), inputs.qkv.device())),
        k_(Tensor::empty({inputs.rows(), inputs.shape.G * inputs.shape.D}, inputs.qkv.dtype(), inputs.qkv.device())) {
    fill(scale_, inputs.scale);
  }

  void forward() override {
    const kernels::AttentionShape& s = in_.shape;
    scaled_copy(q_, 0);
    for_each_batch([&](Size b, Size r) {
      matmul(scores(p_, b, r), q(q_, b, r), heads(in_.qkv, b, s.H), s.T, s.T, s.D, false, true, false, &mask_);
    });
    tensor::dispatch(in_.qkv.device(), [&](auto stream) {
      kernels::softmax_forward(stream, p_.dtype(), p_.data(), p_.data(), s.B * s.H * s.T, s.T);
    });
    for_each_batch([&](Size b, Size r) {
      matmul(out_of(out_, b, r), scores(p_, b, r), heads(in_.qkv, b, s.H + s.G), s.T, s.D, s.T);
    });
  }

  // Heads of a group add to the same gradients of keys and values, so they run one after the other.
  void backward() override {
    const kernels::AttentionShape& s = in_.shape;
    scaled_copy(k_, s.H * s.D);
    for_each_batch([&](Size b, Size r) {
      matmul(scores(dp_, b, r), out_of(in_.dout, b, r), heads(in_.qkv, b, s.H + s.G), s.T, s.T, s.D, false, true);
      matmul(heads(dqkv_, b, s.H + s.G), scores(p_, b, r), out_of(in_.dout, b, r), s.T, s.D, s.T, true, false, r > 0);
    });
    tensor::dispatch(in_.qkv.device(), [&](auto stream) {
      kernels::softmax_backward(stream, p_.dtype(), ds_.data(), dp_.data(), p_.data(), s.B * s.H * s.T, s.T, false);
    });
    for_each_batch([&](Size b, Size r) {
      const Matrices scaled_k{k_, b * s.T * s.G * s.D, s.G * s.D, s.D};
      matmul(q(dqkv_, b, r), scores(ds_, b, r), scaled_k, s.T, s.D, s.T);
      matmul(heads(dqkv_, b, s.H), scores(ds_, b, r), q(q_, b, r), s.T, s.D, s.T, true, false, r > 0);
    });
  }

 private:
  Tensor matrix() const { return Tensor::empty({in_.matrix()}, in_.qkv.dtype(), in_.qkv.device()); }
  Size group() const { return in_.shape.H / in_.shape.G; }

  // A batch takes query head number r of every group, so that keys and values are one step apart too.
  template <class Each>
  void for_each_batch(Each&& each) const {
    for (Size b = 0; b < in_.shape.B; ++b) {
      for (Size r = 0; r < group(); ++r) each(b, r);
    }
  }
  Matrices scores(const Tensor& x_BHTT, Size b, Size r) const {
    const Size T = in_.shape.T;
    return {x_BHTT, (b * in_.shape.H + r) * T * T, T, group() * T * T};
  }
  // Query heads, in packed rows or in rows of their own.
  Matrices q(const Tensor& x, Size b, Size r) const {
    const Size row = x.dim(-1), D = in_.shape.D;
    return {x, b * in_.shape.T * row + r * D, row, group() * D};
  }
  Matrices out_of(const Tensor& x, Size b, Size r) const { return q(x, b, r); }
  // Key or value heads in packed rows, starting at head number `first`.
  Matrices heads(const Tensor& x, Size b, Size first) const {
    const Size row = in_.shape.row(), D = in_.shape.D;
    return {x, b * in_.shape.T * row + first * D, row, D};
  }

  // to = scale * the columns of qkv, starting at `first`.
  void scaled_copy(const Tensor& to, Size first) const {
    const Size rows = to.dim(0), columns = to.dim(1);
    const Matrices from{in_.qkv, first, in_.shape.row(), 0};
    kernels::Strided space{2, {rows, columns}, {columns, 1}, {from.row, 1}, {0, 0}};
    tensor::dispatch(in_.qkv.device(), [&](auto stream) {
      kernels::mul(stream, to.dtype(), space, to.data(), from.data(), scale_.data(), false);
    });
  }

  void matmul(const Matrices& d, const Matrices& a, const Matrices& b, Size M, Size N, Size K, bool transpose_a = false,
              bool transpose_b = false, bool accumulate = false, const Tensor* add = nullptr) const {
    const DType dtype = in_.qkv.dtype();
    tensor::dispatch(in_.qkv.device(), [&](auto stream) {
      kernels::gemm(stream, {.M = M,
                             .N = N,
                             .K = K,
                             .a = a.data(),
                             .b = b.data(),
                             .d = d.data(),
                             .lda = a.row,
                             .ldb = b.row,
                             .ldd = d.row,
                             .transpose_a = transpose_a,
                             .transpose_b = transpose_b,
                             .dtype = dtype,
                             .out = dtype,
                             .accumulate = accumulate,
                             .add_MN = add == nullptr ? nullptr : add->data(),
                             .batch = in_.shape.G,
                             .stride_a = a.step,
                             .stride_b = b.step,
                             .stride_d = d.step});
    });
  }

  Tensor p_, dp_, ds_;  // [B, H, T, T]
  Tensor mask_;         // [T, T]
  Tensor scale_;        // [1]
  Tensor q_, k_;        // scaled, [B*T, H*D] and [B*T, G*D]
};

}  // namespace

std::unique_ptr<AttentionMethod> library_attention(const AttentionInputs& inputs) {
  return std::make_unique<LibraryAttention>(inputs);
}

}  // namespace lt::bench
