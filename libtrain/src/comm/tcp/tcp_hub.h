// Rank 0's end of all connections.
#pragma once

#include <memory>
#include <vector>

#include "comm/tcp/tcp_exchange.h"

namespace lt::comm {

// `links` is indexed by rank; the entry of rank 0 is empty. The hub's thread serves them and the switchboard.
std::shared_ptr<TcpExchange> make_tcp_hub(std::vector<io::Descriptor> links);

}  // namespace lt::comm
