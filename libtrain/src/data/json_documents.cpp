// Reads the objects of JSON lines.
#include "data/json_documents.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "io/json_depth.h"
#include "libtrain/error.h"

namespace lt::data {
namespace {

using Json = nlohmann::json;

std::string text_of(const std::string& path, const JsonLine& line, const Json& object, const std::string& key,
                    const std::string& name, const std::string& hint = "") {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_string()) {
    refuse_line(path, line,
                fmt::format("field \"{}\": expected a string, found {}", name,
                            found == object.end() ? "none" : found->type_name()),
                hint);
  }
  return found->get<std::string>();
}

// Takes the text of a top-level field out of the parser, which an object in between would copy twice.
class TextOfField final : public nlohmann::json_sax<Json> {
 public:
  explicit TextOfField(const std::string& field) : field_(field) {}
  std::string take() { return std::move(text_); }

  bool null() override { return other(); }
  bool boolean(bool) override { return other(); }
  bool number_integer(number_integer_t) override { return other(); }
  bool number_unsigned(number_unsigned_t) override { return other(); }
  bool number_float(number_float_t, const string_t&) override { return other(); }
  bool binary(binary_t&) override { return other(); }
  bool string(string_t& value) override {
    if (is_field()) text_ = std::move(value);
    return depth_ > 0;
  }
  bool key(string_t& name) override {
    if (depth_ == 1) is_next_ = name == field_;
    return true;
  }
  bool start_object(std::size_t) override { return begin(true); }
  bool start_array(std::size_t) override { return begin(depth_ > 0); }
  bool end_object() override { return --depth_, true; }
  bool end_array() override { return --depth_, true; }
  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception&) override { return false; }

 private:
  bool is_field() const { return depth_ == 1 && is_next_; }
  bool other() {
    if (is_field()) text_.clear();  // the last of several fields counts
    return depth_ > 0;
  }
  bool begin(bool is_sound) {
    if (is_field()) text_.clear();
    return ++depth_, is_sound;
  }

  const std::string& field_;
  std::string text_;
  int depth_ = 0;
  bool is_next_ = false;
};

// The field's text in a line that is a plain object; empty where it takes more to read it, or to say what is wrong.
std::string text_at_once(std::string_view line, const std::string& field) {
  if (io::json_depth(line) > kMaxLineDepth) return {};
  TextOfField reader(field);
  const bool is_sound = Json::sax_parse(line.begin(), line.end(), &reader);
  return is_sound ? reader.take() : std::string();
}

// Fields of a message that other programs' templates write into the text, or that replace its content.
constexpr const char* kUnwritten[] = {
    "tool_calls", "tool_call", "function_call", "function_calls", "tools",     "functions", "tool_responses",
    "thinking",   "reasoning", "refusal",       "audio",          "audios",    "image",     "reasoning_content",
    "images",     "image_url", "video",         "videos",         "documents", "parts",     "input_audio"};
// Other ways to say which tokens of a message are targets.
constexpr const char* kOtherMasks[] = {"training", "train_detail", "loss", "loss_scale"};
// Fields of a conversation that other programs' templates write, or that change what is trained.
constexpr const char* kUnusedBeside[] = {
    "tools", "functions", "system", "documents", "image",  "images", "video",
    "audio", "audios",    "videos", "thinking",  "weight", "train",  "chat_template_kwargs"};

// Arrow fills the fields that a message lacks with nulls, down to those of objects.
bool is_empty(const Json& value) {
  if (value.is_string()) return value.get_ref<const std::string&>().empty();
  if (value.is_structured()) return std::all_of(value.begin(), value.end(), is_empty);
  return value.is_null();
}

