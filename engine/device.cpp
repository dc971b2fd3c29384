#include <strata/device.h>

namespace strata {

std::string to_string(const Device& device) {
  switch (device.kind) {
    case DeviceKind::cpu: return "cpu";
    case DeviceKind::cuda: return "cuda:" + std::to_string(device.index);
  }
  return "?";
}

}  // namespace strata
