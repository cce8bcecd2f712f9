// The team of threads that CPU kernels and the library of matrix products compute with.
#pragma once

#include <vector>

namespace lt::kernels {

// Applies to kernels that the calling thread starts. The default is OpenMP's: OMP_NUM_THREADS, else one a processor.
int threads();
void set_threads(int count);

// Numbers of the processors that this process may run on. OpenMP binds the first thread to one of them where
// OMP_PROC_BIND or OMP_PLACES say so, which takes none away from the process.
std::vector<int> usable_processors();

}  // namespace lt::kernels
