// Everything that a training program needs.
#pragma once

#include "libtrain/data.h"
#include "libtrain/engine.h"
#include "libtrain/engine_checkpoint.h"
#include "libtrain/error.h"
#include "libtrain/layers.h"
#include "libtrain/models.h"
#include "libtrain/ops.h"
#include "libtrain/program.h"
#include "libtrain/trainer.h"
#include "libtrain/world.h"
