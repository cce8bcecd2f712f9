// Packs the documents of a window.
#include "data/packing.h"

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>
#include <utility>

namespace lt::data {

Packer::Packer(Size block_tokens, Size window_tokens, std::function<void(const Block&, bool)> emit)
    : block_tokens_(block_tokens), window_tokens_(window_tokens), emit_(std::move(emit)) {}

void Packer::add(Size tokens) {
  for (Size done = 0; done < tokens; done += block_tokens_) {
    pieces_.push_back({next_ + done, std::min(block_tokens_, tokens - done), done > 0});
  }
  next_ += tokens;
  if (next_ - window_begin_ >= window_tokens_) pack();
}

void Packer::finish() { pack(); }

void Packer::pack() {
  std::vector<std::size_t> order(pieces_.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, std::greater<>(), [&](std::size_t i) { return pieces_[i].tokens; });
  std::vector<std::vector<std::size_t>> blocks;
  std::multimap<Size, std::size_t> open;  // tokens that are free, block
  for (const std::size_t i : order) {
    const auto best = open.lower_bound(pieces_[i].tokens);
    std::size_t block = blocks.size();
    Size left = block_tokens_;
    if (best == open.end()) {
      blocks.emplace_back();
    } else {
      left = best->first, block = best->second;
      open.erase(best);
    }
    blocks[block].push_back(i);
    left -= pieces_[i].tokens;
    if (left > 0) open.emplace(left, block);
  }
  for (auto& block : blocks) std::ranges::sort(block);
  std::ranges::sort(blocks, {}, [](const auto& block) { return block.front(); });
  for (const auto& indices : blocks) {
    Block block;
    for (const std::size_t i : indices) block.push_back(pieces_[i]);
    emit_(block, block.front().continues && block.front().begin == full_end_);
    full_end_ = block.front().tokens == block_tokens_ ? block.front().begin + block_tokens_ : -1;
  }
  pieces_.clear();
  window_begin_ = next_;
}

}  // namespace lt::data
