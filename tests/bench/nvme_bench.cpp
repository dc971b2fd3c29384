// How close an AdamW step with its records on nvme comes to moving their bytes and nothing else: from the verdict of
// the step until the last unit is updated, seals and shadow slots on. The limit is the disk's own rate for as many
// bytes read and written at once, through the same queue, taken just before and after; disk_bench holds that against
// fio.
#include <algorithm>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include <fmt/format.h>

#include <strata/strata.h>

#include "bench/bench_rows.h"
#include "bench/plain_disk_adam.h"
#include "offload/nvme_tier.h"
#include "offload/private_memory.h"

namespace strata::bench {
namespace {

constexpr std::size_t mib = std::size_t{1} << 20;
constexpr std::int64_t unit_count = 32;
constexpr std::int64_t unit_elements = std::int64_t{16} << 20;  // 512 Mi in all

struct Variant {
  std::string name;
  bool split_master = true;
  Home gradients = Home::device;
  std::size_t bytes_per_element = 20;
};

std::vector<Unit> make_units() {
  std::vector<Unit> units;
  for (std::int64_t i = 0; i < unit_count; ++i) {
    units.push_back(
        {.name = fmt::format("block.{}", i), .tensors = {{.name = fmt::format("w.{}", i), .shape = {unit_elements}}}});
  }
  return units;
}

Options options_for(const Variant& variant, const std::string& dir) {
  Options options;
  options.nvme_dirs = {dir};
  options.params = Home::device;
  options.optimizer = Home::nvme;
  options.gradients = variant.gradients;
  options.split_master = variant.split_master;
  return options;
}

class TrainedModel {
 public:
  TrainedModel(const Variant& variant, const std::string& dir)
      : world_(solo_world()), engine_(make_units(), adamw(), *world_, options_for(variant, dir)) {
    engine_.initialize([](const Tensor& tensor, std::size_t first, std::span<float> values) {
      fill_normal(values, 1, tensor.name, first, 0.02f);
    });
    step_s();
  }

  // From the end of the backward pass until every unit is updated.
  double step_s() {
    double update_s = 0;
    whole_steps_s_.push_back(timed_s([&] {
      commit_all();
      update_s = timed_s([&] {
        engine_.step({.lr = 1e-5});
        for (const Unit& unit : engine_.forward_order()) engine_.gather(unit);
      });
    }));
    return update_s;
  }

  double whole_step_s() const { return median(whole_steps_s_); }  // with what takes the gradients in

 private:
  void commit_all() {
    engine_.micro_batch({.weight = 1});
    for (const Unit& unit : engine_.backward_order()) {
      GradLease gradients = engine_.gradients(unit);
      if (fills_left_ > 0) {
        --fills_left_;
        const auto values = gradients.f32(unit.tensors[0].name);
        for (std::size_t i = 0; i < values.size(); ++i) values[i] = 1e-4f * static_cast<float>(i % 127);
      }
      gradients.commit();
    }
  }

  std::unique_ptr<Communicator> world_;
  Engine engine_;
  std::vector<double> whole_steps_s_;
  int fills_left_ = 4;  // the slots of gradient leases keep what was written: nothing else writes there
};

// The same disk, as many bytes read as written, no arithmetic.
class RawDisk {
 public:
  explicit RawDisk(const std::string& dir) : memory_(slots * piece_bytes), tier_(disk_options(dir)) {
    for (std::size_t i = 0; i < pieces; ++i) extents_.push_back(tier_.reserve(piece_bytes));
    for (std::size_t i = 0; i < pieces; ++i) tier_.store(extents_[i], 0, slot(0)).wait();
  }

  double both_s(std::uint64_t bytes) {
    const std::size_t count = bytes / 2 / piece_bytes;
    return timed_s([&] {
      std::vector<Event> events(slots);
      for (std::size_t i = 0; i < count; ++i) {
        const std::size_t load_slot = 2 * (i % (slots / 2)), store_slot = load_slot + 1;
        events[load_slot].wait();
        events[load_slot] = tier_.load(extents_[i % (pieces / 2)], 0, slot(load_slot));
        events[store_slot].wait();
        events[store_slot] = tier_.store(extents_[pieces / 2 + i % (pieces / 2)], 0, slot(store_slot));
      }
      for (const Event& event : events) event.wait();
    });
  }

