// What every Communicator promises, as tests. A program instantiates CommunicatorContract with its worlds.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include <strata/communicator.h>
#include <strata/error.h>

#include "contract/rank_worlds.h"
#include "contract/reduce_reference.h"

namespace strata::test {

struct WorldCase {
  WorldKind kind;
  int size;
};

inline std::string name_of(const testing::TestParamInfo<WorldCase>& info) {
  return std::string(to_string(info.param.kind)) + "_" + std::to_string(info.param.size);
}

class CommunicatorContract : public testing::TestWithParam<WorldCase> {
 protected:
  int size() const { return GetParam().size; }
  bool is_solo() const { return GetParam().kind == WorldKind::solo; }
  // In small worlds the last of them makes slices that are written past the caches.
  std::vector<std::size_t> counts(Dtype dtype) const {
    return {0, 1, static_cast<std::size_t>(size() - 1), 1009, 256 * 40, large_bytes() / bytes_per_element(dtype)};
  }
  std::size_t large_bytes() const { return size() <= 2 ? 1'100'003 : 100'003; }
  std::size_t most_bytes() const { return large_bytes() * static_cast<std::size_t>(size()); }

  std::vector<std::string> run(const RankBody& body, const Deadlines& deadlines = {}) const {
    return run_world(GetParam().kind, size(), deadlines, body);
  }
  void expect_well(const RankBody& body) const {
    const auto said = run(body);
    for (std::size_t rank = 0; rank < said.size(); ++rank) EXPECT_EQ(said[rank], "") << "rank " << rank;
  }
};

inline std::string case_text(Dtype dtype, std::size_t count, std::string_view more) {
  return std::string(to_string(dtype)) + " x " + std::to_string(count) + " " + std::string(more);
}

inline std::size_t of(int rank) { return static_cast<std::size_t>(rank); }

inline std::byte pattern(int rank, std::size_t i, std::size_t round) {
  return static_cast<std::byte>((of(rank) + 1) * 37 + i * 11 + (i >> 8) + round * 101);
}

TEST_P(CommunicatorContract, AllGatherPutsTheSliceOfRankRIntoBlockR) {
  expect_well([&](Communicator& c) {
    Findings findings;
    std::size_t round = 0;
    for (const Sharing sharing : {Sharing::common, Sharing::per_rank}) {
      const ExchangeBlock block = c.allocate(most_bytes(), sharing);
      std::byte* const target = block.bytes().data();
      for (const Dtype dtype : {Dtype::f32, Dtype::bf16, Dtype::f16, Dtype::f64, Dtype::u64, Dtype::u8}) {
        for (const std::size_t count : counts(dtype)) {
          for (const bool in_place : {false, true}) {
            ++round;
            const std::size_t bytes = count * bytes_per_element(dtype);
            std::vector<std::byte> source(bytes);
            for (std::size_t i = 0; i < bytes; ++i) source[i] = pattern(c.rank(), i, round);
            std::byte* const own = target + of(c.rank()) * bytes;
            if (in_place && bytes != 0) std::memcpy(own, source.data(), bytes);
            c.all_gather(in_place ? own : source.data(), target, count, dtype, {.unit = 3});
            bool right = true;
            for (int rank = 0; rank < c.size(); ++rank) {
              const std::byte* slice = target + of(rank) * bytes;
              for (std::size_t i = 0; i < bytes; ++i) right = right && slice[i] == pattern(rank, i, round);
            }
            findings.require(right, case_text(dtype, count, in_place ? "in place" : "out of place"));
            c.barrier({});  // the next round writes into what a peer may still compare
          }
        }
      }
    }
    return findings.text();
  });
}

struct ReduceCase {
  Dtype dtype = Dtype::f32;
  Dtype reduce_dtype = Dtype::f32;
  ReduceMode mode = ReduceMode::store;
  std::size_t count = 0;
  bool in_place = false;
  std::vector<float> weights;  // by rank
};

// Values of rank r at element i of the whole source, by a generator that each rank can repeat for all.
using ValueOf = std::function<float(int rank, std::size_t i)>;

inline std::string check_reduce_case(Communicator& c, const ExchangeBlock& block, const ReduceCase& test,
                                     const ValueOf& value_of) {
  std::byte* const source = block.bytes().data();
  const std::size_t full = test.count * of(c.size());
  for (std::size_t i = 0; i < full; ++i) write_element(source, test.dtype, i, value_of(c.rank(), i));
  const std::size_t begin = of(c.rank()) * test.count;
  std::vector<ReferenceTerm> terms;
  for (int rank = 0; rank < c.size(); ++rank) {
    ReferenceTerm term{test.weights[of(rank)], {}};
    for (std::size_t i = 0; i < test.count; ++i) term.values.push_back(rounded(value_of(rank, begin + i), test.dtype));
    terms.push_back(std::move(term));
  }
  std::vector<float> separate(test.count);
  for (std::size_t i = 0; i < test.count; ++i) separate[i] = 0.25f * static_cast<float>(i % 17) - 2;
  std::span<float> accumulator = separate;
  if (test.in_place) accumulator = {reinterpret_cast<float*>(source) + begin, test.count};
  const std::vector<float> before(accumulator.begin(), accumulator.end());
  std::vector<double> norms((test.count + 255) / 256, -1);

  const ReduceOutcome outcome = c.reduce_scatter(source, test.count, test.dtype,
                                                 {.accumulator = accumulator,
                                                  .mode = test.mode,
                                                  .weight = test.weights[of(c.rank())],
                                                  .reduce_dtype = test.reduce_dtype,
                                                  .leaf_norms = norms},
                                                 {.unit = 1});
  const ReferenceSum expected = reference_reduce(terms, test.reduce_dtype, test.mode, before);
  Findings findings;
  const std::string what = case_text(test.dtype, test.count, test.in_place ? "in place" : "out of place") + " in " +
                           std::string(to_string(test.reduce_dtype));
  findings.require(outcome.finite, what + ": not finite");
  findings.require(std::equal(accumulator.begin(), accumulator.end(), expected.accumulator.begin(),
                              [](float a, float b) { return std::memcmp(&a, &b, 4) == 0; }),
                   what + ": sum");
  findings.require(norms == expected.leaf_norms, what + ": leaf norms");
  return findings.text();
}

TEST_P(CommunicatorContract, ReduceScatterOfSmallIntegersIsExact) {
  expect_well([&](Communicator& c) {
    const ExchangeBlock block = c.allocate(most_bytes(), Sharing::per_rank);
    std::string said;
    for (const Dtype dtype : {Dtype::f32, Dtype::bf16, Dtype::f16}) {
      for (const std::size_t count : counts(dtype)) {
        const auto value_of = [](int rank, std::size_t i) { return static_cast<float>((i + of(rank)) % 9) - 4; };
        ReduceCase test{.dtype = dtype, .count = count, .weights = std::vector<float>(of(c.size()), 1.0f)};
        said += check_reduce_case(c, block, test, value_of);
        test.mode = ReduceMode::add;
        test.weights.back() = 2.0f;
        said += check_reduce_case(c, block, test, value_of);
      }
    }
    return said;
  });
}

TEST_P(CommunicatorContract, ReduceScatterOfRandomFloatsHasTheBitsOfTheDefinition) {
  expect_well([&](Communicator& c) {
    const ExchangeBlock block = c.allocate(most_bytes(), Sharing::per_rank);
    std::string said;
    std::size_t round = 0;
    for (const Dtype dtype : {Dtype::f32, Dtype::bf16, Dtype::f16}) {
      for (const Dtype reduce_dtype : {Dtype::f32, Dtype::bf16, Dtype::f16}) {
        for (const std::size_t count : {std::size_t{777}, std::size_t{256 * 33}, large_bytes() / 4 - 3}) {
          if (count > 256 * 33 && (dtype == Dtype::f16 || reduce_dtype != Dtype::f32)) continue;
          ++round;
          const auto value_of = [round](int rank, std::size_t i) {
            const std::uint64_t bits =
                (i * 0x9E3779B97F4A7C15u + of(rank) * 0xD1B54A32D192ED03u + round) * 0xBF58476D1CE4E5B9u;
            const auto unit = static_cast<float>(static_cast<std::int32_t>(bits >> 32)) * 0x1p-31f;
            return std::ldexp(unit, static_cast<int>(bits >> 27 & 7) - 4);
          };
          ReduceCase test{.dtype = dtype, .reduce_dtype = reduce_dtype, .count = count, .weights = {}};
          for (int rank = 0; rank < c.size(); ++rank) test.weights.push_back(0.5f + 0.37f * static_cast<float>(rank));
          if (round % 3 == 0) test.weights[round % of(c.size())] = 0;
          test.mode = round % 2 == 0 ? ReduceMode::add : ReduceMode::store;
          said += check_reduce_case(c, block, test, value_of);
          test.in_place = dtype == Dtype::f32;
          said += check_reduce_case(c, block, test, value_of);
        }
      }
    }
    return said;
  });
}

TEST_P(CommunicatorContract, ASourceOfWeightZeroIsNeverRead) {
  expect_well([&](Communicator& c) {
    constexpr std::size_t count = 1000;
    const ExchangeBlock block = c.allocate(count * 4 * of(c.size()), Sharing::per_rank);
    const std::span<float> source{reinterpret_cast<float*>(block.bytes().data()), count * of(c.size())};
    std::vector<float> sum(count, 5.0f);
    std::vector<double> norms(4);
    Findings findings;
    for (int zero = 0; zero < c.size(); ++zero) {
      std::fill(source.begin(), source.end(), c.rank() == zero ? std::numeric_limits<float>::quiet_NaN() : 2.0f);
      const float weight = c.rank() == zero ? 0.0f : 3.0f;
      const auto outcome = c.reduce_scatter(source.data(), count, Dtype::f32,
                                            {.accumulator = sum, .weight = weight, .leaf_norms = norms}, {});
      const float expected = 6.0f * static_cast<float>(c.size() - 1);
      findings.require(outcome.finite && sum[0] == expected && sum[999] == expected,
                       "sum without the rank of weight 0");
      findings.require(norms[0] == 256.0 * expected * expected, "norm without the rank of weight 0");
    }
    std::fill(source.begin(), source.end(), std::numeric_limits<float>::quiet_NaN());
    std::fill(sum.begin(), sum.end(), -0.0f);
    sum[300] = 7;
    auto outcome =
        c.reduce_scatter(source.data(), count, Dtype::f32,
                         {.accumulator = sum, .mode = ReduceMode::add, .weight = 0, .leaf_norms = norms}, {});
    findings.require(outcome.finite && sum[300] == 7 && std::signbit(sum[0]), "adding nothing leaves the accumulator");
    findings.require(norms[0] == 0 && norms[1] == 49, "norms of what was there");
    outcome =
        c.reduce_scatter(source.data(), count, Dtype::f32, {.accumulator = sum, .weight = 0, .leaf_norms = norms}, {});
    findings.require(outcome.finite && sum[300] == 0 && !std::signbit(sum[0]) && norms[1] == 0,
                     "storing nothing stores 0");
    return findings.text();
  });
}

TEST_P(CommunicatorContract, TheFirstNonFiniteElementAndItsRankAreNamed) {
  expect_well([&](Communicator& c) {
    constexpr std::size_t count = 900;
    const ExchangeBlock block = c.allocate(count * 4 * of(c.size()), Sharing::per_rank);
    const std::span<float> source{reinterpret_cast<float*>(block.bytes().data()), count * of(c.size())};
    const std::span<float> own = source.subspan(of(c.rank()) * count, count);
    std::vector<float> separate(count);
    Findings findings;
    for (int culprit = 0; culprit < c.size(); ++culprit) {
      for (const std::size_t element : {std::size_t{0}, std::size_t{511}, std::size_t{899}}) {
        for (const bool in_place : {false, true}) {
          std::fill(source.begin(), source.end(), 1.0f);
          if (c.rank() == culprit) {
            for (int owner = 0; owner < c.size(); ++owner) {
              source[of(owner) * count + element] = std::numeric_limits<float>::infinity();
              source[of(owner) * count + 899] = std::numeric_limits<float>::quiet_NaN();
            }
          }
          const auto outcome = c.reduce_scatter(source.data(), count, Dtype::f32,
                                                {.accumulator = in_place ? own : std::span<float>(separate)}, {});
          findings.require(!outcome.finite && outcome.nonfinite_rank == culprit && outcome.nonfinite_element == element,
                           "rank " + std::to_string(culprit) + " element " + std::to_string(element) +
                               " named as rank " + std::to_string(outcome.nonfinite_rank) + " element " +
                               std::to_string(outcome.nonfinite_element));
          c.barrier({});
        }
      }
    }
    std::fill(source.begin(), source.end(), 1.0f);
    for (int owner = 0; owner < c.size(); ++owner) source[of(owner) * count + 700] = std::numeric_limits<float>::max();
    const auto outcome = c.reduce_scatter(source.data(), count, Dtype::f32, {.accumulator = separate, .weight = 2}, {});
    findings.require(!outcome.finite && outcome.nonfinite_rank == -1 && outcome.nonfinite_element == 700,
                     "an overflow");
    return findings.text();
  });
}

TEST_P(CommunicatorContract, AllReduceAddsInRankOrder) {
  expect_well([](Communicator& c) {
    Findings findings;
    for (const std::size_t count : {0, 1, 2, 1023, 1024, 1025, 5003}) {
      const auto value = [](int rank, std::size_t i) {
        return std::sin(static_cast<double>(i * 31 + of(rank) * 7)) / 3;
      };
      std::vector<double> values(count);
      std::vector<double> expected(count);
      std::vector<std::uint64_t> counters(count);
      std::vector<std::uint64_t> expected_counters(count);
      for (std::size_t i = 0; i < count; ++i) {
        values[i] = value(c.rank(), i);
        counters[i] = (i + of(c.rank())) * 0x9E3779B97F4A7C15u;
        for (int rank = 0; rank < c.size(); ++rank) {
          expected[i] = rank == 0 ? value(0, i) : expected[i] + value(rank, i);
          expected_counters[i] += (i + of(rank)) * 0x9E3779B97F4A7C15u;
        }
      }
      c.all_reduce(values, {});
      c.all_reduce(counters, {});
      findings.require(values == expected, "doubles x " + std::to_string(count));
      findings.require(counters == expected_counters, "counters x " + std::to_string(count));
    }
    return findings.text();
  });
}

TEST_P(CommunicatorContract, ExchangedMemoryIsZeroedAlignedAndOutlivesNothing) {
  expect_well([](Communicator& c) {
    Findings findings;
    for (const Sharing sharing : {Sharing::common, Sharing::per_rank}) {
      for (const std::size_t bytes : {0, 1, 4096, 100'000}) {
        const ExchangeBlock block = c.allocate(bytes, sharing);
        findings.require(block.bytes().size() == bytes, "size");
        findings.require(reinterpret_cast<std::uintptr_t>(block.bytes().data()) % 4096 == 0, "alignment");
        bool zero = true;
        for (const std::byte b : block.bytes()) zero = zero && b == std::byte{0};
        findings.require(zero, "zeroed");
        c.barrier({});
        const bool owner = sharing == Sharing::per_rank || c.rank() == 0;  // a common block is everybody's
        if (owner) std::fill(block.bytes().begin(), block.bytes().end(), std::byte{0xFF});
      }
    }
    return findings.text();
  });
}

TEST_P(CommunicatorContract, TooMuchMemoryIsOutOfBudgetOnAllRanksAndTheJobGoesOn) {
  expect_well([](Communicator& c) {
    Findings findings;
    for (const Sharing sharing : {Sharing::common, Sharing::per_rank}) {
      findings.require_error([&] { c.allocate(std::size_t{1} << 50, sharing); }, {"out_of_budget", "1125899906842624"});
      findings.require_error([&] { c.allocate(std::size_t{1} << 44, sharing); }, {"out_of_budget", "rank 0"});
    }
    for (int round = 0; round < 3; ++round) {  // what was released can be had again, zeroed
      for (const Sharing sharing : {Sharing::per_rank, Sharing::common}) {
        ExchangeBlock released = c.allocate(10000, sharing);
        c.barrier({});
        findings.require(std::all_of(released.bytes().begin(), released.bytes().end(),
                                     [](std::byte byte) { return byte == std::byte{0}; }),
                         "a block begins as zeros");
        c.barrier({});
        if (sharing == Sharing::per_rank || c.rank() == 0) std::memset(released.bytes().data(), 7, 10000);
        c.release(std::move(released));
      }
    }
    c.release({});
    const ExchangeBlock block = c.allocate(64, Sharing::common);
    const auto own = static_cast<std::uint8_t>(c.rank() + 1);
    c.all_gather(&own, block.bytes().data(), 1, Dtype::u8, {});
    for (int rank = 0; rank < c.size(); ++rank) {
      findings.require(block.bytes()[of(rank)] == static_cast<std::byte>(rank + 1), "gather after the refusal");
    }
    return findings.text();
  });
}

TEST_P(CommunicatorContract, CountersTellCallsAndBytesOfPeers) {
  expect_well([&](Communicator& c) {
    constexpr std::size_t count = 1024;
    const ExchangeBlock common = c.allocate(count * 4 * of(c.size()), Sharing::common);
    const ExchangeBlock block = c.allocate(count * 4 * of(c.size()), Sharing::per_rank);
    std::vector<float> shard(count);
    const auto moved = [&](const std::function<void()>& act) {
      const CommunicatorCounters before = c.counters();
      act();
      const CommunicatorCounters after = c.counters();
      return after.call_count == before.call_count + 1 ? after.moved_bytes - before.moved_bytes : ~std::uint64_t{0};
    };
    const std::uint64_t peers = of(c.size() - 1);
    Findings findings;
    float* own_in_common = reinterpret_cast<float*>(common.bytes().data()) + of(c.rank()) * count;
    findings.require(moved([&] { c.all_gather(own_in_common, common.bytes().data(), count, Dtype::f32, {}); }) == 0,
                     "in place into a common block moves nothing");
    findings.require(moved([&] { c.all_gather(shard.data(), common.bytes().data(), count, Dtype::f32, {}); }) ==
                         (is_solo() ? 0 : count * 4),
                     "a slice is written once into a common block");
    findings.require(
        moved([&] { c.all_gather(shard.data(), block.bytes().data(), count, Dtype::f32, {}); }) == peers * count * 4,
        "slices of peers are read into a per_rank block");
    findings.require(moved([&] {
                       c.reduce_scatter(block.bytes().data(), count, Dtype::f32, {.accumulator = shard}, {});
                     }) == peers * count * 4,
                     "reduce_scatter reads the slices of peers");
    findings.require(moved([&] { c.barrier({}); }) == 0, "a barrier moves nothing");
    findings.require(c.counters().peer_wait_s >= 0 && c.counters().peer_wait_s < 60, "waiting");
    return findings.text();
  });
}

TEST_P(CommunicatorContract, WrongArgumentsAreRefusedBeforeAnyEffect) {
  expect_well([&](Communicator& c) {
    const ExchangeBlock block = c.allocate(4096, Sharing::per_rank);
    std::vector<float> shard(8);
    std::vector<double> norms(3);
    Findings findings;
    const auto reduce = [&](Dtype dtype, const ReduceTarget& target, std::size_t count = 8) {
      return [&c, &block, dtype, target, count] { c.reduce_scatter(block.bytes().data(), count, dtype, target, {}); };
    };
    findings.require_error(reduce(Dtype::u64, {.accumulator = shard}), {"invalid_argument", "u64"});
    findings.require_error(reduce(Dtype::f32, {.accumulator = shard}, 9), {"invalid_argument", "8", "9"});
    findings.require_error(reduce(Dtype::f32, {.accumulator = shard, .weight = -1}), {"invalid_argument", "-1"});
    findings.require_error(reduce(Dtype::f32, {.accumulator = shard, .leaf_norms = norms}), {"invalid_argument", "3"});
    findings.require_error(
        [&] { c.all_gather(shard.data(), shard.data(), std::numeric_limits<std::size_t>::max() / 2, Dtype::f32, {}); },
        {"invalid_argument"});
    if (!is_solo()) {
      findings.require_error([&] { c.all_gather(shard.data(), shard.data(), 8, Dtype::f32, {}); },
                             {"invalid_argument"});
      findings.require_error([&] { c.all_gather(shard.data(), block.bytes().data(), 4096, Dtype::f32, {}); },
                             {"invalid_argument"});
    }
    c.barrier({});
    return findings.text();
  });
}

}  // namespace strata::test
