// The thread team of the CPU kernels and of oneDNN.
#pragma once

#include <functional>
#include <vector>

namespace lt::kernels {

// The number of threads of kernels that the calling thread starts. The default is OpenMP's: OMP_NUM_THREADS, else one
// per processor.
int threads();
void set_threads(int count);

// Throws UsageError if this is a build with LIBTRAIN_NATIVE and the processor lacks instructions that it uses.
void require_processor();

// Runs `body` once on each thread of the calling thread's team.
void on_each_thread(const std::function<void()>& body);

// Returns the numbers of the processors that this process may run on. Includes all of them even if OMP_PROC_BIND or
// OMP_PLACES is set and OpenMP has bound the first thread to one.
std::vector<int> usable_processors();

}  // namespace lt::kernels
