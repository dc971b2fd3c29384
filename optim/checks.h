// What every optimizer asks of its settings and of each call. All throw Error{invalid_argument} with value and bound.
#pragma once

#include <cstddef>
#include <string_view>

#include <strata/optimizer.h>

namespace strata::optim {

void check_fraction(std::string_view optimizer, std::string_view setting, float value);     // [0, 1)
void check_nonnegative(std::string_view optimizer, std::string_view setting, float value);  // [0, inf)

// Dtypes that a kernel exists for, pointers where there are elements, numbers that are finite.
void check_update(std::string_view optimizer, const UpdatePiece& piece, const UpdateStep& step,
                  std::size_t moment_count);

}  // namespace strata::optim