 private:
  static constexpr std::size_t piece_bytes = 10 * mib;  // a record of 1 Mi elements
  static constexpr std::size_t pieces = 400;
  static constexpr std::size_t slots = 6;

  offload::DiskOptions disk_options(const std::string& dir) const {
    offload::DiskOptions options;
    options.dirs = {dir};
    options.capacity_bytes = pieces * piece_bytes;
    options.buffers = {memory_.bytes()};
    return options;
  }
  std::span<std::byte> slot(std::size_t index) const {
    return memory_.bytes().subspan(index * piece_bytes, piece_bytes);
  }

  const offload::PrivateMemory memory_;
  offload::NvmeTier tier_;
  std::vector<Extent> extents_;
};

void measure(Report& report, const Variant& variant, const std::string& dir) {
  const std::string name = "nvme/" + variant.name;
  if (!report.wants(name)) return;
  const std::uint64_t bytes = static_cast<std::uint64_t>(unit_count * unit_elements) * variant.bytes_per_element;
  RawDisk disk(dir);
  TrainedModel model(variant, dir);
  const std::uint64_t ruler_bytes = 3000 * mib;
  const double scale = static_cast<double>(bytes) / static_cast<double>(ruler_bytes);
  const Paired paired =
      measure_timed_pairs([&] { return model.step_s(); }, [&] { return disk.both_s(ruler_bytes) * scale; }, 5);
  const double gb = static_cast<double>(bytes) / 1e9;
  const double per_1e9 = 1e9 / static_cast<double>(unit_count * unit_elements);
  report.add({name, gb / paired.value_s, "GB/s", gb / paired.limit_s, paired.ratio},
             fmt::format("{} bytes an element, {:.2f} s per 1e9, {:.2f} with taking in the gradients",
                         variant.bytes_per_element, paired.value_s * per_1e9, model.whole_step_s() * per_1e9));
}

// The common way, over fewer elements.
void measure_plain(Report& report, const std::string& dir) {
  const std::string name = "nvme/plain_adamw";
  if (!report.wants(name)) return;
  constexpr std::size_t elements = std::size_t{128} << 20;
  constexpr std::size_t bytes_per_element = 32;
  RawDisk disk(dir);
  PlainDiskAdam model(dir, elements);
  const std::uint64_t ruler_bytes = 2000 * mib;
  const double scale = static_cast<double>(elements * bytes_per_element) / static_cast<double>(ruler_bytes);
  const Paired paired = measure_timed_pairs([&] { return timed_s([&] { model.step(); }); },
                                            [&] { return disk.both_s(ruler_bytes) * scale; }, 3);
  const double gb = static_cast<double>(elements * bytes_per_element) / 1e9;
  report.add({name, gb / paired.value_s, "GB/s", gb / paired.limit_s, paired.ratio},
             fmt::format("{} bytes an element, {:.2f} s per 1e9", bytes_per_element,
                         paired.value_s / static_cast<double>(elements) * 1e9));
}

int run(int argc, char** argv) {
  Report report(argc, argv);
  std::string dir = "build/bench/disk";
  if (argc == 3 && std::string_view(argv[1]) == "--dir") {
    dir = argv[2];
  } else if (argc > 1) {
    throw std::invalid_argument("usage: nvme_bench [--json FILE] [--only NAME] [--dir FOLDER]");
  }
  std::filesystem::create_directories(dir);
  std::filesystem::permissions(dir, std::filesystem::perms::owner_all);
  measure(report, {.name = "adamw"}, dir);
  measure(report, {.name = "adamw/whole_master", .split_master = false, .bytes_per_element = 24}, dir);
  measure_plain(report, dir);
  report.finish();
  return 0;
}

}  // namespace
}  // namespace strata::bench

int main(int argc, char** argv) {
  try {
    return strata::bench::run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "nvme_bench: %s\n", error.what());
    return 2;
  }
}
