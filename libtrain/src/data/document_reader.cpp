// Cuts inputs into documents and encodes them on all threads.
#include "data/document_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "kernels/for_each_on_threads.h"
#include "libtrain/error.h"

namespace lt::data {

DocumentReader::DocumentReader(const PrepareOptions& options, const std::vector<std::string>& paths,
                               const Tokenizer& tokenizer, const ChatTemplate* chat, const InputPosition& position)
    : options_(options), paths_(paths), tokenizer_(tokenizer), chat_(chat), position_(position) {}

bool DocumentReader::next(EncodedPiece& piece) {
  piece = {};
  open_current();
  if (stream_ == nullptr) return false;
  for (std::size_t wanted = static_cast<std::size_t>(options_.batch_bytes);; wanted = 2 * buffer_.size()) {
    fill(wanted);
    const std::size_t done = kind_ == Kind::text        ? encode_text(piece)
                             : kind_ == Kind::separated ? encode_separated(piece)
                                                        : encode_lines(piece);
    position_.offset += static_cast<Size>(done);
    if (done > 0 || at_end_) break;
  }
  if (at_end_ && buffer_.empty()) {
    position_ = {.input = position_.input + 1};
    stream_.reset();
  }
  return true;
}

void DocumentReader::open_current() {
  if (stream_ != nullptr || position_.input >= static_cast<Size>(paths_.size())) return;
  const std::string& path = paths_[static_cast<std::size_t>(position_.input)];
  const bool has_lines =
      chat_ != nullptr || is_json_lines(path) || (path == "-" && options_.field && !options_.text_separator);
  kind_ = has_lines ? Kind::json_lines : options_.text_separator ? Kind::separated : Kind::text;
  const bool needs_end = kind_ != Kind::text && chat_ == nullptr && tokenizer_.bytes_per_token() == 0;
  if (needs_end && !tokenizer_.end_of_text()) {
    throw UsageError("data", "tokenizer: expected a token that ends documents, found none in " + options_.tokenizer,
                     "docs/how-to/data.md lists the names of such tokens; text files need none");
  }
  const bool takes_any_bytes = kind_ != Kind::json_lines && tokenizer_.bytes_per_token() == 1;
  stream_ = open_input(path, takes_any_bytes ? InputContent::bytes : InputContent::text);
  if (const Size skipped = stream_->skip(position_.offset); skipped < position_.offset) {
    throw DataError("data", fmt::format("{}: expected {} bytes of content, which were read before, found {}", path,
                                        position_.offset, skipped));
  }
  buffer_.clear();
  at_end_ = false;
}

void DocumentReader::fill(std::size_t bytes) {
  std::size_t size = buffer_.size();
  if (at_end_ || size >= bytes) return;
  buffer_.reserve(bytes);
  while (size < bytes && !at_end_) {
    constexpr std::size_t kMostAtOnce = std::size_t{1} << 20;  // pages beyond the text stay untouched
    buffer_.resize(size + std::min(kMostAtOnce, bytes - size));
    const std::size_t got = stream_->read(buffer_.data() + size, buffer_.size() - size);
    at_end_ = got == 0;
    size += got;
    buffer_.resize(size);
  }
}

std::size_t DocumentReader::encode_text(EncodedPiece& piece) {
  const std::size_t done = tokenizer_.encode_front(buffer_, position_.offset > 0, at_end_, piece.ids);
  piece.bytes += static_cast<Size>(done);
  position_.tokens += static_cast<Size>(piece.ids.size());
  // Unpacked, nothing stands between text files.
  if (options_.pack > 0 && at_end_ && position_.tokens > 0) end_document(position_.tokens, piece);
  return drop(done);
}

std::size_t DocumentReader::encode_separated(EncodedPiece& piece) {
  const std::string& separator = *options_.text_separator;
  std::vector<std::string_view> texts;
  std::string_view rest = buffer_;
  const auto add = [&](std::string_view text) {
    if (!text.empty()) texts.push_back(text);
  };
  for (std::size_t end = rest.find(separator); end != std::string_view::npos; end = rest.find(separator)) {
    add(rest.substr(0, end));
    rest.remove_prefix(end + separator.size());
  }
  if (at_end_) {
    add(rest);
    rest = {};
  }
  append_documents(texts, piece);
  return drop(buffer_.size() - rest.size());
}

std::size_t DocumentReader::encode_lines(EncodedPiece& piece) {
  const std::string& path = paths_[static_cast<std::size_t>(position_.input)];
  std::vector<JsonLine> lines;
  std::string_view rest = buffer_;
  while (!rest.empty()) {
    const std::size_t end = rest.find('\n');
    if (end == std::string_view::npos && !at_end_) break;
    const std::string_view line = rest.substr(0, end);
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
    ++position_.line;
    if (line.find_first_not_of(" \t\r") != std::string_view::npos) lines.push_back({line, position_.line});
  }
  // A line's memory is given back before its tokens take some.
  const std::size_t done = buffer_.size() - rest.size();
  const auto read_each = [&](auto& read, auto&& of_line) {
    kernels::for_each_on_threads(lines.size(), [&](std::size_t i) { read[i] = of_line(lines[i]); });
    drop(done);
  };
  if (chat_ != nullptr) {
    std::vector<Conversation> conversations(lines.size());
    read_each(conversations, [&](const JsonLine& line) { return conversation_of(path, line); });
    append_conversations(conversations, piece);
  } else {
    std::vector<std::string> documents(lines.size());
    const std::string field = options_.field.value_or("text");
    read_each(documents, [&](const JsonLine& line) { return document_of(path, line, field); });
    append_documents({documents.begin(), documents.end()}, piece);
  }
  return done;
}

std::size_t DocumentReader::drop(std::size_t bytes) {
  if (bytes > 0) buffer_ = buffer_.substr(bytes);
  return bytes;
}

// The byte tokenizer has no token that ends documents: they follow each other with nothing between them.
void DocumentReader::append_documents(const std::vector<std::string_view>& texts, EncodedPiece& piece) const {
  const auto is_long = [&](std::string_view text) { return static_cast<Size>(text.size()) > options_.batch_bytes; };
  std::vector<std::string_view> short_ones = texts;
  std::ranges::replace_if(short_ones, is_long, std::string_view());
  const std::vector<Tokenizer::Ids> all = tokenizer_.encode_each(short_ones);
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const std::size_t before = piece.ids.size();
    if (is_long(texts[i])) {
      append_long(texts[i], piece.ids);
    } else {
      piece.ids.insert(piece.ids.end(), all[i].begin(), all[i].end());
    }
    end_document(static_cast<Size>(piece.ids.size() - before), piece);
    piece.bytes += static_cast<Size>(texts[i].size());
  }
}

