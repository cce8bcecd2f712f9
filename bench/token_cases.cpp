// Kernels that depend on a token's position or id: rotary embedding, the embedding table, the loss.
#include <fmt/format.h>

#include <algorithm>

#include "bench/kernel_case.h"
#include "kernels/embedding.h"
#include "kernels/loss.h"
#include "kernels/rope.h"
#include "ops/head.h"
#include "tensor/dispatch.h"

namespace lt::bench {
namespace {

KernelCase rope_case(const KernelSizes& sizes, DType dtype) {
  const nn::TransformerSpec& spec = sizes.spec;
  const Size B = sizes.B, T = sizes.T, row = sizes.row(), heads = spec.heads + spec.kv_heads;
  const Size D = spec.head_dim / 2 * 2, rotated = sizes.M() * heads * D;
  const Device device = sizes.device;
  const double base = spec.rope_base;
  KernelCase c{"rope",
               fmt::format("B={} T={} heads={} D={}", B, T, heads, D),
               dtype,
               Work::elementwise,
               3 * rotated,
               2 * rotated * dtype_bytes(dtype),
               [=] {
                 const Tensor x = random_values({B, T, row}, dtype, device);
                 return PreparedKernel{[=] {
                   tensor::dispatch(device, [&](auto s) {
                     kernels::rope(s, {dtype, B, T, row, heads, D, x.data(), x.data(), base, 0, false, false});
                   });
                 }};
               }};
  c.footprint = c.bytes / 2;  // in place
  return c;
}

void add_embedding(KernelCases& cases, const KernelSizes& sizes, DType dtype) {
  const Size M = sizes.M(), T = sizes.T, C = sizes.spec.width, V = sizes.spec.vocab, e = dtype_bytes(dtype);
  const Device device = sizes.device;
  const std::string shape = fmt::format("M={} T={} C={} V={}", M, T, C, V);
  cases.push_back(
      {"embedding.forward", shape, dtype, Work::elementwise, M * C, (std::min(M, V) + T + M) * C * e + 4 * M, [=] {
         const Tensor table = random_values({V, C}, dtype, device), y = Tensor::empty({M, C}, dtype, device);
         const Tensor positions = random_values({T, C}, dtype, device), ids = random_ids(M, V, device);
         return PreparedKernel{[=] {
           tensor::dispatch(device, [&](auto s) {
             kernels::embedding_forward(
                 s, {dtype, M, T, C, V, y.data(), table.data(), positions.data(), ids.data<std::int32_t>(), 0});
           });
         }};
       }});
  cases.push_back({"embedding.backward", shape, dtype, Work::elementwise, 2 * M * C,
                   M * C * e + (V + T) * C * dtype_bytes(kernels::gradient_dtype(dtype)) + 4 * M, [=] {
                     const Tensor dtable = Tensor::empty({V, C}, kernels::gradient_dtype(dtype), device);
                     const Tensor dpositions = Tensor::empty({T, C}, kernels::gradient_dtype(dtype), device);
                     const Tensor dy = random_values({M, C}, dtype, device), ids = random_ids(M, V, device);
                     return PreparedKernel{[=] {
                       tensor::dispatch(device, [&](auto s) {
                         kernels::embedding_backward(s, {dtype, M, T, C, V, T, dtable.data(), dpositions.data(), false,
                                                         false, dy.data(), ids.data<std::int32_t>()});
                       });
                     }};
                   }});
}

void add_loss(KernelCases& cases, const KernelSizes& sizes, DType dtype) {
  const Size V = sizes.spec.vocab, M = ops::head_chunk_rows(sizes.device.type, sizes.M(), V),
             logits_bytes = M * V * dtype_bytes(dtype);
  const Device device = sizes.device;
  struct Arrays {
    Tensor logits, targets, losses, lse, dlogits;
  };
  const auto make = [=] {
    return Arrays{random_values({M, V}, dtype, device), random_ids(M, V, device),
                  Tensor::empty({M}, kernels::gradient_dtype(dtype), device),
                  Tensor::zeros({M}, kernels::gradient_dtype(dtype), device), Tensor::empty({M, V}, dtype, device)};
  };
  const std::string shape = fmt::format("M={} V={}", M, V);
  const auto loss = [=](const auto& a) {
    return kernels::CrossEntropyForward{
        dtype, M, V, a.losses.data(), a.lse.data(), a.logits.data(), a.targets.template data<std::int32_t>()};
  };
  const auto gradient = [=](const auto& a, const Tensor& dlogits) {
    return kernels::CrossEntropyBackward{.dtype = dtype,
                                         .M = M,
                                         .V = V,
                                         .dlogits_MV = dlogits.data(),
                                         .logits_MV = a.logits.data(),
                                         .lse_M = a.lse.data(),
                                         .targets_M = a.targets.template data<std::int32_t>(),
                                         .d_loss = nullptr,
                                         .scale = 1.0};
  };
  const auto add = [&](const char* name, Size flops, Size bytes, auto run) {
    cases.push_back({name, shape, dtype, Work::elementwise, flops, bytes, [=] {
                       return PreparedKernel{[=, a = make()] { tensor::dispatch(device, [&](auto s) { run(s, a); }); }};
                     }});
  };
  add("cross_entropy.forward", 4 * M * V, logits_bytes + 12 * M,
      [=](auto s, const auto& a) { kernels::cross_entropy_forward(s, loss(a)); });
  add("cross_entropy.backward", 3 * M * V, 2 * logits_bytes + 8 * M,
      [=](auto s, const auto& a) { kernels::cross_entropy_backward(s, gradient(a, a.dlogits)); });
  add("cross_entropy.in_place", 7 * M * V, 2 * logits_bytes + 12 * M,
      [=](auto s, const auto& a) { kernels::cross_entropy_in_place(s, loss(a), gradient(a, a.logits)); });
  cases.back().footprint = logits_bytes + 12 * M;  // the gradient overwrites the logits
}

}  // namespace

void add_token_cases(KernelCases& cases, const KernelSizes& sizes) {
  for (const DType dtype : kBenchDTypes) {
    cases.push_back(rope_case(sizes, dtype));
    add_embedding(cases, sizes, dtype);
    add_loss(cases, sizes, dtype);
  }
}

}  // namespace lt::bench
