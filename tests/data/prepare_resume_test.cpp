// A killed run of prepare continues, and writes the same files as an undisturbed run.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <functional>
#include <new>

#include "data/prepared.h"
#include "device/fault.h"
#include "libtrain/data/prepare.h"
#include "libtrain/error.h"
#include "test_main/catch.h"
#include "test_main/failing_flock.h"
#include "test_main/message_of.h"
#include "test_main/resource_limit.h"

using lt_test::names_in;
using lt_test::TempFolder;

namespace {

struct Case {
  const char* name;
  lt::PrepareOptions options;
};

std::vector<Case> cases(const TempFolder& folder) {
  std::string text, lines, chats;
  for (int i = 0; i < 1500; ++i) {
    const std::string number = std::to_string(i * 7919 % 10007);
    text += "the " + number + " and so on, which makes a longer text in a line" + (i % 5 == 0 ? "\n" : ", other ");
    lines += "{\"text\":\"the " + number + "\"}\n";
    chats += R"({"messages":[{"role":"user","content":"the )" + number +
             R"("},{"role":"assistant","content":"no","id":1}]})"
             "\n";
  }
  const std::string tokenizer = folder.write("t.json", lt_test::byte_level_tokenizer(lt_test::kEndOfText));
  const std::string a = folder.write("a.txt", text), b = folder.write("b.jsonl", lines),
                    c = folder.write("c.jsonl", chats);
  const lt::PrepareOptions base{.tokenizer = tokenizer, .batch_bytes = 16384, .save_seconds = 0};
  lt::PrepareOptions documents = base, packed = base, chat = base;
  documents.inputs = {a, b, a};
  packed.inputs = {b, a}, packed.pack = 64;
  chat.inputs = {c}, chat.chat = "plain";
  return {{"documents", documents}, {"packed", packed}, {"chat", chat}};
}

// The contents of a folder's files.
std::vector<std::string> contents(const std::string& folder) {
  std::vector<std::string> all;
  for (const std::string& name : names_in(folder)) all.push_back(name + "\n" + lt_test::read_text(folder + "/" + name));
  return all;
}

