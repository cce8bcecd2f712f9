// Chat templates: text, ids and trained tokens equal the results of transformers' apply_chat_template in the fixtures
// of chat.py.
#include "libtrain/tokenizer/chat.h"

#include <nlohmann/json.hpp>

#include "io/whole_file.h"
#include "libtrain/error.h"
#include "test_main/catch.h"
#include "test_main/message_of.h"

using namespace lt;
using lt_test::message_of;
using Json = nlohmann::json;

namespace {

std::vector<ChatMessage> messages_of(const Json& json) {
  std::vector<ChatMessage> messages;
  for (const Json& message : json) {
    messages.push_back({message.at("role").get<std::string>(), message.at("content").get<std::string>()});
  }
  return messages;
}

// The tokenizer of fixtures.json with the marks added as the next ids, special as add_special_tokens() makes them.
std::unique_ptr<Tokenizer> with_marks(const Json& fixtures, const std::string& name, const Json& marks) {
  for (const Json& entry : fixtures.at("cases")) {
    if (entry.at("name") != name) continue;
    Json described = entry.at("tokenizer");
    std::size_t next = described.at("model").at("vocab").size();
    for (const Json& token : described.at("added_tokens")) {
      next = std::max(next, token.at("id").get<std::size_t>() + 1);
    }
    for (const Json& mark : marks) {
      described.at("added_tokens").push_back({{"id", next++}, {"content", mark}, {"special", true}});
    }
    return tokenizer_from_json(described.dump(), name);
  }
  return nullptr;
}

std::string trained_text(const Tokenizer& tokenizer, const ChatTokens& tokens) {
  std::string text;
  for (std::size_t i = 0; i < tokens.ids.size(); ++i) {
    if (tokens.trained[i]) text += tokenizer.bytes_of(tokens.ids[i]);
  }
  return text;
}

}  // namespace

TEST_CASE("chat: text, ids and trained tokens are those of transformers", "[tokenizer]") {
  const auto fixtures = Json::parse(io::read_whole_file("test", LT_FIXTURES));
  const auto chats = Json::parse(io::read_whole_file("test", LT_CHAT_FIXTURES));
  CHECK(chats.at("cases").size() == 90);
  std::unique_ptr<Tokenizer> tokenizer;
  std::string name;
  for (const Json& entry : chats.at("cases")) {
    if (const auto wanted = entry.at("tokenizer").get<std::string>(); wanted != name) {
      tokenizer = with_marks(fixtures, name = wanted, chats.at("marks"));
      REQUIRE(tokenizer != nullptr);
    }
    INFO(name << ", " << entry.at("template").get<std::string>() << ", " << entry.at("messages").dump());
    const ChatTemplate chat(entry.at("template").get<std::string>(), *tokenizer);
    const auto messages = messages_of(entry.at("messages"));
    const bool prompt = entry.at("prompt").get<bool>();
    CHECK(chat.render(messages, prompt) == entry.at("text").get<std::string>());
    const ChatTokens tokens = chat.encode(messages, prompt);
    CHECK(tokens.ids == entry.at("ids").get<std::vector<std::uint32_t>>());
    CHECK(std::vector<int>(tokens.trained.begin(), tokens.trained.end()) ==
          entry.at("trained").get<std::vector<int>>());
  }
}

TEST_CASE("chat: bytes with the plain template", "[tokenizer]") {
  const auto tokenizer = make_tokenizer("byte");
  const ChatTemplate chat("plain", *tokenizer);
  const std::vector<ChatMessage> messages{{"user", "Hi"}, {"assistant", " Ho\n"}, {"assistant", ""}, {"user", "?"}};
  CHECK(chat.render(messages) == "user: Hi\nassistant:  Ho\n\nassistant: \nuser: ?\n");
  const ChatTokens tokens = chat.encode(messages, true);
  CHECK(tokenizer->decode(tokens.ids) == chat.render(messages) + "assistant: ");
  CHECK(trained_text(*tokenizer, tokens) == " Ho\n\n\n");
  CHECK(chat.end_of_turn() == "\n");
  CHECK(chat.end_of_turn_token() == 10u);
  CHECK(chat.encode({}).ids.empty());
}

TEST_CASE("chat: a turn that follows a generated answer has the tokens of the whole conversation", "[tokenizer]") {
  const auto fixtures = Json::parse(io::read_whole_file("test", LT_FIXTURES));
  const auto chats = Json::parse(io::read_whole_file("test", LT_CHAT_FIXTURES));
  const std::vector<ChatMessage> messages{{"user", "Hi"}, {"assistant", "4"}, {"user", "ok, 12 more"}};
  for (const Json& entry : fixtures.at("cases")) {
    const auto tokenizer = with_marks(fixtures, entry.at("name").get<std::string>(), chats.at("marks"));
    for (const std::string& name : ChatTemplate::names()) {
      INFO(entry.at("name").get<std::string>() << ", " << name);
      const ChatTemplate chat(name, *tokenizer);
      const auto end = chat.end_of_turn_token();
      const Tokenizer::Ids whole = chat.encode(messages, true).ids;
      const auto is_end_of = [&](const Tokenizer::Ids& part) {
        return part.size() < whole.size() && std::equal(part.begin(), part.end(), whole.end() - std::ssize(part));
      };
      const Tokenizer::Ids cut = chat.encode_next_turn("ok, 12 more", ChatTemplate::AnswerEnd::none);
      const Tokenizer::Ids ended =
          chat.encode_next_turn("ok, 12 more", end ? ChatTemplate::AnswerEnd::token : ChatTemplate::AnswerEnd::text);
      CHECK(is_end_of(cut));
      CHECK(is_end_of(ended));
      CHECK(cut.size() == ended.size() + 1);
      if (end) CHECK(cut.front() == *end);
    }
  }
}

