// Trains a model from the first step of a configuration to its last checkpoint: `ltrain train` and lt::Trainer.
#pragma once

#include "libtrain/comm/world.h"
#include "libtrain/config/resolved.h"
#include "libtrain/data/batch_source.h"
#include "libtrain/nn/module.h"
#include "libtrain/run/trainer.h"

namespace lt::run {

// The inputs of a run besides its configuration.
struct TrainingParts {
  nn::Model& model;
  State& state;                    // the program's own; a start that continues replaces it by the one it loads
  BatchSource* batches = nullptr;  // training batches; null: the configuration's files
  StepCallback on_step = {};       // called on every rank
};

// `resolved` must be the result of resolve_run(). The caller must hold a RunSignals. All ranks must call it. Throws the
// errors of train().
ExitCode run_training(const Resolved& resolved, const World& world, const TrainingParts& parts);

}  // namespace lt::run
