// The losses of evaluation batches, and their mean.
#pragma once

#include <vector>

#include "libtrain/api.h"

namespace LT_API lt {

// The loss of one batch: the mean over its non-ignored targets, and the number of these targets. If the targets are not
// i32, each sample is one target.
struct BatchLoss {
  double loss = 0, counted = 0;
};

// The mean loss over the non-ignored targets of many batches, in nats; 0 if there are none. The same batches in the
// same order give the same bits.
class MeanLoss {
 public:
  void add(const BatchLoss& batch) { sum_ += batch.loss * batch.counted, counted_ += batch.counted; }
  void add(const MeanLoss& other) { sum_ += other.sum_, counted_ += other.counted_; }
  double value() const { return counted_ > 0 ? sum_ / counted_ : 0; }
  double counted() const { return counted_; }

 private:
  double sum_ = 0, counted_ = 0;
};

// Returns the mean loss over the non-ignored targets of all batches.
inline double mean_loss(const std::vector<BatchLoss>& batches) {
  MeanLoss mean;
  for (const BatchLoss& batch : batches) mean.add(batch);
  return mean.value();
}

}  // namespace lt
