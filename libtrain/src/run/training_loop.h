// Trains a model from the first step of a configuration to its last checkpoint: `ltrain train` and lt::Trainer.
#pragma once

#include <string>

#include "libtrain/comm/world.h"
#include "libtrain/config/resolved.h"
#include "libtrain/data/batch_source.h"
#include "libtrain/nn/module.h"
#include "libtrain/run/trainer.h"

namespace lt::run {

// What a run needs beside its configuration.
struct TrainingParts {
  nn::Model& model;
  BatchSource* batches = nullptr;      // null: the files of the configuration
  Trainer::StepCallback on_step = {};  // on every rank
  std::string command = {};            // for env.json
};

// `resolved` comes from resolve_run(), and the caller holds a RunSignals. All ranks must call it. It throws what
// train() throws.
ExitCode run_training(const Resolved& resolved, const World& world, const TrainingParts& parts);

// resolve() with the number of steps that follows from data.epochs. Throws UsageError and DataError.
Resolved resolve_run(const Config& given, int ranks);

}  // namespace lt::run
