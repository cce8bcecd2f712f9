// The table of subcommands, in the order of `ltrain --help`.
#include "launch/command.h"

namespace lt::launch {

std::vector<Command> commands(const ModelTable& models) {
  const bool all = models.transformers;  // these have more to offer
  std::vector<Command> table = {
      {"prepare", "convert text or JSON lines to token files", false, false, false, set_up_prepare},
      {"train", "train a model; start it directly or under mpirun, srun or torchrun", true, false, true, set_up_train},
      {"launch", "start the ranks of a command, and restart a training run after failures", false, false, false,
       set_up_launch},
      {"plan", "predict memory, FLOPs, communication and time of a run without running it", true, false, false,
       set_up_plan},
      {"sample", "continue prompts with a trained model", false, true, true, set_up_sample},
      {"eval", "measure loss or multiple-choice accuracy of a trained model", false, true, true, set_up_eval},
      {"checkpoint",
       all ? "list, inspect, verify, export and import checkpoints" : "list, inspect and verify checkpoints", false,
       false, false, set_up_checkpoint},
      {"report", "write one offline HTML report from run folders", false, false, false, set_up_report},
      {"bench",
       all ? "measure kernels, collectives, steps and scaling; compare results"
           : "measure collectives, steps and scaling; compare results",
       true, false, true, set_up_bench, "compare"},
      {"doctor", "show what this build and machine have, what is missing and what that costs", true, false, false,
       set_up_doctor},
  };
  if (!models.transformers) std::erase_if(table, [](const Command& command) { return command.for_transformers; });
  return table;
}

}  // namespace lt::launch
