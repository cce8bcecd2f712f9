// The table of subcommands, in the order of `ltrain --help`.
#include "launch/command.h"

namespace lt::launch {

std::vector<Command> commands(const ModelTable& models) {
  const bool all = models.transformers;  // these have more to offer
  std::vector<Command> table = {
      {"prepare", "text or JSON lines to token files", false, false, false, set_up_prepare},
      {"train", "trains; alone, under mpirun or srun", true, false, true, set_up_train},
      {"launch", "starts ranks of train, and starts them again when they fail", false, false, false, set_up_launch},
      {"plan", "memory, FLOPs and communication of a run, without running it", true, false, false, set_up_plan},
      {"sample", "continues a prompt with a trained model", false, true, true, set_up_sample},
      {"eval", "the loss of a trained model on token files", false, true, true, set_up_eval},
      {"checkpoint",
       all ? "lists, inspects, verifies, exports and imports checkpoints" : "lists, inspects and verifies checkpoints",
       false, false, false, set_up_checkpoint},
      {"report", "one offline HTML file from the folders of runs", false, false, false, set_up_report},
      {"bench",
       all ? "measures kernels, collectives, steps and scaling; compares results"
           : "measures collectives, steps and scaling; compares results",
       true, false, true, set_up_bench, "compare"},
  };
  if (!models.transformers) std::erase_if(table, [](const Command& command) { return command.for_transformers; });
  return table;
}

}  // namespace lt::launch
