// Reads the objects of JSON lines.
#include "data/json_documents.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "libtrain/error.h"

namespace lt {
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

}  // namespace

std::string document_of(const std::string& path, const JsonLine& line, const std::string& field) {
  const Json object = object_of(path, line);
  std::string text = text_of(path, line, object, field, field,
                             object.contains("messages") ? "--chat TEMPLATE reads conversations"
                                                         : "--field NAME says which field holds the text");
  if (text.empty()) refuse_line(path, line, fmt::format("field \"{}\": expected text, found an empty document", field));
  return text;
}

std::vector<ChatMessage> conversation_of(const std::string& path, const JsonLine& line) {
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
  std::vector<ChatMessage> messages;
  for (const Json& message : *list) {
    const std::string name = fmt::format("messages[{}]", messages.size());
    if (!message.is_object()) {
      refuse_line(path, line, fmt::format("field \"{}\": expected an object, found {}", name, message.type_name()));
    }
    messages.push_back({text_of(path, line, message, "role", name + ".role"),
                        text_of(path, line, message, "content", name + ".content")});
    if (std::ranges::find(roles, messages.back().role) == roles.end()) {
      refuse_line(path, line,
                  fmt::format("field \"{}.role\": expected one of {}, found \"{}\"", name, fmt::join(roles, ", "),
                              messages.back().role));
    }
  }
  return messages;
}

}  // namespace lt