// Whether a message's field "weight" or "train" leaves its targets in.
bool is_trained(const std::string& path, const JsonLine& line, const std::string& key, const std::string& name,
                const Json& value) {
  const bool is_weight = key == "weight";
  if (is_weight ? value == 0 || value == 1 : value.is_boolean()) return is_weight ? value == 1 : value.get<bool>();
  refuse_line(path, line,
              fmt::format("field \"{}\": expected {}, found {}", name, is_weight ? "0 or 1" : "true or false",
                          value.is_number() ? value.dump() : value.type_name()));
}

}  // namespace

void count_unused(UnusedFields& fields, const std::string& field, Size count) {
  constexpr std::size_t kMostFields = 32, kLongestName = 100;
  const auto is_control = [](unsigned char c) { return c < ' ' || c == 0x7f; };
  const bool is_printable = field.size() <= kLongestName && std::ranges::none_of(field, is_control);
  fields[fields.contains(field) || (is_printable && fields.size() < kMostFields) ? field : "..."] += count;
}

std::string document_of(const std::string& path, const JsonLine& line, const std::string& field) {
  if (std::string text = text_at_once(line.text, field); !text.empty()) return text;
  const Json object = object_of(path, line);
  std::string text = text_of(path, line, object, field, field,
                             object.contains("messages") ? "--chat TEMPLATE reads conversations"
                                                         : "--field NAME says which field holds the text");
  if (text.empty()) refuse_line(path, line, fmt::format("field \"{}\": expected text, found an empty document", field));
  return text;
}

Conversation conversation_of(const std::string& path, const JsonLine& line) {
  const Json json = object_of(path, line);
  const auto list = json.find("messages");
  if (list == json.end() || !list->is_array() || list->empty()) {
    refuse_line(path, line,
                fmt::format("field \"messages\": expected an array of messages, found {}", list == json.end() ? "none"
                                                                                           : list->is_array()
                                                                                               ? "an empty one"
                                                                                               : list->type_name()),
                list == json.end() ? "without --chat each line is a text" : "");
  }
  const std::vector<std::string> roles = ChatTemplate::roles();
  Conversation conversation;
  for (const char* const key : kUnusedBeside) {
    const auto found = json.find(key);
    if (found != json.end() && !is_empty(*found)) count_unused(conversation.unused, key, 1);
  }
  for (const Json& message : *list) {
    const std::string name = fmt::format("messages[{}]", conversation.messages.size());
    if (!message.is_object()) {
      refuse_line(path, line, fmt::format("field \"{}\": expected an object, found {}", name, message.type_name()));
    }
    ChatMessage read{text_of(path, line, message, "role", name + ".role"), ""};
    if (std::ranges::find(roles, read.role) == roles.end()) {
      refuse_line(
          path, line,
          fmt::format("field \"{}.role\": expected one of {}, found \"{}\"", name, fmt::join(roles, ", "), read.role));
    }
    for (const auto& [key, value] : message.items()) {
      if (key == "role" || key == "content" || is_empty(value)) continue;
      const std::string field = fmt::format("{}.{}", name, key);
      const auto refuse = [&, found = value.type_name()](const char* expected, const char* hint) {
        refuse_line(path, line, fmt::format("field \"{}\": expected {}, found {}", field, expected, found), hint);
      };
      if (std::ranges::find(kUnwritten, key) != std::end(kUnwritten))
        refuse("no such field, since no template writes it",
               "write such fields and messages into \"content\" of a user or assistant, or leave the conversation out");
      if (std::ranges::find(kOtherMasks, key) != std::end(kOtherMasks))
        refuse("no such field, since it does not choose the targets here",
               "\"train\": false says that a message has none");
      const bool is_mask = key == "weight" || key == "train";
      if (is_mask && !is_trained(path, line, key, field, value)) {
        read.is_trained = false;
      } else if (!is_mask || read.role != "assistant") {  // nothing makes targets of what others say
        count_unused(conversation.unused, "messages[]." + key, 1);
      }
    }
    read.content = text_of(path, line, message, "content", name + ".content");
    conversation.messages.push_back(std::move(read));
  }
  return conversation;
}

}  // namespace lt::data
