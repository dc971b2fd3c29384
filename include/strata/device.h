// Where leases live and the model computes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace strata {

enum class DeviceKind : std::uint8_t { cpu, cuda };

struct Device {
  DeviceKind kind = DeviceKind::cpu;
  int index = 0;

  friend bool operator==(const Device&, const Device&) = default;
};

std::string to_string(const Device& device);  // "cpu", "cuda:1"

}  // namespace strata
