// Evaluates batches with a model of which every rank holds all parameters.
#pragma once

#include <string>
#include <vector>

#include "libtrain/comm/group.h"
#include "libtrain/nn/models.h"
#include "libtrain/parallel/evaluation.h"
#include "libtrain/tensor/batch.h"

namespace lt::generator {

// Returns the loss of a batch, which is on the CPU; the model may be on any device. Records no gradient.
BatchLoss loss_of(nn::Transformer& model, const Batch& batch);
// Returns the losses of all ranks' batches, in rank order. All ranks must call it.
std::vector<BatchLoss> gather_losses(const BatchLoss& own, const Group& group);

}  // namespace lt::generator
