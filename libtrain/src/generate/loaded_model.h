// Evaluating batches with a model that every rank holds whole.
#pragma once

#include <string>
#include <vector>

#include "libtrain/comm/group.h"
#include "libtrain/nn/models.h"
#include "libtrain/parallel/evaluation.h"
#include "libtrain/tensor/batch.h"

namespace lt::generator {

// The loss of a batch on the CPU, with the model where it is. Records no gradient.
BatchLoss loss_of(nn::Transformer& model, const Batch& batch);
// The losses of all ranks' batches, in rank order.
std::vector<BatchLoss> gather_losses(const BatchLoss& own, const Group& group);

}  // namespace lt::generator
