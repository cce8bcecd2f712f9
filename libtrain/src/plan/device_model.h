// A table of assumed rates of devices and links, and the cost of a collective derived from it. Used for estimates
// before a run.
#pragma once

#include <string_view>

#include "libtrain/config/config.h"
#include "libtrain/dtype.h"
#include "libtrain/profile/timeline.h"

namespace lt::planner {

// Rates that large work of suitable shapes reaches, not data sheet values. docs/explanation/planning.md gives the
// source of each.
struct DeviceModel {
  std::string_view name;
  double matmul_tflops_f32, matmul_tflops_bf16;
  double matmul_tflops_fp8;  // without quantization, which counts as memory traffic; 0: no FP8
  // In bf16. [0]: head_dim below 128; [1]: at least 128. Counts half the FLOPs of causal attention's matmuls. In f32
  // attention is slower by the same factor as matmuls.
  double attention_forward_tflops[2], attention_backward_tflops[2];
  double memory_gb_s;
  double dense_tflops_bf16;  // data sheet value, for MFU; 0: no MFU for this device
  // Send rate of one rank, inside its node and to other nodes. Each rank has its own network card.
  double local_gb_s, network_gb_s;
  double collective_us;                 // latency to start a collective
  double local_hop_us, network_hop_us;  // from one rank of a ring to the next
  int ranks_per_node;
  double memory_mib;  // as the driver reports it; 0: any amount, for a CPU
  bool overlaps;      // collectives run while the rank computes
};

// Memory that libraries take on a GPU, as measured (docs/explanation/planning.md): CUDA and its libraries; NCCL if
// there are several ranks; NCCL's buffers if it gathers between the ranks of a host; and its buffers for messages, for
// each peer on the host.
inline constexpr double kCudaMib = 545, kNcclMib = 565, kNcclGathersMib = 476, kNcclPeerMib = 400;

// Fixed time of an operation on the CPU in microseconds, as measured (bench/notes/planning.md).
inline constexpr double kCpuOperationUs = 0.5;

// The fraction of its speed that work on a GPU loses while a collective runs. kLossToTransfer: while data move inside
// the node, which takes memory bandwidth, and multiprocessors for sums (from measured steps on two GPUs,
// docs/explanation/planning.md). kLossToWaiting: while a collective of several nodes waits for other ranks or for the
// network, because NCCL holds 24 of 132 multiprocessors.
inline constexpr double kLossToTransfer = 0.4, kLossToWaiting = 24.0 / 132;

// Throws UsageError that lists the known names.
const DeviceModel& find_device_model(std::string_view name);

// Finds a device by the driver's name for it, such as "NVIDIA H200". Returns null if the table lacks it.
const DeviceModel* device_model_of(std::string_view device_name);

// The dense bf16 peak in TFLOP/s, from the data sheet, of the device that the driver calls `device_name`, for MFU. A
// variant may have a lower peak than the device in the table. 0: unknown.
double dense_tflops_bf16(std::string_view device_name);

// The dense peak in FLOP/s of a computation in `dtype` (train.dtype), for MFU; 0: unknown, or f32.
constexpr double dense_flops_of(Precision dtype, double dense_tflops_bf16) {
  return dtype == Precision::f32 ? 0 : dense_tflops_bf16 * 1e12 * (dtype == Precision::fp8 ? 2 : 1);
}

// The placement of a run's ranks. They fill one node after the other.
struct NodeLayout {
  int run_ranks = 1, ranks_per_node = 1;
};

// How groups of `ranks` ranks, `stride` apart, are spread over the nodes. `smallest_share` is the smallest number of
// ranks that any group has on one node (`ranks` if every group is on one node); `nodes` is the largest number of nodes
// of any group. A node with a smaller share sends the group's data through fewer network cards, and the other nodes
// wait for it.
struct GroupPlacement {
  int smallest_share = 1, nodes = 1;
};
GroupPlacement place_groups(const NodeLayout& layout, int ranks, int stride);

// The largest message of a ring, in bytes, as in NCCL. Longer chunks are sent in slices.
inline constexpr double kSliceBytes = 512 << 10;

// The cost of a collective over rings, as NCCL and MPI run large ones. A group has as many rings as ranks on a node.
// Each ring uses the network card of a different rank and carries an equal part of the data: in each of ranks - 1
// rounds, every rank sends one chunk. A rank forwards a slice as soon as it has arrived, so one slice's hops overlap
// with the transfers of other slices. A collective ends when both are done:
// - the slower link, inside the node or between nodes, has sent all its bytes, plus one hop for the last byte;
// - the slice with the longest path has made its ranks - 1 hops, each with its own transfer.
// simulate_cluster compares this with a simulation of single messages.
struct CollectiveCost {
  double ms = 0;
  double local_ms = 0;        // part of `ms`: the transfer inside nodes
  bool over_network = false;  // true: the network, or a ring's length over several nodes, determines `ms`
};
CollectiveCost collective_cost(const DeviceModel& device, const GroupPlacement& group, const CollectiveShape& shape);

}  // namespace lt::planner
