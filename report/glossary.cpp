// Explains the terms of a report to a reader who has never seen the project.
#include "report/sections.h"

namespace lt::report {

void add_glossary(Document& document) {
  document.add(Heading{2, "Words"});
  document.add(Table{
      .header = {},
      .rows =
          {
              {"step", "one update of the model from one global batch: ranks x accum x micro_batch sequences"},
              {"rank", "one process of the run; all work on the same step, each on its part of the batch"},
              {"accum", "micro-batches that a rank computes one after another before the update"},
              {"ddp", "every rank holds parameters, gradients and optimizer state whole"},
              {"zero1, zero2, zero3",
               "ranks share out the optimizer state; with zero2 also the gradients; with zero3 (FSDP) also the "
               "parameters"},
              {"gather", "ranks fetch from each other the parameters that they do not hold"},
              {"reduce", "ranks sum their gradients up"},
              {"recompute",
               "repeat forward passes in the backward pass instead of keeping their results: full repeats all of a "
               "block, selective what is cheap, recompute_every n does it for every n-th block; less memory, the same "
               "numbers"},
              {"exposed",
               "time in which a rank computes nothing because a transfer is not done, be it slow or begun late by "
               "another rank"},
              {"MFU", "share of the device's dense peak that the model's own operations reach"},
              {"efficiency", "tokens a second and rank, against the run that a table names as its base"},
              {"norm", "L2 norm of the mean gradient over all parameters, before clipping"},
              {"lr", "learning rate"},
              {"arena", "the one piece of memory from which a step takes all its blocks, at offsets known before"},
              {"workspace", "memory of an operation's own, freed when it ends"},
              {"unit", "parameters that are gathered and reduced together: the embedding, a block, the head"},
              {"shard_size", "ranks that share parameters out among each other; 0: all of them"},
              {"ledger",
               "bytes by owner at the moment of the highest use: communication is what transfers are staged in, slack "
               "is unused space of the arena"},
              {"nats", "unit of the loss: the natural logarithm of 1 / probability, mean over tokens"},
          },
      .text = true});
}

}  // namespace lt::report
