// Sizes as people write them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace strata {

// "512 MiB", "1.5 GiB", "17 B": the largest binary unit in which the number is at least 1, three significant digits
// (four from 1000 to 1023).
std::string format_bytes(std::uint64_t bytes);

// Reads "4096", "512MiB", "1.5 GiB", "8G" (K, M, G, T with or without "iB" are powers of 1024; "KB", "MB", "GB", "TB"
// powers of 1000); what a decimal fraction leaves of a byte is dropped. Throws Error{invalid_argument} with the text
// and the legal forms for anything else: negative, a fraction without unit, above 2^63.
std::uint64_t parse_bytes(std::string_view text);

}  // namespace strata
