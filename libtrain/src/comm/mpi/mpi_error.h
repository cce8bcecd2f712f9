// LT_MPI(expression): calls MPI and throws CommError with the expression, MPI's text and the source location.
// Communicators return errors instead of aborting the run (mpi_runtime.cpp).
#pragma once

#include <mpi.h>

namespace lt::comm {

void check_mpi(int code, const char* expression, const char* file, int line);

}  // namespace lt::comm

#define LT_MPI(expression) ::lt::comm::check_mpi((expression), #expression, __FILE__, __LINE__)
