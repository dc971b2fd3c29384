// How close an optimizer's update comes to moving its bytes and nothing else. Each thread has its own slice of arrays
// that are far larger than the caches, and updates it in chunks, as the engine does.
#include <algorithm>
#include <atomic>
#include <bit>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>

#include <fmt/format.h>

#include <strata/detail/cast.h>
#include <strata/optimizer.h>

#include "bench/bench_rows.h"
#include "bench/update_ruler.h"
#include "engine/update_team.h"
#include "offload/private_memory.h"

namespace strata::bench {
namespace {

constexpr std::size_t element_count = std::size_t{80} << 20;  // 2.5 GB with AdamW
constexpr std::size_t chunk_count = std::size_t{1} << 20;
constexpr UpdateStep step{.lr = 1e-6f, .applied_count = 100};

struct Variant {
  std::string name;
  std::shared_ptr<const Optimizer> optimizer;
  Dtype gradient = Dtype::f32;
  Dtype published = Dtype::bf16;
  unsigned threads = 0;  // 0: all cores
};

class Arrays {
 public:
  Arrays() {
    const auto masters = master_.as<float>(), gradients = gradient_.as<float>();
    std::uint32_t state = 1;
    for (std::size_t i = 0; i < element_count; ++i) {
      state = state * 1664525 + 1013904223;
      const float uniform = static_cast<float>(state >> 8) * 0x1p-24f - 0.5f;
      masters[i] = uniform;
      const bf16 gradient = detail::to_bf16(1e-2f * uniform);  // twice: ordinary values as bf16 and as f32 alike
      gradients[i] = std::bit_cast<float>(gradient.bits * 0x10001u);
    }
  }

  UpdatePiece piece(const Variant& variant, std::size_t first, std::size_t count) const {
    return {.count = count,
            .master = master_.as<float>().data() + first,
            .moments = {moments_[0].as<float>().data() + first, moments_[1].as<float>().data() + first},
            .gradient = gradient_.bytes().data() + first * bytes_per_element(variant.gradient),
            .gradient_dtype = variant.gradient,
            .published = published_.bytes().data() + first * bytes_per_element(variant.published),
            .published_dtype = variant.published};
  }

  void reset_moments() const {
    for (const offload::PrivateMemory& moment : moments_) std::fill_n(moment.as<float>().data(), element_count, 1e-4f);
  }

 private:
  offload::PrivateMemory master_{element_count * 4};
  offload::PrivateMemory gradient_{element_count * 4};
  offload::PrivateMemory published_{element_count * 4};
  offload::PrivateMemory moments_[2] = {offload::PrivateMemory(element_count * 4),
                                        offload::PrivateMemory(element_count * 4)};
};

template <class Act>
void in_slices(engine::UpdateTeam& team, unsigned threads, const Act& act) {
  const std::size_t slice_chunks = element_count / chunk_count / threads;
  team.run(threads, [&](std::size_t slice) noexcept {
    for (std::size_t chunk = 0; chunk < slice_chunks; ++chunk) act((slice * slice_chunks + chunk) * chunk_count);
  });
}

void measure(Report& report, const Variant& variant, const Arrays& arrays) {
  const std::string name = "update/" + std::string(variant.optimizer->name()) + "/" + variant.name;
  if (!report.wants(name)) return;
  const unsigned cores = std::max(1u, std::thread::hardware_concurrency());
  const unsigned threads = variant.threads == 0 ? cores : variant.threads;
  const std::size_t moment_count = variant.optimizer->moment_names().size();
  engine::UpdateTeam team(threads);
  std::atomic<std::uint32_t> sink{0};
  arrays.reset_moments();
  const Paired paired = measure_pairs(
      [&] {
        in_slices(team, threads, [&](std::size_t first) {
          variant.optimizer->update(arrays.piece(variant, first, chunk_count), step);
        });
      },
      [&] {
        in_slices(team, threads, [&](std::size_t first) {
          sink.fetch_add(move_as_update(arrays.piece(variant, first, chunk_count), moment_count));
        });
      });
  const std::size_t bytes = moved_bytes_per_element(arrays.piece(variant, 0, 1), moment_count);
  const double moved_gb =
      static_cast<double>(bytes * (element_count / chunk_count / threads * threads) * chunk_count) / 1e9;
  report.add({name, moved_gb / paired.value_s, "GB/s", moved_gb / paired.limit_s, paired.ratio},
             fmt::format("{} threads, {} bytes an element, {:.1f} ms", threads, bytes, paired.value_s * 1e3));
}

int run(int argc, char** argv) {
  Report report(argc, argv);
  if (argc > 1) throw std::invalid_argument(fmt::format("unknown argument '{}'", argv[1]));
  const Arrays arrays;
  const Variant variants[] = {
      {"main", adamw()},
      {"bf16_gradient", adamw(), Dtype::bf16},
      {"f32_published", adamw(), Dtype::f32, Dtype::f32},
      {"f16_published", adamw(), Dtype::f32, Dtype::f16},
      {"one_thread", adamw(), Dtype::f32, Dtype::bf16, 1},
      {"main", sgd()},
      {"main", lion()},
  };
  for (const Variant& variant : variants) measure(report, variant, arrays);
  report.finish();
  return 0;
}

}  // namespace
}  // namespace strata::bench

int main(int argc, char** argv) {
  try {
    return strata::bench::run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "update_bench: %s\n", error.what());
    return 2;
  }
}
