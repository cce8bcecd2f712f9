// The thread team of the CPU kernels and of the matrix-product library.
#pragma once

#include <functional>
#include <vector>

namespace lt::kernels {

// Applies to kernels that the calling thread starts. The default is OpenMP's: OMP_NUM_THREADS, else one per processor.
int threads();
void set_threads(int count);

// Runs `body` once on each thread of the calling thread's team.
void on_each_thread(const std::function<void()>& body);

// Numbers of the processors that this process may run on. If OMP_PROC_BIND or OMP_PLACES is set, OpenMP binds the first
// thread to one of them; the process keeps them all.
std::vector<int> usable_processors();

}  // namespace lt::kernels
