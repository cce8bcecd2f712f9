// The headers that most training programs need.
#pragma once

#include "libtrain/comm/program.h"
#include "libtrain/comm/world.h"
#include "libtrain/data/batch_source.h"
#include "libtrain/data/data.h"
#include "libtrain/error.h"
#include "libtrain/nn/layers.h"
#include "libtrain/nn/models.h"
#include "libtrain/ops/ops.h"
#include "libtrain/parallel/engine.h"
#include "libtrain/run/trainer.h"
#include "libtrain/save/engine_checkpoint.h"
#include "libtrain/watchdog/watchdog.h"
