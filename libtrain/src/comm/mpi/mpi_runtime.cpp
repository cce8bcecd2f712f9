// Initialises and ends MPI. A rank calls MPI_Init only under a launcher that MPI supports, and skips MPI_Finalize
// during stack unwinding, because its peers may never call it.
#include "comm/mpi/mpi_runtime.h"

#include <fmt/format.h>
#include <sys/uio.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <string>

#include "comm/alone.h"
#include "comm/mpi/mpi_error.h"
#include "libtrain/error.h"

namespace lt::comm {
namespace {

// "Slurm says", "torchrun variables say".
std::string said_by(const std::string& source) { return source + (source.ends_with("s") ? " say" : " says"); }

// Without a launcher MPI would treat each process as a run of its own, or end it.
void require_launcher(const LaunchInfo& info) {
  if (has_mpi_launcher()) return;
  throw CommError(fmt::format("{} rank {} of {}: expected a launcher that MPI knows, found none", said_by(info.source),
                              info.rank, info.size),
                  std::string(kLaunchHint) + "; " + run_of_one_hint(info));
}

// Open MPI copies large messages straight from the peer's memory, and fails if a container forbids the system call.
void avoid_forbidden_single_copy() {
  int from = 1, to = 0;
  const iovec local{&to, sizeof to}, remote{&from, sizeof from};
  if (process_vm_readv(getpid(), &local, 1, &remote, 1, 0) != static_cast<ssize_t>(sizeof to)) {
    setenv("OMPI_MCA_btl_vader_single_copy_mechanism", "none", 0);
  }
}

void finalise(void*) {
  int finalized = 0;
  MPI_Finalized(&finalized);
  // During stack unwinding peers may be waiting for this rank elsewhere, and MPI_Finalize would wait for them. The
  // launcher ends them when this process exits.
  if (finalized == 0 && std::uncaught_exceptions() == 0) MPI_Finalize();
}

}  // namespace

bool has_mpi_launcher() {
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMIX_NAMESPACE", "PMIX_RANK", "PMI_RANK", "PMI_FD"}) {
    if (std::getenv(name) != nullptr) return true;
  }
  return false;
}

bool is_later_mpi_rank() {
  for (const char* name : {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK"}) {
    if (const char* const rank = std::getenv(name)) return std::strtol(rank, nullptr, 10) > 0;
  }
  return false;
}

std::string mpi_library_version() {
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text{};
  int length = 0;
  LT_MPI_SET_UP(MPI_Get_library_version(text.data(), &length));
  const std::string whole = text.data();  // "Open MPI v4.1.4, package: ...", or several lines
  return whole.substr(0, whole.find_first_of(",\n"));
}

template <class E>
void check_mpi(int code, const char* expression, const char* file, int line) {
  if (code == MPI_SUCCESS) return;
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  MPI_Error_string(code, text.data(), &length);
  const char* slash = std::strrchr(file, '/');
  throw E(fmt::format("{}: {} ({}:{})", expression, std::string(text.data(), static_cast<std::size_t>(length)),
                      slash == nullptr ? file : slash + 1, line));
}
template void check_mpi<CommError>(int, const char*, const char*, int);
template void check_mpi<BrokenCommError>(int, const char*, const char*, int);

std::shared_ptr<void> start_mpi(const LaunchInfo& info, int& argc, char**& argv) {
  require_launcher(info);
  int initialized = 0, finalized = 0, provided = MPI_THREAD_SINGLE, size = 0;
  LT_MPI_SET_UP(MPI_Initialized(&initialized));
  LT_MPI_SET_UP(MPI_Finalized(&finalized));
  if (finalized != 0) throw CommError("MPI was finalised before: expected one lt::init() in a process");
  std::shared_ptr<void> mpi;
  if (initialized == 0) {
    avoid_forbidden_single_copy();
    LT_MPI_SET_UP(MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided));
    mpi = std::shared_ptr<void>(nullptr, finalise);  // a null pointer: its deleter still runs
  } else {
    LT_MPI_SET_UP(MPI_Query_thread(&provided));
  }
  if (provided < MPI_THREAD_MULTIPLE) {
    throw CommError(fmt::format("MPI: expected thread level MPI_THREAD_MULTIPLE ({}), got {}",
                                static_cast<int>(MPI_THREAD_MULTIPLE), provided));
  }
  LT_MPI_SET_UP(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
  LT_MPI_SET_UP(MPI_Comm_size(MPI_COMM_WORLD, &size));
  if (size != info.size) {
    throw CommError(fmt::format("MPI sees {} ranks: expected {}, as {}", size, info.size, said_by(info.source)),
                    kLaunchHint);
  }
  return mpi;
}

void abort_mpi(int exit_code) {
  MPI_Abort(MPI_COMM_WORLD, exit_code);
  std::_Exit(exit_code);
}

}  // namespace lt::comm
