// Which table of algorithms computes a run's matmuls, the same one on all ranks, and what else decides the bits of a
// run besides its configuration.
#pragma once

#include <string>
#include <vector>

#include "libtrain/checkpoints/checkpoint.h"
#include "libtrain/comm/group.h"
#include "libtrain/device/device.h"

namespace lt::run {

using checkpoint::ComputedBy;

// All members are empty on processors.
struct Algorithms {
  std::string table = {};        // text of rank 0's table; empty: none
  std::string file = {};         // train.algorithms; empty: the library carries the table
  ComputedBy computed_by = {};   // of all ranks, by merged()
  std::string differences = {};  // between ranks, by differences_of()
};

// Makes matmuls on `device` use the table in rank 0's `file`; without a file, the table that the library carries for
// rank 0's GPU. A rank whose GPU is of another kind than rank 0's takes the one that the library carries for it. Call
// it before the first matmul. All ranks must call it. Throws DataError if the file is unreadable or damaged, UsageError
// if it is for another kind of GPU than rank 0's.
Algorithms share_algorithms(const std::string& file, const Group& group, Device device);

// Returns the text of a file that train.algorithms names. Throws DataError.
std::string read_algorithms(const std::string& file);

// The values of all ranks. If a name has several, they are joined: "NVIDIA H200, NVIDIA H100".
ComputedBy merged(const std::vector<ComputedBy>& of_ranks);
// Says which ranks have other values than rank 0: "GPU: NVIDIA H200 on rank 0, NVIDIA H100 on rank 4 and 3 more". Empty
// if none has.
std::string differences_of(const std::vector<ComputedBy>& of_ranks);
// Lists changed GPUs, libraries and tables, one per line: "GPU: NVIDIA H200 before, NVIDIA H100 now". Leaves out what
// only one of both knows, except the GPU of a run that continues on processors.
std::vector<std::string> computation_changes(const ComputedBy& before, const ComputedBy& now);

// Describes the table of a run on GPUs, for its start: "table tables/h200.txt, 3f2a9c81d05b7e64, cuBLASLt 13.1.1".
std::string description_of(const Algorithms& algorithms);

}  // namespace lt::run
