// Copies to the host, and throws if an earlier kernel has met a bad id.
#include "tensor/read_bytes.h"

#include <cstdint>

#include "device/copy_bytes.h"
#include "libtrain/device/context.h"
#include "tensor/id_checks.h"

namespace lt::tensor {

void read_bytes(Device device, void* to, const void* from, Size bytes) {
  device::copy_bytes(device, to, from, bytes);
  IdChecks* const ids = IdChecks::on(device);
  std::uint64_t bad_id = 0;
  if (ids != nullptr) ids->receive(bad_id);
  Stream::compute(device).synchronize();
  if (bad_id == 0) return;
  if (ids != Context::current().ids) ids->reset();  // an engine's stays, and with it the end of its steps
  ids->require_none(bad_id);
}

}  // namespace lt::tensor
