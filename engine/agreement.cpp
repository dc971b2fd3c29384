#include "engine/agreement.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include <strata/error.h>

namespace strata::engine {
namespace {

std::span<const std::byte> payload_of(const AgreementInput& input, int rank) {
  const std::size_t bytes = input.payloads.size() / static_cast<std::size_t>(input.world_size);
  return input.payloads.subspan(bytes * static_cast<std::size_t>(rank), bytes);
}

AgreementHead head_of(const AgreementInput& input, int rank) {
  AgreementHead head;
  std::memcpy(&head, payload_of(input, rank).data(), sizeof(head));
  return head;
}

void check_same_call(const AgreementHead& first, const AgreementHead& other, int rank) {
  if (first.lr_bits == other.lr_bits && first.clip_bits == other.clip_bits) return;
  const auto call = [](const AgreementHead& head) {
    return fmt::format("step(lr {}, clip_norm {})", std::bit_cast<float>(head.lr_bits),
                       std::bit_cast<double>(head.clip_bits));
  };
  throw Error(ErrorCode::mismatch,
              fmt::format("rank 0 called {}, rank {} called {}: the rate must be the same on all ranks", call(first),
                          rank, call(other)));
}

// Sum of squares over all units that have gradients, in unit order.
double square_sum(const AgreementInput& input, std::vector<sharding::NormNode>& scratch) {
  double sum = 0;
  std::size_t offset = sizeof(AgreementHead);
  for (std::size_t unit = 0; unit < input.layouts.size(); ++unit) {
    const sharding::FlatLayout& layout = input.layouts[unit];
    if (input.reduced[unit] != 0) {
      scratch.clear();
      for (int rank = 0; rank < input.world_size; ++rank) {
        const std::byte* at = payload_of(input, rank).data() + offset;
        std::uint64_t count = 0;
        std::memcpy(&count, at, sizeof(count));
        const std::size_t before = scratch.size();
        scratch.resize(before + count);
        if (count > 0) std::memcpy(scratch.data() + before, at + sizeof(count), count * sizeof(sharding::NormNode));
      }
      sum += sharding::norm_root(scratch, layout.trainable().leaf_count());
    }
    offset += agreement_node_bytes(layout);
  }
  return sum;
}

// The first rank whose value was not finite; a sum that overflowed comes last.
void find_nonfinite(const AgreementInput& input, Verdict& verdict) {
  AgreementHead first;
  first.nonfinite_unit = nobody;
  const auto before = [](const AgreementHead& a, const AgreementHead& b) {
    if (a.nonfinite_rank != b.nonfinite_rank) return a.nonfinite_rank < b.nonfinite_rank;
    if (a.nonfinite_unit != b.nonfinite_unit) return a.nonfinite_unit < b.nonfinite_unit;
    if (a.nonfinite_tensor != b.nonfinite_tensor) return a.nonfinite_tensor < b.nonfinite_tensor;
    return a.nonfinite_element < b.nonfinite_element;
  };
  for (int rank = 0; rank < input.world_size; ++rank) {
    const AgreementHead head = head_of(input, rank);
    if (head.nonfinite_unit == nobody) continue;
    if (first.nonfinite_unit == nobody || before(head, first)) first = head;
  }
  if (first.nonfinite_unit == nobody) return;
  const Unit& unit = input.units[first.nonfinite_unit];
  const std::string who = first.nonfinite_rank == nobody ? std::string("the sum of gradients overflowed")
                                                         : fmt::format("rank {}", first.nonfinite_rank);
  verdict.skip = Skip::nonfinite;
  verdict.reason = fmt::format("nonfinite: {}, unit '{}', tensor '{}', element {}", who, unit.name,
                               unit.tensors[first.nonfinite_tensor].name, first.nonfinite_element);
}

void find_discarded(const AgreementInput& input, Verdict& verdict) {
  for (int rank = 0; rank < input.world_size; ++rank) {
    const AgreementHead head = head_of(input, rank);
    if (head.discarded_unit == nobody) continue;
    verdict.skip = Skip::discarded;
    verdict.reason = fmt::format("discarded: rank {}, unit '{}'", rank, input.units[head.discarded_unit].name);
    return;
  }
}

}  // namespace

std::size_t agreement_node_bytes(const sharding::FlatLayout& layout) {
  return sizeof(std::uint64_t) +
         sharding::norm_node_count_most(layout.trainable().leaf_count()) * sizeof(sharding::NormNode);
}

void write_norm_nodes(std::span<std::byte> payload, std::span<const sharding::FlatLayout> layouts,
                      std::span<const std::span<double>> leaves, int rank) {
  std::size_t offset = sizeof(AgreementHead);
  for (std::size_t unit = 0; unit < layouts.size(); ++unit) {
    const sharding::FlatLayout& layout = layouts[unit];
    const sharding::FlatRange range = layout.leaves(rank);
    const std::size_t leaf_count = layout.trainable().leaf_count();
    auto* nodes = reinterpret_cast<sharding::NormNode*>(payload.data() + offset + sizeof(std::uint64_t));
    std::uint64_t count = 0;
    if (range.count() > 0) {
      count = sharding::norm_nodes(leaves[unit].first(range.count()), range.begin, leaf_count,
                                   {nodes, sharding::norm_node_count_most(leaf_count)});
    }
    std::memcpy(payload.data() + offset, &count, sizeof(count));
    offset += agreement_node_bytes(layout);
  }
}

Verdict agree(const AgreementInput& input, std::vector<sharding::NormNode>& scratch) {
  Verdict verdict;
  double loss_sum = 0;
  double loss_weight = 0;
  double clip_norm = 0;
  for (int rank = 0; rank < input.world_size; ++rank) {
    const AgreementHead head = head_of(input, rank);
    check_same_call(head_of(input, 0), head, rank);
    verdict.weight += head.weight;
    loss_sum += head.loss_sum;
    loss_weight += head.loss_weight;
    clip_norm = std::bit_cast<double>(head.clip_bits);
  }
  verdict.loss = loss_weight == 0 ? std::numeric_limits<double>::quiet_NaN() : loss_sum / loss_weight;
  const double divisor = verdict.weight * input.loss_scale;
  const double norm = std::sqrt(square_sum(input, scratch)) / divisor;
  verdict.grad_norm = verdict.weight == 0 ? 0 : norm;
  find_nonfinite(input, verdict);
  if (verdict.skip == Skip::none) find_discarded(input, verdict);
  if (verdict.skip == Skip::none && verdict.weight == 0) {
    verdict.skip = Skip::no_weight;
    verdict.reason = "no_weight: every micro-batch of every rank had weight 0";
  }
  if (verdict.skip != Skip::none) return verdict;
  const double clip = clip_norm > 0 && norm > clip_norm ? clip_norm / norm : 1.0;
  verdict.gradient_scale = static_cast<float>(clip / divisor);
  return verdict;
}

}  // namespace strata::engine