// Runs the test case below in a process of its own. Returns the signal that ended it.
int signal_of_child(const TempFolder& folder, const std::string& name, const std::string& fault) {
  ::setenv("LTRAIN_FAULT", fault.c_str(), 1);
  ::setenv("LT_PREPARE_FOLDER", folder.text().c_str(), 1);
  ::setenv("LT_PREPARE_CASE", name.c_str(), 1);
  const pid_t child = ::fork();
  if (child == 0) {
    ::setenv("TMPDIR", folder.text().c_str(), 1);  // what the killed process leaves goes with the folder
    ::execl("/proc/self/exe", "data_test", "prepare: in a process of its own", static_cast<char*>(nullptr));
    ::_exit(127);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  ::unsetenv("LTRAIN_FAULT");
  return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

}  // namespace

TEST_CASE("prepare: in a process of its own", "[.][data]") {
  if (std::getenv("LT_PREPARE_FOLDER") == nullptr) return;
  const TempFolder files;
  const std::string folder = std::getenv("LT_PREPARE_FOLDER"), name = std::getenv("LT_PREPARE_CASE");
  lt::device::arm_fault(0);
  for (Case& each : cases(files)) {
    if (each.name != name) continue;
    for (std::string& input : each.options.inputs) input = folder + "/" + input.substr(input.rfind('/') + 1);
    each.options.tokenizer = folder + "/t.json";
    each.options.out = folder + "/killed";
    lt::prepare(each.options);
  }
}

TEST_CASE("prepare: a killed run goes on and writes what an undisturbed one does", "[data]") {
  for (const char* const fault : {"prepare:0:1:kill", "prepare:0:3:kill", "prepare-rename:0:0:kill"}) {
    const TempFolder folder;
    for (Case& each : cases(folder)) {
      INFO(each.name << ", " << fault);
      each.options.out = folder / "whole";
      each.options.save_seconds = 60;
      const lt::PrepareResult undisturbed = lt::prepare(each.options);
      CHECK_FALSE(undisturbed.resumed);
      CHECK(undisturbed.unused_fields.size() == (each.options.chat ? 1 : 0));
      REQUIRE(signal_of_child(folder, each.name, fault) == SIGKILL);
      CHECK(std::filesystem::exists(folder / "killed/prepare.tmp"));
      CHECK_FALSE(std::filesystem::exists(folder / "killed/train.bin"));
      each.options.out = folder / "killed";
      const lt::PrepareResult result = lt::prepare(each.options);
      CHECK(result.resumed == (std::string(fault) != "prepare:0:1:kill"));
      CHECK(result.unused_fields == undisturbed.unused_fields);
      CHECK(names_in(folder / "killed") == names_in(folder / "whole"));
      CHECK((contents(folder / "killed") == contents(folder / "whole")));
      std::filesystem::remove_all(folder / "killed");
      std::filesystem::remove_all(folder / "whole");
    }
  }
}

TEST_CASE("prepare: what was done before the disk was full stays, and the next call goes on", "[data]") {
  const TempFolder folder;
  for (Case& each : cases(folder)) {
    each.options.out = folder / "whole", each.options.val_fraction = 0;
    lt::prepare(each.options);
    const auto size = std::filesystem::file_size(folder / "whole/train.bin");
    // While the input is encoded, and when the files are written, which are longer by a header.
    for (const std::uintmax_t most : {size * 3 / 4, size - 100}) {
      INFO(each.name << ", files of at most " << most << " bytes");
      each.options.out = folder / "full/out";
      std::string hint;
      {
        const lt_test::FileSizeLimit small(most);
        try {
          lt::prepare(each.options);
        } catch (const lt::DataError& e) {
          hint = e.hint();
        }
      }
      CHECK(hint == folder / "full/out/prepare.tmp keeps the finished part: the same command continues from it");
      CHECK(names_in(folder / "full/out") == std::vector<std::string>{"prepare.tmp"});
      CHECK(lt::prepare(each.options).resumed);
      CHECK((contents(folder / "full/out") == contents(folder / "whole")));
      std::filesystem::remove_all(folder / "full");
    }
    std::filesystem::remove_all(folder / "whole");
  }
  // Nothing was saved yet.
  Case first = cases(folder)[0];
  first.options.out = folder / "full/out", first.options.save_seconds = 60;
  const lt_test::FileSizeLimit small(1000);
  CHECK_THROWS_AS(lt::prepare(first.options), lt::DataError);
  CHECK_FALSE(std::filesystem::exists(folder / "full"));
}

TEST_CASE("prepare: what was done before the system failed stays, and the next call goes on", "[data]") {
  const TempFolder folder;
  Case first = cases(folder)[0];
  first.options.out = folder / "whole";
  lt::prepare(first.options);
  const std::string kept = folder / "out/prepare.tmp keeps the finished part: the same command continues from it";
  const auto fails = [&](lt::PrepareOptions options, std::vector<std::string> inputs,
                         std::function<void(const lt::PrepareProgress&)> on_progress, lt::ExitCode code) {
    options.out = folder / "out", options.inputs = std::move(inputs), options.on_progress = std::move(on_progress);
    std::string message = "no error was thrown";
    try {
      lt::prepare(options);
    } catch (const lt::Error& e) {
      message = e.what();
      CHECK(e.code() == code);
      CHECK(e.hint() == kept);
    }
    CHECK(names_in(folder / "out") == std::vector<std::string>{"prepare.tmp"});
    return message;
  };
  const auto goes_on = [&] {
    lt::PrepareOptions options = first.options;
    options.out = folder / "out";
    CHECK(lt::prepare(options).resumed);
    CHECK((contents(folder / "out") == contents(folder / "whole")));
    std::filesystem::remove_all(folder / "out");
  };
  // The second input cannot be opened when its turn comes.
  const std::string second = first.options.inputs[1], away = folder / "away";
  const auto move_away = [&](const lt::PrepareProgress&) {
    if (std::filesystem::exists(second)) std::filesystem::rename(second, away);
  };
  CHECK(fails(first.options, first.options.inputs, move_away, lt::ExitCode::data) ==
        second + ": expected a readable file, found: No such file or directory");
  CHECK(fails(first.options, first.options.inputs, {}, lt::ExitCode::data) ==
        second + ": expected a readable file, found: No such file or directory");
  std::filesystem::rename(away, second);
  goes_on();
  int calls = 0;
  const auto run_out = [&](const lt::PrepareProgress&) {
    if (++calls == 4) throw std::bad_alloc();
  };
  CHECK(fails(first.options, first.options.inputs, run_out, lt::ExitCode::internal) == "out of memory");
  goes_on();
  // Linux opens the memory of a process, and refuses to read at address 0.
  CHECK(fails(first.options, {first.options.inputs[0], "/proc/self/mem"}, {}, lt::ExitCode::data) ==
        "/proc/self/mem: offset 0: cannot read: Input/output error");
}

TEST_CASE("prepare: other options and changed inputs begin anew", "[data]") {
  const TempFolder folder;
  Case first = cases(folder)[0];
  first.options.out = folder / "killed";
  const auto resumed_after = [&](auto&& change) {
    REQUIRE(signal_of_child(folder, first.name, "prepare:0:3:kill") == SIGKILL);
    lt::PrepareOptions options = first.options;
    change(options);
    return lt::prepare(options).resumed;
  };
  CHECK(resumed_after([](lt::PrepareOptions&) {}));
  CHECK(
      resumed_after([](lt::PrepareOptions& options) { options.val_fraction = 0; }));  // the same tokens, cut elsewhere
  CHECK_FALSE(resumed_after([](lt::PrepareOptions& options) { options.pack = 32; }));
  CHECK_FALSE(resumed_after([](lt::PrepareOptions& options) { options.inputs.pop_back(); }));
  CHECK_FALSE(resumed_after([](lt::PrepareOptions& options) { options.tokenizer = "byte"; }));
  CHECK_FALSE(resumed_after([&](lt::PrepareOptions&) { folder.write("a.txt", "changed"); }));
}

TEST_CASE("prepare: an error leaves no state behind", "[data]") {
  const TempFolder folder;
  const std::string lines = folder.write("a.jsonl", "{\"text\":\"x\"}\n{\"text\":1}\n");
  CHECK_THROWS_AS(lt::prepare({.inputs = {lines}, .out = folder / "out/deep", .batch_bytes = 1, .save_seconds = 0}),
                  lt::DataError);
  CHECK_FALSE(std::filesystem::exists(folder / "out"));
}

TEST_CASE("prepare: file systems without locks do without, and other failures are told from a lock", "[data]") {
  const TempFolder folder;
  lt::PrepareOptions options{
      .inputs = {folder.write("a.txt", "some text\n")}, .out = folder / "with", .val_fraction = 0};
  lt::prepare(options);
  const auto message_with = [&](int error) {
    lt_test::error_of_flock = error;
    options.out = folder / std::to_string(error);
    const std::string message = lt_test::message_of<lt::Error>([&] { lt::prepare(options); });
    lt_test::error_of_flock = 0;
    return message;
  };
  for (const int error : {ENOLCK, ENOSYS, EOPNOTSUPP, EINVAL, 524}) {
    CHECK(message_with(error) == "no error was thrown");
    CHECK(contents(options.out) == contents(folder / "with"));
  }
  CHECK(message_with(EWOULDBLOCK) == folder / "11/prepare.tmp: another `prepare` is writing there");
  CHECK(message_with(EIO) == folder / "5/prepare.tmp/lock: cannot lock: Input/output error");
}
