// The exit codes of the program as text, for --help, the man page and docs/reference/exit-codes.md. A static_assert
// compares them with lt::ExitCode.
#pragma once

#include <algorithm>
#include <iterator>
#include <string_view>

#include "libtrain/error.h"

namespace lt::launch {

struct ExitCodeText {
  int code;
  const char* brief;    // one line of --help
  const char* details;  // follows `brief` on the man page and in the documentation, with its own punctuation
};

inline constexpr ExitCodeText kExitCodes[] = {
    {static_cast<int>(ExitCode::ok), "done", "; or the program's own callback stopped the run, with the state saved"},
    {static_cast<int>(ExitCode::internal), "out of memory, or a defect",
     "; an exception of the program's own functions; SIGTERM or Ctrl-C to a bare `mpirun`"},
    {static_cast<int>(ExitCode::usage), "usage or configuration", "; a folder of another run. Nothing was written"},
    {static_cast<int>(ExitCode::data), "data or checkpoint unreadable, corrupt or not matching",
     "; a result that cannot be written; a last save that failed five times"},
    {static_cast<int>(ExitCode::communication), "communication cannot be set up", ""},
    {static_cast<int>(ExitCode::non_finite), "loss or gradient not finite",
     ", in more steps in a row than `train.skip_nonfinite`; the step is neither applied nor saved. `eval`, `sample`: "
     "no finite loss or logit"},
    {static_cast<int>(ExitCode::slower), "bench compare: a row is slower; plan --fit, --nodes: nothing fits",
     ", or no number of ranks divides `train.global_batch`"},
    {static_cast<int>(ExitCode::restart), "stopped with steps left; the same command continues the run",
     ". Stopped by a signal or `train.max_minutes`, with the state saved unless the ranks were killed; a rank was lost "
     "or hung; communication broke"},
    {130, "a second SIGINT (Ctrl-C)", ", before the state was saved"},
    {137, "bare mpirun: a rank was killed", "; `ltrain launch` returns 75"},
    {139, "bare mpirun: a rank crashed", "; `ltrain launch` returns 75"},
};

constexpr bool has_text(ExitCode code) {
  return std::ranges::find(kExitCodes, static_cast<int>(code), &ExitCodeText::code) != std::end(kExitCodes);
}
static_assert(has_text(ExitCode::ok) && has_text(ExitCode::internal) && has_text(ExitCode::usage) &&
              has_text(ExitCode::data) && has_text(ExitCode::communication) && has_text(ExitCode::non_finite) &&
              has_text(ExitCode::nothing_fits) && has_text(ExitCode::restart));

}  // namespace lt::launch
