// Buffers a text until all earlier texts have ended.
#include "launch/sample_output.h"

#include <cstdio>
#include <utility>

namespace lt::launch {

void write_out(const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

SampleOutput::SampleOutput(const Tokenizer& tokenizer, const std::vector<std::string>& prompts,
                           const std::vector<std::string>& stops) {
  for (const std::string& prompt : prompts) texts_.push_back({TextStream(tokenizer), run::StopText(stops), prompt});
  write_ready();
}

bool SampleOutput::push(Size index, std::uint32_t token) {
  Text& text = texts_[static_cast<std::size_t>(index)];
  text.unwritten += text.stop.push(text.stream.push(token));
  if (text.stop.has_stopped()) end_text(text);
  write_ready();
  return !text.has_ended;
}

void SampleOutput::end(Size index) {
  end_text(texts_[static_cast<std::size_t>(index)]);
  write_ready();
}

void SampleOutput::finish() {
  for (Text& text : texts_) {
    if (!text.has_ended) end_text(text);
  }
  write_ready();
}

void SampleOutput::end_text(Text& text) {
  text.unwritten += text.stop.finish(text.stream) + '\n';
  text.has_ended = true;
}

void SampleOutput::write_ready() {
  for (; current_ < texts_.size(); ++current_) {
    Text& text = texts_[current_];
    write_out(std::exchange(text.unwritten, {}));
    if (!text.has_ended) return;
    if (current_ + 1 < texts_.size()) write_out(kTextSeparator);
  }
}

}  // namespace lt::launch
