// Device names, and the refusal of devices that do not exist.
#include "libtrain/device/device.h"
#include "libtrain/error.h"
#include "libtrain/tensor/tensor.h"
#include "test_main/catch.h"

using namespace lt;

TEST_CASE("device names", "[device]") {
  CHECK(to_string(kCpu) == "cpu");
  CHECK(to_string(kMeta) == "meta");
  CHECK(to_string(Device{DeviceType::cuda, 0}) == "cuda:0");
  CHECK(to_string(Device{DeviceType::cuda, 7}) == "cuda:7");
  CHECK(kMeta.is_meta());
  CHECK_FALSE(kCpu.is_meta());
  CHECK(Device{} == kCpu);
  CHECK_FALSE(Device{DeviceType::cuda, 0} == Device{DeviceType::cuda, 1});
}

TEST_CASE("a device that no machine has is refused before anything is allocated on it", "[device]") {
  CHECK_NOTHROW(require_device(kCpu));
  CHECK_NOTHROW(require_device(kMeta));
  const Device absent{DeviceType::cuda, 1000};
  CHECK_THROWS_AS(Tensor::empty({2}, DType::f32, absent), UsageError);
  try {
    require_device(absent);
    FAIL("cuda:1000 was accepted");
  } catch (const UsageError& error) {
    CHECK(error.component() == "device");
    CHECK_THAT(error.what(), Catch::Matchers::ContainsSubstring("cuda:1000"));
    CHECK_FALSE(error.hint().empty());
  }
}
