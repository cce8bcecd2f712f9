// A table of assumed rates of devices and their links, and the cost of a collective derived from it. Used for estimates
// before a run.
#pragma once

#include <string_view>

#include "libtrain/config/config.h"
#include "libtrain/dtype.h"
#include "libtrain/profile/timeline.h"

namespace lt::planner {

// Rates that large, well-shaped work reaches, not data sheet values. docs/planning.md gives the source of each.
struct DeviceModel {
  std::string_view name;
  double product_tflops_f32, product_tflops_bf16;
  double product_tflops_fp8;  // without quantization, which is memory traffic; 0: there are none
  // In bf16, for head_dim below 128 and from 128 on. Causal attention counts half of its products' FLOPs. In f32
  // attention is slower by the same factor as products.
  double attention_forward_tflops[2], attention_backward_tflops[2];
  double memory_gb_s;
  double dense_tflops_bf16;  // data sheet value, for MFU; 0: MFU is meaningless here
  // Send rate of one rank inside its node, and to other nodes if each rank has its own network card.
  double local_gb_s, network_gb_s;
  double collective_us;                 // latency to start a collective
  double local_hop_us, network_hop_us;  // from one rank of a ring to the next
  int ranks_per_node;
  double memory_mib;  // as the driver reports it; 0: any amount, for a CPU
  bool overlaps;      // collectives run while the rank computes
};

// The memory of a GPU that CUDA and its libraries take, and NCCL if there are several ranks, as measured
// (docs/planning.md). Where NCCL gathers or sends messages between the ranks of a host, it has buffers for it.
inline constexpr double kCudaMib = 545, kNcclMib = 565, kNcclGathersMib = 476, kNcclPeerMib = 400;

// The share of its speed that work on a GPU loses beside a collective: while data move inside the node, which takes
// memory's rate, and multiprocessors to add them (from measured steps on two GPUs, docs/planning.md), and while a
// collective of several nodes waits for others or for the network, when NCCL holds 24 of 132 multiprocessors.
inline constexpr double kLossToTransfer = 0.4, kLossToWaiting = 24.0 / 132;

// Throws UsageError that lists the known names.
const DeviceModel& find_device_model(std::string_view name);

// Finds a device by the driver's name for it, such as "NVIDIA H200". Returns null if the table lacks it.
const DeviceModel* device_model_of(std::string_view device_name);

// The dense peak in bf16 of the data sheet, TFLOP/s, of the device that the driver calls `device_name`, for MFU. A
// variant of a device in the table may have a lower one. 0: unknown.
double dense_tflops_bf16(std::string_view device_name);

// The dense peak of a computation in `dtype` (train.dtype), FLOP/s, for MFU; 0: unknown or meaningless.
constexpr double dense_flops_of(Precision dtype, double dense_tflops_bf16) {
  return dtype == Precision::f32 ? 0 : dense_tflops_bf16 * 1e12 * (dtype == Precision::fp8 ? 2 : 1);
}

// The placement of a run's ranks, which fill one node after the other.
struct NodeLayout {
  int run_ranks = 1, ranks_per_node = 1;
};

// How groups of `ranks` ranks, `stride` apart, are spread over the nodes. `smallest_share` is the smallest number of
// ranks that any group has on one node (`ranks` if every group is on one node); `nodes` is the most nodes of any group.
// A node with a smaller share moves the group's whole data through fewer network cards, and the others wait for it.
struct GroupPlacement {
  int smallest_share = 1, nodes = 1;
};
GroupPlacement place_groups(const NodeLayout& layout, int ranks, int stride);

// The most that a ring sends in one message, as NCCL's buffers hold. Longer chunks go in slices.
inline constexpr double kSliceBytes = 512 << 10;

// The cost of a collective over rings, which is how NCCL and MPI run large ones. A group has as many rings as ranks on
// a node. Each leaves the node through the network card of another rank and carries an equal part of the data, a chunk
// a rank in each of ranks - 1 rounds. A slice is sent on when it has arrived, whatever others do, so the hops of one
// hide behind the transfer of others. A collective ends when both are done:
// - the slower link, inside the node or between nodes, has sent all of its bytes, and the last of them arrived a hop
//   later;
// - the slice with the longest way has made its ranks - 1 hops, each with its own transfer.
// bench_cluster compares this with a simulation of the single messages.
struct CollectiveCost {
  double ms = 0;
  double local_ms = 0;        // of these, the transfer inside nodes
  bool over_network = false;  // the network, or the length of a ring over several nodes, decides
};
CollectiveCost collective_cost(const DeviceModel& device, const GroupPlacement& group, const CollectiveShape& shape);

}  // namespace lt::planner
