// Derives the configuration values that no layer has set.
#pragma once

#include "libtrain/config/config.h"
#include "libtrain/device/device.h"
#include "libtrain/nn/transformer_spec.h"

namespace lt::config {

// Returns the configuration for `ranks` ranks, checked, with every value that follows from other keys or from the
// machine (Config::derived). train.device=auto becomes `automatic`. Throws UsageError that names the key.
Config complete(const Config& given, int ranks, DeviceType automatic);

// Parts of complete(). with_derived() sets only values that follow from other keys: the fields of a preset, train.seq,
// optim.min_lr, checkpoint.dir. Throws UsageError.
Config with_derived(Config given);
// Sets train.accum if train.global_batch is given, and train.global_batch of an elastic run if it is not. Throws
// UsageError if global_batch is not a multiple of ranks x micro_batch, if a given accum contradicts it, if a step would
// have more than 2^53 tokens, or if an elastic run does not allow this number of ranks.
Config with_batch(Config given, int ranks);

// Returns the complete description of the configured transformer. Throws UsageError if the model is not a transformer.
nn::TransformerSpec model_spec(const Config& config);

}  // namespace lt::config
