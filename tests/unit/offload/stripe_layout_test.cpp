#include "offload/stripe_layout.h"

#include <map>
#include <set>

#include <gtest/gtest.h>

namespace strata::offload {
namespace {

TEST(StripeLayout, OneFileIsTheWhole) {
  const StripeLayout layout{1, 4096};
  const StripePlace place = layout.place(123456789);
  EXPECT_EQ(place.file, 0u);
  EXPECT_EQ(place.offset, 123456789u);
  EXPECT_GT(place.contiguous_bytes, std::uint64_t{1} << 60);
  EXPECT_EQ(layout.file_bytes(5 * 4096), 5u * 4096);
}

TEST(StripeLayout, EveryByteHasAPlaceOfItsOwnWithinTheFiles) {
  for (std::uint32_t file_count = 2; file_count <= 4; ++file_count) {
    const StripeLayout layout{file_count, 8};
    for (std::uint64_t total = 0; total < 100; ++total) {
      std::set<std::pair<std::uint32_t, std::uint64_t>> places;
      for (std::uint64_t byte = 0; byte < total; ++byte) {
        const StripePlace place = layout.place(byte);
        EXPECT_LT(place.file, file_count);
        EXPECT_LT(place.offset, layout.file_bytes(total));
        EXPECT_TRUE(places.insert({place.file, place.offset}).second);
        if (place.contiguous_bytes > 1) {
          const StripePlace next = layout.place(byte + 1);
          EXPECT_EQ(next.file, place.file);
          EXPECT_EQ(next.offset, place.offset + 1);
          EXPECT_EQ(next.contiguous_bytes, place.contiguous_bytes - 1);
        } else {
          EXPECT_NE(layout.place(byte + 1).file, place.file);
        }
      }
      EXPECT_LT(layout.file_bytes(total) * file_count, total + 8 * file_count);
    }
  }
}

}  // namespace
}  // namespace strata::offload
