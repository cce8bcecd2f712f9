// Converts each type of exception to an Error.
#include "comm/current_error.h"

#include <fmt/format.h>

#include <exception>
#include <filesystem>
#include <new>
#include <system_error>

namespace lt::comm {
namespace {

// The library's other exceptions are Errors, so this one comes from a function that the program has passed to it.
constexpr const char* kProgram = "program";

}  // namespace

Error current_error() {
  try {
    throw;
  } catch (const Error& error) {
    return error;
  } catch (const std::filesystem::filesystem_error& error) {
    return DataError("files", fmt::format("{}: {}", error.path1().string(), error.code().message()));
  } catch (const std::bad_alloc&) {
    return InternalError("internal", "out of memory");
  } catch (const std::system_error& error) {  // a thread or a file descriptor could not be had
    return InternalError("internal", error.what());
  } catch (const std::exception& error) {
    return Error(ExitCode::internal, kProgram, error.what());
  } catch (...) {
    return Error(ExitCode::internal, kProgram, "an exception that is no std::exception");
  }
}

}  // namespace lt::comm
