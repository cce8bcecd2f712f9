// LT_MPI(expression): calls MPI on a communicator that works. Throws BrokenCommError with the expression, MPI's text
// and the source location. LT_MPI_SET_UP(expression): the same while MPI or a communicator is set up; throws CommError.
// Communicators return errors instead of aborting the run (mpi_runtime.cpp).
#pragma once

#include <mpi.h>

#include "libtrain/error.h"

namespace lt::comm {

template <class E>
void check_mpi(int code, const char* expression, const char* file, int line);

}  // namespace lt::comm

#define LT_MPI(expression) ::lt::comm::check_mpi<::lt::BrokenCommError>((expression), #expression, __FILE__, __LINE__)
#define LT_MPI_SET_UP(expression) ::lt::comm::check_mpi<::lt::CommError>((expression), #expression, __FILE__, __LINE__)
