// Arrays of any floating dtype for kernel tests: aligned storage, values from the counter-based generator, read as f64.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <memory>
#include <new>
#include <vector>

#include "libtrain/dtype.h"
#include "libtrain/kernels/random.h"
#include "test_main/worst_of.h"

namespace lt::test {

class Array {
 public:
  // The first element lies `offset` bytes after a 4096-byte boundary.
  Array(DType dtype, Size count, double value = 0, Size offset = 0)
      : dtype_(dtype),
        count_(count),
        offset_(offset),
        bytes_(static_cast<std::byte*>(::operator new[](static_cast<std::size_t>(bytes() + offset), kPage))) {
    for (Size i = 0; i < count; ++i) set(i, value);
  }

  // Uniform in [-1, 1), rounded to the dtype.
  static Array random(DType dtype, Size count, std::uint64_t key, Size offset = 0) {
    Array a(dtype, count, 0, offset);
    for (Size i = 0; i < count; ++i) {
      a.set(i, 2.0 * uniform_from(philox_word(key, static_cast<std::uint64_t>(i))) - 1.0);
    }
    return a;
  }

  DType dtype() const { return dtype_; }
  Size count() const { return count_; }
  Size bytes() const { return count_ * dtype_bytes(dtype_); }
  void* data() { return bytes_.get() + offset_; }
  const void* data() const { return bytes_.get() + offset_; }

  double operator[](Size i) const {
    switch (dtype_) {
      case DType::f64: return static_cast<const double*>(data())[i];
      case DType::f32: return static_cast<const float*>(data())[i];
      case DType::f16: return static_cast<const f16*>(data())[i];
      default: return static_cast<const bf16*>(data())[i];
    }
  }
  void set(Size i, double value) {
    switch (dtype_) {
      case DType::f64: static_cast<double*>(data())[i] = value; break;
      case DType::f32: static_cast<float*>(data())[i] = static_cast<float>(value); break;
      case DType::f16: static_cast<f16*>(data())[i] = f16(static_cast<float>(value)); break;
      default: static_cast<bf16*>(data())[i] = bf16(static_cast<float>(value));
    }
  }

  std::vector<double> values() const {
    std::vector<double> v(static_cast<std::size_t>(count_));
    for (Size i = 0; i < count_; ++i) v[static_cast<std::size_t>(i)] = (*this)[i];
    return v;
  }

  bool same_bits(const Array& other) const {
    return bytes() == other.bytes() && std::memcmp(data(), other.data(), static_cast<std::size_t>(bytes())) == 0;
  }

 private:
  static constexpr std::align_val_t kPage{4096};
  struct Free {
    void operator()(std::byte* p) const { ::operator delete[](p, kPage); }
  };

  DType dtype_;
  Size count_, offset_;
  std::unique_ptr<std::byte[], Free> bytes_;
};

// max |x - reference| / (1 + |reference|); infinite if an element of x is not finite.
inline double error_of(const Array& x, const std::vector<double>& reference) {
  double worst = static_cast<std::size_t>(x.count()) == reference.size() ? 0 : HUGE_VAL;
  for (Size i = 0; i < x.count(); ++i) {
    const double r = reference[static_cast<std::size_t>(i)], e = std::fabs(x[i] - r) / (1 + std::fabs(r));
    worst = lt_test::worst_of(worst, e);
  }
  return worst;
}

// The largest |x - reference| / scale(|reference|, mean, largest), with the mean and the largest |reference| of the
// element's row of C elements.
template <class Scale>
double error_by(const Array& x, const std::vector<double>& reference, Size C, Scale scale) {
  double worst = 0;
  for (std::size_t begin = 0; begin < reference.size(); begin += static_cast<std::size_t>(C)) {
    double mean = 0, largest = 0;
    for (std::size_t i = begin; i < begin + static_cast<std::size_t>(C); ++i) {
      mean += std::fabs(reference[i]) / static_cast<double>(C), largest = std::max(largest, std::fabs(reference[i]));
    }
    for (std::size_t i = begin; i < begin + static_cast<std::size_t>(C); ++i) {
      const double difference = std::fabs(x[static_cast<Size>(i)] - reference[i]);
      const double error = difference == 0 ? 0 : difference / scale(std::fabs(reference[i]), mean, largest);
      worst = lt_test::worst_of(worst, error);
    }
  }
  return worst;
}
inline double error_by_element(const Array& x, const std::vector<double>& reference, Size C) {
  return error_by(x, reference, C, [](double own, double mean, double) { return std::max(own, 0.1 * mean); });
}
inline double error_by_row(const Array& x, const std::vector<double>& reference, Size C) {
  return error_by(x, reference, C, [](double, double, double largest) { return largest; });
}

inline constexpr DType kFloats[] = {DType::f32, DType::f64, DType::bf16, DType::f16};

}  // namespace lt::test
