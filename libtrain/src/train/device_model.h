// What a device and its links are taken to do, for estimates before a run: a table, and what a collective costs by it.
#pragma once

#include <string_view>

#include "libtrain/dtype.h"
#include "libtrain/profile/timeline.h"

namespace lt {

// Rates that large, well-shaped work reaches, not those of data sheets. docs/planning.md says where each is from.
struct DeviceModel {
  std::string_view name;
  double product_tflops_f32, product_tflops_bf16;
  // In bf16, by head_dim: below 128, and from 128 on. FLOPs of causal attention at its half. In f32 it is slower as
  // products are.
  double attention_forward_tflops[2], attention_backward_tflops[2];
  double memory_gb_s;
  double dense_tflops_bf16;  // by the data sheet, for MFU; 0: MFU means nothing here
  // What a rank sends a second inside a node, and to other nodes where each rank has a network card of its own.
  double local_gb_s, network_gb_s;
  double collective_us;                 // start of a collective
  double local_hop_us, network_hop_us;  // each neighbour of a ring adds one
  int ranks_per_node;
  double memory_mib;  // that the driver reports; 0: of a CPU, which may have any
  bool overlaps;      // collectives go on while the rank computes
};

// Throws UsageError that lists the names.
const DeviceModel& find_device_model(std::string_view name);

// By what the driver calls it, "NVIDIA H200"; null where the table does not have it.
const DeviceModel* device_model_of(std::string_view device_name);

// Where the ranks of a run are: node by node.
struct NodeLayout {
  int run_ranks = 1, ranks_per_node = 1;
};

// How the groups of `ranks` ranks, `stride` apart, lie on the nodes: the smallest part of any of them that stands on a
// node of its own, `ranks` where each group is on one node; and the most nodes of a group. A part that is smaller than
// the others takes what the whole group holds through fewer network cards, and the others wait for it.
struct GroupPlacement {
  int smallest_share = 1, nodes = 1;
};
GroupPlacement place_groups(const NodeLayout& layout, int ranks, int stride);

// A collective over a ring of the group's ranks, as NCCL and MPI run large ones: inside nodes and between them at the
// same time, so the slower link counts.
struct CollectiveCost {
  double ms = 0;
  bool over_network = false;  // which is the slower link
};
CollectiveCost collective_cost(const DeviceModel& device, const GroupPlacement& group, const CollectiveShape& shape);

}  // namespace lt
