// File format: one line per algorithm, "8 <problem> <its 64 bytes as hex digits> <1 if it has a workspace, else 0>".
// Each line is one write, so the ranks of a host may append concurrently. Incomplete lines are skipped.
#include "kernels/cuda/algorithm_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cctype>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "device/cuda.h"
#include "io/lacks_locks.h"
#include "libtrain/error.h"

namespace lt::kernels {
namespace {

constexpr const char* kFormat = "8";
constexpr std::chrono::seconds kMostWaiting{10};
constexpr char kDigits[] = "0123456789abcdef";

std::string cache_folder() {
  const char* const cache = std::getenv("XDG_CACHE_HOME");
  if (cache != nullptr && *cache != '\0') return std::string(cache) + "/libtrain";
  const char* const home = std::getenv("HOME");
  return home == nullptr || *home == '\0' ? std::string() : std::string(home) + "/.cache/libtrain";
}

std::string file_name(int device) {
  std::string name = "cublaslt-" + std::to_string(cublasLtGetVersion()) + "-" + device::cuda::name(device);
  for (char& c : name) c = std::isalnum(static_cast<unsigned char>(c)) ? c : '-';
  return name + ".txt";
}

void make_folder(const std::string& path) {
  std::error_code failed;
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), failed);
}

// A full disk may cut a line off, this process's or another's.
bool ends_within_line(int file) {
  const off_t size = ::lseek(file, 0, SEEK_END);
  char last = '\n';
  return size > 0 && ::pread(file, &last, 1, size - 1) == 1 && last != '\n';
}

std::string to_hex(const cublasLtMatmulAlgo_t& algorithm) {
  std::string text;
  for (std::size_t i = 0; i < sizeof algorithm; ++i) {
    const auto byte = reinterpret_cast<const unsigned char*>(&algorithm)[i];
    text += kDigits[byte / 16], text += kDigits[byte % 16];
  }
  return text;
}

std::optional<cublasLtMatmulAlgo_t> from_hex(const std::string& text) {
  cublasLtMatmulAlgo_t algorithm{};
  if (text.size() != 2 * sizeof algorithm) return std::nullopt;
  for (std::size_t i = 0; i < sizeof algorithm; ++i) {
    const char *const high = std::strchr(kDigits, text[2 * i]), *const low = std::strchr(kDigits, text[2 * i + 1]);
    if (high == nullptr || low == nullptr) return std::nullopt;
    reinterpret_cast<unsigned char*>(&algorithm)[i] =
        static_cast<unsigned char>((high - kDigits) * 16 + (low - kDigits));
  }
  return algorithm;
}

}  // namespace

AlgorithmFile::AlgorithmFile(int device) : device_(device) {
  const std::string folder = cache_folder();
  if (folder.empty()) return;
  path_ = folder + "/" + file_name(device);
  read();
}

void AlgorithmFile::read() {
  std::ifstream file(path_);
  file.seekg(read_to_);
  for (std::string line; std::getline(file, line) && !file.eof();) {
    read_to_ = file.tellg();
    std::istringstream words(line);
    std::string format, problem, bytes;
    bool has_workspace = false;
    if (!(words >> format >> problem >> bytes >> has_workspace) || format != kFormat) continue;
    if (const auto algorithm = from_hex(bytes)) {
      algorithms_.insert_or_assign(problem, Algorithm{*algorithm, has_workspace});
    }
  }
}

void AlgorithmFile::begin_turn() {
  if (turns_ == 0 && !path_.empty()) take_lock();
  ++turns_;
}

void AlgorithmFile::take_lock() {
  device::cuda::synchronize_streams(device_);
  make_folder(path_);
  lock_ = io::Descriptor(::open((path_ + ".lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
  if (!lock_.is_open()) return;
  const auto deadline = std::chrono::steady_clock::now() + kMostWaiting;
  while (::flock(lock_.get(), LOCK_EX | LOCK_NB) != 0 && !io::lacks_locks(errno) &&
         std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  read();
}

void AlgorithmFile::end_turn() {
  if (--turns_ == 0) lock_.close();
}

std::optional<Algorithm> AlgorithmFile::find(const std::string& problem) const {
  const auto found = algorithms_.find(problem);
  return found == algorithms_.end() ? std::nullopt : std::optional(found->second);
}

io::Descriptor AlgorithmFile::open_to_append() const {
  make_folder(path_);
  return io::Descriptor(::open(path_.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
}

void AlgorithmFile::require_writable() const {
  if (path_.empty()) {
    throw DataError("kernels",
                    "no file for the algorithms of matmuls: expected XDG_CACHE_HOME or HOME in the environment");
  }
  if (!open_to_append().is_open()) {
    throw DataError("kernels", path_ + ": expected a writable file, found: " + std::strerror(errno));
  }
}

bool AlgorithmFile::add(const std::string& problem, const Algorithm& algorithm) {
  algorithms_.insert_or_assign(problem, algorithm);
  if (path_.empty()) return false;
  const io::Descriptor file = open_to_append();
  if (!file.is_open()) return false;
  const std::string line = (ends_within_line(file.get()) ? "\n" : "") + std::string(kFormat) + " " + problem + " " +
                           to_hex(algorithm.words) + (algorithm.has_workspace ? " 1\n" : " 0\n");
  return ::write(file.get(), line.data(), line.size()) == static_cast<ssize_t>(line.size());
}

}  // namespace lt::kernels
