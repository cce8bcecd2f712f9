// Shows a run's memory: the ledger (bytes by owner), the drawing of the arena, and the host's free memory.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "report/findings.h"
#include "report/sections.h"
#include "report/text.h"

namespace lt::report {

void add_memory(Document& document, const RunData& run, int level) {
  if (run.ledger.empty() && run.arena_svg.empty()) return;
  const Summary summary = summarize(run);
  document.add(Heading{level, "Memory"});
  if (!run.ledger.empty()) {
    std::string text = fmt::format(
        "The table shows the plan that was made before the first step: how much each owner holds on the fullest rank "
        "at its peak, {} bytes.",
        whole_text(run.predicted_peak_bytes));
    if (std::isfinite(summary.memory_peak_bytes)) {
      text += fmt::format(" The measured peak is {} bytes.", whole_text(summary.memory_peak_bytes));
    }
    if (const Headroom room = headroom_of(run); std::isfinite(room.limit_bytes)) {
      text += fmt::format(
          " With what the process holds beside tensors, a rank uses {} of {}, its share of the host's memory.",
          bytes_text(room.used_bytes), bytes_text(room.limit_bytes));
    }
    document.add(Paragraph{text});
    if (summary.strategy == "zero3") {
      const bool tied = config_text(run, "model.tie_embeddings") == "true";
      document.add(
          Paragraph{fmt::format("Under zero3, parameters and gradients comprise a rank's own shard and the units that "
                                "are gathered or reduced at "
                                "that moment: at most two{}.",
                                tied ? ", and the embedding that the head shares" : "")});
    }
    auto ledger = run.ledger;  // in the order of the arena's colours
    std::stable_partition(ledger.begin(), ledger.end(), [](const auto& owner) { return owner.first != "constants"; });
    document.add(shares("owner", "size", ledger, bytes_text));
  }
  if (run.arena_svg.empty()) return;
  document.add(Paragraph{
      "The arena is one piece of memory from which a training step takes all its blocks. Each rectangle is a block: it "
      "extends from its allocation to its free, and its height is its size. Blank areas are unused at that moment. "
      "What the table has and the picture has not is outside of the arena: state that lasts between steps (parameters, "
      "gradients, optimizer) and, on a CPU, the batch. Slack is the blank area at the peak."});
  document.add(Figure{"Arena of a training step",
                      "<figure>\n<figcaption>Arena of a training step</figcaption>\n" + run.arena_svg + "</figure>\n"});
}

}  // namespace lt::report
