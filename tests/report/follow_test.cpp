// report --follow: the files that it writes while runs are in progress, its messages at the end, and errors that end
// it.
#include "libtrain/error.h"
#include "report/report.h"
#include "report/run_files.h"
#include "test_main/catch.h"

namespace {

using fixture::contains, fixture::TempFolder, fixture::read_text, fixture::start_line, fixture::step_line,
    fixture::write_text;
namespace fs = std::filesystem;

// A run of two steps that goes on, and its page.
struct Followed {
  Followed() { write_text(metrics, start_line(2) + step_line(1, 3, 500) + step_line(2, 3, 500)); }

  // Follows the run; `between` is called after each look with its number, from 1, until it returns false.
  template <class Between>
  void follow(Between between) {
    int looks = 0;
    lt::report::follow_report({folder.path().string()}, page.string(), [&](double) { return between(++looks); });
  }

  const TempFolder folder;
  const fs::path metrics = folder.path() / "metrics.jsonl", page = folder.path() / "page.html",
                 data = folder.path() / "page.live.js";
};

}  // namespace

TEST_CASE("report --follow: an open page learns when the runs were read, and that reading has ended", "[report]") {
  Followed run;
  std::string while_going_on;
  run.follow([&](int) {
    while_going_on = read_text(run.data);
    return false;
  });
  CHECK(while_going_on.ends_with(", 1);\n"));  // the next look is a second later
  CHECK(read_text(run.data).ends_with(", null);\n"));
  CHECK(contains(read_text(run.page), "the run is still running, was killed, or failed"));
  CHECK_FALSE(contains(read_text(run.page), "live"));
}

TEST_CASE("report --follow: the page names the script beside it by a URL, whatever its bytes", "[report]") {
  Followed run;
  const fs::path page = run.folder.path() / "o\xFF %.html";
  std::string shown;
  lt::report::follow_report({run.folder.path().string()}, page.string(), [&](double) {
    shown = read_text(page);
    return false;
  });
  CHECK(contains(shown, "const live = \"o%FF%20%25.live.js\";"));
}

TEST_CASE("report --follow: a file that cannot be written is an error at any time", "[report]") {
  Followed run;
  CHECK_THROWS_AS(run.follow([&](int look) {
    fs::remove(run.data);
    fs::create_directories(run.data / "in the way");
    write_text(run.metrics, start_line(2) + step_line(1, 3, 500) + step_line(2, 3, 500) + step_line(3, 3, 500));
    return look < 3;
  }),
                  lt::DataError);
}

TEST_CASE("report --follow: a record that stays damaged is an error, one that is missing for a moment is not",
          "[report]") {
  Followed run;
  const std::string good = read_text(run.metrics);
  int looks = 0;
  run.follow([&](int look) {
    write_text(run.metrics, look == 2 ? good + step_line(3, 3, 500) : "damaged\n\n");
    return (looks = look) < 4;
  });
  CHECK(looks == 4);
  CHECK(contains(read_text(run.page), " · 3 steps · "));  // what could be read last

  write_text(run.metrics, good);
  // What counts is the time after the first look that failed, however long the pause before it was.
  looks = 0;
  run.follow([&](int look) {
    write_text(run.metrics, "damaged\n\n");
    return (looks = look) < 25;
  });
  CHECK(looks == 25);

  write_text(run.metrics, good);
  CHECK_THROWS_AS(run.follow([&](int look) {
    write_text(run.metrics, "damaged\n\n");
    return look < 100;
  }),
                  lt::DataError);
  CHECK(contains(read_text(run.page), " · 2 steps · "));
}
