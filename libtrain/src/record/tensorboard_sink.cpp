// Writes TensorBoard event files: TFRecords (length, its checksum, bytes, their checksum) of protocol buffers
// `tensorflow.Event`. Encodes the buffers without a library, with only wall_time, step, file_version, session_log and
// scalar summaries.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "io/crc32c.h"
#include "io/file.h"
#include "io/readable.h"
#include "libtrain/error.h"
#include "record/sink.h"

namespace lt::recorder {
namespace {

static_assert(std::endian::native == std::endian::little);

template <class T>
std::string raw(T value) {
  std::string bytes(sizeof value, '\0');
  std::memcpy(bytes.data(), &value, sizeof value);
  return bytes;
}

// Encodes fields of a protocol buffer.
std::string varint(std::uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes += static_cast<char>(value | 0x80);
  return bytes + static_cast<char>(value);
}
std::string integer_field(int number, Size value) {
  return varint(static_cast<std::uint64_t>(number) << 3) + varint(static_cast<std::uint64_t>(value));
}
std::string double_field(int number, double value) {
  return varint(static_cast<std::uint64_t>(number) << 3 | 1) + raw(value);
}
std::string float_field(int number, float value) {
  return varint(static_cast<std::uint64_t>(number) << 3 | 5) + raw(value);
}
std::string bytes_field(int number, const std::string& value) {
  return varint(static_cast<std::uint64_t>(number) << 3 | 2) + varint(value.size()) + value;
}

// TFRecord stores checksums rotated and shifted, so that nested records cannot be mistaken for outer ones.
std::uint32_t masked_crc(const std::string& bytes) {
  return std::rotr(io::crc32c(0, bytes.data(), bytes.size()), 15) + 0xa282ead8u;
}

double now_s() { return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count(); }

constexpr std::string_view kPrefix = "events.out.tfevents.";

// The largest time in the names of the folder's files; 0 if there are none.
double newest_stamp(const std::string& folder) {
  double newest = 0;
  for (const std::filesystem::path& path : io::readable_entries(folder)) {
    const std::string name = path.filename();
    if (name.starts_with(kPrefix)) newest = std::max(newest, std::strtod(name.c_str() + kPrefix.size(), nullptr));
  }
  return newest;
}

// Summary { repeated Value { tag = 1, simple_value = 2 } value = 1 }.
std::string scalar(const std::string& tag, double value) {
  return bytes_field(1, bytes_field(1, tag) + float_field(2, static_cast<float>(value)));
}

class TensorBoardSink final : public Sink {
 public:
  TensorBoardSink(const std::string& folder, Size first_step) {
    std::error_code failed;
    std::filesystem::create_directories(folder, failed);
    if (failed) throw DataError("record", folder + ": cannot create: " + failed.message());
    // Microseconds in the name: readers take files in order of their names, and two starts may be within one second. If
    // the clock was set back, or this host's is slow, the name still comes after those of earlier starts.
    const double stamp = std::max(now_s(), newest_stamp(folder) + 1e-3);
    const std::string path = fmt::format("{}/{}{:.6f}.{}", folder, kPrefix, stamp, ::getpid());
    file_.emplace("record", path);
    // session_log { status: START }, even at step 1: the folder may hold a run that never reached a checkpoint.
    unwritten_ = record(0, bytes_field(3, "brain.Event:2")) + record(first_step, bytes_field(7, integer_field(1, 1)));
  }

  void step(const StepRecord& r) override {
    std::string summary = scalar("train/loss", r.loss) + scalar("train/grad_norm", r.grad_norm) +
                          scalar("train/lr", r.lr) + scalar("speed/step_ms", r.step_ms) +
                          scalar("speed/tokens_per_s", r.tokens_per_s) +
                          scalar("memory/peak_bytes", static_cast<double>(r.memory_peak_bytes));
    for (std::size_t i = 0; i < kActivities; ++i) {
      summary += scalar(fmt::format("breakdown_ms/{}", kActivityNames[i]), r.breakdown_ms[i]);
    }
    summary +=
        scalar("ranks/own_ms_max", r.own_ms_over_ranks.max) + scalar("ranks/own_ms_min", r.own_ms_over_ranks.min);
    event(r.step, bytes_field(5, summary));
  }
  void evaluation(Size step, double loss) override { event(step, bytes_field(5, scalar("eval/loss", loss))); }
  void sync() override { file_->sync(); }

 private:
  static std::string record(Size step, const std::string& what) {
    const std::string bytes = double_field(1, now_s()) + integer_field(2, step) + what;
    const std::string length = raw(static_cast<std::uint64_t>(bytes.size()));
    return length + raw(masked_crc(length)) + bytes + raw(masked_crc(bytes));
  }
  void event(Size step, const std::string& what) {
    file_->append(unwritten_ + record(step, what));
    unwritten_.clear();
  }

  std::optional<io::AppendFile> file_;
  std::string unwritten_;  // what the file begins with: written with the first record that the disk has room for
};

}  // namespace

std::unique_ptr<Sink> make_tensorboard_sink(const std::string& folder, Size first_step) {
  return std::make_unique<TensorBoardSink>(folder, first_step);
}

}  // namespace lt::recorder
