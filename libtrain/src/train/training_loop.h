// Trains a model from the first step of a configuration to its last checkpoint: `ltrain train` and lt::Trainer.
#pragma once

#include <string>

#include "libtrain/comm/world.h"
#include "libtrain/data/batch_source.h"
#include "libtrain/nn/module.h"
#include "libtrain/train/config.h"
#include "libtrain/train/trainer.h"

namespace lt {

// What a run needs beside its configuration.
struct TrainingParts {
  nn::Model& model;
  BatchSource* batches = nullptr;      // null: the files of the configuration
  Trainer::StepCallback on_step = {};  // on every rank
  std::string command = {};            // for env.json
};

// `resolved` comes from complete(), and the caller holds a RunSignals. All ranks must call it. It throws what train()
// throws.
ExitCode run_training(const Config& resolved, const World& world, const TrainingParts& parts);

// resolve() with the numbers of steps and micro-batches of these ranks. Throws UsageError and DataError.
Config complete(const Config& given, int ranks);

}  // namespace lt
