// Fills in what a configuration leaves open.
#pragma once

#include "libtrain/config/config.h"
#include "libtrain/device/device.h"
#include "libtrain/nn/transformer_spec.h"

namespace lt::config {

// The configuration with every value that follows from others, or from the machine (Config::derived), for this number
// of ranks, and checked. train.device=auto becomes `automatic`. Throws UsageError that names the key.
Config complete(const Config& given, int ranks, DeviceType automatic);

// Parts of complete(). What follows from other keys alone: the fields of a preset, train.seq, optim.min_lr,
// checkpoint.dir. Throws UsageError.
Config with_derived(Config given);
// train.accum, if train.global_batch is given. Throws UsageError if global_batch is not a multiple of ranks x
// micro_batch, or if a given accum contradicts it.
Config with_accum(Config given, int ranks);

// The transformer, whole. Throws UsageError for a model that is none.
nn::TransformerSpec model_spec(const Config& config);

}  // namespace lt::config