TEST_CASE("chat: what ends a turn", "[tokenizer]") {
  const auto fixtures = Json::parse(io::read_whole_file("test", LT_FIXTURES));
  const auto chats = Json::parse(io::read_whole_file("test", LT_CHAT_FIXTURES));
  const auto tokenizer = with_marks(fixtures, "llama3", chats.at("marks"));
  for (const char* const name : {"llama3", "chatml"}) {
    const ChatTemplate chat(name, *tokenizer);
    CHECK(tokenizer->bytes_of(chat.end_of_turn_token().value()) == chat.end_of_turn());
  }
  CHECK_FALSE(ChatTemplate("plain", *tokenizer).end_of_turn_token());  // a line feed may be the end of a longer token
  CHECK(ChatTemplate::names() == std::vector<std::string>{"llama3", "chatml", "plain"});
}

TEST_CASE("chat: a character without a token trains none; a turn without an end is refused", "[tokenizer]") {
  Json described{{"model", {{"type", "BPE"}, {"vocab", Json::object()}, {"merges", Json::array()}}}};
  std::uint32_t next = 0;
  for (const char c : std::string("asitnuer:Ho")) described["model"]["vocab"].emplace(std::string(1, c), next++);
  described["model"]["vocab"]["\u2581"] = next++;
  for (const char* const mark : {"<|im_start|>", "<|im_end|>"}) {
    described["added_tokens"].push_back({{"id", next++}, {"content", mark}, {"special", true}});
  }
  const auto tokenizer = tokenizer_from_json(described.dump(), "t.json");
  const ChatTemplate chat("chatml", *tokenizer);
  const auto trained = [&](const std::string& answer) {
    const std::vector<ChatMessage> messages{{"user", "o?"}, {"assistant", answer}, {"user", "H\u65e5"}};
    return trained_text(*tokenizer, chat.encode(messages));
  };
  CHECK(trained("\u65e5Ho\u672c") == "Ho<|im_end|>");
  CHECK(trained("\u65e5") == "<|im_end|>");
  CHECK(trained("") == "<|im_end|>");

  const std::string refused =
      "chat: template plain: expected a tokenizer with a token for \"\\n\", which ends a turn, found none";
  CHECK(message_of<UsageError>([&] { ChatTemplate("plain", *tokenizer); }) == refused);
  Json with_unknown = described;
  with_unknown["model"]["vocab"].emplace("<unk>", next++);
  with_unknown["model"]["unk_token"] = "<unk>";
  const auto of_unknown = tokenizer_from_json(with_unknown.dump(), "t.json");
  CHECK(message_of<UsageError>([&] { ChatTemplate("plain", *of_unknown); }) == refused);
  described["pre_tokenizer"] = {{"type", "Metaspace"}, {"prepend_scheme", "always"}};
  const auto with_spaces = tokenizer_from_json(described.dump(), "t.json");
  CHECK(message_of<UsageError>([&] { ChatTemplate("plain", *with_spaces); }) == refused);
  // A normalizer that removes line feeds.
  Json removing = Json::parse(io::read_whole_file("test", LT_FIXTURES)).at("cases").at(0).at("tokenizer");
  removing["normalizer"] = {{"type", "Replace"}, {"pattern", {{"String", "\n"}}}, {"content", ""}};
  const auto without_lines = tokenizer_from_json(removing.dump(), "t.json");
  CHECK(message_of<UsageError>([&] { ChatTemplate("plain", *without_lines); }) == refused);
  const std::vector<std::size_t> last{1};
  const auto located = without_lines->encode_located("a\n", last);
  REQUIRE(located.tokens.size() == 1);
  CHECK((located.tokens[0].begin == 1 && located.tokens[0].end == 1));
}

TEST_CASE("chat: wrong names, roles and tokenizers are refused", "[tokenizer]") {
  const auto bytes = make_tokenizer("byte");
  CHECK(message_of<UsageError>([&] { ChatTemplate("llama", *bytes); }) ==
        "chat: expected one of llama3, chatml, plain, got \"llama\"");
  CHECK(message_of<UsageError>([&] { ChatTemplate("chatml", *bytes); }) ==
        "chat: template chatml: expected a tokenizer with the added token <|im_start|>, found none");
  const std::vector<ChatMessage> messages{{"tool", "4"}};
  CHECK(message_of<UsageError>([&] { ChatTemplate("plain", *bytes).encode(messages); }) ==
        "role: expected one of system, user, assistant, found \"tool\"");
}