// A part at a time, so that the ids, which the system gives memory as they come, are all that a long text takes.
void DocumentReader::append_long(std::string_view text, Tokenizer::Ids& ids) const {
  ids.reserve(ids.size() + text.size() + 1);
  const auto batch = std::min<std::size_t>(static_cast<std::size_t>(options_.batch_bytes), std::size_t{1} << 20);
  for (std::size_t done = 0, wanted = batch; done < text.size();) {
    const std::string_view part = text.substr(done, wanted);
    const std::size_t got = tokenizer_.encode_front(part, done > 0, done + part.size() == text.size(), ids);
    wanted = got == 0 ? 2 * wanted : batch;
    done += got;
  }
}

void DocumentReader::end_document(Size tokens, EncodedPiece& piece) const {
  // A template whose turns end with this token has ended the conversation with it.
  const auto end = tokenizer_.end_of_text();
  if (end && !(chat_ != nullptr && end == chat_->end_of_turn_token())) {
    piece.ids.push_back(*end);
    if (chat_ != nullptr) piece.targets.push_back(0);
    ++tokens;
  }
  if (options_.pack > 0) piece.documents.push_back(tokens);
}

void DocumentReader::append_conversations(const std::vector<Conversation>& conversations, EncodedPiece& piece) const {
  std::vector<ChatTokens> all(conversations.size());
  kernels::for_each_on_threads(all.size(), [&](std::size_t i) { all[i] = chat_->encode(conversations[i].messages); });
  for (std::size_t i = 0; i < all.size(); ++i) {
    const auto tokens = static_cast<Size>(all[i].ids.size());
    piece.untrained += std::ranges::find(all[i].trained, 1) == all[i].trained.end() ? 1 : 0;
    for (const auto& [field, count] : conversations[i].unused) count_unused(piece.unused, field, count);
    if (piece.ids.empty()) {
      piece.ids = std::move(all[i].ids);  // those of one long line are most of the memory
    } else {
      piece.ids.insert(piece.ids.end(), all[i].ids.begin(), all[i].ids.end());
    }
    piece.targets.insert(piece.targets.end(), all[i].trained.begin(), all[i].trained.end());
    end_document(tokens, piece);
    for (const ChatMessage& message : conversations[i].messages)
      piece.bytes += static_cast<Size>(message.content.size());
  }
  piece.conversations = static_cast<Size>(all.size());
}

}  // namespace lt::data
