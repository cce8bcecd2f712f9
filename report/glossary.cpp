// Explains the terms of a report to a reader who has never seen the project.
#include <algorithm>
#include <cctype>
#include <string>
#include <utility>

#include "io/lower_case.h"
#include "report/sections.h"

namespace lt::report {
namespace {

// The first column holds terms that are explained together, with a comma between them.
constexpr std::pair<const char*, const char*> kWords[] = {
    {"step", "one update of the model from one global batch: ranks x accum x micro_batch sequences"},
    {"rank", "one process of the run; all work on the same step, each on its share of the batch"},
    {"accum", "micro-batches that a rank computes one after another before the update"},
    {"ddp", "every rank holds all parameters, gradients and optimizer state"},
    {"zero1, zero2, zero3",
     "each rank holds a shard of the optimizer state; with zero2 also of the gradients; with zero3 (FSDP) "
     "also of the parameters"},
    {"gather", "ranks fetch from each other the parameters that they do not hold"},
    {"reduce", "ranks add up their gradients"},
    {"recompute",
     "repeat forward computation in the backward pass instead of keeping its results: full repeats whole blocks, "
     "selective only what is cheap, recompute_every n every n-th block; takes less memory and gives the same "
     "numbers"},
    {"exposed",
     "time in which a rank computes nothing because a transfer is not done, whether it is slow or another "
     "rank started it late"},
    {"MFU", "share of the device's dense peak that the model's own operations reach"},
    {"efficiency", "tokens per second and rank, relative to the base run named above the table"},
    {"norm", "L2 norm of the mean gradient over all parameters, before clipping"},
    {"lr", "learning rate"},
    {"arena", "the one piece of memory from which a step takes all its blocks, at offsets known in advance"},
    {"workspace", "temporary memory of one operation, freed when it ends"},
    {"unit", "parameters that are gathered and reduced together: the embedding, a block, the head"},
    {"shard_size", "number of ranks over which parameters are sharded; 0: all"},
    {"communication, slack",
     "owners of memory at the moment of the highest use: communication holds what is being transferred, slack is "
     "unused space of the arena"},
    {"nats", "unit of the loss: the natural logarithm of 1 / probability, mean over tokens"},
};

// Whether the text, in lower case, has one of the terms as a word, in singular or plural.
bool uses(const std::string& text, const std::string& terms) {
  const auto ends_word = [&](std::size_t at) {
    return at >= text.size() || (std::isalnum(static_cast<unsigned char>(text[at])) == 0 && text[at] != '_');
  };
  for (std::size_t begin = 0; begin < terms.size();) {
    const std::size_t end = std::min(terms.find(", ", begin), terms.size());
    const std::string term = io::lower_case(terms.substr(begin, end - begin));
    for (std::size_t at = 0; (at = text.find(term, at)) != std::string::npos; at += term.size()) {
      const std::size_t after = at + term.size();
      if ((at == 0 || ends_word(at - 1)) && (ends_word(after) || (text[after] == 's' && ends_word(after + 1))))
        return true;
    }
    begin = end + 2;
  }
  return false;
}

}  // namespace

void add_glossary(Document& document) {
  const std::string text = io::lower_case(to_markdown(document, ""));
  Table words{.header = {}, .rows = {}, .text = true};
  for (const auto& [term, meaning] : kWords) {
    if (uses(text, term)) words.rows.push_back({term, meaning});
  }
  document.add(Heading{2, "Words"});
  document.add(words);
}

}  // namespace lt::report
