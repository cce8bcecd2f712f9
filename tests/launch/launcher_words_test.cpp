// mpirun's messages about the end of a job become one line, and those about signals none, independent of the pieces in
// which the text arrives.
#include "launch/supervisor/launcher_words.h"

#include <string>
#include <vector>

#include "test_main/catch.h"

using lt::launch::LauncherWords;

namespace {

const std::string kRule = std::string(74, '-') + "\n";

std::string frame(const std::string& text) { return kRule + text + kRule; }

// The output for a text that comes in pieces of so many bytes.
std::string passed(const std::string& text, std::size_t piece) {
  LauncherWords words;
  std::string out;
  for (std::size_t at = 0; at < text.size(); at += piece) out += words.pass(text.substr(at, piece));
  return out + words.finish();
}

void check(const std::string& text, const std::string& expected) {
  for (const std::size_t piece : {std::size_t{1}, std::size_t{7}, std::size_t{100}, std::size_t{100'000}}) {
    CAPTURE(piece);
    CHECK(passed(text, piece) == expected);
  }
}

const std::string kPrimary = frame(
    "Primary job  terminated normally, but 1 process returned\n"
    "a non-zero exit code. Per user-direction, the job has been aborted.\n");
const std::string kNoticed = "mpirun noticed that process rank 1 with PID 0 on node vm exited on signal 9 (Killed).\n";

}  // namespace

TEST_CASE("launcher words: messages about the end of a job are one line", "[launch]") {
  const std::string abort = frame(
      "MPI_ABORT was invoked on rank 0 in communicator MPI_COMM_WORLD\nwith errorcode 75.\n\n"
      "NOTE: invoking MPI_ABORT causes Open MPI to kill all MPI processes.\n");
  check("step 1\n" + kPrimary + abort + "error: [watchdog] rank 1\n" + frame(kNoticed) + "end\n",
        "step 1\nerror: [watchdog] rank 1\n" + kNoticed + "end\n");
  check(kPrimary + frame("mpirun detected that one or more processes exited with non-zero status, thus causing\n"
                         "the job to be terminated. The first process to do so was:\n\n"
                         "  Process name: [[5117,1],12]\n  Exit code:    3\n"),
        "mpirun: rank 12 ended first, with exit code 3\n");
}

TEST_CASE("launcher words: lines about signals that mpirun forwards are dropped", "[launch]") {
  check("step 1\nmpirun: Forwarding signal 10 to job\nmpirun: Forwarding signal 12 to job\nend\n", "step 1\nend\n");
  for (const std::string& text :
       {std::string("mpirun: Forwarding signal 10 to job"), std::string("mpirun: Forwarding signal 10 to job 2\n"),
        std::string("mpirun: error\n"), "[rank 0] " + std::string("mpirun: Forwarding signal 10 to job\n"),
        "mpirun: Forwarding signal " + std::string(100, '1') + " to jobs\n"}) {
    check(text, text);
  }
}

TEST_CASE("launcher words: all other text passes unchanged", "[launch]") {
  const std::string unreachable =
      frame("ORTE was unable to reliably start one or more daemons.\nThis usually is caused by:\n");
  for (const std::string& text :
       {std::string("- a list\n---\n"), unreachable, unreachable + unreachable + "error\n", kRule,
        kRule + "Primary job", std::string("no line feed"), std::string(100, '-'), frame(""),
        kRule + kNoticed + std::string(9000, 'x') + "\n", frame("mpirun detected that something else happened\n"),
        std::string(9000, '-') + "x\n"}) {
    check(text, text);
  }
}

TEST_CASE("launcher words: a line is written as it grows", "[launch]") {
  LauncherWords words;
  CHECK(words.pass("10 %") == "10 %");
  CHECK(words.pass(" 20 %") == " 20 %");
  CHECK(words.pass("\n" + kRule.substr(0, 9)) == "\n");
  CHECK(words.pass(" no rule") == kRule.substr(0, 9) + " no rule");
}
